/**
 * The WebSocket door of the webhook listener. Takes connections that ask for an upgrade, completes
 * the handshake and gives each a session; keeps the sessions within the bytes in flight, supervises those that are
 * silent or slow, and closes them when Headgate stops. Touches nothing but its sockets.
 * Refuses with `not_found`, `malformed_path`, `upgrade_required`, `origin_refused`, `malformed_request`, `draining`, `overloaded` what must not become
 * a WebSocket; whether the table exists is checked later, with the first frame.
 */
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { WebSocketServer } from 'ws';
import type { Limits } from '../config/limits.ts';
import { SocketSession } from './socket-session.ts';
import type { SocketContext } from './socket-session.ts';
import type { Offers, ParserEvents } from '../http/parser-events.ts';
import type { Connection } from '../http/connection.ts';
import type { Exchange, HttpRequest } from '../http/exchange.ts';
import { refusal, Refused } from '../errors/refusals.ts';
import type { Refusal } from '../errors/refusals.ts';
import { ingestRoute, isIngestTarget } from '../ingest/routes.ts';

/** Sixteen bytes in base64 (RFC 6455 §4.1). */
const keyPattern = /^[+/0-9A-Za-z]{22}==$/;

/** Whether a page of this origin may open a WebSocket. */
export type OriginRule = (origin: string) => boolean;

/** Reads `https://a.example, https://b.example` or `*`; null: no page may. */
export function originRule(text: string | null): OriginRule {
  const listed = new Set((text ?? '').split(',').map((origin) => origin.trim().toLowerCase()));
  listed.delete('');
  return (origin) => listed.has('*') || listed.has(origin.toLowerCase());
}

export function handshakeRefusal(request: HttpRequest, mayOpen: OriginRule): Refusal | null {
  const { headers, method, httpVersionMajor, httpVersionMinor } = request;
  try {
    ingestRoute(request.url ?? '');
  } catch (error) {
    if (error instanceof Refused) return error.refusal;
    throw error;
  }
  if (method !== 'GET' || httpVersionMajor !== 1 || httpVersionMinor !== 1)
    return refusal('upgrade_required');
  if (headers.upgrade?.toLowerCase() !== 'websocket' || !/\bupgrade\b/i.test(headers.connection ?? ''))
    return refusal('upgrade_required');
  if (headers['sec-websocket-version'] !== '13') return refusal('upgrade_required');
  if (!keyPattern.test(headers['sec-websocket-key'] ?? ''))
    return refusal('malformed_request', 'Sec-WebSocket-Key must be 16 bytes in base64');
  // What follows would be read as a body by some and as frames by others.
  if (headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined)
    return refusal('malformed_request', 'a handshake has no body');
  // Browsers let any page open a WebSocket to any host, with the cookies and the network of its reader; only
  // they send an Origin (RFC 6455 §10.2).
  if (headers.origin !== undefined && !mayOpen(headers.origin)) return refusal('origin_refused');
  return null;
}

/** Longest pause between two checks of the sessions, ms. */
const sweepIntervalMs = 250;

export class WebSocketDoor implements Offers {
  readonly #room: SocketContext;
  readonly #mayOpen: OriginRule;
  readonly #server: WebSocketServer;
  readonly #sessions = new Set<SocketSession>();
  readonly #sweeper: NodeJS.Timeout;
  #starving = false;
  #draining = false;

  constructor(
    room: SocketContext,
    mayOpen: OriginRule,
    events: Pick<ParserEvents<Exchange>, 'refuseTunnel'>,
  ) {
    this.#room = room;
    this.#mayOpen = mayOpen;
    const { limits } = room;
    this.#server = new WebSocketServer({
      noServer: true,
      clientTracking: false,
      perMessageDeflate: false,
      maxPayload: limits.websocketMessageBytesMax,
      maxFragments: limits.websocketFragmentsMax,
      maxBufferedChunks: limits.websocketPiecesMax,
      // How long a closing handshake may take, so that the client can read the last message.
      closeTimeout: limits.lingerMs,
      // No subprotocol is known here; a client that asks for one and needs it sees in the answer that it has none.
      handleProtocols: () => false,
    } as ConstructorParameters<typeof WebSocketServer>[0]);
    // If the handshake itself is invalid, there is no response any more to write the refusal with.
    this.#server.on('wsClientError', (_error, socket) =>
      events.refuseTunnel(socket as Socket, refusal('malformed_request')),
    );
    this.#sweeper = setInterval(() => this.#sweep(), interval(limits));
    this.#sweeper.unref();
  }

  /** null: it becomes a WebSocket. */
  refusal(request: IncomingMessage, connection: Connection): Refusal | null {
    const { inFlight, gate } = this.#room;
    if (!isIngestTarget(request.url ?? '')) return refusal('not_found');
    if (this.#draining) return refusal('draining');
    if (inFlight.exhausted) inFlight.relieve();
    if (inFlight.exhausted) return refusal('overloaded');
    const refused = handshakeRefusal(request, this.#mayOpen);
    // Last, because it counts: an offer that is ignored is counted as the request that it then is.
    return refused ?? gate?.refuses(gate.clientAddress(connection.remoteAddress, request)) ?? null;
  }

  take(request: IncomingMessage, socket: Socket, head: Buffer): void {
    this.#server.handleUpgrade(request, socket, head, (ws) => {
      const session = new SocketSession(this.#room, ws, socket, request);
      this.#sessions.add(session);
      ws.once('close', () => this.#sessions.delete(session));
      session.onLarge = () => this.#giveTurns();
      socket.on('data', () => this.#watch());
      if (this.#starving) session.starve();
      if (this.#draining) session.drain();
    });
  }

  /** Accepts nothing new; sessions acknowledge what they have accepted, and close. */
  drain(): void {
    this.#draining = true;
    for (const session of this.#sessions) session.drain();
  }

  close(): void {
    this.drain();
    clearInterval(this.#sweeper);
  }

  /**
   * Sockets are read as long as there is room for what arrives. What has arrived is kept, so the bound is exceeded by at most one
   * read of each socket; then none of them is read until a tenth of the bound is free again.
   */
  #watch(): void {
    const { inFlight } = this.#room;
    // If all messages that are not complete were left waiting, none of them would ever be.
    if (inFlight.exhausted) inFlight.relieve();
    if (!this.#starving && inFlight.exhausted) {
      this.#starving = true;
      for (const session of this.#sessions) session.starve();
    } else if (this.#starving && inFlight.fits(this.#room.limits.bodiesInFlightBytesMax / 10)) {
      this.#starving = false;
      for (const session of this.#sessions) session.relieve();
    }
  }

  /** One large message per turn of the event loop: others get their turn in between. */
  #giveTurns(): void {
    for (const session of this.#sessions) session.wait();
    setImmediate(() => {
      for (const session of this.#sessions) session.goOn();
    });
  }

  #sweep(): void {
    const now = performance.now();
    for (const session of this.#sessions) session.sweep(now);
    this.#watch();
  }
}

function interval(limits: Limits): number {
  const { websocketInitTimeoutMs, websocketMessageTimeoutMs, websocketPingMs } = limits;
  const shortest = Math.min(websocketInitTimeoutMs, websocketMessageTimeoutMs, websocketPingMs);
  return Math.min(sweepIntervalMs, Math.ceil(shortest / 4));
}
