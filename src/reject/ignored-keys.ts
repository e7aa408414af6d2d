/**
 * Counts how many documents of each table were stored without some of their members (`on_unknown`), for headgate.ignored_keys. Takes what was
 * ignored, returns the parameters of `addIgnored`; what is taken is forgotten here, so that nothing is counted twice. Holds `rejectedTablesMax`
 * tables. Time is an argument.
 */
import type { Limits } from '../config/limits.ts';
import type { Ignored } from '../types/rows.ts';

interface IgnoredCount {
  documents: number;
  keys: readonly string[];
}

export class IgnoredCounts {
  readonly #limits: Pick<Limits, 'rejectedTablesMax' | 'ignoredKeysFlushMs'>;
  readonly #counts = new Map<number, IgnoredCount>();
  #writtenAtMs = Number.NEGATIVE_INFINITY;

  constructor(limits: Pick<Limits, 'rejectedTablesMax' | 'ignoredKeysFlushMs'>) {
    this.#limits = limits;
  }

  /** `relation`: pg_class.oid. What there is no room for is counted in the metric alone. */
  add(relation: number, { documents, keys }: Ignored): void {
    const count = this.#counts.get(relation);
    if (count !== undefined) {
      count.documents += documents;
      count.keys = keys;
    } else if (this.#counts.size < this.#limits.rejectedTablesMax)
      this.#counts.set(relation, { documents, keys });
  }

  /** Returns the parameters of `addIgnored`, and forgets them; null: there is nothing to write, or not yet. */
  take(nowMs: number, atOnce: boolean): readonly unknown[] | null {
    if (this.#counts.size === 0) return null;
    if (!atOnce && nowMs - this.#writtenAtMs < this.#limits.ignoredKeysFlushMs) return null;
    this.#writtenAtMs = nowMs;
    const counts = [...this.#counts.values()];
    const values = [
      [...this.#counts.keys()],
      counts.map(({ documents }) => documents),
      counts.map(({ keys }) => JSON.stringify(keys)),
    ];
    this.#counts.clear();
    return values;
  }
}
