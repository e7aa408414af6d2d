/**
 * One slot for a listener process. Takes how to start one, and keeps one running: when it ends, or gives no sign of life,
 * another is started after a growing pause, and its counts are kept. Rejects `first` with ListenerError if the first one
 * never served; after that it never gives up.
 *
 *   starting ──serving──► serving ──ended──► pausing ──► starting …        any ──close──► closed
 */
import { setTimeout as delay } from 'node:timers/promises';
import { remains } from '../../admin/merged-metrics.ts';
import type { MetricFamily } from '../../admin/merged-metrics.ts';
import { backoffMs } from '../../kit/backoff.ts';
import { deferred } from '../../kit/promises.ts';
import { limits } from '../../config/limits.ts';
import type { Observe } from '../../observe/observations.ts';
import { ListenerChild, ListenerError } from './child.ts';
import type { ChildOptions } from './child.ts';
import { monotonicMs } from '../../observe/context.ts';

export class Slot {
  /** Resolves once the first process serves. */
  readonly first: Promise<void>;
  /** null: none is running. */
  child: ListenerChild | null = null;
  /** The counts of processes that have ended. */
  departed: readonly MetricFamily[] = [];
  readonly #start: ChildOptions;
  readonly #observe: Observe;
  readonly #changed: () => void;
  readonly #gone: (child: ListenerChild) => void;
  readonly #first = deferred<void>();
  readonly #closing = new AbortController();
  readonly #ended: Promise<void>;

  /**
   * `changed`: called when a process has started to serve, or has ended, because connections may be waiting; `gone`: with the process that has
   * ended.
   */
  constructor(
    start: ChildOptions,
    observe: Observe,
    changed: () => void,
    gone: (child: ListenerChild) => void,
  ) {
    this.#start = start;
    this.#observe = observe;
    this.#changed = changed;
    this.#gone = gone;
    this.first = this.#first.promise;
    this.first.catch(() => undefined);
    this.#ended = this.#run();
  }

  /** The process that takes connections; null: none does. */
  get serving(): ListenerChild | null {
    return this.child?.serves === true ? this.child : null;
  }

  /** Lets the process answer its accepted requests, and ends it, at the latest shortly after `drainMs`. */
  async close(): Promise<void> {
    this.#closing.abort();
    const { child } = this;
    if (child !== null) {
      const late = setTimeout(
        () => child.kill('it did not come to its end'),
        limits.drainMs + limits.engineFarewellMs,
      );
      if (child.serves) void child.ask({ what: 'drain' }, null);
      else child.kill('it was not needed any more');
      await child.ended;
      clearTimeout(late);
    }
    await this.#ended;
  }

  async #run(): Promise<void> {
    const { signal } = this.#closing;
    let failures = 0;
    let everServed = false;
    while (!signal.aborted) {
      const startedAt = monotonicMs();
      const child = new ListenerChild(this.#start);
      this.child = child;
      const failed = await child.serving.then(
        () => null,
        (error: unknown) => error,
      );
      if (failed === null) {
        everServed = true;
        this.#observe({
          kind: 'listener.started',
          pid: child.pid,
          seconds: (monotonicMs() - startedAt) / 1_000,
        });
        this.#first.resolve();
        this.#changed();
      }
      const reason = await this.#watch(child);
      this.departed = await remains(this.departed, child.report?.metrics ?? []);
      this.child = null;
      this.#gone(child);
      if (!everServed) this.#first.reject(failed);
      if (!everServed || signal.aborted) return;
      failures = monotonicMs() - startedAt > limits.listenerBackoffMs ? 1 : failures + 1;
      const pauseMs = backoffMs(failures, limits.listenerBackoffMinMs, limits.listenerBackoffMs, Math.random);
      this.#observe({ kind: 'listener.lost', pid: child.pid, reason, pauseMs });
      await delay(pauseMs, undefined, { signal }).catch(() => undefined);
    }
    this.#first.reject(new ListenerError('Headgate is shutting down'));
  }

  /** Polls the process for its metrics; one that stops answering is ended. Returns how it ended. */
  async #watch(child: ListenerChild): Promise<string> {
    const beat = setInterval(() => {
      if (!child.serves) return;
      void child.ask({ what: 'report' }).then((report) => {
        child.missed = report === null ? child.missed + 1 : 0;
        if (child.missed >= limits.listenerBeatsMissedMax) child.kill('it gave no sign of life');
      });
    }, limits.listenerBeatMs);
    const reason = await child.ended;
    clearInterval(beat);
    return reason;
  }
}
