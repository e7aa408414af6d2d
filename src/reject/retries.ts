/**
 * Retries that owners ask for. headgate.retry_rejected() (catalog/functions/rejected.sql) marks a row of headgate.rejected_requests as `waiting` and
 * notifies; `Rejects.retryAsked` wakes the journal of the database, which calls this. Takes the rows that wait, `rejectedRetriesMax` at a time and
 * `rejectedRetriedBytesMax` of bodies; runs each request through the stages again, and writes its outcome into its row.
 *
 *   waiting ──taken──► running ──tried──► committed, unknown, or the code of a refusal
 *
 * A row that is `running` when its process ends stays so: its request may be stored, so only its owner can begin again (`force`).
 */
import { refusal } from '../errors/refusals.ts';
import type { RefusalCode } from '../errors/refusals.ts';
import type { StageContext } from '../observe/context.ts';
import type { RetryRejected } from '../types/journal.ts';
import type { Outcome } from '../types/rows.ts';
import type { JournalSession } from './journal-session.ts';
import { rawHeadersOf, storable } from './redact.ts';

export interface RetryContext extends Pick<StageContext, 'limits' | 'observe'> {
  readonly database: string;
  readonly retry: RetryRejected;
}

/** Returns when none waits any more, or `signal` is aborted. Throws what the session throws. */
export async function runAskedRetries(
  { database, retry, limits, observe }: RetryContext,
  session: JournalSession,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    const { rejectedRetriesMax, rejectedRetriedBytesMax } = limits;
    const { rows } = await session.query<TakenRow>(takeRetries, [
      rejectedRetriesMax,
      rejectedRetriedBytesMax,
    ]);
    if (rows.length === 0) return;
    // UPDATE … RETURNING keeps no order.
    const taken = rows.toSorted((a, b) => (BigInt(a.id) < BigInt(b.id) ? -1 : 1));
    const settled = await Promise.all(taken.map((row) => runRetry(row, database, retry)));
    await session.query(settleRetries, [
      settled.map(({ id }) => id),
      settled.map(({ outcome }) => outcome),
      settled.map(({ reason }) => reason),
      settled.map(({ engineError }) => engineError),
    ]);
    for (const { id, outcome } of settled) observe({ kind: 'rejected.retried', database, id, outcome });
  }
}

/** Never rejects, because the other retries of its batch need their outcomes, too. */
async function runRetry(row: TakenRow, database: string, retry: RetryRejected): Promise<SettledRetry> {
  const { id } = row;
  try {
    const outcome = await outcomeOf(row, database, retry);
    if (outcome.kind === 'committed') {
      const { stale } = outcome;
      const reason = stale === undefined ? null : `${stale} not newer than what the table has`;
      return { id, outcome: 'committed', reason, engineError: null };
    }
    const { code, message, engineError } = outcome.refusal;
    return {
      id,
      outcome: outcome.kind === 'unknown' ? 'unknown' : code,
      reason: message,
      engineError: engineError === undefined ? null : storable(engineError),
    };
  } catch (error) {
    // A bug: it may have happened before or after the rows were sent.
    const reason = error instanceof Error ? error.message : String(error);
    return { id, outcome: 'unknown', reason, engineError: null };
  }
}

async function outcomeOf(row: TakenRow, database: string, retry: RetryRejected): Promise<Outcome> {
  const { body } = row;
  // headgate.retry_rejected() has checked this already; a row that was changed by other means is refused here.
  if (row.door === 'websocket' || !row.allowed)
    return { kind: 'aborted', refusal: refusal('signature_failed', 'it may not be retried') };
  if (body === null || row.body_bytes !== String(body.length))
    return { kind: 'aborted', refusal: refusal('body_not_json', 'its body was not kept as a whole') };
  return retry({
    database,
    schema: row.schema,
    table: row.table,
    oid: Number(row.oid),
    method: row.method,
    requestTarget: row.target,
    rawHeaders: rawHeadersOf(row.headers),
    leftOut: new Set(row.headers_left_out),
    arrivedAtMs: row.received_at.getTime(),
    remoteAddress: row.remote_address,
    traceparent: row.traceparent ?? undefined,
    body,
    apart: row.code === 'delivery_differs',
  });
}

/** What is written into the row. */
interface SettledRetry {
  readonly id: string;
  readonly outcome: RefusalCode | 'committed' | 'unknown';
  readonly reason: string | null;
  /** The engine's own words, if it has refused the row. */
  readonly engineError: string | null;
}

/** $1: how many; $2: of how many bytes, but for the last. Marked before they run, and waited for: a retry that may have stored its rows is never begun again automatically. */
const takeRetries = `
with waiting as materialized (
  select q.id, coalesce(pg_catalog.octet_length(q.body), 0) as bytes from headgate.rejected_requests q
  where q.retry_outcome = 'waiting' order by q.id limit $1 for update skip locked
), taken as (
  select w.id from (select id, pg_catalog.sum(bytes) over (order by id) - bytes as before from waiting) w where w.before < $2::int8
)
update headgate.rejected_requests r set retry_outcome = 'running', retried_at = pg_catalog.now()
from taken, pg_catalog.pg_class c, pg_catalog.pg_namespace n
where r.id = taken.id and c.oid = r.relation and n.oid = c.relnamespace
returning r.id::text, c.oid::text as oid, n.nspname::text as schema, c.relname::text as "table", r.method, r.target, r.headers,
  r.headers_left_out, r.received_at, r.remote_address, r.body, r.body_bytes::text, r.authenticated or r.retry_forced as allowed,
  r.door, r.code, r.traceparent`;

interface TakenRow {
  readonly id: string;
  readonly oid: string;
  readonly schema: string;
  readonly table: string;
  readonly method: string;
  readonly target: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly headers_left_out: readonly string[];
  readonly received_at: Date;
  readonly remote_address: string;
  readonly body: Buffer | null;
  readonly body_bytes: string | null;
  readonly allowed: boolean;
  readonly door: string;
  readonly code: string;
  readonly traceparent: string | null;
}

/**
 * A row that its owner is deleting is not waited for. A request whose id another delivery has taken meanwhile is from then on kept for that:
 * the next retry stores it.
 */
const settleRetries = `
update headgate.rejected_requests r set retry_outcome = s.outcome, retry_reason = s.reason, engine_error = coalesce(s.engine_error, r.engine_error),
  code = case when s.outcome = 'delivery_differs' then s.outcome else r.code end
from unnest($1::bigint[], $2::text[], $3::text[], $4::text[]) as s (id, outcome, reason, engine_error)
where r.id = s.id and r.id in (
  select q.id from headgate.rejected_requests q where q.id = any ($1::bigint[]) and q.retry_outcome = 'running'
  for no key update skip locked)`;
