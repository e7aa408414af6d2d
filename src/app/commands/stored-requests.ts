/**
 * Requests as a table keeps them. Takes a webhook table's name, returns what each of its rows tells about the request it was made from:
 * the original body if INCLUDE BODY keeps it, else the document, else the row's own columns as JSON; and method, query
 * and headers if columns keep them. Finds only tables that the role owns.
 */
import { quoteIdentifier, quoteLiteral } from '../../kit/sql-text.ts';
import { jsonObject } from '../../kit/json-object.ts';
import { PlainError } from '../../kit/plain-error.ts';
import type { Session, Texts } from './session.ts';

export interface StoredTable {
  readonly oid: string;
  readonly database: string;
  readonly schema: string;
  readonly table: string;
  readonly contentType: string;
  /** The columns of a request, as a list of SELECT over the table `t`. Means the same under any search_path. */
  readonly request: string;
  /** `"schema"."table"` */
  readonly from: string;
  /** The column that INCLUDE TIMESTAMP fills; null: none. */
  readonly arrival: string | null;
}

export interface StoredRequest {
  readonly method: string;
  readonly query: string | null;
  /** Keyed by names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

interface Included {
  readonly what: string;
  readonly header: string | null;
  readonly column: string | null;
}

const ofTables = `SELECT c.oid::text AS oid, current_database()::text AS database, n.nspname::text AS schema, c.relname::text AS "table",
  headgate.placed(w.relation, w.document)::text AS document, coalesce(w.options ->> 'format', 'json') AS format,
  (SELECT json_agg(json_build_object('what', i.value -> 'what', 'header', i.value -> 'header', 'column', headgate.placed(w.relation, i.value)))
    FROM jsonb_array_elements(w.includes) i)::text AS includes
FROM headgate.webhook_table w
JOIN pg_catalog.pg_class c ON c.oid = w.relation
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE headgate.owns_table(w.relation)`;

/** `names`: as in SQL; empty: all tables that the role owns. */
export async function storedTables(session: Session, names: readonly string[]): Promise<StoredTable[]> {
  if (names.length === 0) return (await session.rows(`${ofTables} ORDER BY 3, 4`)).map(tableOf);
  const found: StoredTable[] = [];
  for (const name of names) {
    const [row] = await session.rows(`${ofTables} AND w.relation = $1::oid`, [await session.relation(name)]);
    if (row === undefined) throw new PlainError(`you own no webhook table ${name}`);
    found.push(tableOf(row));
  }
  return found;
}

function tableOf(row: Texts): StoredTable {
  const { oid, database, schema, table, document, format } = row as Readonly<Record<string, string>>;
  const includes = (JSON.parse(row['includes'] ?? '[]') as Included[]).filter(
    ({ column }) => column !== null,
  );
  const columnOf = (what: string) => {
    const column = includes.find((it) => it.what === what)?.column;
    return column === undefined || column === null ? null : `t.${quoteIdentifier(column)}`;
  };
  const raw = columnOf('body');
  const [doc, isBytes] = [
    document === null ? null : `t.${quoteIdentifier(document ?? '')}`,
    format === 'bytes',
  ];
  const others = includes.map(({ column }) => quoteLiteral(column ?? '')).join(', ');
  const body =
    raw ??
    (doc === null
      ? `pg_catalog.convert_to((pg_catalog.to_jsonb(t) - ARRAY[${others}]::pg_catalog.text[])::pg_catalog.text, 'UTF8')`
      : isBytes
        ? doc
        : `pg_catalog.convert_to(${doc}::pg_catalog.text, 'UTF8')`);
  const named = includes
    .filter(({ what }) => what === 'header')
    .map(
      ({ header, column }) =>
        `${quoteLiteral((header ?? '').toLowerCase())}, t.${quoteIdentifier(column ?? '')}::pg_catalog.text`,
    );
  const columns = [
    `pg_catalog.encode(${body}, 'base64') AS body`,
    `${columnOf('method') ?? `'POST'`}::pg_catalog.text AS method`,
    `${columnOf('query') ?? 'NULL'}::pg_catalog.text AS query`,
    `${columnOf('headers') ?? `'{}'`}::pg_catalog.text AS headers`,
    `pg_catalog.json_build_object(${named.join(', ')})::pg_catalog.text AS named`,
  ];
  const types: Readonly<Record<string, string>> = {
    form: raw === null ? 'application/json' : 'application/x-www-form-urlencoded',
    text: 'text/plain',
    bytes: 'application/octet-stream',
  };
  return {
    oid: oid ?? '',
    database: database ?? '',
    schema: schema ?? '',
    table: table ?? '',
    contentType: types[format ?? ''] ?? 'application/json',
    request: columns.join(', '),
    from: `${quoteIdentifier(schema ?? '')}.${quoteIdentifier(table ?? '')}`,
    arrival: columnOf('timestamp'),
  };
}

/** Headers that belong to one connection, or are set for each request. */
const ofConnection =
  /^(?:host|connection|keep-alive|proxy-.*|transfer-encoding|te|trailer|upgrade|expect|content-length|content-encoding|accept-encoding|x-forwarded-.*|forwarded)$/;

export function requestOf(row: Texts): StoredRequest {
  const headers = { ...headersOf(row['headers']), ...headersOf(row['named']) };
  return {
    method: /^[A-Z]{1,16}$/.test(row['method'] ?? '') ? (row['method'] ?? 'POST') : 'POST',
    query: row['query'] ?? null,
    headers,
    body: Buffer.from(row['body'] ?? '', 'base64'),
  };
}

/** Leaves out headers that Node refuses to write. */
function headersOf(text: string | null | undefined): Record<string, string> {
  const all = jsonObject(text ?? '{}') ?? {};
  return Object.fromEntries(
    Object.entries(all).flatMap(([name, value]) => {
      const good = /^[!#$%&'*+.^_`|~\w-]+$/.test(name) && !ofConnection.test(name.toLowerCase());
      // oxlint-disable-next-line no-control-regex
      return good && typeof value === 'string' && !/[\0-\x08\n-\x1f\x7f]/.test(value)
        ? [[name.toLowerCase(), value]]
        : [];
    }),
  );
}
