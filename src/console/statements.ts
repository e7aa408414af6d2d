/**
 * The statements behind the page's views: the page shows what they return to the role that has logged in, and each can be
 * copied and run in psql. Takes names and filters, returns SQL. Pure.
 *
 * The page runs them with PostgreSQL's own names only. psql does not, and there a function or operator that somebody has created on the
 * search_path wins if its arguments fit better. So where PostgreSQL's own takes other types than those given, it is named with its schema, or
 * the value is cast.
 */
import { notJson, notJsonKey } from './outcome-summary.ts';
import { identifier, literal, qualified } from './quote.ts';

export interface TableRef {
  readonly schema: string;
  readonly table: string;
}

/** For lists without pages. */
export const listMax = { reasons: 50, growth: 100, secrets: 500 } as const;

/**
 * Why a request was refused, among those of its code, by the columns of its row: what was decisive for the check and the header, the column whose value did not fit, or
 * what is wrong with the body; `other`: nothing more is known. By it reasons are counted, named (`briefReason`) and filtered. `prefix`: `r.`, or none.
 */
export const reasonOf = (prefix: string): string => {
  const column = `pg_catalog.substring(${prefix}reason, '(column "[^"]{1,80}")'::text)`;
  return `coalesce(CASE ${prefix}code
    WHEN 'signature_failed'::text THEN (${prefix}cause ->> 'kind'::text) || coalesce(' '::text || (${prefix}cause ->> 'header'::text), ''::text)
    WHEN 'payload_undecodable'::text THEN CASE WHEN ${prefix}reason ~ ${literal(notJson)}::text THEN '${notJsonKey}'
      ELSE coalesce(pg_catalog.substring(${prefix}reason, 'it is not a JSON object$'::text), ${column}) END
    WHEN 'row_refused'::text THEN ${column} END, 'other'::text)`;
};

export const listReasons = (
  ref: TableRef | null,
): string => `SELECT schema_name, table_name, max(status) AS status, code, ${reasonOf('')} AS cause,
  count(*) AS requests, max(received_at) AS last_at, max(id) AS last_id, (pg_catalog.array_agg(reason ORDER BY id DESC))[1] AS reason
FROM headgate.rejected_requests${ref === null ? '' : `\nWHERE schema_name = ${literal(ref.schema)} AND table_name = ${literal(ref.table)}`}
GROUP BY schema_name, table_name, code, 5
ORDER BY requests DESC, last_at DESC
LIMIT ${listMax.reasons}`;

/** Of how many refused requests of the last 7 days as many are kept; of one table, or of all of the role. */
export const countKeptOf = (ref: TableRef | null): string => {
  const of =
    ref === null ? '' : ` AND schema_name = ${literal(ref.schema)} AND table_name = ${literal(ref.table)}`;
  return `SELECT
  (SELECT count(*) FROM headgate.rejected_requests WHERE received_at >= s.since AND door <> 'spool'::text AND status >= 300${of}) AS kept,
  (SELECT coalesce(sum(unauthorized + refused), 0) FROM headgate.${ref === null ? `traffic_totals WHERE per = 'hour'::text AND at >= s.since` : `traffic_hours WHERE hour >= s.since${of}`}) AS refused
FROM (SELECT date_trunc('hour'::text, now() - interval '7 days') AS since) AS s`;
};

/** A table that is gone is a superuser's. Names are compared as pg_class has them: its index knows no text. */
export const owned = (schema: string, table: string): string => `coalesce((
    SELECT pg_has_role(c.relowner, 'USAGE') FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = ${schema}::name AND c.relname = ${table}::name
  ), true)`;

export const readRefused = (
  id: string,
): string => `SELECT id, received_at, schema_name, table_name, door, status, code, reason, engine_error,
  authenticated, remote_address, method, target,
  headers::text, cause::text AS cause, sender, event, pg_catalog.array_to_json(headers_left_out)::text AS headers_left_out, headers_masked::text,
  encode(body, 'base64') AS body_base64, body_bytes, pg_catalog.octet_length(body) AS kept_bytes,
  retry_outcome, retry_reason, retried_at,
  extract(epoch FROM received_at) AS at, ${owned('schema_name', 'table_name')} AS owned
FROM headgate.rejected_requests
WHERE id = ${literal(id)}`;

/** Whether the role owns a table; others of a webhook table may at most look. */
export const readOwned = ({ schema, table }: TableRef): string =>
  `SELECT ${owned(`${literal(schema)}::text`, `${literal(table)}::text`)} AS owned`;

/** The refused request before this one. */
export const readBefore = (id: string): string =>
  `SELECT max(id) AS id FROM headgate.rejected_requests WHERE id < ${literal(id)}::bigint`;

export const showCreate = ({ schema, table }: TableRef): string =>
  `SHOW CREATE TABLE ${qualified(schema, table)}`;
/** The engine's version, and the size of this database. */
export const readEngine = `SELECT current_setting('server_version') AS server_version,
  pg_database_size(current_database()) AS database_bytes`;

/** The time zone of the role in this database. */
export const readZone = `SELECT setting FROM pg_settings WHERE name = 'TimeZone'::text`;

/** Those that the role may connect to. */
export const listDatabases = `SELECT d.datname FROM pg_database d
WHERE d.datallowconn AND NOT d.datistemplate AND has_database_privilege(d.oid, 'CONNECT')
ORDER BY d.datname
LIMIT 1000`;

/** For superusers and members of pg_monitor. */
export const readWal = `SELECT sum(size) AS wal_bytes FROM pg_ls_waldir()`;

/** Tables for whose size PostgreSQL would wait, because somebody has locked them or one of their indexes. */
export const locked = `locked AS MATERIALIZED (
  SELECT coalesce(i.indrelid, l.relation) AS oid
  FROM pg_locks l LEFT JOIN pg_index i ON i.indexrelid = l.relation
  WHERE l.locktype = 'relation'::text AND l.mode = 'AccessExclusiveLock'::text
    AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
)`;

/** Of the relation with this oid: including its partitions, without what is locked; null: all of it is. */
export const tableBytes = (oid: string): string => `(
    WITH RECURSIVE part AS (
      SELECT ${oid} AS oid
      UNION ALL
      SELECT i.inhrelid FROM part JOIN pg_inherits i ON i.inhparent = part.oid
      JOIN pg_class p ON p.oid = i.inhrelid AND p.relispartition
    )
    SELECT sum(pg_total_relation_size(part.oid::regclass)) FROM part
    WHERE NOT EXISTS (SELECT FROM locked l WHERE l.oid = part.oid)
  )`;

/** Of the row of pg_class; null: none, or not known, as after a rewrite and a crash. */
export const rowsEstimate = (of: string): string =>
  `nullif(greatest(${of}.reltuples::bigint, pg_stat_get_live_tuples(${of}.oid), 0), 0)`;

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

/** Of these tables, by oid, those that the role may look at. */
export const visibleTables = (oids: readonly number[]): string => `SELECT w.relation::oid
FROM headgate.webhook_table w
WHERE w.relation::oid IN (${oids.join(', ')}) AND headgate.sees_table(w.relation)`;

export const listSecrets = `SELECT x.schema_name, x.name, x.owner::text, x.created_at, x.altered_at,
  (SELECT string_agg(DISTINCT b.relation::regclass::text, ', ') FROM (
    SELECT relation, secret_id FROM headgate.webhook_table_secret UNION ALL SELECT relation, secret_id FROM headgate.webhook_into
    UNION ALL SELECT relation, secret_id FROM headgate.webhook_reconcile
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

/** The statement for display: never shows a secret's value. */
export function withoutSecrets(sql: string): string {
  return sql.replaceAll(
    /(\bSECRET\b(?:"(?:[^"]|"")*"|\bbackend\s*=\s*'meta'|[^;'"])*?\bAS\s+)'(?:[^']|'')*'/gi,
    "$1'********'",
  );
}

/** Whether a secret or a password may be in it, in quotes of any kind: after one of these words nothing is trusted to end its statement. */
export const mayHoldSecret = (sql: string): boolean => /\b(?:PASSWORD|SECRET)\b[^]*['$]/i.test(sql);
