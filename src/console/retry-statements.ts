/**
 * What owners do with refused requests that are kept, one, some, or all that a filter matches: retry them (headgate.retry_rejected(), catalog/functions/rejected.sql),
 * and forget them. Takes ids and filters, returns SQL. Pure; like statements.ts, each statement means the same in psql.
 */
import { literal } from './quote.ts';
import { isStored, whereKept } from './request-filter.ts';
import type { KeptFilter } from './request-filter.ts';
import type { TableRef } from './statements.ts';

export const retryOne = (id: string, force: boolean): string =>
  `SELECT headgate.retry_rejected(${/^\d+$/.test(id) ? id : literal(id)}${force ? ', force => true' : ''})`;

export const forgetOne = (id: string): string =>
  `SELECT headgate.forget_rejected(${/^\d+$/.test(id) ? id : literal(id)})`;

const listed = (ids: readonly string[]): string =>
  literal(`{${ids.filter((id) => /^\d+$/.test(id)).join(',')}}`);

/** Each of them, and what is said of it. */
export const retrySome = (ids: readonly string[], force: boolean): string =>
  `SELECT id, headgate.retry_rejected(id${force ? ', force => true' : ''}) AS said FROM pg_catalog.unnest(${listed(ids)}::bigint[]) AS id`;

/** Of others it may only be looked at. */
const isOwn = 'headgate.owns_table(relation)';

export const forgetSome = (ids: readonly string[]): string =>
  `SELECT count(*) FILTER (WHERE headgate.forget_rejected(id)) AS deleted FROM headgate.rejected_requests
WHERE id = ANY (${listed(ids)}::bigint[]) AND ${isOwn}`;

/** Not stored by a retry. */
const isOpen = `NOT (${isStored})`;

/** How many requests that a filter matches are not stored yet, how many are, and the newest of all. */
export const countMatching = (filter: KeptFilter): string =>
  `SELECT count(*) FILTER (WHERE ${isOpen}), count(*) FILTER (WHERE ${isStored}), max(id)
FROM headgate.rejected_requests${whereKept(filter)}`;

/** Oldest first, at most `max` of those that are not stored yet: the requests after `after`, up to `last`. */
export const retryBatch = (
  filter: KeptFilter,
  { after, last }: { readonly after: string; readonly last: string },
  force: boolean,
  max: number,
): string =>
  `SELECT id, headgate.retry_rejected(id${force ? ', force => true' : ''})
FROM (
  SELECT id FROM headgate.rejected_requests${whereKept(filter, [isOpen, `id > ${literal(after)}`, `id <= ${literal(last)}`])}
  ORDER BY id
  LIMIT ${max}
) chosen
ORDER BY id`;

/** Their outcomes, and how often each occurred. */
export const countRetried = (ids: readonly string[]): string =>
  `SELECT retry_outcome, count(*)
FROM headgate.rejected_requests
WHERE id = ANY (${literal(`{${ids.join(',')}}`)}::bigint[])
GROUP BY 1
ORDER BY 2 DESC`;

/** For display: `retryBatch` for all of them at once. */
export const retryMatching = (filter: KeptFilter, force: boolean): string =>
  `SELECT headgate.retry_rejected(id${force ? ', force => true' : ''})
FROM headgate.rejected_requests${whereKept(filter, [isOpen])}`;

/** For listReplacing: tables of the requests that a filter matches and that are not stored yet. */
export const isOfKept = (filter: KeptFilter): string =>
  `(n.nspname::text, c.relname::text) IN (SELECT schema_name, table_name FROM headgate.rejected_requests${whereKept(filter, [isOpen])})`;

/** All that a filter matches. */
export const forgetMatching = (filter: KeptFilter): string =>
  `SELECT count(*) FILTER (WHERE headgate.forget_rejected(id)) AS deleted
FROM headgate.rejected_requests${whereKept(filter, [isOwn])}`;

/**
 * Tables of webhooks, at most six, in which a row replaces the one of the same key, whichever is the newer event, and the key's columns. What is retried
 * is stored as the last one. `condition`: on `n.nspname` and `c.relname`.
 */
export const listReplacing = (condition: string): string => `SELECT n.nspname, c.relname, k.names AS key
FROM headgate.webhook_table w
JOIN pg_class c ON c.oid = w.relation::oid JOIN pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN LATERAL (
  SELECT string_agg(a.attname::text, ', '::text ORDER BY p.place) AS names,
    bool_or(headgate.is_numbered(a) OR (w.document IS NOT NULL AND a.attgenerated = '' AND a.atthasdef)) AS new
  FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS p (attnum, place)
  JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = p.attnum
  WHERE i.indrelid = c.oid AND i.indisprimary
) AS k
WHERE headgate.sees_table(w.relation) AND NOT w.options ? 'version'::text AND NOT k.new
  AND ${condition}
ORDER BY n.nspname <> 'public', n.nspname, c.relname
LIMIT 6`;

export const isTable = ({ schema, table }: TableRef): string =>
  `n.nspname = ${literal(schema)}::name AND c.relname = ${literal(table)}::name`;
