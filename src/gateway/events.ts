/**
 * What happens to a request of POST /v1/events, as one sentence:
 *
 *   its parameters → find the table → admit → read the body → decode → the lane's receipt, or a transaction of its own → its answer
 *
 * A body of up to `eventsLaneBytesMax` takes the path of webhooks, together with others. A larger body takes a separate path,
 * as does, with on_error=skip, one of which the engine has refused rows: on PostgreSQL, a transaction of its own
 * (events-transaction.ts). Takes requests; returns how many rows are committed, or throws Refused, or
 * LineRefused if the line at fault is known. Touches nothing itself.
 */
import type { RequestSpan } from '../types/request-span.ts';
import type { Outcome, Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import { limits } from '../config/limits.ts';
import { Refused, restsOnCatalog } from '../errors/refusals.ts';
import { EventBody } from './event-body.ts';
import type { BodySource } from './event-body.ts';
import { conflicts } from './event-store.ts';
import type { EventAnswer, EventRequest, EventStore } from './event-store.ts';
import { lineOf, LineRefused } from './line-refused.ts';
import { Skipped } from './skipped-lines.ts';
import type { Scope } from './tokens.ts';
import type { GatewayExchange } from './exchange.ts';
import { eventParameters, readQuery } from './query.ts';

const bytesMax = limits.eventsBodyBytesMax;
const bounds = { bytesMax, tooLarge: `the body is larger than ${bytesMax} bytes` };

/** `eventOf`: parses a request target; throws Refused. */
export function eventsRoute(
  events: EventStore,
  eventOf: (target: string) => EventRequest,
): (it: GatewayExchange) => Promise<void> {
  return (exchange) => {
    const request = eventOf(exchange.target);
    const { scope, span } = exchange;
    const own = sourceOf(exchange);
    const source = scope === null ? own : renewing(own, scope);
    const found = (target: Target): void => void (exchange.place = target);
    const trace = span === null ? null : { span, found };
    return ingestEvents(events, request, source, scope, trace).then((answer) =>
      exchange.answerJson(eventsJson(answer), answer.rows),
    );
  };
}

/** Throws Refused. */
export function readEvent(target: string, database: (name: string | undefined) => string): EventRequest {
  const given = readQuery(target, eventParameters);
  const { name = '', on_error: onError, on_conflict: onConflict, flush } = given;
  return {
    database: database(given.database),
    name,
    onConflict: conflicts.find((it) => it === onConflict) ?? null,
    skips: onError === 'skip',
    flush: flush === 'true',
  };
}

function eventsJson({ rows, skipped, stale }: EventAnswer): string {
  if (skipped === null && stale === undefined) return `{"rows":${rows}}`;
  const left = skipped === null ? {} : { skipped: skipped.lines, skippedTotal: skipped.count };
  return JSON.stringify({ rows, stale, ...left });
}

/** If a token becomes invalid while a body arrives, nothing of it is stored. */
function renewing(source: BodySource, scope: Scope): BodySource {
  const { whole } = source;
  return {
    whole:
      whole === null
        ? null
        : async () => {
            const body = await whole();
            await scope.renew();
            return body;
          },
    next: async () => {
      const piece = await source.next();
      if (piece === null) await scope.renew();
      return piece;
    },
  };
}

/** A body of at most `eventsLaneBytesMax` is held whole. */
function sourceOf(exchange: GatewayExchange): BodySource {
  const isSmall = exchange.isSmall(limits.eventsLaneBytesMax);
  if (isSmall) return { whole: () => exchange.body(bounds), next: () => Promise.resolve(null) };
  let next: BodySource['next'] | null = null;
  return { whole: null, next: () => (next ??= exchange.pieces(bounds))() };
}

/** Of a request that is traced. */
export interface EventTrace {
  readonly span: RequestSpan;
  readonly found: (target: Target) => void;
}

/** How often one request follows a table that is being changed meanwhile. */
const changedAttemptsMax = 3;

function ingestEvents(
  store: EventStore,
  request: EventRequest,
  source: BodySource,
  scope: Scope | null = null,
  trace: EventTrace | null = null,
): Promise<EventAnswer> {
  const stored = storeEvents(store, request, source, scope, trace);
  if (!request.flush) return stored;
  return stored.then(async (answer) => {
    await store.readable(request.database);
    return answer;
  });
}

async function storeEvents(
  store: EventStore,
  asked: EventRequest,
  source: BodySource,
  scope: Scope | null,
  trace: EventTrace | null,
): Promise<EventAnswer> {
  const request: EventRequest = scope === null ? asked : { ...asked, isOfToken: true };
  const { database, name, onConflict } = request;
  const arrivedAtMs = store.clock();
  const find = (sinceMs?: number) =>
    scope === null ? store.find(database, name, onConflict, sinceMs) : scope.find(store, request, sinceMs);
  const sought = find();
  const target = sought instanceof Promise ? await sought : sought;
  trace?.found(target);
  store.admit(target);
  const body = new EventBody(source);
  const read = body.small();
  const small = read instanceof Promise ? await read : read;
  if (small === null) {
    // Lines are left out for good because of what the table is like.
    const exact = request.skips ? await find(arrivedAtMs) : target;
    return storeLarge(store, exact, request, body, find);
  }
  for (let attempt = 1, found = target; ; attempt++) {
    const skipped = request.skips ? new Skipped(limits.eventsSkippedMax) : null;
    let failure: unknown = null;
    let rows: Rows | null = null;
    try {
      rows = body.decodeSmall(found, small, skipped);
    } catch (error) {
      failure = error;
    }
    // No line is refused because of what was known before the request.
    const isOfCatalog = failure === null ? (skipped?.count ?? 0) > 0 : concernsCatalog(failure);
    const now = isOfCatalog ? await find(arrivedAtMs) : found;
    if (now !== found) {
      found = now;
      if (attempt < changedAttemptsMax) continue;
      throw new Refused('table_changed');
    }
    if (failure !== null) throw failure;
    if (rows === null) return { rows: 0, skipped };
    const outcome = await (trace === null ? store.submit(rows) : traced(store, rows, trace));
    if (outcome.kind === 'committed') return { rows: outcome.rows, skipped, stale: outcome.stale };
    const { code } = outcome.refusal;
    if (outcome.kind === 'aborted' && attempt < changedAttemptsMax) {
      if (code === 'table_changed') store.forget(database, name);
      const then = found;
      if (code === 'table_changed' || restsOnCatalog(code)) found = await find(arrivedAtMs);
      if (code === 'table_changed' || found !== then) continue;
    }
    if (skipped !== null && rowCodes.has(code)) return store.skipping(found, request, body, small);
    throw refusedBy(outcome, rows);
  }
}

async function traced(store: EventStore, rows: Rows, { span }: EventTrace): Promise<Outcome> {
  span.queuedMs = store.clock();
  const outcome = await store.submit({ ...rows, traceparent: span.traceparent });
  if (outcome.kind === 'committed') span.committedMs = store.clock();
  return outcome;
}

/** A body that is not held can be read only once: a table that has changed meanwhile refuses it for now. */
async function storeLarge(
  store: EventStore,
  target: Target,
  request: EventRequest,
  body: EventBody,
  find: (sinceMs: number) => Target | Promise<Target>,
): Promise<EventAnswer> {
  try {
    return await store.large(target, request, body);
  } catch (error) {
    if (!concernsCatalog(error) || (await find(store.clock())) === target) throw error;
    throw new Refused('table_changed');
  }
}

function concernsCatalog(error: unknown): boolean {
  return (error instanceof Refused || error instanceof LineRefused) && restsOnCatalog(error.refusal.code);
}

/** Codes that blame a row, and not a passing condition. */
const rowCodes: ReadonlySet<string> = new Set([
  'row_refused',
  'body_not_json',
  'payload_undecodable',
  'version_missing',
]);

function refusedBy(outcome: Exclude<Outcome, { kind: 'committed' }>, rows: Rows): Error {
  const { refusal } = outcome;
  if (outcome.kind === 'unknown' || outcome.row === undefined || !rowCodes.has(refusal.code)) {
    return new Refused(refusal.code, refusal.message);
  }
  return new LineRefused(refusal, lineOf(rows, outcome.row));
}
