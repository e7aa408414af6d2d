/**
 * Facts that alerts need and that only observations contain, not metrics: the state of the doors' certificates, and which
 * confirmations failed. Takes observations of all processes; returns the present state of both. Bounded in tables.
 */
import { limits } from '../config/limits.ts';
import type { Observation, TableName } from '../observe/observations.ts';
import type { Labels, AlertInput } from './rules.ts';

export class ObservedConditions implements Pick<AlertInput, 'certificates' | 'unconfirmed'> {
  readonly certificates = new Map<string, string>();
  readonly #failed = new Map<string, { readonly labels: Labels; count: number }>();

  get unconfirmed(): AlertInput['unconfirmed'] {
    return [...this.#failed.values()];
  }

  readonly observe = (observation: Observation): void => {
    switch (observation.kind) {
      case 'tls.loaded':
        this.certificates.delete(observation.door);
        break;
      case 'tls.doubtful':
        this.certificates.set(
          observation.door,
          `${observation.state}, valid until ${observation.validUntil}`,
        );
        break;
      case 'tls.unusable':
        this.certificates.set(observation.door, 'the files have changed and cannot be used');
        break;
      case 'certificate.failed':
        if (observation.failures >= limits.acmeFailuresToldMin)
          this.certificates.set('listen', `no new one can be had: ${observation.reason}`);
        break;
      case 'sns.failed':
      case 'event_grid.failed':
        this.#fail(observation.table);
        break;
      default:
        break;
    }
  };

  #fail({ database, schema, table }: TableName): void {
    const key = JSON.stringify([database, schema, table]);
    const known = this.#failed.get(key);
    if (known !== undefined) known.count += 1;
    else if (this.#failed.size < limits.metricTablesMax)
      this.#failed.set(key, { labels: { database, schema, table }, count: 1 });
  }
}
