/**
 * One listener process, seen from the main process: started, given connections, asked, ended. Takes an Assignment and
 * connections that nobody has read from; gives what the process says. Rejects `serving` with ListenerError when it
 * ends, or is not ready in time; otherwise refuses nothing: `ended` tells that it is gone, whatever the reason.
 *
 * A connection on its way is kept open here until the process says that it has it. Node would close it by itself when the
 * process has confirmed the message, and never when it ends before that: its sender would wait for an answer for ever.
 * When the process ends, connections whose message was not written are given back (`takeBack`); of others it may have
 * read something, and they are closed.
 */
import { fork } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import type { Socket } from 'node:net';
import type { Passed } from '../../access/gate.ts';
import { deferred } from '../../kit/deferred.ts';
import { PlainError } from '../../kit/plain-error.ts';
import { readLines } from '../../kit/read-lines.ts';
import { limits } from '../../tables/limits.ts';
import type { HeldQuestion, HeldRequest, TailBatch } from '../../tables/tail.ts';
import type { Observation } from '../../tables/observations.ts';
import { listenerEntry } from '../own-files.ts';
import type {
  Answer,
  Assignment,
  FromListener,
  Left,
  Question,
  Report,
  SpoolSaid,
  SpoolTold,
  ToListener,
} from './messages.ts';

/** A listener process cannot begin; the message is for the terminal. */
export class ListenerError extends PlainError {
  override readonly name = 'ListenerError';
}

export interface ChildOptions {
  readonly assignment: Omit<Assignment, 'commitName'>;
  readonly said: (observation: Observation) => void;
  readonly passed: (passed: Passed) => void;
  readonly tail: (batch: TailBatch) => void;
  /** It is about to open a stream of this table: resolves with whether all others have settled theirs. */
  readonly fence: (left: Left) => Promise<boolean>;
  /** It takes connections from now on; none was given to it before. */
  readonly serves: (child: ListenerChild) => void;
  readonly spool: (child: ListenerChild, said: SpoolSaid) => void;
}

/** How a question ended: `late` and `gone` say nothing of what was asked. */
type Answered = Answer | 'late' | 'gone';

interface Asked {
  readonly answered: ReturnType<typeof deferred<Answered>>;
  readonly late: NodeJS.Timeout | null;
}

export class ListenerChild {
  /** Connections that it has, those that are on their way to it included. */
  connections = 0;
  /** Whether it takes connections. */
  serves = false;
  /** Signs of life in a row that did not come. */
  missed = 0;
  /** What it said of itself last; null: nothing yet. */
  report: Report | null = null;
  /** Resolves when it takes connections; rejects with ListenerError. */
  readonly serving: Promise<void>;
  /** Resolves with the reason when the process is gone and its last words are read. Never rejects. */
  readonly ended: Promise<string>;
  /** What its commits are called at the engine. */
  readonly commitName = `headgate commit ${randomUUID()}`;
  readonly #options: ChildOptions;
  readonly #process: ChildProcess;
  readonly #ready = deferred<void>();
  readonly #asked = new Map<number, Asked>();
  /** Connections on their way, in the order in which they were sent, and whether their message is written. */
  readonly #passing = new Map<Socket, 'waiting' | 'written'>();
  #lastId = 0;
  #gone = false;
  /** Why it could not begin, in its own words. */
  #failure: string | null = null;
  /** Why it was ended by us. */
  #why: string | null = null;

  constructor(options: ChildOptions) {
    this.#options = options;
    this.serving = this.#ready.promise;
    this.serving.catch(() => undefined);
    this.#process = fork(listenerEntry, [], {
      // Not `advanced`: of small messages JSON takes less, and there is one or two for each connection.
      serialization: 'json',
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
      // A debugger's port would be taken already.
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
    // The message may come without its connection, when that was closed meanwhile: the process then says that it has ended.
    this.#process.send(
      { kind: 'connection' } satisfies ToListener,
      connection,
      { keepOpen: true },
      (error) => {
        // As a value of a key that is there it keeps its place.
        if (error === null && this.#passing.has(connection)) this.#passing.set(connection, 'written');
      },
    );
  }

  /** Connections that have not reached it; for when it is gone. */
  takeBack(): readonly Socket[] {
    const back: Socket[] = [];
    for (const [connection, state] of this.#passing) {
      if (state === 'waiting') back.push(connection);
      else connection.destroy();
    }
    this.#passing.clear();
    return back;
  }

  /** null: it has done what was asked, or is gone, or took longer than `withinMs`. Never rejects. */
  async ask(question: Question, withinMs: number | null = limits.listenerAnswerMs): Promise<Report | null> {
    const answer = await this.#ask(question, withinMs);
    return typeof answer === 'string' ? null : (answer.report ?? null);
  }

  /** null: it has no such request, or says nothing in time. Never rejects. */
  async held(of: HeldQuestion): Promise<HeldRequest | null> {
    const answer = await this.#ask({ what: 'held', of }, limits.listenerAnswerMs);
    return typeof answer === 'string' ? null : (answer.held ?? null);
  }

  /** Whether what streams have left in it is settled; `late`: it does not get on with that for so long. Never rejects. */
  async settle(left: Left, withinMs: number): Promise<'settled' | 'late' | 'gone'> {
    const answer = await this.#ask({ what: 'settle', left }, withinMs);
    return answer === 'late' || answer === 'gone' ? answer : 'settled';
  }

  #ask(question: Question, withinMs: number | null): Promise<Answered> {
    if (this.#gone) return Promise.resolve('gone');
    const id = ++this.#lastId;
    const answered = deferred<Answered>();
    const late = withinMs === null ? null : setTimeout(() => this.#answer(id, 'late'), withinMs);
    this.#asked.set(id, { answered, late });
    this.#send({ kind: 'ask', id, question });
    return answered.promise;
  }

  /** What passed in another process. */
  charge(passed: Passed): void {
    this.#send({ kind: 'passed', passed });
  }

  tellSpool(told: SpoolTold): void {
    this.#send({ kind: 'spool', told });
  }

  kill(why: string): void {
    this.#why ??= why;
    this.#process.kill('SIGKILL');
  }

  #send(message: ToListener): void {
    // A process that is gone tells so by itself; with the callback the failure is nobody's event.
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

  /** The process has the first `count` of those on their way: they are its alone from now on. */
  #taken(count: number): void {
    let left = count;
    for (const connection of this.#passing.keys()) {
      if (left === 0) return;
      left -= 1;
      this.#passing.delete(connection);
      connection.destroy();
    }
  }

  #answer(id: number, answer: Answered): void {
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
    // What it said before is read then. (`disconnect` would not come while a connection is on its way.)
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
