/**
 * POST /v1/events: its parameters, its body, its answer. Takes requests, returns row counts; refuses as events.ts does.
 */
import { limits } from '../config/limits.ts';
import { ingestEvents } from './events.ts';
import { conflicts } from './event-store.ts';
import type { BodySource } from './event-body.ts';
import type { EventAnswer, EventRequest, EventStore } from './event-store.ts';
import type { GatewayExchange } from './exchange.ts';
import type { Target } from '../types/target.ts';
import type { Scope } from './tokens.ts';
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
