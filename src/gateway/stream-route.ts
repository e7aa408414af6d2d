/**
 * GET /v1/events: the rows of a table as server-sent events or as lines of JSON. Takes requests, returns what streams.ts returns; refuses as it does.
 */
import { limits } from '../config/limits.ts';
import { Refused } from '../errors/refusals.ts';
import type { GatewayExchange } from './exchange.ts';
import { readQuery, streamParameters } from './query.ts';
import { formFor } from './stream-formats.ts';
import type { Streams } from './streams.ts';

/** `readPauseMs`: how long its reader may pause. */
export function streamRoute(
  streams: Streams,
  database: (name: string | undefined) => string,
  readPauseMs: number,
): (exchange: GatewayExchange) => Promise<void> {
  return async (exchange) => {
    const given = readQuery(exchange.target, streamParameters);
    // A client that reconnects has the newer position in its header, and still the older one in its URL.
    const after = exchange.headers['last-event-id'] ?? given.after ?? null;
    if (Array.isArray(after) || (after?.length ?? 0) > limits.streamPositionCharsMax)
      throw new Refused('malformed_query', 'the position is none that an event has had as its id');
    const gone = new AbortController();
    exchange.onEnded(() => gone.abort());
    const form = formFor(exchange.headers.accept);
    const request = {
      form,
      database: database(given.database),
      name: given.name ?? '',
      after: after === '' ? null : after,
    };
    await exchange.answerStream(form.type, await streams.follow(request, gone.signal), readPauseMs);
  };
}
