/**
 * Spans on their way to the receiver: gathers what ended, and sends it in messages of a bounded size, one at a time. Takes the texts of spans; delays
 * nobody, refuses nothing and never throws: what does not fit into memory, or is refused, is dropped and counted. A receiver that is
 * slow, away or asks for a pause (429, 502, 503, 504) is asked again later; one that finds a message too large (413) gets smaller ones.
 *
 *   idle ──first span──► gathering ──so many, or so long──► sending ──none left──► idle
 *                            ▲                                 ├────some left───┐
 *                            └─────────────────────────────────┴────────────────┘
 */
import { setTimeout as delay } from 'node:timers/promises';
import { backoffMs } from '../kit/backoff.ts';
import type { Closable } from '../kit/closer.ts';
import { within } from '../kit/promises.ts';
import { limits as allLimits } from '../config/limits.ts';
import type { Limits } from '../config/limits.ts';
import type { Observe } from '../observe/observations.ts';
import type { OtlpReceiver } from './otlp.ts';
import { tracesText } from './span-text.ts';

type SpanBounds = Pick<
  Limits,
  | 'spansWaitingMax'
  | 'spansSentMax'
  | 'telemetryRetryMinMs'
  | 'telemetryRetryMs'
  | 'telemetryPatienceMs'
  | 'telemetryFarewellMs'
>;

interface SpanQueueOptions {
  readonly receiver: Pick<OtlpReceiver, 'post' | 'resource' | 'scope'>;
  /** How long a span waits for others. */
  readonly scheduleMs: number;
  readonly observe: Observe;
  /** A monotonic clock, ms. */
  readonly clock: () => number;
  readonly random: () => number;
  readonly limits?: SpanBounds;
}

export class SpanQueue implements Closable {
  readonly #options: SpanQueueOptions;
  readonly #limits: SpanBounds;
  readonly #closing = new AbortController();
  /** Aborted when the time for what is left is over. */
  readonly #over = new AbortController();
  #waiting: string[] = [];
  /** Spans of the message that is being sent, or tried again. */
  #sending = 0;
  /** Dropped because there was no room, and not reported yet. */
  #crowded = 0;
  #timer: NodeJS.Timeout | null = null;
  #run: Promise<void> | null = null;

  constructor(options: SpanQueueOptions) {
    this.#options = options;
    this.#limits = options.limits ?? allLimits;
  }

  /** Spans that wait or are being sent. */
  get size(): number {
    return this.#waiting.length + this.#sending;
  }

  readonly push = (span: string): void => {
    const { spansWaitingMax, spansSentMax } = this.#limits;
    if (this.size >= spansWaitingMax || this.#over.signal.aborted) {
      this.#crowded += 1;
      if (this.#over.signal.aborted) this.#report();
      return;
    }
    this.#waiting.push(span);
    if (this.#run !== null) return;
    if (this.#waiting.length >= spansSentMax || this.#closing.signal.aborted) this.#send();
    else this.#timer ??= setTimeout(() => this.#send(), this.#options.scheduleMs).unref();
  };

  /** Sends what is left, within `telemetryFarewellMs`. */
  async close(): Promise<void> {
    this.#closing.abort();
    if (this.#waiting.length > 0) this.#send();
    await within(this.#limits.telemetryFarewellMs, this.#run ?? Promise.resolve(), undefined);
    this.#over.abort();
    await this.#run;
    this.#drop(this.#waiting.splice(0).length, 'stopped');
    this.#report();
  }

  #send(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    this.#run ??= this.#sendAll().finally(() => {
      this.#run = null;
      // What came while the last message was on its way waits for others, too.
      if (this.#waiting.length > 0 && !this.#closing.signal.aborted)
        this.#timer ??= setTimeout(() => this.#send(), this.#options.scheduleMs).unref();
    });
  }

  async #sendAll(): Promise<void> {
    do {
      const spans = this.#waiting.splice(0, this.#limits.spansSentMax);
      this.#sending = spans.length;
      await this.#sendThese(spans);
      this.#sending = 0;
      this.#report();
    } while (this.#hasMore);
  }

  /** At the end also what would otherwise wait for others. */
  get #hasMore(): boolean {
    const least = this.#closing.signal.aborted ? 1 : this.#limits.spansSentMax;
    return !this.#over.signal.aborted && this.#waiting.length >= least;
  }

  async #sendThese(spans: readonly string[]): Promise<void> {
    const { receiver, clock, random } = this.#options;
    const { telemetryRetryMinMs, telemetryRetryMs, telemetryPatienceMs } = this.#limits;
    const text = tracesText(receiver.resource, receiver.scope, spans);
    const sinceMs = clock();
    for (let attempt = 1; ; attempt++) {
      const end = await receiver.post(text, this.#over.signal);
      if (end.kind === 'accepted') return this.#accepted(spans.length, end.rejected);
      if (end.kind === 'too large' && spans.length > 1) {
        const half = Math.ceil(spans.length / 2);
        await this.#sendThese(spans.slice(0, half));
        return this.#sendThese(spans.slice(half));
      }
      if (this.#over.signal.aborted) return this.#drop(spans.length, 'stopped');
      const waitMs = end.kind === 'later' ? end.afterMs : null;
      const mayWait = end.kind === 'later' && clock() - sinceMs < telemetryPatienceMs;
      if (!mayWait || this.#closing.signal.aborted)
        return this.#drop(spans.length, mayWait ? 'stopped' : 'refused');
      const pauseMs =
        waitMs === null
          ? backoffMs(attempt, telemetryRetryMinMs, telemetryRetryMs, random)
          : Math.min(Math.max(waitMs, telemetryRetryMinMs), telemetryPatienceMs);
      this.#report();
      await delay(pauseMs, undefined, { signal: this.#closing.signal, ref: false }).catch(() => undefined);
    }
  }

  #accepted(spans: number, rejected: number): void {
    const dropped = Math.min(rejected, spans);
    if (spans > dropped) this.#options.observe({ kind: 'spans.sent', spans: spans - dropped });
    this.#drop(dropped, 'refused');
  }

  #drop(spans: number, why: 'refused' | 'stopped'): void {
    if (spans > 0) this.#options.observe({ kind: 'spans.dropped', why, spans });
  }

  #report(): void {
    const spans = this.#crowded;
    this.#crowded = 0;
    if (spans > 0) this.#options.observe({ kind: 'spans.dropped', why: 'queue', spans });
  }
}
