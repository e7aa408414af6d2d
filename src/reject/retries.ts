/**
 * One retry: a row that was taken from headgate.rejected_requests goes through the stages again. Returns what to write
 * into the row; never rejects, because the other retries of its batch need their outcomes, too.
 */
import type { KeptRequest, RetryRejected } from '../types/journal.ts';
import type { Outcome } from '../types/rows.ts';
import { refusal } from '../errors/refusals.ts';
import type { RefusalCode } from '../errors/refusals.ts';
import { rawHeadersOf, storable } from './redact.ts';
import type { TakenRow } from './statements.ts';

export interface Settled {
  readonly outcome: RefusalCode | 'committed' | 'unknown';
  readonly reason: string | null;
  /** The engine's own words, if it has refused the row. */
  readonly engineError: string | null;
}

export async function runRetry(row: TakenRow, database: string, retry: RetryRejected): Promise<Settled> {
  // headgate.retry_rejected() has checked this already; a row that was changed by other means is refused here.
  const { body } = row;
  if (row.door === 'websocket' || !row.allowed) return refused('signature_failed', 'it may not be retried');
  if (body === null || row.body_bytes !== String(body.length)) {
    return refused('body_not_json', 'its body was not kept as a whole');
  }
  const request: KeptRequest = {
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
  };
  try {
    return settledAs(await retry(request));
  } catch (error) {
    // A bug: it may have happened before or after the rows were sent.
    return {
      outcome: 'unknown',
      reason: error instanceof Error ? error.message : String(error),
      engineError: null,
    };
  }
}

function settledAs(outcome: Outcome): Settled {
  if (outcome.kind === 'committed')
    return {
      outcome: 'committed',
      reason: outcome.stale === undefined ? null : `${outcome.stale} not newer than what the table has`,
      engineError: null,
    };
  const { code, message, engineError } = outcome.refusal;
  return {
    outcome: outcome.kind === 'unknown' ? 'unknown' : code,
    reason: message,
    engineError: engineError === undefined ? null : storable(engineError),
  };
}

function refused(code: RefusalCode, message: string): Settled {
  return settledAs({ kind: 'aborted', refusal: refusal(code, message) });
}
