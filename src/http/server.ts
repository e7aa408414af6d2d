/**
 * Node's HTTP server as the doors want it, over TCP or over TLS. Takes bounds and, for TLS, a TlsSource; gives the
 * server, and which of its events brings a connection that can speak HTTP. Touches no request.
 */
import { createServer } from 'node:http';
import type { Server, ServerOptions } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { Handshakes } from '../access/handshakes.ts';
import type { TlsSource } from '../access/tls-source.ts';

/** In bytes, ms and connections; of limits.ts. */
export interface HttpBounds {
  readonly headersBytesMax: number;
  readonly headersTimeoutMs: number;
  readonly requestTimeoutMs: number;
  readonly keepAliveTimeoutMs: number;
  readonly connectionsMax: number;
}

export interface HttpServer {
  readonly server: Server;
  /** Calls back with every connection on which requests may come. */
  connected(use: (socket: Socket) => void): void;
  /** Gives a connection that was taken from HTTP, e.g. by an upgrade that was passed over, back to it. */
  giveBack(socket: Socket): void;
  /** Ends the connections that have not come so far. */
  readonly endHandshakes: () => void;
}

export function createHttpServer(bounds: HttpBounds, tls: TlsSource | null): HttpServer {
  const { headersTimeoutMs, requestTimeoutMs, keepAliveTimeoutMs, headersBytesMax } = bounds;
  const options: ServerOptions = {
    maxHeaderSize: headersBytesMax,
    headersTimeout: headersTimeoutMs,
    requestTimeout: requestTimeoutMs,
    keepAliveTimeout: keepAliveTimeoutMs,
    connectionsCheckingInterval: Math.min(1_000, Math.ceil(headersTimeoutMs / 4)),
    // Checked in protocol.ts: there the refusal has a body like all others.
    requireHostHeader: false,
  };
  const made = tls === null ? overTcp(options) : overTls(options, tls, headersTimeoutMs);
  const { server } = made;
  // Beyond this count Node would drop header lines silently, a signature among them; 0 keeps them all to be counted.
  server.maxHeadersCount = 0;
  server.maxConnections = bounds.connectionsMax;
  return made;
}

/**
 * A sender that closes its own half after the request (`nc -N`) still reads its answer. Not in Node's documents, but in
 * its HTTP server since 0.x.
 */
export function answerHalfClosed(server: Server): void {
  (server as Server & { httpAllowHalfOpen: boolean }).httpAllowHalfOpen = true;
}

function overTcp(options: ServerOptions): HttpServer {
  const server = createServer(options);
  return {
    server,
    connected: (use) => server.on('connection', use),
    giveBack: (socket) => server.emit('connection', socket),
    endHandshakes: () => undefined,
  };
}

function overTls(options: ServerOptions, tls: TlsSource, handshakeTimeout: number): HttpServer {
  const server = createTlsServer({
    ...options,
    ...tls.serverOptions,
    // Senders that offer either; without the second, `curl --http1.0` would be turned away by the handshake.
    ALPNProtocols: ['http/1.1', 'http/1.0'],
    // What `http` sets by itself and `https` does not.
    allowHalfOpen: true,
    noDelay: true,
    // A handshake counts as the beginning of the headers.
    handshakeTimeout,
  });
  tls.serve(server);
  const handshakes = new Handshakes<true>();
  const known = new WeakSet<Socket>();
  server.on('connection', (socket: Socket) => handshakes.begin(socket, true));
  return {
    server,
    connected: (use) =>
      server.on('secureConnection', (socket: TLSSocket) => {
        if (known.has(socket)) return use(socket);
        known.add(socket);
        if (handshakes.done(socket) === undefined || tls.refuses(socket)) socket.destroy();
        else use(socket);
      }),
    giveBack: (socket) => server.emit('secureConnection', socket),
    endHandshakes: () => handshakes.destroyAll(),
  };
}
