/** POST /v1/events: its parameters, its body, its answer. Takes requests, gives row counts; refuses as events.ts does. */
import type { IncomingMessage } from 'node:http';
import type { FastifyInstance } from 'fastify';
import { limits } from '../tables/limits.ts';
import { Refused } from '../tables/refusals.ts';
import { Body, isSmall, smallBody } from './body.ts';
import type { Budget } from './budget.ts';
import { ingestEvents } from './events.ts';
import { conflicts } from './event-rooms.ts';
import type { BodySource, EventAnswer, EventRequest, EventRooms } from './event-rooms.ts';
import { eventParameters, readQuery } from './query.ts';
import { sendJson } from './reply.ts';

export interface EventsRouteRooms {
  readonly rooms: EventRooms;
  /** Of all bodies in memory. */
  readonly bodies: Budget;
  readonly database: (name: string | undefined) => string;
}

const bodyBounds = {
  bytesMax: limits.eventsBodyBytesMax,
  pauseMs: limits.eventsPauseMs,
  wholeMs: limits.eventsUploadMs,
};

export function eventsRoute(app: FastifyInstance, { rooms, bodies, database }: EventsRouteRooms): void {
  app.post('/v1/events', async (request, reply) => {
    const event = eventOf(request.url, database);
    const source = openSource(request.raw, bodies);
    try {
      const answer = await ingestEvents(rooms, event, source);
      request.told.rows = answer.rows;
      return sendJson(reply, eventsJson(answer));
    } finally {
      source.close();
    }
  });
}

/** What a request target asks for; throws Refused. */
export function eventOf(target: string, database: EventsRouteRooms['database']): EventRequest {
  const given = readQuery(target, eventParameters);
  const { name = '', on_error: onError, on_conflict: onConflict } = given;
  return {
    database: database(given.database),
    name,
    onConflict: conflicts.find((it) => it === onConflict) ?? 'error',
    skips: onError === 'skip',
  };
}

export function eventsJson({ rows, skipped }: EventAnswer): string {
  if (skipped === null) return `{"rows":${rows}}`;
  return JSON.stringify({ rows, skipped: skipped.lines, skippedTotal: skipped.count });
}

interface Source extends BodySource {
  close(): void;
}

/** What is held of a body at one time: all of a small one; of a large one, chunks and lines on their way. */
const heldBytesMax = limits.eventsLineBytesMax;

/** A body of at most `eventsLaneBytesMax`, held as a whole. */
export class SmallSource implements Source {
  readonly #request: IncomingMessage;
  readonly #bodies: Budget;
  #held = 0;

  constructor(request: IncomingMessage, bodies: Budget) {
    this.#request = request;
    this.#bodies = bodies;
  }

  whole(): Promise<Buffer> {
    // Whoever has left while the table was looked for holds nothing, and keeps nobody else from being served.
    if (this.#request.destroyed) return Promise.reject(new Refused('request_aborted'));
    const bytes = Number(this.#request.headers['content-length']);
    if (!this.#bodies.take(bytes)) return Promise.reject(new Refused('overloaded'));
    this.#held = bytes;
    return smallBody(this.#request, limits.eventsPauseMs);
  }

  next(): Promise<null> {
    return Promise.resolve(null);
  }

  close(): void {
    this.#bodies.give(this.#held);
    this.#held = 0;
  }
}

function openSource(request: IncomingMessage, bodies: Budget): Source {
  let held = 0;
  const hold = (bytes: number): void => {
    const more = Math.min(bytes, heldBytesMax - held);
    if (more > 0 && !bodies.take(more)) throw new Refused('overloaded');
    held += more;
  };
  const close = (): void => {
    bodies.give(held);
    held = 0;
  };
  if (isSmall(request, limits.eventsLaneBytesMax)) {
    return new SmallSource(request, bodies);
  }
  const body = new Body(request, bodyBounds);
  return {
    close: () => {
      body.close();
      close();
    },
    whole: null,
    next: async () => {
      const piece = await body.next();
      if (piece !== null) hold(piece.length);
      return piece;
    },
  };
}
