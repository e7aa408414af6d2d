/**
 * Counts how many documents of each table were stored without some of their members (`on_unknown`), for headgate.ignored_keys. Takes what was
 * ignored, returns the parameters of `addIgnored`; what is taken is forgotten here, so that nothing is counted twice. Holds `rejectedTablesMax`
 * tables. Time is an argument.
 */
import { limits } from '../config/limits.ts';
import type { Limits } from '../config/limits.ts';
import type { Ignored } from '../types/rows.ts';
import { standing } from './journal-session.ts';

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

/**
 * $1 tables, $2 documents, $3 keys. The first keys stay; several processes write one table's row in turn. What comes while its owner forgets
 * them is not counted.
 */
export const addIgnored = `
with standing as materialized (${standing('$1')}), turn as materialized (select from headgate.trimming for update), free as materialized (
  select k.relation from turn, headgate.ignored_keys k where k.relation = any ($1::oid[]) for no key update of k skip locked)
insert into headgate.ignored_keys as k (relation, documents, keys)
select w.relation, r.documents, array(select pg_catalog.jsonb_array_elements_text(r.keys))
from unnest($1::oid[], $2::bigint[], $3::jsonb[]) as r (relation, documents, keys)
join standing w on w.relation = r.relation
where w.relation in (select f.relation from free f)
  or not exists (select from headgate.ignored_keys k where k.relation = w.relation)
order by r.relation
on conflict (relation) do update set documents = k.documents + excluded.documents, last_at = pg_catalog.now(),
  keys = array(select n.key from unnest(k.keys || excluded.keys) with ordinality as n (key, place)
    group by n.key order by pg_catalog.min(n.place) limit ${limits.ignoredKeysMax})`;
