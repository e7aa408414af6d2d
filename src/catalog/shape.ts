/**
 * What a table looks like to whoever writes rows into it. Holds the one SQL text that asks PostgreSQL's own catalog, for
 * any relation, and `toShape`, which makes a Shape of the answer or says why rows cannot be written. Pure; the text runs
 * on PostgreSQL 14 to 18 and needs no schema `headgate`.
 */
import type { Column, KeyColumn, Shape } from '../flow.ts';

/** What `relationsSql` yields. */
export interface RelationRow {
  /** pg_class.oid */
  readonly relation: number;
  readonly schema_name: string;
  readonly table_name: string;
  /** pg_class.relkind: `r`, `p`, `v` … */
  readonly relation_kind: string;
  /** Rows can be inserted, by PostgreSQL's own rules for views and foreign tables. */
  readonly insertable: boolean;
  /** See Shape.mark. */
  readonly mark: string;
  readonly columns: readonly ColumnRow[];
  /**
   * pg_attribute.attnum of the primary key's columns, in its order; empty where ON CONFLICT cannot use it, because it is
   * DEFERRABLE or WITHOUT OVERLAPS.
   */
  readonly key: readonly number[];
}

export interface ColumnRow {
  /** pg_attribute.attnum */
  readonly place: number;
  readonly name: string;
  readonly type: string;
  readonly base: number;
  /** What fills it when it is not written: DEFAULT, that of its domain, or the next number of an identity. */
  readonly fallback: string | null;
  /** GENERATED ALWAYS AS (…) */
  readonly generated: string | null;
  /** Which columns a generated one is computed from. */
  readonly reads: readonly number[];
  readonly writable: boolean;
}

/** What the columns of `relationsSql` are called, for lists of them. */
export const relationColumns =
  'relation, schema_name, table_name, relation_kind, insertable, mark, columns, key';

/**
 * A query for RelationRows. `asked` is a query that yields oids as `relation`.
 *
 * Types and expressions are printed qualified, whatever the session's search_path is: it is set, until the end of the
 * statement's transaction, when the first oid is known, and `asked` has by then been evaluated under the client's own.
 */
export function relationsSql(asked: string): string {
  return `
with asked as materialized (
  select r.relation, pg_catalog.set_config('search_path', 'pg_catalog', true) as path from (${asked}) as r
)
select c.oid as relation, n.nspname::text as schema_name, c.relname::text as table_name,
  c.relkind::text as relation_kind,
  c.relkind in ('r', 'p') or pg_catalog.pg_relation_is_updatable(c.oid, false) & 8 = 8 as insertable,
  attributes.mark, coalesce(attributes.columns, '[]') as columns, coalesce(primary_key.columns, '[]') as key
from asked
join pg_catalog.pg_class c on c.oid = asked.relation
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
cross join lateral (
  select ${markSql} as mark, pg_catalog.json_agg(${columnSql} order by a.attnum) filter (where not a.attisdropped) as columns
  from pg_catalog.pg_attribute a
  left join pg_catalog.pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
  left join pg_catalog.pg_type t on t.oid = a.atttypid
  where a.attrelid = asked.relation and a.attnum > 0
) as attributes
left join lateral (
  select pg_catalog.array_to_json((i.indkey::pg_catalog.int2[])[0:i.indnkeyatts - 1]) as columns
  from pg_catalog.pg_index i
  where i.indrelid = asked.relation and i.indisprimary and i.indimmediate and not i.indisexclusion
) as primary_key on true`;
}

/** The version of a table's columns, dropped ones too: the transactions that wrote their rows of the catalog. */
const markSql = `pg_catalog.string_agg(a.xmin::pg_catalog.text, '.' order by a.attnum)`;

const expressionSql = 'pg_catalog.pg_get_expr(d.adbin, d.adrelid)';

/** One ColumnRow. Of a view only those columns can be written that are columns of its table. */
const columnSql = `pg_catalog.json_build_object(
    'place', a.attnum,
    'name', a.attname,
    'type', pg_catalog.format_type(a.atttypid, a.atttypmod),
    'base', (case when t.typtype <> 'd' then t.oid else (
      with recursive base as (
        select b.oid, b.typtype, b.typbasetype from pg_catalog.pg_type b where b.oid = t.typbasetype
        union all
        select b.oid, b.typtype, b.typbasetype from base join pg_catalog.pg_type b on b.oid = base.typbasetype
        where base.typtype = 'd'
      )
      select base.oid from base where base.typtype <> 'd') end)::pg_catalog.int8,
    'fallback', case
      when a.attgenerated <> '' then null
      when a.attidentity <> '' then pg_catalog.format('nextval(%L::regclass)', pg_catalog.pg_get_serial_sequence(
        a.attrelid::pg_catalog.regclass::pg_catalog.text, a.attname))
      else coalesce(${expressionSql}, pg_catalog.pg_get_expr(t.typdefaultbin, 0)) end,
    'generated', case when a.attgenerated <> '' then ${expressionSql} end,
    'reads', case when a.attgenerated = '' then '[]' else (
      select coalesce(pg_catalog.json_agg(distinct p.refobjsubid), '[]') from pg_catalog.pg_depend p
      where p.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass and p.refobjid = a.attrelid
        and p.refobjsubid > 0 and p.refobjsubid <> a.attnum
        and ((p.classid = 'pg_catalog.pg_attrdef'::pg_catalog.regclass and p.objid = d.oid)
          or (p.classid = 'pg_catalog.pg_class'::pg_catalog.regclass and p.objid = a.attrelid and p.objsubid = a.attnum))
      ) end,
    'writable', a.attgenerated = '' and a.attidentity <> 'a'
      and (c.relkind <> 'v' or pg_catalog.pg_column_is_updatable(a.attrelid, a.attnum, false)))`;

/** pg_type.oid */
export const typeOids = { bytea: 17, text: 25, json: 114, varchar: 1043, jsonb: 3802 } as const;

export interface ShapeChoice {
  /** What to do with a key that is there already; null: replace the row where there is a key to find it by. */
  readonly way: 'insert' | 'upsert' | 'ignore' | null;
  /** The column that takes the whole document; null: its keys fill the columns. */
  readonly document: string | null;
  /** Columns that are written beside the document. */
  readonly includes: readonly string[];
  readonly misfits: Shape['misfits'];
}

/** The shape, or in one line why rows cannot be written. */
export function toShape(row: RelationRow, choice: ShapeChoice): Shape | string {
  const { document, includes, misfits } = choice;
  const columns = row.columns.filter(
    ({ name, writable }) => writable && (document === null || name === document || includes.includes(name)),
  );
  if (columns.length === 0) return 'the table has no column that a row could fill';
  const key = keyOf(row, columns);
  if (typeof key === 'string') return key;
  const [only] = columns;
  const plain = choice.way === null && document !== null && columns.length === 1 && key.length === 0;
  const appends = plain && only?.base === typeOids.jsonb ? 'copy' : 'insert';
  return {
    mark: row.mark,
    way: choice.way ?? (key.length > 0 ? 'upsert' : appends),
    columns: columns.map(toColumn),
    key,
    misfits,
  };
}

function toColumn({ name, type, base, fallback }: ColumnRow): Column {
  return { name, type, baseType: base, fallback };
}

/** Empty also where the rows do not say their key, as with an identity column: then each of them is new. */
function keyOf(row: RelationRow, written: readonly ColumnRow[]): readonly KeyColumn[] | string {
  const places = new Set(written.map(({ place }) => place));
  const key: KeyColumn[] = [];
  for (const place of row.key) {
    const column = row.columns.find((it) => it.place === place);
    if (column === undefined) return [];
    const { name, generated, reads } = column;
    if (places.has(place)) {
      key.push({ name, generated: null });
      continue;
    }
    if (generated === null) return [];
    const unwritten = reads.find((it) => !places.has(it));
    if (unwritten !== undefined) {
      const other = row.columns.find((it) => it.place === unwritten)?.name ?? '';
      return `the primary key's column "${name}" is computed from "${other}", which no row fills`;
    }
    key.push({ name, generated });
  }
  return key;
}
