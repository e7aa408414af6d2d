/** POST /v1/events: its parameters, its body, its answer. Takes requests, gives row counts; refuses as events.ts does. */
import { remembered } from '../kit/remembered.ts';
import { limits } from '../tables/limits.ts';
import { ingestEvents } from './events.ts';
import { conflicts } from './event-deps.ts';
import type { BodySource, EventAnswer, EventRequest, EventDeps } from './event-deps.ts';
import type { GatewayExchange } from './exchange.ts';
import { eventParameters, readQuery } from './query.ts';

export interface EventsRouteDeps {
  readonly events: EventDeps;
  readonly database: (name: string | undefined) => string;
}

const bytesMax = limits.eventsBodyBytesMax;
const bounds = { bytesMax, tooLarge: `the body is larger than ${bytesMax} bytes` };

export function eventsRoute({ events, database }: EventsRouteDeps): (it: GatewayExchange) => Promise<void> {
  const eventOf = remembered((target) => readEvent(target, database), limits.eventsTargetsMax);
  return async (exchange) => {
    const answer = await ingestEvents(events, eventOf(exchange.target), sourceOf(exchange));
    exchange.answerJson(eventsJson(answer), answer.rows);
  };
}

/** What a request target asks for; throws Refused. */
function readEvent(target: string, database: EventsRouteDeps['database']): EventRequest {
  const given = readQuery(target, eventParameters);
  const { name = '', on_error: onError, on_conflict: onConflict } = given;
  return {
    database: database(given.database),
    name,
    onConflict: conflicts.find((it) => it === onConflict) ?? 'error',
    skips: onError === 'skip',
  };
}

function eventsJson({ rows, skipped }: EventAnswer): string {
  if (skipped === null) return `{"rows":${rows}}`;
  return JSON.stringify({ rows, skipped: skipped.lines, skippedTotal: skipped.count });
}

/** A body of at most `eventsLaneBytesMax` is held as a whole. */
function sourceOf(exchange: GatewayExchange): BodySource {
  const isSmall = exchange.isSmall(limits.eventsLaneBytesMax);
  if (isSmall) return { whole: () => exchange.body(bounds), next: () => Promise.resolve(null) };
  let next: BodySource['next'] | null = null;
  return { whole: null, next: () => (next ??= exchange.pieces(bounds))() };
}
