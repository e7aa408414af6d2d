/**
 * The WebSocket door of the webhook listener. Takes connections whose upgrade was accepted (handshake.ts), completes
 * the handshake and gives each a session; keeps the sessions within the bytes in flight, supervises those that are
 * silent or slow, and closes them when Headgate stops. Refuses nothing itself. Touches nothing but its sockets.
 */
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { WebSocketServer } from 'ws';
import type { Limits } from '../config/limits.ts';
import type { SocketContext } from './socket-session.ts';
import { SocketSession } from './socket-session.ts';

/** Longest pause between two checks of the sessions, ms. */
const sweepIntervalMs = 250;

export class WebSocketDoor {
  readonly #room: SocketContext;
  readonly #server: WebSocketServer;
  readonly #sessions = new Set<SocketSession>();
  readonly #sweeper: NodeJS.Timeout;
  #starving = false;
  #draining = false;

  constructor(room: SocketContext) {
    this.#room = room;
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
    this.#sweeper = setInterval(() => this.#sweep(), interval(limits));
    this.#sweeper.unref();
  }

  /** `refuse` is called if the handshake itself is invalid; there is no response any more to write the refusal with. */
  set onRefused(refuse: (socket: Socket) => void) {
    this.#server.on('wsClientError', (_error, socket) => refuse(socket as Socket));
  }

  upgrade(request: IncomingMessage, socket: Socket, head: Buffer): void {
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
