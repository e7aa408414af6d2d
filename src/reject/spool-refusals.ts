/**
 * How a request that was accepted while the database was unreachable is kept for the owner of its table when the database
 * later refuses it: with its whole body, because its sender no longer has it. Pure: takes the request, returns the statement, which
 * runs in the transaction that marks the request as arrived.
 */
import type { RejectedRequest } from '../types/journal.ts';
import type { Limits } from '../config/limits.ts';
import { describe } from './redact.ts';

/** For a table that no longer exists the column `relation` is NULL. */
const insertSpooled = `
insert into headgate.rejected_requests (received_at, relation, schema_name, table_name, door, status, code, reason,
  authenticated, remote_address, method, target, headers, headers_left_out, headers_masked, body, body_bytes, engine_error, traceparent)
select $1::pg_catalog.timestamptz, (
    select w.relation from headgate.webhook_table w where w.relation operator(pg_catalog.=) $2::pg_catalog.oid::pg_catalog.regclass),
  $3, $4, 'spool', $5::pg_catalog.int4, $6, $7, true, $8, $9, $10, $11::pg_catalog.jsonb,
  array(select pg_catalog.jsonb_array_elements_text($12::pg_catalog.jsonb)), $13::pg_catalog.jsonb, $14::pg_catalog.bytea,
  $15::pg_catalog.int8, $16, $17`;

export function keepSpooled(
  request: RejectedRequest,
  limits: Pick<Limits, 'rejectedReasonCharsMax'>,
): { readonly text: string; readonly values: unknown[] } {
  return { text: insertSpooled, values: keptValues(request, limits) };
}

/** The whole request, as parameters $1 to $17. */
export function keptValues(
  request: RejectedRequest,
  limits: Pick<Limits, 'rejectedReasonCharsMax'>,
  status?: number,
): unknown[] {
  const row = describe(request, request.body, request.body?.length ?? null, limits, status);
  return [
    row.receivedAt.toISOString(),
    row.relation,
    row.schema,
    row.table,
    row.status,
    row.code,
    row.reason,
    row.remoteAddress,
    row.method,
    row.target,
    JSON.stringify(row.headers),
    JSON.stringify(row.leftOut),
    JSON.stringify(row.masked),
    row.body,
    row.bodyBytes,
    row.engineError,
    row.traceparent,
  ];
}
