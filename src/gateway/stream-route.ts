/**
 * GET /v1/events: the rows of a table as server-sent events or as lines of JSON. Takes requests, returns what streams.ts returns; refuses as it does.
 */
import { limits } from '../config/limits.ts';
import { Refused } from '../errors/refusals.ts';
import type { GatewayExchange } from './exchange.ts';
import { readQuery, streamParameters } from './query.ts';
import { formFor, stepOf } from './stream-formats.ts';
import { asOutside } from './tokens.ts';
import type { Scope } from './tokens.ts';
import { SqlRefused } from './sql-sessions.ts';
import type { EventStreams } from './streams.ts';

/** `readPauseMs`: how long its reader may pause. Rejects with Refused. */
export async function streamRows(
  exchange: GatewayExchange,
  streams: EventStreams,
  database: (name: string | undefined) => string,
  readPauseMs: number,
): Promise<void> {
  const given = readQuery(exchange.target, streamParameters);
  // A client that reconnects has the newer position in its header, and still the older one in its URL.
  const after = exchange.headers['last-event-id'] ?? given.after ?? null;
  if (Array.isArray(after) || (after?.length ?? 0) > limits.streamPositionCharsMax)
    throw new Refused('malformed_query', 'the position is none that an event has had as its id');
  const step = stepOf(given.batch);
  if (step === undefined)
    throw new Refused('malformed_query', 'the parameter batch is a number of rows from 1 to 10000');
  const gone = new AbortController();
  exchange.onEnded(() => gone.abort());
  const form = formFor(exchange.headers.accept);
  const { scope } = exchange;
  const request = {
    ...(scope === null ? {} : { admit: (oid: number) => watchToken(scope, oid, gone) }),
    form,
    database: database(given.database),
    name: given.name ?? '',
    after: after === '' ? null : after,
    step,
  };
  exchange.place = { database: request.database };
  const pieces = await streams.follow(request, gone.signal).catch((error: unknown) => {
    // PostgreSQL's own words about a name would tell a stranger what there is.
    if (scope !== null && error instanceof SqlRefused) throw new Refused('token_scope');
    throw scope === null ? error : asOutside(error);
  });
  await exchange.answerStream(form.type, pieces, readPauseMs);
}

/**
 * Refuses a table that the token does not cover, and ends the stream once it no longer does: the token has expired or was dropped, or its
 * owner has lost the right. The client then reconnects, and is refused. While the database does not answer, nobody is sent rows either.
 */
function watchToken(scope: Scope, oid: number, gone: AbortController): void {
  if (!scope.covers(oid)) throw new Refused('token_scope');
  let timer: NodeJS.Timeout | null = null;
  const look = (): void => {
    if (gone.signal.aborted) return;
    timer = setTimeout(() => {
      void scope.renewFor(oid).then(look, () => gone.abort());
    }, limits.readTokenLookMs);
  };
  look();
  gone.signal.addEventListener('abort', () => timer !== null && clearTimeout(timer), { once: true });
}
