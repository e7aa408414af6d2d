/**
 * The sockets of a door that speaks HTTP. Takes connections over TCP or TLS, and the requests that the recogniser or Node's parser
 * reads from them (fast-connection.ts). Passes unambiguous requests to the door; has the door refuse others with `malformed_request`,
 * `encoding_unsupported`, `headers_too_large`, `path_too_long`, `expectation_failed`, `request_timeout`, `request_aborted`,
 * `method_not_allowed` (CONNECT) and `overloaded` (too many requests on one connection). Touches nothing but its sockets.
 */
import { once } from 'node:events';
import type { AddressInfo, Socket } from 'node:net';
import { alsoAt, listenAt, type ListenAt } from '../kit/listen-at.ts';
import type { Limits } from '../config/limits.ts';
import { BytesInFlight } from './budget.ts';
import { FastConnections } from './fast-connections.ts';
import { Inflations } from './inflation.ts';
import { answerHalfClosed, createHttpDoor } from './server.ts';
import type { HttpServerOptions, NodeServer } from './server.ts';
import { OpenConnections } from './open-connections.ts';
import { ParserEvents } from './parser-events.ts';
import type { Exchange, ServerContext } from './exchange.ts';
import { ReceivedRequests } from './received-requests.ts';
import type { HttpHandler } from './received-requests.ts';

/** As Node reports it. */
const nothingCame = Object.assign(new Error('no request came'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' });

export class HttpServer<E extends Exchange> {
  readonly context: ServerContext;
  readonly #options: HttpServerOptions;
  readonly #limits: Limits;
  /** Those that are open; they also know how the server stops. */
  readonly connections: OpenConnections;
  /** What Node's parser reports. */
  readonly events: ParserEvents<E>;
  readonly #requests: ReceivedRequests<E>;

  constructor(options: HttpServerOptions, handler: HttpHandler<E>) {
    const { limits, gate, now } = options;
    this.#options = options;
    this.#limits = limits;
    this.context = {
      limits,
      inFlight: new BytesInFlight(options.inFlightBytesMax),
      inflations: new Inflations(limits),
      now,
      gate,
      owed: 0,
      closingListener: false,
      draining: false,
    };
    this.#requests = new ReceivedRequests(this.context, handler, options.impatient);
    this.connections = new OpenConnections(this.context, this.#requests);
    this.events = new ParserEvents(this.context, handler, this.#requests, this.connections);
  }

  get load(): { readonly connections: number; readonly bytesInFlight: number } {
    return { connections: this.connections.all.size, bytesInFlight: this.context.inFlight.held };
  }

  /** Port 0 picks a free one. */
  async listen(at: ListenAt): Promise<{ readonly host: string; readonly port: number }> {
    const bound = await this.#listen(at);
    for (const other of await alsoAt(at, bound)) await this.#listen(other).catch(() => undefined);
    return { host: bound.address, port: bound.port };
  }

  /** Instead of listening: connections are passed to `take`. */
  acceptPassedSockets(): void {
    this.#create();
  }

  /** Serves a connection that was accepted elsewhere, and from which nothing was read. */
  take(socket: Socket): void {
    // As Node's HTTP servers do: a sender that closes its own half after a request still reads the answer.
    socket.allowHalfOpen = true;
    this.connections.servers[0]?.sockets.emit('connection', socket);
  }

  async #listen(at: ListenAt): Promise<AddressInfo> {
    const { sockets } = this.#create();
    const listening = once(sockets, 'listening');
    sockets.listen({ ...listenAt(at), backlog: 4096 });
    await listening;
    sockets.on('error', (error) => this.#options.failed(error));
    return sockets.address() as AddressInfo;
  }

  #create(): NodeServer {
    const { requestTimeoutMs, connectionsMax, silenceMs, tls, answersHalfClosed } = this.#options;
    const http = createHttpDoor({ ...this.#limits, requestTimeoutMs, connectionsMax }, tls);
    const { parser: server } = http;
    this.connections.servers.push(http);
    if (answersHalfClosed) answerHalfClosed(server);
    if (silenceMs !== null) server.setTimeout(silenceMs);
    const fast = this.#createFast(http);
    // What comes on a socket is read by fast-connection.ts or by Node's parser (parser-events.ts), and goes on in received-requests.ts.
    http.connected((socket) => {
      const connection = this.connections.add(socket);
      if (fast === null) server.emit('connection', socket);
      else fast.add(socket, connection);
    });
    this.events.of(http);
    return http;
  }

  #createFast({ parser }: NodeServer): FastConnections | null {
    const { fastPrefixes: prefixes, silenceMs, answersHalfClosed } = this.#options;
    if (prefixes === null) return null;
    const fast = new FastConnections({
      prefixes,
      limits: this.#limits,
      silenceMs,
      answersHalfClosed,
      requests: this.#requests,
      handOver: (socket) => parser.emit('connection', socket),
      expired: (socket) => this.events.unreadable(nothingCame, socket),
    });
    this.connections.fast.push(fast);
    return fast;
  }
}
