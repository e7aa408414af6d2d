/**
 * Rows of a table in the order of one of its columns, a page at a time. A page begins after the last row of the one before: after its value, and
 * among equal values after its place in the table, so no page costs more than the first. A text is looked for in a bounded number of rows
 * at a time. Takes names and values, returns SQL. Pure.
 *
 * The newest rows are found by the arrival column or by a key that grows. An index makes it cheap for any number of rows; without one a table of
 * `scanBytesMax` at most is read as a whole, and a larger one only if somebody asks for it. The position of a row says nothing: VACUUM gives the place of
 * old rows to new ones.
 */
import { identifier, literal, qualified, textOf } from './quote.ts';
import type { TableRef } from './statements.ts';

/** Rows of one page, and rows that are looked through for a text in one go. */
export const rowsMax = 50;
export const scannedMax = 2_000;
/** Of a value in a list whose values are too large together, in characters, and what all of them may take, in bytes. */
const startChars = 500;
const cellsBytesMax = 4 * 1024 * 1024;

export interface RowPage {
  /** null: no order but that of the transactions that wrote the rows; there is one page. */
  readonly column: string | null;
  readonly direction: 'desc' | 'asc';
  /** Where it begins; null: at the first row. */
  readonly from: RowPlace | null;
  /** Of a column of the row; '': any. */
  readonly text: string;
  readonly names: readonly string[];
  readonly max: number;
}

/** After the row with this value (null: none) at this place; without a place, at the first row that is not before the value. */
export interface RowPlace {
  readonly value: string | null;
  /** `tableoid ctid`; '': none. */
  readonly at: string;
}

/** Columns by which a table of any size can be read in order: those with which an index begins. */
export const readOrders = ({
  schema,
  table,
}: TableRef): string => `SELECT DISTINCT a.attnum, a.attname AS name, pg_catalog.format_type(a.atttypid, a.atttypmod) AS type
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_index i ON i.indrelid = c.oid
JOIN pg_class k ON k.oid = i.indexrelid JOIN pg_am m ON m.oid = k.relam
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[0]
WHERE n.nspname = ${literal(schema)} AND c.relname = ${literal(table)} AND i.indisvalid AND i.indpred IS NULL AND m.amname = 'btree'
ORDER BY a.attnum`;

/** The first columns of each row: its identity (another row, or the same after a change, never has it), its value, its place. */
export const ownColumns = 3;

/** One row more than the page has, if there are more. */
export function rowPage(of: TableRef, page: RowPage): string {
  const { column, text, names, max } = page;
  if (column === null) {
    const found = text === '' ? '' : `\nWHERE ${says(names, text, 't')}`;
    return `${selected(of, 'NULL::text')}${found}\nORDER BY age(t.xmin), t.ctid DESC\nLIMIT ${max}`;
  }
  if (text === '') return ordered(of, { ...page, column }, max + 1);
  const looked = `s (${['id', 'value', 'at', ...names.map((_, i) => `c${i}`)].join(', ')})`;
  return `SELECT ${['f.id', 'f.value', 'f.at', ...names.map((name, i) => `f.c${i} AS ${identifier(name)}`)].join(', ')}, f.hit AS "?hit", f.looked AS "?looked"
FROM (
  SELECT s.*, ${says(
    names.map((_, i) => `c${i}`),
    text,
    's',
  )} AS hit, pg_catalog.row_number() OVER () AS place, pg_catalog.count(*) OVER () AS looked
  FROM (
${ordered(of, { ...page, column }, scannedMax)}
  ) AS ${looked}
) AS f
WHERE f.hit OR f.place = f.looked
ORDER BY f.place
LIMIT ${max + 1}`;
}

const selected = ({ schema, table }: TableRef, value: string): string =>
  `SELECT pg_catalog.concat_ws(' ', t.tableoid, t.ctid, t.xmin) AS "?id", ${value} AS "?value", pg_catalog.concat_ws(' ', t.tableoid, t.ctid) AS "?at", t.*
FROM ${qualified(schema, table)} t`;

function ordered(
  of: TableRef,
  { column, direction, from }: RowPage & { readonly column: string },
  max: number,
): string {
  const value = `t.${identifier(column)}`;
  const select = selected(of, textOf(value));
  const [word, sign] = direction === 'desc' ? ['DESC', '<'] : ['ASC', '>'];
  const [oid = '0', tid = '(0,0)'] = (from?.at ?? '').split(' ');
  const place = `(t.tableoid, t.ctid) ${sign} (${literal(oid)}::oid, ${literal(tid)}::tid)`;
  const order = `ORDER BY ${value} ${word}, t.tableoid ${word}, t.ctid ${word}`;
  // Rows without a value come last, in either direction.
  const none = (where: string, most: number): string =>
    `${select}\nWHERE ${value} IS NULL${where}\nORDER BY t.tableoid ${word}, t.ctid ${word}\nLIMIT ${most}`;
  if (from?.value === null) return none(` AND ${place}`, max);
  const start = from === null ? '' : literal(from.value);
  const begins =
    from === null
      ? `${value} IS NOT NULL`
      : from.at === ''
        ? `${value} ${sign}= ${start}`
        : `${value} ${sign}= ${start} AND (${value} ${sign} ${start} OR ${place})`;
  return `(${select}\nWHERE ${begins}\n${order}\nLIMIT ${max})\nUNION ALL\n(${none('', max)})\nLIMIT ${max}`;
}

/** As the rows are printed; in upper or lower case. */
function says(names: readonly string[], text: string, of: string): string {
  const wanted = `lower(${literal(text)})`;
  const each = names.map(
    (name) => `strpos(lower(pg_catalog.concat(${of}.${identifier(name)})), ${wanted}) > 0`,
  );
  return `coalesce(${each.length === 0 ? 'false' : each.join(' OR ')}, false)`;
}

/** The same rows as texts. Of a value that is too large for the list its beginning, and how large it is. */
export function startsOf(of: TableRef, page: RowPage): string {
  const { names, max } = page;
  const more = page.text === '' || page.column === null ? [] : ['"?hit"', '"?looked"'];
  const cellMax = Math.max(startChars, Math.floor(cellsBytesMax / (rowsMax * Math.max(1, names.length))));
  const cells = names.map((name, i) => {
    const text = textOf(`r.c${i}`);
    const start = `pg_catalog.concat(octet_length(${text}), ' bytes, beginning with ', left(${text}, ${startChars}))`;
    return `CASE WHEN octet_length(${text}) > ${cellMax} THEN ${start} ELSE ${text} END AS ${identifier(name)}`;
  });
  return `SELECT ${['r."?id"', 'r."?value"', 'r."?at"', ...cells, ...more.map((it) => `r.${it}`)].join(',\n  ')}
FROM (
${rowPage(of, page)}
) AS r (${['"?id"', '"?value"', '"?at"', ...names.map((_, i) => `c${i}`), ...more].join(', ')})
LIMIT ${max + 1}`;
}

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
