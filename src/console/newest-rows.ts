/**
 * How the newest rows of a table are found: by its arrival column or by a key that grows. The statements that read them are in row-pages.ts. An
 * index makes it cheap for any number of rows; without one a table of `scanBytesMax` at most is read as a whole, and a larger one only if
 * somebody asks for it. The position of a row says nothing: VACUUM gives the place of old rows to new ones. Pure.
 */
import { identifier, literal, qualified } from './quote.ts';
import type { TableRef } from './statements.ts';

/** Tables that are read as a whole whenever their rows are looked at. */
const scanBytesMax = 64 * 1024 * 1024;

export interface RowOrder {
  /** The column whose greatest values are the newest rows; null: there is none, and the transactions that wrote them are compared. */
  readonly column: string | null;
  /** An index has its order. */
  readonly indexed: boolean;
  readonly bytes: number;
  /** The names of all columns. */
  readonly names: readonly string[];
}

/** No row for a view, whose code an address would run. Arrival, identity, serial, `DEFAULT now()`, `DEFAULT uuidv7()`. An index that begins with the column decides first, then the arrival. */
export const readOrder = ({ schema, table }: TableRef): string => `WITH RECURSIVE part AS (
  SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname = ${literal(schema)} AND c.relname = ${literal(table)}
  UNION ALL
  SELECT i.inhrelid FROM part JOIN pg_inherits i ON i.inhparent = part.oid
)
SELECT o.attname AS "column", o.indexed, (SELECT sum(pg_relation_size(p.oid::regclass)) FROM part p) AS bytes,
  (SELECT pg_catalog.json_agg(a.attname ORDER BY a.attnum) FROM pg_attribute a
   WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) AS names
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN LATERAL (
  SELECT headgate.placed(w.relation, i.value) AS name
  FROM headgate.webhook_table w, jsonb_array_elements(w.includes) i
  WHERE w.relation::oid = c.oid AND i.value ->> 'what'::text = 'timestamp'::text
  LIMIT 1
) t ON true
LEFT JOIN LATERAL (
  SELECT a.attname, a.attname IS NOT DISTINCT FROM t.name AS arrival, EXISTS (
    SELECT FROM pg_index i JOIN pg_class k ON k.oid = i.indexrelid JOIN pg_am m ON m.oid = k.relam
    WHERE i.indrelid = c.oid AND i.indkey[0] = a.attnum AND i.indisvalid AND i.indpred IS NULL AND m.amname = 'btree'
      AND i.indoption[0] IN (0::smallint, 3::smallint)
  ) AS indexed
  FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
  WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND CASE
    WHEN a.atttypid IN (20::oid, 21::oid, 23::oid) THEN a.attidentity <> ''::"char" OR starts_with(pg_get_expr(d.adbin, d.adrelid), 'nextval('::text)
    WHEN a.atttypid IN (1184::oid, 1114::oid) THEN a.attname = t.name
      OR pg_get_expr(d.adbin, d.adrelid) IN ('now()'::text, 'CURRENT_TIMESTAMP'::text, 'clock_timestamp()'::text)
    WHEN a.atttypid = 2950::oid THEN starts_with(pg_get_expr(d.adbin, d.adrelid), 'uuidv7('::text)
  END
  ORDER BY indexed DESC, arrival DESC, a.attnum
  LIMIT 1
) o ON true
WHERE n.nspname = ${literal(schema)} AND c.relname = ${literal(table)} AND c.relkind IN ('r', 'p')`;

/** Of a row of `readOrder`. */
export function orderOf(row: Readonly<Record<string, string | null>>): RowOrder {
  return {
    column: row['column'] ?? null,
    indexed: row['indexed'] === 't',
    bytes: Number(row['bytes'] ?? 0),
    names: JSON.parse(row['names'] ?? '[]') as string[],
  };
}

/** Whether the newest rows are found without reading a large table. */
export const isCheap = ({ indexed, bytes }: RowOrder): boolean => indexed || bytes <= scanBytesMax;

/** null: it has no such column. */
export const indexFor = ({ schema, table }: TableRef, { column }: RowOrder): string | null =>
  column === null ? null : `CREATE INDEX ON ${qualified(schema, table)} (${identifier(column)})`;
