/**
 * What happens to a request of POST /v1/events, as one sentence:
 *
 *   find the table → admit → read the body → decode → the lane's receipt, or a transaction of its own
 *
 * A body of up to `eventsLaneBytesMax` takes the path of webhooks, together with others. A larger body takes a separate path,
 * as does, with on_error=skip, one of which the engine has refused rows: on PostgreSQL, a transaction of its own
 * (events-stream.ts). Takes the request's parameters and its body; returns how many rows are committed, or throws Refused, or
 * LineRefused if the line at fault is known. Touches nothing itself.
 */
import type { Outcome, Rows } from '../types/rows.ts';
import { limits } from '../config/limits.ts';
import { Refused } from '../errors/refusals.ts';
import { EventBody } from './event-body.ts';
import type { BodySource, EventAnswer, EventRequest, EventDeps } from './event-deps.ts';
import { LineRefused, lineOf } from './line-refused.ts';
import { Skipped } from './skipped-lines.ts';
import type { Scope } from './tokens.ts';

/** How often one request follows a table that is being changed meanwhile. */
const changedAttemptsMax = 3;

export function ingestEvents(
  deps: EventDeps,
  request: EventRequest,
  source: BodySource,
  scope: Scope | null = null,
): Promise<EventAnswer> {
  const stored = storeEvents(deps, request, source, scope);
  if (!request.flush) return stored;
  return stored.then(async (answer) => {
    await deps.readable(request.database);
    return answer;
  });
}

async function storeEvents(
  deps: EventDeps,
  request: EventRequest,
  source: BodySource,
  scope: Scope | null,
): Promise<EventAnswer> {
  const { database, name, onConflict } = request;
  const find = () => (scope === null ? deps.find(database, name, onConflict) : scope.find(deps, request));
  const sought = find();
  const target = sought instanceof Promise ? await sought : sought;
  deps.admit(target);
  const body = new EventBody(source, deps.codec);
  const read = body.small();
  const small = read instanceof Promise ? await read : read;
  if (small === null) return deps.large(target, request, body);
  for (let attempt = 1, found = target; ; attempt++) {
    const skipped = request.skips ? new Skipped(limits.eventsSkippedMax) : null;
    const rows = body.decodeSmall(found, small, skipped);
    if (rows === null) return { rows: 0, skipped };
    const outcome = await deps.submit(rows);
    if (outcome.kind === 'committed') return { rows: outcome.rows, skipped };
    const { code } = outcome.refusal;
    if (code === 'table_changed' && outcome.kind === 'aborted' && attempt < changedAttemptsMax) {
      deps.forget(database, name);
      found = await find();
      continue;
    }
    if (skipped !== null && rowCodes.has(code)) return deps.skipping(found, request, body, small);
    throw refusedBy(outcome, rows);
  }
}

/** Codes that blame a row, and not a passing condition. */
const rowCodes: ReadonlySet<string> = new Set(['row_refused', 'body_not_json', 'payload_undecodable']);

function refusedBy(outcome: Exclude<Outcome, { kind: 'committed' }>, rows: Rows): Error {
  const { refusal } = outcome;
  if (outcome.kind === 'unknown' || outcome.row === undefined || !rowCodes.has(refusal.code)) {
    return new Refused(refusal.code, refusal.message);
  }
  return new LineRefused(refusal, lineOf(rows, outcome.row));
}
