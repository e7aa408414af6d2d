/**
 * The events gateway: POST /v1/events and POST /v1/sql for applications, beside the webhook listener or as a program of
 * its own. Takes HTTP requests, gives rows that are committed and results of SQL; refuses with everything that has an
 * HTTP status in refusals.ts, and the engine's own errors with their SQLSTATE. Touches nothing itself: databases,
 * lanes and the commit are rooms that it is given. Web pages of strangers are kept out by guard.ts.
 */
import type { AddressInfo } from 'node:net';
import { performance } from 'node:perf_hooks';
import { fastify } from 'fastify';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Gate } from '../access/gate.ts';
import type { Closable } from '../kit/closer.ts';
import { limits } from '../tables/limits.ts';
import type { Observe } from '../tables/observations.ts';
import { refusal } from '../tables/refusals.ts';
import type { Refusal } from '../tables/refusals.ts';
import { answerTo, bugAnswer, refusalAnswer } from './answers.ts';
import type { Told } from './answers.ts';
import { Budget } from './budget.ts';
import { readAway } from './body.ts';
import type { EventRooms } from './event-rooms.ts';
import { eventsRoute } from './events-route.ts';
import { ExpressEvents } from './express-events.ts';
import { Guard } from './guard.ts';
import type { GuardOptions } from './guard.ts';
import { askForBody, holdsBody, HttpFront } from './http-front.ts';
import type { FrontOptions } from './http-front.ts';
import { sendAnswer, sendObject } from './reply.ts';
import { requestIdOf } from './request-id.ts';
import { openapiDocument } from './openapi.ts';
import { ResultMemory } from './sql-result.ts';
import { sqlRoute } from './sql-route.ts';
import { SqlSessions } from './sql-sessions.ts';
import type { SqlRooms } from './sql-sessions.ts';

export interface GatewayOptions extends Omit<GuardOptions, 'secure'>, FrontOptions {
  /** 0 picks a free one. */
  readonly port: number;
  readonly version: string;
  readonly rooms: GatewayRooms;
  /** The text of GET /v1/metrics; null: they are served elsewhere. */
  readonly metrics: { readonly contentType: string; readonly text: () => Promise<string> } | null;
}

export interface GatewayRooms {
  /** The name that `?database=` gives, or the default one; throws Refused when there is none such. */
  readonly database: (name: string | undefined) => string;
  /** null: requests can be taken; otherwise why not, in one line without credentials. */
  readonly unavailable: () => string | null;
  readonly sql: Omit<SqlRooms, 'memory'>;
  readonly events: EventRooms;
}

export interface Gateway extends Closable {
  readonly address: { readonly host: string; readonly port: number };
  /** Lets go of a database, so that it can be dropped or renamed. */
  release(database: string): Promise<void>;
  /** Takes nothing new, and resolves when everything it has taken is answered. */
  drain(): Promise<void>;
  /** Ends at once: whoever still waits for an answer gets none. */
  close(): Promise<void>;
}

declare module 'fastify' {
  interface FastifyRequest {
    told: Told;
    startedAt: number;
    /** Of the client, also behind a proxy. */
    clientAddress: string;
  }
}

/** Rejects when the port cannot be listened on. */
export async function openGateway(options: GatewayOptions): Promise<Gateway> {
  const front = new HttpFront(options);
  const guard = new Guard({ ...options, secure: options.tls !== null });
  const bodies = new Budget(limits.gatewayBodiesBytesMax);
  const { events, database } = options.rooms;
  const express = new ExpressEvents({
    rooms: events,
    bodies,
    database,
    guard,
    gate: options.gate,
    overloaded: () => front.owed > limits.gatewayRequestsMax,
    observe: options.observe,
  });
  const app = fastify({
    logger: false,
    forceCloseConnections: 'idle',
    serverFactory: (handler) =>
      front.create((request, response) => {
        if (!express.take(request, response)) handler(request, response);
      }),
    routerOptions: { maxParamLength: limits.targetBytesMax },
    genReqId: (request) => requestIdOf(request),
    clientErrorHandler: () => {},
  });
  const sessions = new SqlSessions({
    ...options.rooms.sql,
    memory: new ResultMemory(),
  });
  // Bodies are read by the routes, as bytes, whatever they call themselves.
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', (_request, _payload, done) => done(null));
  addGuards(app, options, guard, front);
  addErrors(app, options.observe);
  await app.register((routes, _options, done) => {
    const { gatewayReadPauseMs: readPauseMs } = options.limits ?? limits;
    sqlRoute(routes, { sessions, bodies, database, readPauseMs });
    eventsRoute(routes, { rooms: events, bodies, database });
    addOtherRoutes(routes, options);
    done();
  });
  try {
    await app.listen({ host: options.host, port: options.port });
  } catch (error) {
    await app.close();
    throw error;
  }
  const address = app.server.address() as AddressInfo;
  await front.listenBeside(options.host, address);
  let draining: Promise<void> | null = null;
  const drain = (): Promise<void> => {
    front.drain();
    return (draining ??= app.close().then(() => front.close()));
  };
  return {
    address: { host: address.address, port: address.port },
    release: async (database) => {
      await sessions.release(database);
      await options.rooms.events.release(database);
    },
    drain,
    close: async () => {
      const drained = drain();
      front.cutOff();
      await drained;
      await sessions.close();
    },
  };
}

function addGuards(app: FastifyInstance, options: GatewayOptions, guard: Guard, front: HttpFront): void {
  const { gate } = options;
  app.decorateRequest('told');
  app.decorateRequest('startedAt', 0);
  app.decorateRequest('clientAddress', '');
  app.addHook('onRequest', (request, reply, done) => {
    request.startedAt = performance.now();
    request.clientAddress = gate.clientAddress(request.raw.socket.remoteAddress ?? '', request.headers);
    // Fastify refuses what is no media type; here nobody looks at it.
    request.raw.headers['content-type'] = 'application/octet-stream';
    request.told = { code: 'ok', rows: 0 };
    reply.header('x-request-id', request.id);
    const refused = admit(guard, gate, request, reply);
    if (refused !== null) refuse(request, reply, refused);
    else if (front.owed > limits.gatewayRequestsMax) refuse(request, reply, refusal('overloaded'));
    else if (request.method === 'OPTIONS') answerPreflight(request, reply);
    else {
      if (!request.is404) askForBody(request.raw, reply.raw);
      done();
    }
  });
  app.addHook('onResponse', (request, reply, done) => {
    options.observe({
      kind: 'gateway.answered',
      requestId: request.id,
      route: routeOf(request),
      remoteAddress: request.clientAddress,
      status: reply.statusCode,
      ...request.told,
      seconds: (performance.now() - request.startedAt) / 1_000,
    });
    done();
  });
}

function admit(guard: Guard, gate: Gate, request: FastifyRequest, reply: FastifyReply): Refusal | null {
  // Who asks whether the gateway lives learns nothing else, and asks by any name, as load balancers do.
  const isHealth = request.method === 'GET' && request.url === '/v1/healthz';
  const { localAddress = '', localPort = 0 } = request.raw.socket;
  const place = guard.place({ headers: request.headers, localAddress, localPort });
  if (place !== null && !(isHealth && place.code === 'host_refused')) return place;
  const { origin } = request.headers;
  if (origin !== undefined && guard.allows(origin)) {
    reply.header('access-control-allow-origin', origin).header('vary', 'Origin');
    reply.header('access-control-expose-headers', 'x-request-id, retry-after');
  }
  const unwelcome = gate.refuses(request.clientAddress);
  if (unwelcome !== null) return unwelcome;
  // A preflight carries no credentials.
  if (isHealth || request.method === 'OPTIONS') return null;
  return guard.token(request.headers.authorization);
}

function answerPreflight(request: FastifyRequest, reply: FastifyReply): void {
  if (request.headers.origin === undefined) {
    refuse(request, reply, refusal('method_not_allowed'));
    return;
  }
  reply
    .code(204)
    .header('access-control-allow-methods', 'GET, POST')
    .header('access-control-allow-headers', 'authorization, content-type, content-encoding, x-request-id')
    .header('access-control-max-age', '600')
    .send();
}

/** Answers at the door, before anything of the body is read. */
function refuse(request: FastifyRequest, reply: FastifyReply, refused: Refusal): void {
  request.told.code = refused.code;
  const read = holdsBody(request.raw) ? Promise.resolve(false) : readAway(request.raw);
  void read.then((whole) => {
    if (!whole) reply.header('connection', 'close');
    return sendAnswer(reply, refusalAnswer(refused));
  });
}

function routeOf(request: FastifyRequest): 'events' | 'sql' | 'other' {
  const { url } = request.routeOptions;
  return url === '/v1/events' ? 'events' : url === '/v1/sql' ? 'sql' : 'other';
}

function addErrors(app: FastifyInstance, observe: Observe): void {
  app.setNotFoundHandler((request, reply) => {
    const known = ['/v1/events', '/v1/sql'].includes(request.url.split('?', 1)[0] ?? '');
    refuse(request, reply, refusal(known ? 'method_not_allowed' : 'route_unknown'));
  });
  app.setErrorHandler(async (error: Error & { statusCode?: number }, request, reply) => {
    const whole = await readAway(request.raw);
    if (!whole) reply.header('connection', 'close');
    const answer = answerTo(error);
    if (answer !== null) {
      request.told.code = answer.code;
      return sendAnswer(reply, answer);
    }
    // Fastify's own: what a request does not hold that its schema asks for.
    if (error.statusCode !== undefined && error.statusCode < 500) {
      request.told.code = error.statusCode === 503 ? 'draining' : 'malformed_query';
      return sendAnswer(reply, refusalAnswer(refusal('malformed_query', error.message.slice(0, 200))));
    }
    observe({ kind: 'request.failed', requestId: request.id, error });
    request.told.code = 'internal';
    return sendAnswer(reply, bugAnswer(request.id));
  });
}

function addOtherRoutes(app: FastifyInstance, options: GatewayOptions): void {
  app.get('/v1/healthz', (request, reply) => {
    const reason = options.rooms.unavailable();
    if (reason === null) return sendObject(reply, { status: 'ok' });
    request.told.code = 'engine_unavailable';
    return sendAnswer(reply, refusalAnswer(refusal('engine_unavailable')));
  });
  const { version, token } = options;
  const document = openapiDocument({ version, asksForToken: token !== null });
  app.get('/v1/openapi.json', (_request, reply) => sendObject(reply, document));
  const { metrics } = options;
  if (metrics === null) return;
  app.get('/v1/metrics', async (_request, reply) =>
    reply.header('content-type', metrics.contentType).send(await metrics.text()),
  );
}
