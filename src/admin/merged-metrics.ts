/**
 * The metrics of several processes as one text. Takes what each process's registry holds; sums what counts for
 * Headgate as a whole (or takes what the metric itself says: `first`, `min` …), and keeps apart, with a label
 * `listener`, what only means something for one process: memory, event loop, descriptors. The main process comes first
 * and has no such label. Touches nothing.
 */
import { AggregatorRegistry } from 'prom-client';
import type { Registry } from 'prom-client';

/** What a registry gives as JSON. */
export type MetricFamily = Awaited<ReturnType<Registry['getMetricsAsJSON']>>[number];

export interface ProcessMetrics {
  readonly listener: number;
  readonly families: readonly MetricFamily[];
}

/** `departed`: what processes that are no more had counted. */
export function mergedText(
  main: readonly MetricFamily[],
  processes: readonly ProcessMetrics[],
  departed: readonly (readonly MetricFamily[])[],
): Promise<string> {
  const all = [main.map(kept), ...processes.map(labelled), ...departed];
  return AggregatorRegistry.aggregate(all).metrics();
}

/** What stays of a process when it ends, so that no counter goes backwards. */
export function remains(...families: readonly (readonly MetricFamily[])[]): Promise<MetricFamily[]> {
  const counted = families.map((of) => of.filter((it) => counts(it) && !ofProcess(it)));
  return AggregatorRegistry.aggregate(counted).getMetricsAsJSON();
}

function counts({ type }: MetricFamily): boolean {
  // Words in what a registry gives, numbers of an enum in the declarations.
  const word = String(type);
  return word === 'counter' || word === 'histogram';
}

/** Those of `collectDefaultMetrics`. */
function ofProcess({ name }: MetricFamily): boolean {
  return name.startsWith('process_') || name.startsWith('nodejs_');
}

/** Every series of a process is its own: there is nothing to aggregate, nor to leave out. */
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
