/**
 * The webhook listener as several processes. Takes an address and how each process is to work; returns a door of which
 * the main process holds only the port: every connection it accepts goes to the process with the fewest. Throws
 * ListenerError if a process cannot start, and the errors of listening. A process that ends costs the connections that it
 * had, and nothing that was answered; while no process serves, connections wait for one.
 *
 * Why the processes do not accept by themselves: which of them the kernel wakes is chance, and a busy one still accepts,
 * so that of 64 connections at once one process of two got 44 to 60 (docs/decisions/0040).
 */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';
import type { AddressInfo, Server, Socket } from 'node:net';
import { mergedFamilies, mergedText } from '../../admin/merged-metrics.ts';
import type { MetricFamily, ProcessMetrics } from '../../admin/merged-metrics.ts';
import type { Metrics } from '../../admin/metrics.ts';
import type { ListenerState } from '../../admin/watch-metrics.ts';
import type { Passed } from '../../access/admission.ts';
import type { Closable } from '../../kit/closer.ts';
import { listenAt } from '../../kit/listen-at.ts';
import type { ListenAt } from '../../kit/listen-at.ts';
import { nobodyWaits } from '../../kit/event-loop.ts';
import { limits } from '../../config/limits.ts';
import type { Observe } from '../../observe/observations.ts';
import type {
  HeldQuestion,
  HeldRequest,
  Recall,
  TailBatch,
  TailLine,
  TailSource,
} from '../../observe/tail.ts';
import type { ChildOptions, ListenerChild } from './child.ts';
import { Fences } from './fence.ts';
import type { ListenerRequest } from './messages.ts';
import { Slot } from './slot.ts';
import type { SpoolServer } from './spool-server.ts';
import { byArrival } from '../../console/request-filter.ts';

interface ListenersOptions extends ListenAt {
  readonly assignment: ChildOptions['assignment'];
  readonly observe: Observe;
  /** Receives what the processes report; they have already counted it. */
  readonly log: Observe;
  /** Resolves once no transaction of commits of this name is, or can be, left at the engine; never rejects. */
  readonly commitsEnded: (commitName: string) => Promise<void>;
  /** Keeps on the disk what the processes send. */
  readonly desk: SpoolServer;
}

export class Listeners implements Closable {
  address = { host: '', port: 0 };
  readonly #options: ListenersOptions;
  readonly #server: Server;
  readonly #slots: readonly Slot[];
  readonly #fences: Fences;
  /** Accepted connections while no process serves. */
  readonly #waiting = new Set<Socket>();
  /** Where the search for the fewest starts, so that equals take turns. */
  #turn = 0;
  #closing: Promise<void> | null = null;
  /** The watchers of the outcomes of all processes. */
  readonly tail = new JoinedTail(
    (on) => void this.tell({ what: 'tail', on }),
    async (of) => (await Promise.all(this.#serving().map((child) => child.recall(of)))).flat(),
  );

  /** Resolves once all of them serve. */
  static async open(options: ListenersOptions): Promise<Listeners> {
    const listeners = new Listeners(options);
    try {
      await listeners.#open();
      return listeners;
    } catch (error) {
      await listeners.close();
      throw error;
    }
  }

  private constructor(options: ListenersOptions) {
    this.#options = options;
    this.#server = createServer({ pauseOnConnect: true, noDelay: true, allowHalfOpen: true });
    this.#server.on('connection', (connection) => this.#accepted(connection));
    this.#fences = new Fences(options.commitsEnded);
    this.#slots = Array.from({ length: options.assignment.of }, (_, i) => this.#slot(i + 1));
  }

  /** null: requests are accepted; otherwise the reason. */
  get unavailable(): string | null {
    const reports = this.#serving().map(({ report }) => report?.unavailable ?? null);
    if (reports.length === 0) return 'no listener process serves';
    return reports.includes(null) ? null : (reports[0] ?? null);
  }

  get states(): readonly ListenerState[] {
    return this.#slots.map(({ child, serving }, i) => ({
      listener: i + 1,
      serving: serving !== null,
      connections: child?.connections ?? 0,
    }));
  }

  /** Asks all that serve; resolves once all have answered, or are gone or late. Never rejects. */
  async tell(question: ListenerRequest, withinMs?: number): Promise<void> {
    await Promise.all(this.#serving().map((child) => child.ask(question, withinMs)));
  }

  /** From the process that has it; null: none has. Never rejects. */
  async held(of: HeldQuestion): Promise<HeldRequest | null> {
    const all = await Promise.all(this.#serving().map((child) => child.held(of)));
    return all.find((it) => it !== null) ?? null;
  }

  /** The metrics of all processes in one text; for a process that does not answer in time, its last report. */
  async metricsText(own: Metrics): Promise<string> {
    return mergedText(...(await this.#metricsOf(own)));
  }

  async metricFamilies(own: Metrics): Promise<MetricFamily[]> {
    return mergedFamilies(...(await this.#metricsOf(own)));
  }

  async #metricsOf(own: Metrics): Promise<Parameters<typeof mergedText>> {
    await this.tell({ what: 'report' });
    const processes: ProcessMetrics[] = this.#slots.flatMap(({ child }, i) =>
      child?.report === null || child === null ? [] : [{ listener: i + 1, families: child.report.metrics }],
    );
    const departed = this.#slots.map((slot) => slot.departed);
    return [await own.families(), processes, departed];
  }

  /** Refuses new connections; each process answers its accepted requests, and ends. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #open(): Promise<void> {
    const { observe } = this.#options;
    const listening = once(this.#server, 'listening');
    this.#server.listen({ ...listenAt(this.#options), backlog: 4096 });
    await listening;
    // An accept failed, e.g. for lack of file descriptors; the port stays open.
    this.#server.on('error', (error) => observe({ kind: 'request.failed', requestId: randomUUID(), error }));
    const { address, port: bound } = this.#server.address() as AddressInfo;
    this.address = { host: address, port: bound };
    await Promise.all(this.#slots.map((slot) => slot.first));
  }

  async #close(): Promise<void> {
    await nobodyWaits(this.#server, limits.closingTurnsMax);
    // Not waited for: it would ask the processes what became of each connection.
    this.#server.close();
    for (const connection of this.#waiting) connection.destroy();
    await Promise.all(this.#slots.map((slot) => slot.close()));
  }

  #slot(listener: number): Slot {
    const { assignment, observe, log, desk } = this.#options;
    return new Slot(
      {
        assignment,
        said: (observation) => log({ ...observation, listener }),
        passed: (passed) => this.#passed(listener, passed),
        tail: (batch) => this.tail.add(batch),
        fence: (table) => this.#fences.settle(table, this.#othersThan(listener)),
        serves: (child) => desk.serves(child),
        spool: (child, said) => desk.said(child, said),
      },
      (observation) => observe({ ...observation, listener }),
      () => {
        this.#passWaiting();
        // A new process does not know that somebody watches; to the others this changes nothing.
        if (this.tail.watched) void this.tell({ what: 'tail', on: true });
      },
      (child) => {
        void this.#fences.gone(child);
        desk.gone(child);
        for (const connection of child.takeBack()) this.#pass(connection);
      },
    );
  }

  #serving(): ListenerChild[] {
    return this.#slots.flatMap(({ serving }) => (serving === null ? [] : [serving]));
  }

  #othersThan(listener: number): ListenerChild[] {
    return this.#slots.flatMap(({ child }, i) => (child === null || i + 1 === listener ? [] : [child]));
  }

  #accepted(connection: Socket): void {
    connection.on('error', () => connection.destroy());
    const open = this.#slots.reduce((sum, { child }) => sum + (child?.connections ?? 0), this.#waiting.size);
    if (open >= limits.listenConnectionsMax || this.#closing !== null) connection.destroy();
    else this.#pass(connection);
  }

  #pass(connection: Socket): void {
    const child = this.#fewest();
    if (child !== null) return child.take(connection);
    if (this.#closing !== null || connection.destroyed) return void connection.destroy();
    this.#waiting.add(connection);
    connection.setTimeout(limits.headersTimeoutMs, () => connection.destroy());
    connection.once('close', () => this.#waiting.delete(connection));
  }

  #passWaiting(): void {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const connection of waiting) {
      connection.setTimeout(0);
      this.#pass(connection);
    }
  }

  /** null: none serves. */
  #fewest(): ListenerChild | null {
    const all = this.#serving();
    // A process that no longer answers will be ended; until then it gets only connections that no other can take.
    const alive = all.filter(({ missed }) => missed === 0);
    const serving = alive.length === 0 ? all : alive;
    this.#turn += 1;
    let fewest: ListenerChild | null = null;
    for (let i = 0; i < serving.length; i++) {
      const child = serving[(this.#turn + i) % serving.length];
      if (child !== undefined && (fewest === null || child.connections < fewest.connections)) fewest = child;
    }
    return fewest;
  }

  /** Requests that one process let pass count against the rates of all. */
  #passed(listener: number, passed: Passed): void {
    this.#slots.forEach(({ serving }, i) => {
      if (i + 1 !== listener) serving?.charge(passed);
    });
  }
}

/**
 * Presents the outcomes of all listener processes as one source. Takes batches as they come, passes them to the
 * watchers; asks the processes to report only while somebody watches. A later watcher starts with what arrived while an
 * earlier one was watching.
 */
class JoinedTail implements TailSource {
  readonly #ask: (on: boolean) => void;
  readonly #watchers = new Set<(batch: TailBatch) => void>();
  #recent: TailLine[] = [];

  readonly #recall: (of: Recall) => Promise<readonly TailLine[]>;

  /** `recall`: from all processes, in any order. */
  constructor(ask: (on: boolean) => void, recall: (of: Recall) => Promise<readonly TailLine[]>) {
    this.#ask = ask;
    this.#recall = recall;
  }

  async recall(of: Recall): Promise<readonly TailLine[]> {
    const lines = [...(await this.#recall(of))].sort(byArrival);
    return lines.slice(0, of.max);
  }

  get watched(): boolean {
    return this.#watchers.size > 0;
  }

  add(batch: TailBatch): void {
    if (!this.watched) return;
    this.#recent = [...this.#recent, ...batch.lines].slice(-limits.tailRecentMax);
    for (const told of this.#watchers) told(batch);
  }

  watch(told: (batch: TailBatch) => void): () => void {
    const first = !this.watched;
    this.#watchers.add(told);
    if (first) this.#ask(true);
    else told({ lines: this.#recent.toSorted((a, b) => a.atMs - b.atMs), skipped: 0 });
    return () => {
      if (!this.#watchers.delete(told) || this.watched) return;
      this.#recent = [];
      this.#ask(false);
    };
  }
}
