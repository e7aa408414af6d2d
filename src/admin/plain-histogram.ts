/**
 * A histogram for Prometheus that costs little: observed values are counted as plain numbers, and formatted when they are read. Takes values,
 * optionally with one label; returns what prom-client returns for the same observations.
 */
import { Histogram } from 'prom-client';
import type { HistogramConfiguration, MetricType } from 'prom-client';

interface HistogramSeries {
  /** By bucket, not cumulative; the last one is unbounded. */
  readonly counts: number[];
  sum: number;
}

export class PlainHistogram extends Histogram {
  readonly #name: string;
  readonly #family: Omit<Awaited<ReturnType<Histogram['get']>>, 'values'>;
  readonly #bounds: readonly number[];
  readonly #label: string | null;
  readonly #series = new Map<string, HistogramSeries>();

  constructor(given: HistogramConfiguration<string> & { readonly buckets: number[] }) {
    super(given);
    const { name, help, aggregator = 'sum' } = given;
    // prom-client returns a word, but declares a numeric enum.
    const type = 'histogram' as unknown as MetricType;
    this.#family = { name, help, type, aggregator, collect: () => undefined };
    this.#name = name;
    this.#bounds = given.buckets;
    this.#label = given.labelNames?.[0] ?? null;
    if (this.#label === null) this.#begin('');
  }

  /** `of`: the value of its label, if it has one. */
  add(value: number, of = ''): void {
    const series = this.#series.get(of) ?? this.#begin(of);
    const bounds = this.#bounds;
    let bucket = 0;
    while (bucket < bounds.length && value > (bounds[bucket] ?? 0)) bucket += 1;
    series.counts[bucket] = (series.counts[bucket] ?? 0) + 1;
    series.sum += value;
  }

  /** prom-client builds the text and `get` from this. */
  async getForPromString(): ReturnType<Histogram['get']> {
    const values = [...this.#series].flatMap(([of, series]) => this.#valuesOf(of, series));
    return { ...this.#family, values };
  }

  #begin(of: string): HistogramSeries {
    const series = { counts: Array.from({ length: this.#bounds.length + 1 }, () => 0), sum: 0 };
    this.#series.set(of, series);
    return series;
  }

  #valuesOf(of: string, { counts, sum }: HistogramSeries) {
    const sharedLabels = this.#label === null ? {} : { [this.#label]: of };
    let below = 0;
    const buckets = counts.map((count, i) => {
      below += count;
      const le = this.#bounds[i] ?? '+Inf';
      return { metricName: `${this.#name}_bucket`, labels: { le }, sharedLabels, value: below };
    });
    return [
      ...buckets,
      { metricName: `${this.#name}_sum`, labels: {}, sharedLabels, value: sum },
      { metricName: `${this.#name}_count`, labels: {}, sharedLabels, value: below },
    ];
  }
}
