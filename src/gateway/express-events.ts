/**
 * POST /v1/events as nearly everybody sends it: a small body of announced length, no web page, nothing unusual. Such a
 * request goes from the parser to the lanes past Fastify, whose objects and hooks cost as much as all the rest. Takes
 * requests, gives answers; whatever it does not take, also what would be refused before its body is read, is Fastify's, so
 * that every refusal is made in one place only.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { performance } from 'node:perf_hooks';
import type { Gate } from '../access/gate.ts';
import { limits } from '../tables/limits.ts';
import type { Observe } from '../tables/observations.ts';
import { answerTo, bugAnswer, json } from './answers.ts';
import type { Answer } from './answers.ts';
import { isSmall, readAway } from './body.ts';
import type { EventRequest } from './event-rooms.ts';
import { ingestEvents } from './events.ts';
import { eventOf, eventsJson, SmallSource } from './events-route.ts';
import type { EventsRouteRooms } from './events-route.ts';
import type { Guard } from './guard.ts';
import { holdsBody } from './http-front.ts';
import { requestIdOf } from './request-id.ts';

export interface ExpressRooms extends EventsRouteRooms {
  readonly guard: Guard;
  readonly gate: Gate;
  /** Whether more requests are under way than may be. */
  readonly overloaded: () => boolean;
  readonly observe: Observe;
}

const path = '/v1/events?';

export class ExpressEvents {
  readonly #rooms: ExpressRooms;
  /** By request target; null: it is not to be taken here. Senders send to the same few again and again. */
  readonly #asked = new Map<string, EventRequest | null>();

  constructor(rooms: ExpressRooms) {
    this.#rooms = rooms;
  }

  /** Whether the request is answered here. Nothing has happened to one that is not. */
  take(request: IncomingMessage, response: ServerResponse): boolean {
    const { method, url = '', headers } = request;
    if (method !== 'POST' || !url.startsWith(path) || headers.origin !== undefined) return false;
    if (headers['content-encoding'] !== undefined || holdsBody(request)) return false;
    if (!isSmall(request, limits.eventsLaneBytesMax)) return false;
    const event = this.#eventOf(url);
    if (event === null) return false;
    const { guard, gate, overloaded } = this.#rooms;
    const { localAddress = '', localPort = 0, remoteAddress = '' } = request.socket;
    if (guard.place({ headers, localAddress, localPort }) !== null) return false;
    if (guard.token(headers.authorization) !== null || overloaded()) return false;
    const clientAddress = gate.clientAddress(remoteAddress, headers);
    // Fastify's hook asks the gate again, and may be told otherwise: time has passed.
    if (gate.refuses(clientAddress) !== null) return false;
    void this.#run(request, response, event, clientAddress);
    return true;
  }

  async #run(
    request: IncomingMessage,
    response: ServerResponse,
    event: EventRequest,
    clientAddress: string,
  ): Promise<void> {
    const startedMs = performance.now();
    const requestId = requestIdOf(request);
    const source = new SmallSource(request, this.#rooms.bodies);
    let answer: Answer;
    let rows = 0;
    try {
      const done = await ingestEvents(this.#rooms.rooms, event, source);
      rows = done.rows;
      answer = { code: 'ok', status: 200, headers: jsonOnly, text: eventsJson(done) };
    } catch (error) {
      answer = answerTo(error) ?? this.#bug(error, requestId);
      if (!(await readAway(request))) response.shouldKeepAlive = false;
    } finally {
      source.close();
    }
    write(response, requestId, answer);
    this.#rooms.observe({
      kind: 'gateway.answered',
      requestId,
      route: 'events',
      remoteAddress: clientAddress,
      status: answer.status,
      code: answer.code,
      rows,
      seconds: (performance.now() - startedMs) / 1_000,
    });
  }

  #bug(error: unknown, requestId: string): Answer {
    this.#rooms.observe({ kind: 'request.failed', requestId, error });
    return bugAnswer(requestId);
  }

  #eventOf(url: string): EventRequest | null {
    const known = this.#asked.get(url);
    if (known !== undefined) return known;
    const event = this.#read(url);
    if (this.#asked.size >= limits.eventsTargetsMax) this.#asked.clear();
    this.#asked.set(url, event);
    return event;
  }

  /** null: the target is refused, where everything else is refused, too. */
  #read(url: string): EventRequest | null {
    try {
      return eventOf(url, this.#rooms.database);
    } catch {
      return null;
    }
  }
}

const jsonOnly = { 'content-type': json };

function write(response: ServerResponse, requestId: string, { status, headers, text }: Answer): void {
  if (response.destroyed) return;
  const list = ['content-length', String(Buffer.byteLength(text)), 'x-request-id', requestId];
  for (const name in headers) list.push(name, headers[name] ?? '');
  response.writeHead(status, list).end(text);
}
