/**
 * Facts that alerts need and that only observations contain, not metrics: the state of the doors' certificates, and which
 * confirmations failed. Takes observations of all processes; returns the present state of both. Bounded in tables.
 */
import { limits } from '../config/limits.ts';
import type { Readers } from '../observe/context.ts';
import type { TableName } from '../observe/observations.ts';
import type { Labels, AlertInput } from './rules.ts';

export class ObservedConditions implements Pick<AlertInput, 'certificates' | 'unconfirmed'> {
  readonly certificates = new Map<string, string>();
  readonly #failed = new Map<string, { readonly labels: Labels; count: number }>();

  get unconfirmed(): AlertInput['unconfirmed'] {
    return [...this.#failed.values()];
  }

  readonly readers: Readers = {
    'tls.loaded': ({ door }) => void this.certificates.delete(door),
    'tls.doubtful': ({ door, state, validUntil }) =>
      void this.certificates.set(door, `${state}, valid until ${validUntil}`),
    'tls.unusable': ({ door }) =>
      void this.certificates.set(door, 'the files have changed and cannot be used'),
    'certificate.failed': ({ failures, reason }) => {
      if (failures >= limits.acmeFailuresToldMin)
        this.certificates.set('listen', `no new one can be had: ${reason}`);
    },
    'sns.failed': ({ table }) => this.#fail(table),
    'event_grid.failed': ({ table }) => this.#fail(table),
  };

  #fail({ database, schema, table }: TableName): void {
    const key = JSON.stringify([database, schema, table]);
    const known = this.#failed.get(key);
    if (known !== undefined) known.count += 1;
    else if (this.#failed.size < limits.metricTablesMax)
      this.#failed.set(key, { labels: { database, schema, table }, count: 1 });
  }
}
