/**
 * Sends the metrics at even intervals, one message at a time, and a last one when Headgate stops. Takes the metrics as a function; delays nobody,
 * refuses nothing and never throws: what a message does not bring, the next one does, because all counts are sums since the start.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Closable } from '../kit/closer.ts';
import { within } from '../kit/promises.ts';
import { limits } from '../config/limits.ts';
import { metricsText } from './metric-text.ts';
import type { MetricValues } from './metric-text.ts';
import type { OtlpReceiver } from './otlp.ts';

export interface MetricSenderOptions {
  readonly receiver: Pick<OtlpReceiver, 'post'>;
  readonly metrics: () => Promise<readonly MetricValues[]>;
  /** JSON of the resource, and of what made the metrics. */
  readonly resource: string;
  readonly scope: string;
  readonly everyMs: number;
  /** ms since 1970 */
  readonly now: () => number;
}

export class MetricSender implements Closable {
  readonly #options: MetricSenderOptions;
  readonly #startMs: number;
  readonly #closing = new AbortController();
  /** Aborted when the time for the last message is over. */
  readonly #over = new AbortController();
  readonly #ended: Promise<void>;

  constructor(options: MetricSenderOptions) {
    this.#options = options;
    this.#startMs = options.now();
    this.#ended = this.#run();
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await within(limits.telemetryFarewellMs, this.#ended, undefined);
    this.#over.abort();
    await this.#ended;
  }

  async #run(): Promise<void> {
    const { everyMs } = this.#options;
    const { signal } = this.#closing;
    while (!signal.aborted) {
      await delay(everyMs, undefined, { signal, ref: false }).catch(() => undefined);
      // A bug here must not end what is measured.
      await this.#send().catch(() => undefined);
    }
  }

  async #send(): Promise<void> {
    const { receiver, metrics, resource, scope, now } = this.#options;
    const all = await metrics();
    if (this.#over.signal.aborted) return;
    const times = { startMs: this.#startMs, nowMs: now() };
    await receiver.post(metricsText(resource, scope, all, times), this.#over.signal);
  }
}
