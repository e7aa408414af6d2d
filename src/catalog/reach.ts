/**
 * Whose code the rows of many relations may run, as SQL, in time proportional to what they reach together: what involvedSql and lookedIntoSql of
 * owner-code.ts answer for one relation. Relations that are joined by foreign keys reach the same ones, so a walk from each would take quadratic time. Here
 * all of them are walked once, and what is asked about a relation (the names of roles and triggers) is passed back along the walk.
 *
 * What is looked up again and again is put into one JSON object, in which PostgreSQL finds a key by halves: it has no statistics about these
 * queries, and would often read all of one side for each row of the other.
 */
import { lateCodeSql, nextSql, referringSql, trustedSql, withOwnRights } from './owner-code.ts';

/**
 * So many names of late triggers are told apart for each owner. One more name stands for all others: a role that has made more would otherwise
 * decide how many names are passed along.
 */
const lateNamesMax = 32;

/**
 * Rows of a table without a primary key change no others: it starts at a node of its own, which leads along no foreign key. A node is the oid of a
 * relation or, for such a start, its negative. If the walk comes back to the table, which only a partition's does, it is a relation like others:
 * foreign keys that refer to the partition itself then count, which involvedSql leaves out.
 */
const nodeOf = (oid: string): string => `case when exists (
    select from pg_catalog.pg_index p where p.indrelid = ${oid} and p.indisprimary) then ${oid}::pg_catalog.int8 else -(${oid}::pg_catalog.int8) end`;

/**
 * Common table expressions, to follow `with recursive asked (relation) as …`:
 *   reached     all relations that take part, or may
 *   node, edge  the same as a graph, with the starts
 *   sources     by target: where edges begin, those along which code of an outsider is reached (`any`), or of a stranger and late code (`own`)
 *   looked      the tables that foreign keys of a node look up, and whether they are others
 *   whose       the owners of a node, and of those tables
 *   untrusted   the names of those owners that are not trusted, by oid
 *   named       what each node reaches: its own names, and those of its targets
 *   reach       the first two names of each kind, by kind and node
 */
export const reachSql = `
reached (oid) as (
  select asked.relation from asked
  union
  select found.oid from reached v
  cross join lateral (select o.* from pg_catalog.pg_class o where o.oid = v.oid offset 0) as s
  cross join lateral (${nextSql('v.oid', 's', 'true')}
  ) as found
),
node as materialized (
  select v.id, v.oid, c.relowner, c.relhastriggers, c.relhassubclass, c.relispartition, c.relkind
  from (select oid::pg_catalog.int8 as id, oid from reached union select ${nodeOf('relation')}, relation from asked) as v
  cross join lateral (select s.* from pg_catalog.pg_class s where s.oid = v.oid offset 0) as c
),
edge as materialized (
  select distinct n.id as source, found.oid as target, found.cascades
  from node n cross join lateral (${nextSql('n.oid', 'n', 'n.id > 0')}
  ) as found
),
sources (map) as materialized (
  select pg_catalog.jsonb_object_agg(e.key, e.ids) from (
    select k.key, pg_catalog.jsonb_agg(distinct e.source) as ids
    from edge e cross join lateral (
      select 'any ' || e.target as key
      union all
      select 'own ' || e.target where not (e.cascades and ${withOwnRights})
    ) as k
    group by k.key
  ) as e
),
looked as materialized (
  select n.id, found.oid, found.oid <> n.oid as elsewhere from node n cross join lateral (
    select k.confrelid as oid from pg_catalog.pg_constraint k where k.conrelid = n.oid and k.contype = 'f'
    union all
    select k.conrelid from (${referringSql('n.oid')}) as k where n.id > 0
  ) as found
  where n.relhastriggers
),
whose as materialized (
  select n.id, n.relowner as owner, true as takes_part from node n
  union
  select l.id, o.relowner, false from looked l
  cross join lateral (select s.relowner from pg_catalog.pg_class s where s.oid = l.oid offset 0) as o
),
untrusted (map) as materialized (
  select pg_catalog.jsonb_object_agg(o.owner::text, pg_catalog.pg_get_userbyid(o.owner))
  from (select distinct owner from whose) as o where not ${trustedSql('o.owner')}
),
late as materialized (
  select ranked.id, pg_catalog.min(ranked.name) over (partition by ranked.relowner, least(ranked.place, ${lateNamesMax + 1})) as name
  from (
    select n.id, n.relowner, t.tgname::text collate "C" as name,
      pg_catalog.dense_rank() over (partition by n.relowner order by t.tgname) as place
    from node n join pg_catalog.pg_trigger t on t.tgrelid = n.oid
    where n.relhastriggers and ${lateCodeSql('t')}
  ) as ranked
),
named (kind, name, id) as (
  (
    select k.kind, (select map from untrusted) ->> w.owner::text collate "C", w.id
    from whose w cross join (values ('outsider'), ('stranger')) as k (kind)
    where (select map from untrusted) ? w.owner::text and (w.takes_part or k.kind = 'outsider')
    union all
    select 'late', l.name, l.id from late l
    union all
    select 'joined', '', l.id from looked l where l.elsewhere
  )
  union
  select n.kind, n.name, s.id::pg_catalog.int8 from named n cross join lateral pg_catalog.jsonb_array_elements_text(
    (select map from sources) -> (case when n.kind in ('outsider', 'joined') then 'any ' else 'own ' end || n.id)) as s (id)
),
reach (map) as materialized (
  select pg_catalog.jsonb_object_agg(r.kind || ' ' || r.id, r.names) from (
    select n.kind, n.id, pg_catalog.to_jsonb((pg_catalog.array_agg(n.name order by n.name))[1:2]) as names
    from named n group by n.kind, n.id
  ) as r
)`;

/** The outsider, stranger, late and joined of a CodeRow, for the pg_class row `c`. */
export function reachedSql(c: string): Record<'outsider' | 'stranger' | 'late' | 'joined', string> {
  const own = `(select map from untrusted) ->> ${c}.relowner::text`;
  const names = (kind: string) => `(select map from reach) -> ('${kind} ' || ${nodeOf(`${c}.oid`)})`;
  return {
    outsider: `coalesce(${own}, ${names('outsider')} ->> 0)`,
    stranger: `case when ${names('stranger')} ->> 0 = ${own} then ${names('stranger')} ->> 1 else ${names('stranger')} ->> 0 end`,
    late: `${names('late')} ->> 0`,
    joined: `${names('joined')} is not null`,
  };
}
