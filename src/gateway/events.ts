/**
 * What happens to a request of POST /v1/events, as one sentence:
 *
 *   find the table → is there room in its lane? → read the body → decode → the lane's receipt → its answer
 *
 * A body of up to `eventsLaneBytesMax` takes the path of webhooks, together with others. A larger body (large-body.ts) takes a separate path,
 * as does, with on_error=skip, one of which the engine has refused rows: on PostgreSQL, a transaction of its own
 * (events-transaction.ts). Takes requests; answers how many rows are committed, or throws Refused, or LineRefused if the line at fault is known.
 */
import { nothingExpected } from '../batch/lanes.ts';
import { decodeEvents } from '../decode/lines.ts';
import type { RequestSpan } from '../types/request.ts';
import type { Outcome, Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import { limits } from '../config/limits.ts';
import { alteredTable, concernsCatalog, storeLarge, tableAfterRefusal } from './altered-table.ts';
import type { PostedEvents } from './altered-table.ts';
import { EventsByProduct } from './event-products.ts';
import type { EventAnswer, EventRequest, EventStore } from './event-store.ts';
import type { GatewayExchange } from './exchange.ts';
import { LargeBody, refuseNoEvents } from './large-body.ts';
import { asLineRefused, isOfRow, refusedBy } from './line-refused.ts';
import type { PostgresEvents } from './postgres-events.ts';
import { decodeGood, Skipped } from './skipped-lines.ts';

const bytesMax = limits.eventsBodyBytesMax;
const bounds = { bytesMax, tooLarge: `the body is larger than ${bytesMax} bytes` };

/** `stores`: that of Headgate's own engine, or those of other databases, each of which says what it is. */
export async function storeEvents(
  exchange: GatewayExchange,
  asked: EventRequest,
  stores: PostgresEvents | EventsByProduct,
): Promise<void> {
  const { scope } = exchange;
  const isSmall = exchange.isSmall(limits.eventsLaneBytesMax);
  const known = stores instanceof EventsByProduct ? stores.of(asked.database) : stores;
  const store = known instanceof Promise ? await known : known;
  const request: EventRequest = scope === null ? asked : { ...asked, isOfToken: true };
  const posted: PostedEvents = { store, request, scope, arrivedAtMs: store.clock() };
  const { database, name, onConflict } = request;
  const found = scope === null ? store.find(database, name, onConflict) : scope.find(store, request);
  const target = found instanceof Promise ? await found : found;
  exchange.place = target;
  store.lanes.admit(target, nothingExpected, limits.eventsDeadlineMs);
  const read = isSmall ? exchange.body(bounds) : null;
  const body = read instanceof Promise ? await read : read;
  // If a token becomes invalid while a body arrives, nothing of it is stored.
  if (body !== null && scope !== null) await scope.renew();
  const answer =
    body === null
      ? await storePieces(posted, target, exchange)
      : await storeSmall(posted, target, refuseNoEvents(body), exchange.span);
  if (request.flush) await store.readable(database);
  exchange.answerJson(eventsJson(answer), answer.rows);
}

/** How often one request follows a table that is being changed meanwhile. */
const attemptsMax = 3;

/** A body that is held whole; `span` null: its request is not traced. */
async function storeSmall(
  posted: PostedEvents,
  target: Target,
  body: Buffer,
  span: RequestSpan | null,
): Promise<EventAnswer> {
  const { store, request } = posted;
  for (let attempt = 1, table = target; ; attempt++) {
    const isLast = attempt === attemptsMax;
    const skipped = request.skips ? new Skipped(limits.eventsSkippedMax) : null;
    let failure: unknown = null;
    let rows: Rows | null = null;
    try {
      rows = skipped === null ? decodeEvents(table, body) : decodeGood(table, body, skipped);
    } catch (error) {
      failure = asLineRefused(error);
    }
    // No line is refused because of what was known before the request.
    const isOfCatalog = failure === null ? (skipped?.count ?? 0) > 0 : concernsCatalog(failure);
    const altered = isOfCatalog ? await alteredTable(posted, table, isLast) : null;
    if (altered !== null) {
      table = altered;
      continue;
    }
    if (failure !== null) throw failure;
    if (rows === null || rows.count === 0) return { rows: 0, skipped };
    const outcome = await (span === null ? store.lanes.submit(rows) : submitTraced(store, rows, span));
    if (outcome.kind === 'committed') return { rows: outcome.rows, skipped, stale: outcome.stale };
    const now = await tableAfterRefusal(posted, table, outcome, isLast);
    if (now !== null) table = now;
    else if (skipped !== null && isOfRow(outcome.refusal)) return store.skipping(table, request, body);
    else throw refusedBy(outcome, rows);
  }
}

async function submitTraced(store: EventStore, rows: Rows, span: RequestSpan): Promise<Outcome> {
  span.queuedMs = store.clock();
  const outcome = await store.lanes.submit({ ...rows, traceparent: span.traceparent });
  if (outcome.kind === 'committed') span.committedMs = store.clock();
  return outcome;
}

/** A body that may be large, or longer than it appears. */
async function storePieces(
  posted: PostedEvents,
  target: Target,
  exchange: GatewayExchange,
): Promise<EventAnswer> {
  const { scope } = posted;
  const next = exchange.pieces(bounds);
  const body = new LargeBody(scope === null ? next : scope.renewing(next));
  const small = await body.small();
  return small === null ? storeLarge(posted, target, body) : storeSmall(posted, target, small, exchange.span);
}

function eventsJson({ rows, skipped, stale }: EventAnswer): string {
  if (skipped === null && stale === undefined) return `{"rows":${rows}}`;
  const left = skipped === null ? {} : { skipped: skipped.lines, skippedTotal: skipped.count };
  return JSON.stringify({ rows, stale, ...left });
}
