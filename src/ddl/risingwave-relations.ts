/**
 * RisingWave's relations about relations, which its tools read: `rw_schemas`, `rw_relations` and `rw_columns`, with or without their schema
 * `rw_catalog`. Takes a statement, returns it with a query in the place of each such name, or null if there is none. Pure.
 */
import { Cursor } from './cursor.ts';
import type { Lexical } from './literals.ts';
import type { PlanText, StatementPlan } from './plan.ts';
import type { StatementText } from './scanner.ts';

/** PostgreSQL types that have other names in RisingWave. */
const shownType = (of: string): string =>
  `case ${of} when 'pg_catalog.text'::pg_catalog.regtype then 'character varying' when 'pg_catalog.bpchar'::pg_catalog.regtype then 'character varying' when 'pg_catalog.json'::pg_catalog.regtype then 'jsonb' else pg_catalog.format_type(${of}, null) end`;

const dataType = `case when t.typcategory = 'A' then ${shownType('t.typelem')} || '[]' else ${shownType('t.oid')} end`;

const userSchemas = `n.nspname !~ '^pg_' and n.nspname not in ('information_schema', 'headgate')`;

const relations: Readonly<Record<string, string>> = {
  rw_schemas: `select n.oid::pg_catalog.int4 as id, n.nspname::pg_catalog.text as name, n.nspowner::pg_catalog.int4 as owner from pg_catalog.pg_namespace n`,
  // Tools that compare definitions learn of new columns from them.
  rw_relations: `select c.oid::pg_catalog.int4 as id, c.relname::pg_catalog.text as name,
    case c.relkind when 'v' then 'view' when 'm' then 'materialized view' when 'i' then 'index' else 'table' end as relation_type,
    c.relnamespace::pg_catalog.int4 as schema_id, c.relowner::pg_catalog.int4 as owner,
    pg_catalog.format('CREATE TABLE %I.%I (%s)', n.nspname, c.relname, (select pg_catalog.string_agg(pg_catalog.format('%I %s', a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod)), ', ' order by a.attnum)
      from pg_catalog.pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped)) as definition
    from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace where c.relkind in ('r', 'p', 'v', 'm', 'i') and ${userSchemas}`,
  rw_columns: `select a.attrelid::pg_catalog.int4 as relation_id, a.attname::pg_catalog.text as name, a.attnum::pg_catalog.int4 as position, false as is_hidden,
    coalesce(a.attnum = any (i.indkey::pg_catalog.int2[]), false) as is_primary_key, a.attgenerated <> '' as is_generated, not a.attnotnull as is_nullable,
    ${dataType} as data_type, t.oid::pg_catalog.int4 as type_oid, t.typlen as type_len
    from pg_catalog.pg_attribute a join pg_catalog.pg_class c on c.oid = a.attrelid join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    join pg_catalog.pg_type t on t.oid = a.atttypid left join pg_catalog.pg_index i on i.indrelid = a.attrelid and i.indisprimary
    where a.attnum > 0 and not a.attisdropped and c.relkind in ('r', 'p', 'v', 'm') and ${userSchemas}`,
};

/** What may follow a table in FROM without being its alias. */
const noAlias = new Set(
  'join inner left right full cross natural on using where group order limit offset having union intersect except fetch for window tablesample'.split(
    ' ',
  ),
);

/** Searches a text without such a name only once. */
export const mayNameRwCatalog = (sql: string): boolean =>
  sql.includes('rw_') && /\brw_(?:relations|schemas|columns)\b/i.test(sql);

/** Null: the statement contains no such name. */
export function rwCatalog(statement: StatementText, lexical: Lexical): StatementPlan | null {
  // Its own text only: there may be a million statements.
  if (!mayNameRwCatalog(lexical.text.slice(statement.start, statement.end))) return null;
  const cursor = new Cursor(statement, lexical);
  const { tokens } = statement;
  const pieces: PlanText[] = [];
  let last = statement.start;
  for (let at = 1; at < tokens.length; at++) {
    const before = cursor.peek(at - 1);
    if (before !== 'from' && before !== 'join') continue;
    const nameAt = cursor.peek(at) === 'rw_catalog' && cursor.peek(at + 1) === '.' ? at + 2 : at;
    const [first, token] = [tokens[at], tokens[nameAt]];
    const name = cursor.peek(nameAt) ?? '';
    const query = token?.kind === 'word' && Object.hasOwn(relations, name) ? relations[name] : undefined;
    if (first === undefined || token === undefined || query === undefined) continue;
    const next = tokens[nameAt + 1];
    const word = cursor.peek(nameAt + 1);
    // A schema, or a function, with that name.
    if (word === '.' || word === '(') continue;
    const hasAlias = next?.kind === 'quoted' || (next?.kind === 'word' && !noAlias.has(word ?? ''));
    pieces.push(
      { start: last, end: first.start },
      { text: `(${query})${hasAlias ? '' : ` as ${name}`}`, at: first.start },
    );
    last = token.end;
  }
  if (pieces.length === 0) return null;
  return {
    pieces: [...pieces, { start: last, end: statement.end }],
    tag: null,
    needsCatalog: false,
    releases: [],
  };
}
