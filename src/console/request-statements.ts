/**
 * What the database knows of requests: refused ones (headgate.rejected_requests) and handshakes (headgate.handshakes), as the role that has
 * logged in sees them, in the order of the list that a filter matches (request-filter.ts). A text is looked for in a bounded number of requests at a time. Takes
 * filters, returns SQL. Pure; like statements.ts, each statement means the same in psql.
 */
import { holdsText, ofTableAndTime, rankOf, refusedConditions, where, whereKept } from './request-filter.ts';
import type { KeptFilter } from './request-filter.ts';
import { literal, qualified, time } from './quote.ts';
import { owned, reasonOf } from './statements.ts';
import type { TableRef } from './statements.ts';

type ListPlace = readonly [number, string];

/** Those beyond the place, for rows of this rank (`rankOf`). */
function beyond(column: string, from: ListPlace | null, rank: number): string[] {
  if (from === null) return [];
  const [ms, id] = from;
  const own = rankOf(id);
  if (own === rank) return [`(${column}, id) < (${time(ms)}, ${/\d+$/.exec(id)?.[0] ?? 0}::bigint)`];
  // Of the same millisecond, all or none.
  return [`${column} <${rank > own ? '=' : ''} ${time(ms)}`];
}

const refusedColumns = `id, received_at, schema_name, table_name, door, status, code, reason, cause, sender, event, authenticated,
    remote_address, body_bytes, pg_catalog.octet_length(body) AS kept_bytes, retry_outcome,
    ${owned('schema_name', 'table_name')} AS owned`;

export interface Slice {
  readonly from: ListPlace | null;
  readonly max: number;
  /** Requests that are looked through for a text. */
  readonly scanned: number;
}

/** Newest first. With a text, the last row is the last one that was looked at, whether it matches (`hit`). */
export function listKept(filter: KeptFilter, slice: Slice): string | null {
  const conditions = refusedConditions(filter);
  if (conditions === null) return null;
  const { from, max, scanned } = slice;
  const order = 'ORDER BY received_at DESC, id DESC';
  const all = where([...conditions, ...beyond('received_at', from, 1)]);
  const columns = `'r' AS kind, ${refusedColumns}`;
  if (filter.text === '')
    return `SELECT ${columns}, true AS hit\nFROM headgate.rejected_requests${all}\n${order}\nLIMIT ${max}`;
  return `SELECT *
FROM (
  SELECT ${columns}, ${holdsText(filter.text)} AS hit,
    pg_catalog.row_number() OVER (${order}) AS place, pg_catalog.count(*) OVER () AS looked
  FROM (
    SELECT * FROM headgate.rejected_requests${all}
    ${order}
    LIMIT ${scanned}
  ) AS slice
) AS looked
WHERE hit OR place = looked
${order}
LIMIT ${max + 1}`;
}

/** null: none of them is a handshake. */
export function listHandshakes(filter: KeptFilter, { from, max }: Slice): string | null {
  const { result, code, sender, event, text, stored, checked, cause } = filter;
  const only = sender + event + stored + checked + cause;
  if ((result !== '' && result !== 'handshake') || only !== '' || (code !== '' && code !== 'handshake'))
    return null;
  const [exact, lower] = [literal(text), `lower(${literal(text)})`];
  const says = `(remote_address = ${exact} OR pg_catalog.concat('h', id) = ${exact}
    OR strpos(lower(pg_catalog.concat(schema_name, '.'::text, table_name)), ${lower}) > 0)`;
  const conditions = [
    ...ofTableAndTime(filter, 'asked_at'),
    ...beyond('asked_at', from, 2),
    ...(text === '' ? [] : [says]),
  ];
  return `SELECT id, asked_at, schema_name, table_name, method, remote_address, rule, status, outcome
FROM headgate.handshakes${where(conditions)}
ORDER BY asked_at DESC, id DESC
LIMIT ${max}`;
}

/** How many are kept, from when on, and which of them this process remembers as well: those since then, by time, table and address. */
export const countKept = (filter: KeptFilter, sinceMs: number): string | null => {
  const conditions = refusedConditions({ ...filter, text: '' });
  if (conditions === null) return null;
  return `SELECT count(*) AS requests, min(received_at) AS since,
  pg_catalog.json_agg(pg_catalog.concat_ws(' ', floor(extract(epoch FROM received_at) * 1000)::bigint, remote_address, schema_name, table_name, 'refused'))
    FILTER (WHERE received_at >= ${time(sinceMs)}) AS twins
FROM (
  SELECT received_at, remote_address, schema_name, table_name FROM headgate.rejected_requests${where(conditions)}
) AS kept`;
};

export const countHandshakes = (filter: KeptFilter, sinceMs: number): string | null => {
  const { sender, event, stored, checked, cause, code } = filter;
  if (sender + event + stored + checked + cause !== '' || (code !== '' && code !== 'handshake')) return null;
  return `SELECT count(*) AS requests, min(asked_at) AS since,
  pg_catalog.json_agg(pg_catalog.concat_ws(' ', floor(extract(epoch FROM asked_at) * 1000)::bigint, remote_address, schema_name, table_name,
    CASE outcome WHEN 'answered' THEN 'handshake' ELSE 'refused' END))
    FILTER (WHERE asked_at >= ${time(sinceMs)}) AS twins
FROM headgate.handshakes${where(ofTableAndTime(filter, 'asked_at'))}`;
};

/** The request that a line of a process's memory is about, if it was kept. */
export const findKept = (line: {
  readonly arrivedAtMs: number;
  readonly schema: string;
  readonly table: string;
  readonly address: string;
}): string => `SELECT id FROM headgate.rejected_requests
WHERE received_at = ${time(line.arrivedAtMs)} AND schema_name = ${literal(line.schema)} AND table_name = ${literal(line.table)}
  AND remote_address = ${literal(line.address)}
ORDER BY id DESC LIMIT 1`;

export const readHandshake = (
  id: string,
): string => `SELECT id, asked_at, schema_name, table_name, method, remote_address, rule, status, outcome
FROM headgate.handshakes WHERE id = ${literal(id)}`;

/** How many had the same reason at this table, since when, from how many addresses, and in how many of the hours since. */
export const sameReason = (
  id: string,
): string => `SELECT count(*) AS requests, min(r.received_at) AS first_at, max(r.received_at) AS last_at,
  count(DISTINCT r.remote_address) AS addresses, max(${reasonOf('me.')}) AS cause
FROM headgate.rejected_requests r JOIN headgate.rejected_requests me ON me.id = ${literal(id)}::bigint
WHERE r.schema_name = me.schema_name AND r.table_name = me.table_name AND r.code = me.code
  AND ${reasonOf('r.')} = ${reasonOf('me.')}`;

/** Refused requests by bars of `barS` seconds, which begin at multiples of it; a text is not looked for. */
export const countByTime = (
  filter: KeptFilter,
  barS: number,
): string => `SELECT (floor(extract(epoch FROM received_at) / ${barS}.0) * ${barS})::bigint AS at, count(*) AS refused
FROM headgate.rejected_requests${whereKept({ ...filter, text: '' })}
GROUP BY 1
ORDER BY 1`;

/** Webhook tables that the role may look at, whose names contain the text; one more than a menu shows. */
export const findTables = (text: string): string => `SELECT n.nspname, c.relname FROM headgate.webhook_table w
JOIN pg_class c ON c.oid = w.relation::oid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE (pg_has_role(c.relowner, 'USAGE') OR (w.options ? 'readers' AND headgate.sees_table(c.oid)))${
  text === ''
    ? ''
    : ` AND strpos(lower(pg_catalog.concat(n.nspname, '.'::text, c.relname)), lower(${literal(text)})) > 0`
}
ORDER BY c.relname, n.nspname
LIMIT 13`;

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
