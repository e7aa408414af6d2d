/**
 * One listener process, as seen from the main process: started, given connections, asked, ended. Takes an Assignment and
 * connections that nobody has read from; returns what the process reports. Rejects `serving` with ListenerError if the
 * process ends or is not ready in time; refuses nothing else: `ended` resolves once it is gone, whatever the reason.
 *
 * A connection that is being passed is kept open here until the process confirms that it has it. Node would close it when
 * the process has received the message, and never if the process ends before: its sender would wait for an answer without
 * end. When the process ends, connections whose message was not written are returned (`takeBack`); of the others it may
 * have read something, so they are closed.
 */
import { fork } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import type { Socket } from 'node:net';
import type { Passed } from '../../access/admission.ts';
import { deferred } from '../../kit/promises.ts';
import { PlainError } from '../../kit/plain-error.ts';
import { readLines } from '../../kit/read-lines.ts';
import { limits } from '../../config/limits.ts';
import type { HeldQuestion, HeldRequest, Recall, TailBatch, TailLine } from '../../observe/tail.ts';
import type { Observation } from '../../observe/observations.ts';
import { listenerEntry } from '../program-files.ts';
import type {
  ListenerAnswer,
  Assignment,
  FromListener,
  StreamLeftovers,
  ListenerRequest,
  Report,
  SpoolReply,
  SpoolNotice,
  ToListener,
} from './messages.ts';

/** A listener process cannot start; the message is for the terminal. */
export class ListenerError extends PlainError {
  override readonly name = 'ListenerError';
}

export interface ChildOptions {
  readonly assignment: Omit<Assignment, 'commitName'>;
  readonly said: (observation: Observation) => void;
  readonly passed: (passed: Passed) => void;
  readonly tail: (batch: TailBatch) => void;
  /** The process is about to open a stream of this table: resolves with whether all others have settled theirs. */
  readonly fence: (left: StreamLeftovers) => Promise<boolean>;
  /** The process takes connections from now on; it has been given none before. */
  readonly serves: (child: ListenerChild) => void;
  readonly spool: (child: ListenerChild, said: SpoolReply) => void;
}

/** How a question ended: `late` and `gone` say nothing about the question. */
type ListenerAnswered = ListenerAnswer | 'late' | 'gone';

interface AskedListener {
  readonly answered: ReturnType<typeof deferred<ListenerAnswered>>;
  readonly late: NodeJS.Timeout | null;
}

export class ListenerChild {
  /** Its connections, including those that are being passed to it. */
  connections = 0;
  /** Whether it takes connections. */
  serves = false;
  /** Consecutive signs of life that did not come. */
  missed = 0;
  /** Its last report; null: none yet. */
  report: Report | null = null;
  /** Resolves once it takes connections; rejects with ListenerError. */
  readonly serving: Promise<void>;
  /** Resolves with the reason once the process is gone and its last messages are read. Never rejects. */
  readonly ended: Promise<string>;
  /** The name of its commits at the engine. */
  readonly commitName = `headgate commit ${randomUUID()}`;
  readonly #options: ChildOptions;
  readonly #process: ChildProcess;
  readonly #ready = deferred<void>();
  readonly #asked = new Map<number, AskedListener>();
  /** Connections being passed, in the order in which they were sent, and whether their message is written. */
  readonly #passing = new Map<Socket, 'waiting' | 'written'>();
  #lastId = 0;
  #gone = false;
  /** Why it could not start, in its own words. */
  #failure: string | null = null;
  /** Why this process killed it. */
  #why: string | null = null;

  constructor(options: ChildOptions) {
    this.#options = options;
    this.serving = this.#ready.promise;
    this.serving.catch(() => undefined);
    this.#process = fork(listenerEntry, [], {
      // Not `advanced`: JSON is cheaper for small messages, and there are one or two for each connection.
      serialization: 'json',
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
      // A debugger's port would already be taken.
      execArgv: process.execArgv.filter((option) => !option.startsWith('--inspect')),
    });
    this.ended = this.#end();
    this.#process.on('message', (message) => this.#message(message as FromListener));
    if (this.#process.stderr !== null)
      readLines(this.#process.stderr, limits.engineLogLineCharsMax, (line) =>
        options.said({ kind: 'listener.said', line }),
      );
    this.#send({ kind: 'begin', assignment: { ...options.assignment, commitName: this.commitName } });
    const late = setTimeout(() => this.kill('it was not ready in time'), limits.engineStartMs);
    void Promise.race([this.serving.catch(() => undefined), this.ended]).then(() => clearTimeout(late));
  }

  /** 0: it could not be started. */
  get pid(): number {
    return this.#process.pid ?? 0;
  }

  take(connection: Socket): void {
    this.connections += 1;
    this.#passing.set(connection, 'waiting');
    // If the connection is closed meanwhile, the message may arrive without it: the process then reports that it has ended.
    this.#process.send(
      { kind: 'connection' } satisfies ToListener,
      connection,
      { keepOpen: true },
      (error) => {
        // Setting the value of an existing key keeps its place in the order.
        if (error === null && this.#passing.has(connection)) this.#passing.set(connection, 'written');
      },
    );
  }

  /** Connections that have not reached the process; for use once it is gone. */
  takeBack(): readonly Socket[] {
    const back: Socket[] = [];
    for (const [connection, state] of this.#passing) {
      if (state === 'waiting') back.push(connection);
      else connection.destroy();
    }
    this.#passing.clear();
    return back;
  }

  /** null: the question asks for no report, or the process is gone or took longer than `withinMs`. Never rejects. */
  async ask(
    question: ListenerRequest,
    withinMs: number | null = limits.listenerAnswerMs,
  ): Promise<Report | null> {
    const answer = await this.#ask(question, withinMs);
    return typeof answer === 'string' ? null : (answer.report ?? null);
  }

  /** null: it has no such request, or does not answer in time. Never rejects. */
  async held(of: HeldQuestion): Promise<HeldRequest | null> {
    const answer = await this.#ask({ what: 'held', of }, limits.listenerAnswerMs);
    return typeof answer === 'string' ? null : (answer.held ?? null);
  }

  /** Empty if it does not answer in time. Never rejects. */
  async recall(of: Recall): Promise<readonly TailLine[]> {
    const answer = await this.#ask({ what: 'recall', of }, limits.listenerAnswerMs);
    return typeof answer === 'string' ? [] : (answer.lines ?? []);
  }

  /** Whether rows that streams have left in it are settled; `late`: no progress for `withinMs`. Never rejects. */
  async settle(left: StreamLeftovers, withinMs: number): Promise<'settled' | 'late' | 'gone'> {
    const answer = await this.#ask({ what: 'settle', left }, withinMs);
    return answer === 'late' || answer === 'gone' ? answer : 'settled';
  }

  #ask(question: ListenerRequest, withinMs: number | null): Promise<ListenerAnswered> {
    if (this.#gone) return Promise.resolve('gone');
    const id = ++this.#lastId;
    const answered = deferred<ListenerAnswered>();
    const late = withinMs === null ? null : setTimeout(() => this.#answer(id, 'late'), withinMs);
    this.#asked.set(id, { answered, late });
    this.#send({ kind: 'ask', id, question });
    return answered.promise;
  }

  /** Counts requests that passed in another process. */
  charge(passed: Passed): void {
    this.#send({ kind: 'passed', passed });
  }

  tellSpool(told: SpoolNotice): void {
    this.#send({ kind: 'spool', told });
  }

  kill(why: string): void {
    this.#why ??= why;
    this.#process.kill('SIGKILL');
  }

  #send(message: ToListener): void {
    // The end of a process is reported separately; the callback keeps the failure from becoming an event.
    if (this.#process.connected) this.#process.send(message, () => undefined);
  }

  #message(message: FromListener): void {
    switch (message.kind) {
      case 'serving':
        this.#options.serves(this);
        this.serves = true;
        this.#ready.resolve();
        break;
      case 'failed':
        this.#failure = message.message;
        break;
      case 'said':
        for (const observation of message.observations) this.#options.said(observation);
        break;
      case 'connections':
        this.#taken(message.taken);
        this.connections -= message.ended;
        break;
      case 'passed':
        this.#options.passed(message.passed);
        break;
      case 'tail':
        this.#options.tail(message.batch);
        break;
      case 'fence':
        void this.#options
          .fence(message.left)
          .then((settled) => this.#send({ kind: 'fenced', id: message.id, settled }));
        break;
      case 'spool':
        this.#options.spool(this, message.said);
        break;
      case 'getsOn':
        this.#asked.get(message.id)?.late?.refresh();
        break;
      case 'answer':
        this.report = message.answer.report ?? this.report;
        this.#answer(message.id, message.answer);
        break;
    }
  }

  /** The process has received the first `count` of the connections being passed: they belong to it alone from now on. */
  #taken(count: number): void {
    let left = count;
    for (const connection of this.#passing.keys()) {
      if (left === 0) return;
      left -= 1;
      this.#passing.delete(connection);
      connection.destroy();
    }
  }

  #answer(id: number, answer: ListenerAnswered): void {
    const asked = this.#asked.get(id);
    if (asked === undefined) return;
    this.#asked.delete(id);
    if (asked.late !== null) clearTimeout(asked.late);
    asked.answered.resolve(answer);
  }

  async #end(): Promise<string> {
    const gone = deferred<string>();
    this.#process.once('error', (error) => {
      // Any other error is followed by the end of the process.
      if (this.#process.pid === undefined) gone.resolve(error.message);
    });
    // Everything it sent before has been read by then. (`disconnect` would not come while a connection is being passed.)
    this.#process.once('close', (code, signal) =>
      gone.resolve(signal === null ? `it exited with code ${code}` : `it was ended by ${signal}`),
    );
    const reason = await gone.promise;
    this.#gone = true;
    this.serves = false;
    this.#ready.reject(
      new ListenerError(this.#failure ?? `a listener process did not start: ${this.#why ?? reason}`),
    );
    for (const id of this.#asked.keys()) this.#answer(id, 'gone');
    return this.#failure ?? this.#why ?? reason;
  }
}
