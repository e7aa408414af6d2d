/**
 * Relations and columns that a role sees, for completion and the tree of the SQL page, and for the page of events, also in a database without the
 * catalog; and how large tables have become. Takes names and texts to look for, returns SQL. Pure; like statements.ts, each statement means the same in psql.
 */
import { literal } from './quote.ts';
import { listMax, locked, rowsEstimate, tableBytes } from './statements.ts';
import type { TableRef } from './statements.ts';

/** For completion: tables that the role may read, with their columns. */
export const listColumns = `SELECT n.nspname, c.relname,
  (SELECT pg_catalog.json_agg(a.attname ORDER BY a.attnum) FROM pg_attribute a
   WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) AS names
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname NOT IN ('pg_catalog', 'pg_toast', 'information_schema')
  AND has_schema_privilege(n.oid, 'USAGE') AND has_any_column_privilege(c.oid, 'SELECT')
ORDER BY n.nspname <> 'public', n.nspname, c.relname
LIMIT 500`;

/** Tables into which the events gateway can write, and the columns that a document fills; also in a database without the catalog. */
export const listEventTables = `SELECT n.nspname, c.relname,
  (SELECT pg_catalog.json_agg(pg_catalog.json_build_object('name', a.attname, 'kind', t.typcategory, 'type', b.typname,
      'label', (SELECT e.enumlabel FROM pg_enum e WHERE e.enumtypid = b.oid ORDER BY e.enumsortorder LIMIT 1),
      'needed', (a.attnotnull OR t.typnotnull) AND NOT (a.atthasdef OR a.attidentity <> '' OR t.typdefault IS NOT NULL OR c.relkind = 'v'),
      'filled', a.atthasdef OR a.attidentity <> '') ORDER BY a.attnum)
   FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid JOIN pg_type b ON b.oid = CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.oid END
   WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' AND a.attidentity <> 'a') AS columns
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE (c.relkind IN ('r', 'p') OR c.relkind = 'v' AND pg_relation_is_updatable(c.oid, false) & 8 = 8)
  AND n.nspname NOT IN ('pg_catalog', 'pg_toast', 'information_schema')
  AND has_schema_privilege(n.oid, 'USAGE') AND has_any_column_privilege(c.oid, 'SELECT')
ORDER BY n.nspname <> 'public', n.nspname, c.relname
LIMIT 500`;

/** For the tree beside the editor: what the role may read and whose name, or that of one of its columns, contains the text. */
export const treeMax = 200;
export const listTree = (text: string): string => `SELECT n.nspname, c.relname, c.relkind,
  ${rowsEstimate('c')} AS rows_estimate, count(*) OVER () AS found,
  count(*) OVER (PARTITION BY n.nspname) AS of_schema
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition
  AND n.nspname NOT IN ('pg_catalog', 'pg_toast', 'information_schema')
  AND has_schema_privilege(n.oid, 'USAGE') AND has_any_column_privilege(c.oid, 'SELECT')${
    text === ''
      ? ''
      : `\n  AND (strpos(lower(c.relname::text), lower(${literal(text)})) > 0 OR EXISTS (
    SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
      AND strpos(lower(a.attname::text), lower(${literal(text)})) > 0))`
  }
ORDER BY n.nspname = 'headgate', n.nspname <> 'public', n.nspname, c.relname
LIMIT ${treeMax}`;

export const readColumns = ({
  schema,
  table,
}: TableRef): string => `SELECT a.attname, format_type(a.atttypid, a.atttypmod) AS type,
  EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary AND a.attnum = ANY (i.indkey)) AS key
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = ${literal(schema)} AND c.relname = ${literal(table)} AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
LIMIT 500`;

/** The size of each table of the role, and its estimated growth in a day, if its rows are of similar size; null: not known. */
export const listGrowth = `WITH ${locked}
SELECT s.nspname, s.relname, s.keep, s.bytes, s.rows_of_day,
  CASE WHEN s.rows_of_day::numeric = 0::numeric THEN 0 WHEN s.rows_estimate IS NOT NULL
    THEN (s.bytes * s.rows_of_day / greatest(s.rows_estimate, s.rows_of_day))::bigint END AS bytes_a_day
FROM (
  SELECT n.nspname, c.relname, nullif(w.options ->> 'keep'::text, 'all') AS keep,
    ${tableBytes('c.oid')} AS bytes,
    ${rowsEstimate('c')} AS rows_estimate,
    coalesce(t.rows, 0) AS rows_of_day
  FROM headgate.webhook_table w
  JOIN pg_class c ON c.oid = w.relation::oid
  JOIN pg_namespace n ON n.oid = c.relnamespace
  LEFT JOIN (SELECT schema_name, table_name, sum(rows) AS rows FROM headgate.traffic GROUP BY 1, 2) t
    ON t.schema_name = n.nspname AND t.table_name = c.relname
  WHERE headgate.sees_table(w.relation)
) AS s
ORDER BY s.bytes DESC NULLS LAST, 1, 2
LIMIT ${listMax.growth}`;
