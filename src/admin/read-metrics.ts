/** Metrics whose values are kept elsewhere and put together when they are read: between two scrapes they cost nothing. Fills a registry. */
import { Counter, Gauge } from 'prom-client';
import type { Registry } from 'prom-client';

/** Called with the labels and the value of each series there is. */
type Add<L extends string> = (labels: Readonly<Partial<Record<L, string | number>>>, value: number) => void;

const collects = <L extends string>(read: (add: Add<L>) => void) =>
  function (this: Counter<L> | Gauge<L>): void {
    this.reset();
    read((labels, value) => this.inc({ ...labels }, value));
  };

export function readCounter<L extends string>(
  registry: Registry,
  name: string,
  help: string,
  labelNames: readonly L[],
  read: (add: Add<L>) => void,
): void {
  registry.registerMetric(new Counter<L>({ name, help, labelNames, registers: [], collect: collects(read) }));
}

export function readGauge<L extends string>(
  registry: Registry,
  name: string,
  help: string,
  labelNames: readonly L[],
  read: (add: Add<L>) => void,
): void {
  registry.registerMetric(new Gauge<L>({ name, help, labelNames, registers: [], collect: collects(read) }));
}
