/**
 * Node's HTTP server as the doors need it, and the server that accepts connections for it, over TCP or TLS. Takes bounds and, for
 * TLS, a TlsSource; returns both, and a way to be called with connections that can speak HTTP. Touches no request.
 */
import { createServer } from 'node:http';
import type { Server } from 'node:http';
import { createServer as createTcpServer } from 'node:net';
import type { Server as NetServer, Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import type { TLSSocket } from 'node:tls';
import type { Admission } from '../access/admission.ts';
import { TlsHandshakes } from '../access/handshakes.ts';
import type { TlsSource } from '../access/tls-source.ts';
import type { Limits } from '../config/limits.ts';
import type { Refusal } from '../errors/refusals.ts';

/** A door that speaks HTTP (http-server.ts). */
export interface HttpServerOptions {
  /** How the targets of requests begin that are read without Node's parser; null: Node's parser reads all requests. */
  readonly fastPrefixes: readonly string[] | null;
  /** null: plain HTTP. */
  readonly tls: TlsSource | null;
  /** null: everybody may connect, and no proxy is trusted. */
  readonly gate: Admission | null;
  readonly limits: Limits;
  readonly connectionsMax: number;
  readonly requestTimeoutMs: number;
  /** How long a connection may be silent in both directions, in ms; null: the other bounds are enough. */
  readonly silenceMs: number | null;
  /** For all requests, whether they are being read or processed. */
  readonly inFlightBytesMax: number;
  /** Whether a sender that closes its own half after a request still reads its answer; otherwise it has left. */
  readonly answersHalfClosed: boolean;
  /** The answer to one request too many on a connection. */
  readonly impatient: Refusal;
  /** ms since 1970 */
  readonly now: () => number;
  /** Called when accepting a connection failed, e.g. for want of file descriptors; the other connections continue. */
  readonly failed: (error: Error) => void;
}

/** In bytes, ms and connections; from limits.ts. */
export interface HttpBounds {
  readonly headersBytesMax: number;
  readonly headersTimeoutMs: number;
  readonly requestTimeoutMs: number;
  readonly keepAliveTimeoutMs: number;
  readonly connectionsMax: number;
}

/** The server that accepts connections, and Node's parser for them, which accepts none itself. */
export interface NodeServer {
  readonly sockets: NetServer;
  readonly parser: Server;
  /** Calls back with every connection on which requests may arrive. */
  connected(use: (socket: Socket) => void): void;
  /** Ends the connections whose TLS handshake is not complete. */
  readonly endHandshakes: () => void;
}

/** Node's HTTP server alone. */
export function createHttpServer(bounds: HttpBounds): Server {
  const { headersTimeoutMs, requestTimeoutMs, keepAliveTimeoutMs, headersBytesMax } = bounds;
  const server = createServer({
    maxHeaderSize: headersBytesMax,
    headersTimeout: headersTimeoutMs,
    requestTimeout: requestTimeoutMs,
    keepAliveTimeout: keepAliveTimeoutMs,
    connectionsCheckingInterval: Math.min(1_000, Math.ceil(headersTimeoutMs / 4)),
    // Checked in protocol.ts, so that the refusal has a body like all others.
    requireHostHeader: false,
  });
  // Beyond a limit, Node would drop header lines silently, perhaps a signature; 0 keeps them all to be counted.
  server.maxHeadersCount = 0;
  server.maxConnections = bounds.connectionsMax;
  return server;
}

/** Connections are passed to its parser by the event `connection`, which Node's documentation allows. */
export function createHttpDoor(bounds: HttpBounds, tls: TlsSource | null): NodeServer {
  const parser = createHttpServer(bounds);
  // Node begins to check how long headers and bodies take when it is told that the server listens.
  parser.emit('listening');
  const made = tls === null ? overTcp() : overTls(tls, bounds.headersTimeoutMs);
  made.sockets.maxConnections = bounds.connectionsMax;
  return { ...made, parser };
}

/**
 * A sender that closes its own half after the request (`nc -N`) still reads its answer. Not documented, but in
 * Node's HTTP server since 0.x.
 */
export function answerHalfClosed(server: Server): void {
  (server as Server & { httpAllowHalfOpen: boolean }).httpAllowHalfOpen = true;
}

/** As in Node's HTTP servers. */
const options = { allowHalfOpen: true, noDelay: true };

function overTcp(): Omit<NodeServer, 'parser'> {
  const sockets = createTcpServer(options);
  return {
    sockets,
    connected: (use) => sockets.on('connection', use),
    endHandshakes: () => undefined,
  };
}

function overTls(tls: TlsSource, handshakeTimeout: number): Omit<NodeServer, 'parser'> {
  const sockets = createTlsServer({
    ...options,
    ...tls.serverOptions,
    // For senders that offer either; without the second, the handshake would turn away `curl --http1.0`.
    ...tls.alpn(['http/1.1', 'http/1.0']),
    // A handshake counts as the beginning of the headers.
    handshakeTimeout,
  });
  tls.serve(sockets);
  const handshakes = new TlsHandshakes<true>();
  sockets.on('connection', (socket: Socket) => handshakes.begin(socket, true));
  sockets.on('tlsClientError', (_error, socket) => socket.destroy());
  return {
    sockets,
    connected: (use) =>
      sockets.on('secureConnection', (socket: TLSSocket) => {
        const isOpen = handshakes.done(socket) !== undefined;
        // The last message of the handshake is still to be written.
        if (isOpen && tls.isChallenge(socket)) socket.destroySoon();
        else if (!isOpen || tls.refuses(socket)) socket.destroy();
        else use(socket);
      }),
    endHandshakes: () => handshakes.destroyAll(),
  };
}
