/**
 * Merges the metrics of several processes. Takes the content of each process's registry; sums whatever
 * concerns Headgate as a whole (or applies the metric's own aggregator: `first`, `min` …), and keeps apart, with a
 * label `listener`, what only concerns one process: memory, event loop, descriptors. The main process comes first and
 * has no such label. Touches nothing.
 */
import { AggregatorRegistry } from 'prom-client';
import type { Registry } from 'prom-client';

/** A registry's content as JSON. */
export type MetricFamily = Awaited<ReturnType<Registry['getMetricsAsJSON']>>[number];

export interface ProcessMetrics {
  readonly listener: number;
  readonly families: readonly MetricFamily[];
}

/** `departed`: the counts of processes that have ended. */
export function mergedText(
  main: readonly MetricFamily[],
  processes: readonly ProcessMetrics[],
  departed: readonly (readonly MetricFamily[])[],
): Promise<string> {
  return merged(main, processes, departed).metrics();
}

/** The same as plain values. */
export function mergedFamilies(...all: Parameters<typeof mergedText>): Promise<MetricFamily[]> {
  return merged(...all).getMetricsAsJSON();
}

function merged(...[main, processes, departed]: Parameters<typeof mergedText>): Registry {
  return AggregatorRegistry.aggregate([main.map(kept), ...processes.map(labelled), ...departed]);
}

/** What is kept of a process that ends, so that no counter decreases. */
export function remains(...families: readonly (readonly MetricFamily[])[]): Promise<MetricFamily[]> {
  const counted = families.map((of) => of.filter((it) => counts(it) && !ofProcess(it)));
  return AggregatorRegistry.aggregate(counted).getMetricsAsJSON();
}

function counts({ type }: MetricFamily): boolean {
  // A registry returns words, but declares a numeric enum.
  const word = String(type);
  return word === 'counter' || word === 'histogram';
}

/** Those of `collectDefaultMetrics`. */
function ofProcess({ name }: MetricFamily): boolean {
  return name.startsWith('process_') || name.startsWith('nodejs_');
}

/** Each series of a process stays separate: nothing is aggregated or left out. */
function kept(family: MetricFamily): MetricFamily {
  return ofProcess(family) ? { ...family, aggregator: 'first' } : family;
}

function labelled({ listener, families }: ProcessMetrics): MetricFamily[] {
  return families.map((family) =>
    ofProcess(family)
      ? {
          ...kept(family),
          values: family.values.map((it) => ({ ...it, labels: { ...it.labels, listener } })),
        }
      : family,
  );
}
