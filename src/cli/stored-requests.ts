/**
 * Requests as a table keeps them. Takes a webhook table's name, returns each row's request: its body byte for byte if INCLUDE BODY keeps
 * it, otherwise the document, otherwise the row's own columns as JSON; its method, query and headers if columns keep them. Nothing else is
 * in a request, and the table says which parts it does not keep. Finds only tables that the role owns, or may look at (readers).
 */
import { quoteIdentifier, quoteLiteral, bareIdentifier } from '../kit/sql-text.ts';
import { nearestNames } from '../kit/similar-names.ts';
import { jsonObject } from '../kit/json-values.ts';
import { PlainError } from '../kit/plain-error.ts';
import { plain } from '../kit/terminal.ts';
import { trustedSql } from '../relations/owner-code.ts';
import { sendersOf } from '../senders/senders.ts';
import type { CommandSession, Texts } from './session.ts';

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
  /** Its owner could act as the session's role: planning a query of a table runs code of its owner, with the rights of the session. */
  readonly isTrusted: boolean;
  /** The column that INCLUDE TIMESTAMP fills; null: none. */
  readonly arrival: string | null;
  readonly keeps: KeptParts;
}

/** The parts of a request that a table keeps. */
export interface KeptParts {
  /** Byte for byte. */
  readonly body: boolean;
  /** All headers but those that INCLUDE HEADERS leaves out. */
  readonly headers: boolean;
  /** Single headers, in lower case. */
  readonly named: ReadonlySet<string>;
  /** Headers that VALIDATE reads, in lower case. INCLUDE HEADERS leaves them out. */
  readonly read: ReadonlySet<string>;
  /** Whether VALIDATE compares a digest: none of those headers is a password then. */
  readonly isSigned: boolean;
  /** The id of the sender whose check it is; null: it is somebody's own. */
  readonly sender: string | null;
  /** The ids of all senders whose check it is: several sign alike. */
  readonly senders: ReadonlySet<string>;
  readonly query: boolean;
  readonly method: boolean;
  /** Whether some of its requests may be no POST, and no body but a query string. */
  readonly storesOthers: boolean;
  readonly storesGet: boolean;
  readonly isBatched: boolean;
  /** The names of all columns. */
  readonly columns: ReadonlySet<string>;
}

export interface StoredRequest {
  readonly method: string;
  readonly query: string | null;
  /** Keyed by names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  /** false: the row was stored before INCLUDE BODY, so the body is made from its document. */
  readonly hasBody: boolean;
  /** false: the row was stored before INCLUDE HEADERS. */
  readonly hasHeaders: boolean;
}

interface Included {
  readonly what: string;
  readonly header: string | null;
  readonly column: string | null;
}

const ofTables = `SELECT c.oid::text AS oid, current_database()::text AS database, n.nspname::text AS schema, c.relname::text AS "table", ${trustedSql('c.relowner')}::text AS trusted,
  headgate.placed(w.relation, w.document)::text AS document, coalesce(w.options ->> 'format', 'json') AS format,
  coalesce(w.expression, '') AS expression,
  (SELECT json_agg(s.alias ORDER BY s.position) FROM headgate.webhook_table_secret s WHERE s.relation = w.relation)::text AS secrets, coalesce(w.options ->> 'is_batched', 'false') AS batched, coalesce(w.options ->> 'methods', 'POST') AS methods,
  (SELECT json_agg(a.attname) FROM pg_catalog.pg_attribute a WHERE a.attrelid = w.relation AND a.attnum > 0 AND NOT a.attisdropped)::text AS columns,
  (SELECT json_agg(json_build_object('what', i.value -> 'what', 'header', i.value -> 'header', 'column', headgate.placed(w.relation, i.value)))
    FROM jsonb_array_elements(w.includes) i)::text AS includes
FROM headgate.webhook_table w
JOIN pg_catalog.pg_class c ON c.oid = w.relation
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE headgate.sees_table(w.relation)`;

/** `names`: as in SQL; empty: all tables that the role owns or may look at. */
export async function storedTables(
  session: CommandSession,
  names: readonly string[],
): Promise<StoredTable[]> {
  if (names.length === 0) return (await session.rows(`${ofTables} ORDER BY 3, 4`)).map(tableOf);
  const found: StoredTable[] = [];
  for (const name of names) {
    const table = await storedTable(session, await session.relation(name));
    if (table === null)
      throw new PlainError(`you own no webhook table ${plain(name)}${await perhaps(session, name)}`);
    found.push(table);
  }
  return found;
}

/** null: the role has no webhook table of this oid. */
export async function storedTable(session: CommandSession, oid: string | null): Promise<StoredTable | null> {
  const [row] = await session.rows(`${ofTables} AND w.relation = $1::oid`, [oid]);
  return row === undefined ? null : tableOf(row);
}

/** The role's own webhook tables with a name like this one, for the end of a sentence; empty: none. */
export async function perhaps(session: CommandSession, name: string): Promise<string> {
  const rows = await session.rows(
    `SELECT w.relation::oid::text AS oid, n.nspname::text AS schema, c.relname::text AS "table" FROM headgate.webhook_table w
JOIN pg_catalog.pg_class c ON c.oid = w.relation JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE headgate.sees_table(w.relation) ORDER BY 2, 3`,
  );
  const near = nearestNames(name.split('.').at(-1) ?? '', new Set(rows.map(({ table }) => table ?? '')));
  const found: string[] = [];
  for (const { oid, schema, table } of near
    .flatMap((it) => rows.filter((row) => row['table'] === it))
    .slice(0, 5)) {
    const bare = bareIdentifier(table ?? '');
    found.push((await session.relation(bare)) === oid ? bare : `${bareIdentifier(schema ?? '')}.${bare}`);
  }
  return found.length === 0 ? '' : `: Perhaps ${found.map(plain).join(', ')}?`;
}

function tableOf(row: Texts): StoredTable {
  const { oid, database, schema, table, document, format, batched, methods, expression } = row as Readonly<
    Record<string, string>
  >;
  const includes = (JSON.parse(row['includes'] ?? '[]') as Included[]).filter(
    ({ column }) => column !== null,
  );
  const columnOf = (what: string) => {
    const column = includes.find((it) => it.what === what)?.column;
    return column === undefined || column === null ? null : `t.${quoteIdentifier(column)}`;
  };
  const senders = sendersOf(expression ?? '', JSON.parse(row['secrets'] ?? '[]') as string[]).map(
    ({ id }) => id,
  );
  const raw = columnOf('body');
  const doc = document === null ? null : `t.${quoteIdentifier(document ?? '')}`;
  const others = includes.map(({ column }) => quoteLiteral(column ?? '')).join(', ');
  const made =
    doc === null
      ? `pg_catalog.convert_to((pg_catalog.to_jsonb(t) - ARRAY[${others}]::pg_catalog.text[])::pg_catalog.text, 'UTF8')`
      : format === 'bytes'
        ? doc
        : `pg_catalog.convert_to(${doc}::pg_catalog.text, 'UTF8')`;
  const single = includes.filter(({ what }) => what === 'header');
  const named = single.map(
    ({ header, column }) =>
      `${quoteLiteral((header ?? '').toLowerCase())}, t.${quoteIdentifier(column ?? '')}::pg_catalog.text`,
  );
  // Headgate's own, in the place of the sender's: who gets the request goes on from there.
  const traceparent = columnOf('traceparent');
  if (traceparent !== null) named.push(`'traceparent', ${traceparent}::pg_catalog.text`);
  const headers = columnOf('headers');
  const columns = [
    `pg_catalog.encode(${raw === null ? made : `coalesce(${raw}, ${made})`}, 'base64') AS body`,
    `${raw === null ? String(format === 'bytes') : `${raw} IS NOT NULL`} AS has_body`,
    `${columnOf('method') ?? `'POST'`}::pg_catalog.text AS method`,
    `${columnOf('query') ?? 'NULL'}::pg_catalog.text AS query`,
    `${headers ?? 'NULL'}::pg_catalog.text AS headers`,
    `pg_catalog.json_build_object(${named.join(', ')})::pg_catalog.text AS named`,
  ];
  return {
    oid: oid ?? '',
    database: database ?? '',
    schema: schema ?? '',
    table: table ?? '',
    contentType: contentTypes[format ?? ''] ?? 'application/json',
    request: columns.join(', '),
    from: `${quoteIdentifier(schema ?? '')}.${quoteIdentifier(table ?? '')}`,
    isTrusted: row['trusted'] === 'true',
    arrival: columnOf('timestamp'),
    keeps: {
      body: raw !== null || format === 'bytes',
      headers: headers !== null,
      named: new Set(single.map(({ header }) => (header ?? '').toLowerCase())),
      read: headersRead(expression ?? ''),
      isSigned: /\bhmac\s*\(/.test(expression ?? ''),
      sender: senders[0] ?? null,
      senders: new Set(senders),
      query: columnOf('query') !== null,
      method: columnOf('method') !== null,
      storesOthers: methods !== 'POST',
      storesGet: methods?.split(', ').includes('GET') === true,
      isBatched: batched === 'true',
      columns: new Set(JSON.parse(row['columns'] ?? '[]') as string[]),
    },
  };
}

/** Of a body that is made from the table: a form's document is JSON by then. */
const contentTypes: Readonly<Record<string, string>> = {
  text: 'text/plain',
  bytes: 'application/octet-stream',
};

/** `headers ->> 'name'` in an expression. */
function headersRead(expression: string): ReadonlySet<string> {
  return new Set(
    [...expression.matchAll(/\bheaders\s*->>?\s*'([^']+)'/gi)].map(([, name]) => (name ?? '').toLowerCase()),
  );
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
    // As text by a command's own connection, as JSON from a table that is followed.
    hasBody: /^t(?:rue)?$/.test(String(row['has_body'])),
    hasHeaders: typeof row['headers'] === 'string',
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
