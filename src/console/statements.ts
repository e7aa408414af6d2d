/**
 * The statements behind the page's views: the page shows what they return to the role that has logged in, and each can be
 * copied and run in psql. Takes names and filters, returns SQL. Pure.
 *
 * The page runs them with PostgreSQL's own names only. psql does not, and there a function or operator that somebody has created on the
 * search_path wins if its arguments fit better. So where PostgreSQL's own takes other types than those given, it is named with its schema, or
 * the value is cast.
 */
import { identifier, literal, qualified } from './quote.ts';

export interface TableRef {
  readonly schema: string;
  readonly table: string;
}

/** For lists without pages. */
export const listMax = { endpoints: 500, reasons: 50, growth: 100, secrets: 500 } as const;

/** Tables for whose size PostgreSQL would wait, because somebody has locked them or one of their indexes. */
const locked = `WITH locked AS MATERIALIZED (
  SELECT coalesce(i.indrelid, l.relation) AS oid
  FROM pg_locks l LEFT JOIN pg_index i ON i.indexrelid = l.relation
  WHERE l.locktype = 'relation'::text AND l.mode = 'AccessExclusiveLock'::text
    AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
)`;

/** Including its partitions, without what is locked; null: all of it is. */
const tableBytes = `(
    WITH RECURSIVE part AS (
      SELECT c.oid
      UNION ALL
      SELECT i.inhrelid FROM part JOIN pg_inherits i ON i.inhparent = part.oid
      JOIN pg_class p ON p.oid = i.inhrelid AND p.relispartition
    )
    SELECT sum(pg_total_relation_size(part.oid::regclass)) FROM part
    WHERE NOT EXISTS (SELECT FROM locked l WHERE l.oid = part.oid)
  )`;

/** Tables whose names contain a text, or one of them. */
type Chosen = string | TableRef;

function chosen(of: Chosen, schema: string, table: string): string {
  if (typeof of !== 'string')
    return `\n  AND ${schema} = ${literal(of.schema)} AND ${table} = ${literal(of.table)}`;
  return of === ''
    ? ''
    : `\n  AND strpos(lower(pg_catalog.concat(${schema}, '.'::text, ${table})), lower(${literal(of)})) > 0`;
}

/** How many webhook tables the role has, and how many of them have such names. */
export const countEndpoints = (
  text: string,
): string => `SELECT count(*) AS tables FROM headgate.webhook_table w
JOIN pg_class c ON c.oid = w.relation::oid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE headgate.owns_table(w.relation)${chosen(text, 'n.nspname', 'c.relname')}`;

/** The first of those whose names contain the text. */
export const listEndpoints = (text: string): string => `${locked}
SELECT n.nspname, c.relname, pg_get_userbyid(c.relowner),
  w.expression, s.secrets,
  greatest(c.reltuples::bigint, pg_stat_get_live_tuples(c.oid)) AS rows_estimate,
  ${tableBytes} AS bytes,
  r.refused, r.last_reason, w.created_at
FROM headgate.webhook_table w
JOIN pg_class c ON c.oid = w.relation::oid
JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN LATERAL (
  SELECT string_agg(x.name, ', ' ORDER BY b.position) AS secrets
  FROM headgate.webhook_table_secret b JOIN headgate.secret x ON x.id = b.secret_id
  WHERE b.relation::oid = w.relation::oid
) s ON true
LEFT JOIN LATERAL (
  SELECT count(*) AS refused, (pg_catalog.array_agg(q.reason ORDER BY q.id DESC))[1] AS last_reason
  FROM headgate.rejected_requests q
  WHERE q.relation::oid = w.relation::oid AND q.received_at > now() - interval '1 hour'
) r ON true
WHERE headgate.owns_table(w.relation)${chosen(text, 'n.nspname', 'c.relname')}
ORDER BY n.nspname, c.relname
LIMIT ${listMax.endpoints}`;

export const listReasons = (ref: TableRef | null): string => `SELECT schema_name, table_name, status, code,
  reason, count(*) AS requests, max(received_at) AS last_at, max(id) AS last_id
FROM headgate.rejected_requests${ref === null ? '' : `\nWHERE schema_name = ${literal(ref.schema)} AND table_name = ${literal(ref.table)}`}
GROUP BY schema_name, table_name, status, code, reason
ORDER BY last_at DESC
LIMIT ${listMax.reasons}`;

/** URL, sender, check, last request and counts of a day, for every table of the role. */
export const showEndpoints = 'SHOW ENDPOINTS';

/** Per table: the last hour by outcome, and the day in quarters of an hour: `how long ago,stored,refused,unavailable`. */
export const listTraffic = (of: Chosen): string => `SELECT schema_name, table_name,
  sum(stored) FILTER (WHERE ago < 4) AS stored, sum(unauthorized) FILTER (WHERE ago < 4) AS unauthorized,
  sum(refused) FILTER (WHERE ago < 4) AS refused, sum(unavailable) FILTER (WHERE ago < 4) AS unavailable,
  string_agg(pg_catalog.concat_ws(',', ago, stored, unauthorized + refused, unavailable), ' ') AS day
FROM (
  SELECT schema_name, table_name, floor(extract(epoch FROM now() - minute) / 900.0)::int AS ago, sum(stored) AS stored,
    sum(unauthorized) AS unauthorized, sum(refused) AS refused, sum(unavailable) AS unavailable
  FROM headgate.traffic WHERE true${chosen(of, 'schema_name', 'table_name')}
  GROUP BY 1, 2, 3
) AS binned
GROUP BY 1, 2
ORDER BY 1, 2
LIMIT ${listMax.endpoints}`;

/** One table in bars of `barMinutes`; for durations, the slowest minute of each bar. */
export const readTraffic = (
  { schema, table }: TableRef,
  hours: number,
  barMinutes: number,
): string => `SELECT floor(extract(epoch FROM now() - minute) / ${barMinutes * 60}.0)::int AS ago, sum(stored) AS stored,
  sum(unauthorized) AS unauthorized, sum(refused) AS refused, sum(unavailable) AS unavailable, max(p99_ms) AS p99_ms
FROM headgate.traffic
WHERE schema_name = ${literal(schema)} AND table_name = ${literal(table)} AND minute > now() - interval '${hours} hours'
GROUP BY 1
ORDER BY 1 DESC`;

export const readRefused = (
  id: string,
): string => `SELECT id, received_at, schema_name, table_name, door, status, code, reason,
  authenticated, remote_address, method, target,
  headers::text, cause::text AS cause, sender, event, pg_catalog.array_to_json(headers_left_out)::text AS headers_left_out, headers_masked::text,
  encode(body, 'base64') AS body_base64, body_bytes,
  retry_outcome, retry_reason, retried_at,
  extract(epoch FROM received_at) AS at
FROM headgate.rejected_requests
WHERE id = ${literal(id)}`;

export const retryOne = (id: string, force: boolean): string =>
  `SELECT headgate.retry_rejected(${/^\d+$/.test(id) ? id : literal(id)}${force ? ', force => true' : ''})`;

export const countRetried = (ids: readonly string[]): string =>
  `SELECT coalesce(retry_outcome, 'not retried') AS outcome, count(*)
FROM headgate.rejected_requests
WHERE id = ANY (${literal(`{${ids.join(',')}}`)}::bigint[])
GROUP BY 1
ORDER BY 2 DESC`;

export const forgetOne = (id: string): string =>
  `SELECT headgate.forget_rejected(${/^\d+$/.test(id) ? id : literal(id)})`;

const listed = (ids: readonly string[]): string =>
  literal(`{${ids.filter((id) => /^\d+$/.test(id)).join(',')}}`);

/** Each of them, and what is said of it. */
export const retrySome = (ids: readonly string[], force: boolean): string =>
  `SELECT id, headgate.retry_rejected(id${force ? ', force => true' : ''}) AS said FROM pg_catalog.unnest(${listed(ids)}::bigint[]) AS id`;

export const forgetSome = (ids: readonly string[]): string =>
  `SELECT count(*) FILTER (WHERE headgate.forget_rejected(id)) AS deleted FROM pg_catalog.unnest(${listed(ids)}::bigint[]) AS id`;

export const showCreate = ({ schema, table }: TableRef): string =>
  `SHOW CREATE TABLE ${qualified(schema, table)}`;
/** The engine's version, and the size of this database. */
export const readEngine = `SELECT current_setting('server_version') AS server_version,
  pg_size_pretty(pg_database_size(current_database())) AS database_size`;

/** Those that the role may connect to. */
export const listDatabases = `SELECT d.datname FROM pg_database d
WHERE d.datallowconn AND NOT d.datistemplate AND has_database_privilege(d.oid, 'CONNECT')
ORDER BY d.datname
LIMIT 1000`;

/** For superusers and members of pg_monitor. */
export const readWal = `SELECT pg_size_pretty(sum(size)) AS wal_size FROM pg_ls_waldir()`;

/** The size of each table of the role, and its estimated growth in a day, if its rows are of similar size. */
export const listGrowth = `${locked}
SELECT s.nspname, s.relname, s.keep, s.bytes, pg_size_pretty(s.bytes) AS size, s.rows_of_day,
  (s.bytes * s.rows_of_day / greatest(s.rows_estimate, s.rows_of_day, 1))::bigint AS bytes_a_day
FROM (
  SELECT n.nspname, c.relname, nullif(w.options ->> 'keep'::text, 'all') AS keep,
    ${tableBytes} AS bytes,
    greatest(c.reltuples::bigint, pg_stat_get_live_tuples(c.oid)) AS rows_estimate,
    coalesce(t.rows, 0) AS rows_of_day
  FROM headgate.webhook_table w
  JOIN pg_class c ON c.oid = w.relation::oid
  JOIN pg_namespace n ON n.oid = c.relnamespace
  LEFT JOIN (SELECT schema_name, table_name, sum(rows) AS rows FROM headgate.traffic GROUP BY 1, 2) t
    ON t.schema_name = n.nspname AND t.table_name = c.relname
  WHERE headgate.owns_table(w.relation)
) AS s
ORDER BY s.bytes DESC NULLS LAST, 1, 2
LIMIT ${listMax.growth}`;

/** Whether the owner inspects what accepted requests held. */
export const inspect = ({ schema, table }: TableRef, what: 'bodies' | 'off'): string =>
  `ALTER TABLE ${qualified(schema, table)} SET (inspect = '${what}')`;
export const dropTable = ({ schema, table }: TableRef): string => `DROP TABLE ${qualified(schema, table)}`;

/** The oid of a webhook table that the role owns. */
export const ownedTable = ({ schema, table }: TableRef): string => `SELECT w.relation::oid
FROM headgate.webhook_table w
JOIN pg_catalog.pg_class c ON c.oid = w.relation::oid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = ${literal(schema)} AND c.relname = ${literal(table)}
  AND headgate.owns_table(w.relation) AND has_table_privilege(w.relation, 'SELECT')`;

export interface ExplainParts {
  /** Name and value. */
  readonly headers: readonly (readonly [string, string])[];
  /** In base64. */
  readonly body: string;
  readonly url: string;
  readonly method: string;
  /** Seconds since 1970, or a time; '': now. */
  readonly now: string;
  /** Names of headers that the request had, and whose values are not known. */
  readonly notKept?: readonly string[];
}

export function explainValidate({ schema, table }: TableRef, parts: ExplainParts): string {
  const named = new Map<string, string[]>();
  for (const [name, value] of parts.headers) named.set(name, [...(named.get(name) ?? []), value]);
  const headers = Object.fromEntries(
    [...named].map(([name, all]) => [name, all.length === 1 ? all[0] : all]),
  );
  const options = [
    `headers = ${literal(JSON.stringify(headers))}`,
    ...((parts.notKept ?? []).length === 0
      ? []
      : [`headers_not_kept = ${literal((parts.notKept ?? []).join(', '))}`]),
    `body_base64 = ${literal(parts.body)}`,
    ...(parts.method === '' ? [] : [`method = ${literal(parts.method)}`]),
    ...(parts.url === '' ? [] : [`url = ${literal(parts.url)}`]),
    ...(parts.now === '' ? [] : [`now = ${literal(parts.now)}`]),
  ];
  return `EXPLAIN VALIDATE ${qualified(schema, table)} WITH (\n  ${options.join(',\n  ')}\n)`;
}

/** For completion: tables that the role may read, with their columns. */
export const listColumns = `SELECT n.nspname, c.relname,
  (SELECT pg_catalog.json_agg(a.attname ORDER BY a.attnum) FROM pg_attribute a
   WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) AS names
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname NOT IN ('pg_catalog', 'pg_toast', 'information_schema')
  AND has_schema_privilege(n.oid, 'USAGE') AND has_any_column_privilege(c.oid, 'SELECT')
ORDER BY n.nspname <> 'public', n.nspname, c.relname
LIMIT 500`;

export const listSecrets = `SELECT x.schema_name, x.name, x.owner::text, x.created_at, x.altered_at,
  (SELECT string_agg(DISTINCT b.relation::regclass::text, ', ') FROM (
    SELECT relation, secret_id FROM headgate.webhook_table_secret UNION ALL SELECT relation, secret_id FROM headgate.webhook_into
  ) b WHERE b.secret_id = x.id) AS used_by
FROM headgate.secret x
WHERE coalesce((SELECT pg_has_role(r.oid, 'USAGE') FROM pg_roles r WHERE r.rolname = x.owner),
  (SELECT r.rolsuper FROM pg_roles r WHERE r.rolname = current_user))
ORDER BY x.schema_name, x.name
LIMIT ${listMax.secrets}`;

export const createSecret = (name: string, value: string): string =>
  `CREATE SECRET ${identifier(name)} WITH (backend = 'meta') AS ${literal(value)}`;
export const alterSecret = (schema: string, name: string, value: string): string =>
  `ALTER SECRET ${qualified(schema, name)} AS ${literal(value)}`;
export const dropSecret = (schema: string, name: string): string => `DROP SECRET ${qualified(schema, name)}`;

export interface NewEndpoint {
  readonly table: string;
  /** null: anybody may write. */
  readonly sender: string | null;
  readonly secretName: string;
  readonly secret: string;
  /** null: a repeated delivery is stored again. */
  readonly deliveryHeader: string | null;
  /** Columns for the event's name and the delivery's id, and INCLUDE clauses for them, as SQL. */
  readonly columns: readonly string[];
  readonly includes: readonly string[];
  readonly format: 'json' | 'form' | 'text';
  readonly arrival: boolean;
  /** All headers and the raw body, with which a request can be sent again as it came. */
  readonly whole: boolean;
}

/** Each statement runs on its own. */
export function createEndpoint(it: NewEndpoint): readonly string[] {
  const includes = [
    ...it.includes,
    ...(it.arrival ? ['INCLUDE TIMESTAMP AS received_at'] : []),
    ...(it.whole ? ['INCLUDE HEADERS AS headers', 'INCLUDE BODY AS raw'] : []),
  ];
  const columns = [
    it.format === 'text' ? 'data TEXT' : 'data JSONB',
    ...it.columns,
    ...(it.deliveryHeader === null ? [] : ['PRIMARY KEY (delivery_id)']),
  ];
  const list = columns.length === 1 ? `(${columns.join('')})` : `(\n  ${columns.join(',\n  ')}\n)`;
  const format = it.format === 'json' ? '' : `, format = '${it.format}'`;
  const table = [
    `CREATE TABLE ${identifier(it.table)} ${list}`,
    ...includes.map((include) => `  ${include}`),
    `  WITH (connector = 'webhook'${format})`,
    ...(it.sender === null
      ? []
      : [`  VALIDATE SECRET ${identifier(it.secretName)} USING ${identifier(it.sender)}`]),
  ].join('\n');
  return it.sender === null ? [table] : [createSecret(it.secretName, it.secret), table];
}

/** The statement for display: never shows a secret's value. */
export function withoutSecrets(sql: string): string {
  return sql.replaceAll(
    /(\bSECRET\b[^;']*?(?:backend\s*=\s*'meta'[^;']*?)?\bAS\s+)'(?:[^']|'')*'/gi,
    "$1'********'",
  );
}
