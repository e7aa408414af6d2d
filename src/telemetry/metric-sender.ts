/**
 * Sends the metrics at even intervals, one message at a time, and a last one when Headgate stops. Takes the metrics as a function; delays nobody,
 * refuses nothing and never throws: what a message does not bring, the next one does, because all counts are sums since the start.
 *
 * A message is OTLP in JSON: what the registry has, under the same names and with the same labels. Counters are sums since the
 * start, gauges and histograms what they are; the registry has no other kinds. A value that is no number is left out.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Closable } from '../kit/closer.ts';
import { within } from '../kit/promises.ts';
import { limits } from '../config/limits.ts';
import type { OtlpReceiver } from './otlp.ts';
import { attributesText, nanos } from './span-text.ts';

export class MetricSender implements Closable {
  readonly #receiver: OtlpReceiver;
  readonly #metrics: () => Promise<readonly MetricValues[]>;
  readonly #everyMs: number;
  readonly #startMs = Date.now();
  readonly #closing = new AbortController();
  /** Aborted when the time for the last message is over. */
  readonly #over = new AbortController();
  readonly #ended: Promise<void>;

  constructor(receiver: OtlpReceiver, metrics: () => Promise<readonly MetricValues[]>, everyMs: number) {
    this.#receiver = receiver;
    this.#metrics = metrics;
    this.#everyMs = everyMs;
    this.#ended = this.#run();
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await within(limits.telemetryFarewellMs, this.#ended, undefined);
    this.#over.abort();
    await this.#ended;
  }

  async #run(): Promise<void> {
    const { signal } = this.#closing;
    while (!signal.aborted) {
      await delay(this.#everyMs, undefined, { signal, ref: false }).catch(() => undefined);
      // A bug here must not end what is measured.
      await this.#send().catch(() => undefined);
    }
  }

  async #send(): Promise<void> {
    const all = await this.#metrics();
    if (this.#over.signal.aborted) return;
    const times = { startMs: this.#startMs, nowMs: Date.now() };
    const { resource, scope } = this.#receiver;
    await this.#receiver.post(metricsText(resource, scope, all, times), this.#over.signal);
  }
}

/** As a registry of Prometheus' client gives it. */
export interface MetricValues {
  readonly name: string;
  readonly help: string;
  /** `counter`, `gauge` or `histogram`. */
  readonly type: unknown;
  readonly values: readonly MetricValue[];
}

interface MetricValue {
  readonly value: number;
  readonly labels: Readonly<Partial<Record<string, string | number>>>;
  /** Of a histogram: `<name>_bucket`, `<name>_sum` or `<name>_count`. */
  readonly metricName?: string;
}

interface MetricTimes {
  /** When counting began, ms since 1970. */
  readonly startMs: number;
  readonly nowMs: number;
}

/** One message: `resource` and `scope` are JSON. */
export function metricsText(
  resource: string,
  scope: string,
  metrics: readonly MetricValues[],
  times: MetricTimes,
): string {
  const texts = metrics.flatMap((metric) => metricText(metric, times) ?? []);
  return `{"resourceMetrics":[{"resource":${resource},"scopeMetrics":[{"scope":${scope},"metrics":[${texts.join(',')}]}]}]}`;
}

/** null: it has no values. */
function metricText(metric: MetricValues, { startMs, nowMs }: MetricTimes): string | null {
  const when = `"startTimeUnixNano":"${nanos(startMs)}","timeUnixNano":"${nanos(nowMs)}"`;
  const points = metric.type === 'histogram' ? histogramPoints(metric, when) : numberPoints(metric, when);
  if (points.length === 0) return null;
  const list = `"dataPoints":[${points.join(',')}]`;
  // 2: since the start.
  const data =
    metric.type === 'histogram'
      ? `"histogram":{"aggregationTemporality":2,${list}}`
      : metric.type === 'counter'
        ? `"sum":{"aggregationTemporality":2,"isMonotonic":true,${list}}`
        : `"gauge":{${list}}`;
  return `{"name":${JSON.stringify(metric.name)},"description":${JSON.stringify(metric.help)},${data}}`;
}

function numberPoints({ values }: MetricValues, when: string): readonly string[] {
  return values
    .filter(({ value }) => Number.isFinite(value))
    .map(({ value, labels }) => `{"attributes":[${labelsText(labels)}],${when},"asDouble":${value}}`);
}

function histogramPoints({ name, values }: MetricValues, when: string): readonly string[] {
  const series = new Map<string, { bounds: number[]; counts: number[]; sum: number; count: number }>();
  for (const { value, labels, metricName } of values) {
    const { le, ...others } = labels;
    const key = labelsText(others);
    const of = series.get(key) ?? { bounds: [], counts: [], sum: 0, count: 0 };
    series.set(key, of);
    if (metricName === `${name}_sum`) of.sum = value;
    else if (metricName === `${name}_count`) of.count = value;
    else {
      // Of Prometheus each bucket has those below it, too.
      of.counts.push(value - of.counts.reduce((below, count) => below + count, 0));
      if (le !== '+Inf') of.bounds.push(Number(le));
    }
  }
  return [...series].map(
    ([key, { bounds, counts, sum, count }]) =>
      `{"attributes":[${key}],${when},"count":"${count}","sum":${sum},"bucketCounts":[${counts.map((it) => `"${it}"`).join(',')}],"explicitBounds":[${bounds.join(',')}]}`,
  );
}

/** Labels are texts. */
function labelsText(labels: MetricValue['labels']): string {
  const texts = Object.entries(labels).map(([name, value = '']) => [name, String(value)] as const);
  return attributesText(Object.fromEntries(texts));
}
