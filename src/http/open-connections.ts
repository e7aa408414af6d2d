/**
 * The open connections of a door that speaks HTTP, and how it stops: it accepts no connection any more, then refuses requests (`drain`), then waits for those
 * that run, and ends every connection. Takes sockets and the servers that accept them; fails requests whose connection is gone (`request_aborted`). Touches
 * nothing else.
 */
import type { Socket } from 'node:net';
import { refusal } from '../errors/refusals.ts';
import { PerTurn, nobodyWaits, quietTurn } from '../kit/event-loop.ts';
import { deferred, within } from '../kit/promises.ts';
import type { FastConnections } from './fast-connections.ts';
import { Connection } from './connection.ts';
import type { Exchange, ServerContext } from './exchange.ts';
import type { ReceivedRequests } from './received-requests.ts';
import type { NodeServer } from './server.ts';

export class OpenConnections {
  readonly all = new Map<Socket, Connection>();
  /** Servers that were opened. */
  readonly servers: NodeServer[] = [];
  readonly fast: FastConnections[] = [];
  /** The work at the end of a connection. */
  readonly endings: PerTurn;
  readonly #context: ServerContext;
  readonly #requests: Pick<ReceivedRequests<Exchange>, 'begun' | 'ended'>;
  /** The listening sockets are closed. */
  #stopped = false;
  /** Resolves when they are, and no connection is left. */
  readonly #emptied = deferred<void>();
  #closing: Promise<void> | null = null;

  constructor(context: ServerContext, requests: ReceivedRequests<Exchange>) {
    this.#context = context;
    this.#requests = requests;
    this.endings = new PerTurn(context.limits.endingsPerTurnMax, setImmediate);
  }

  /** What every accepted socket begins with. When the socket is closed, the requests that still wait on it end. */
  add(socket: Socket): Connection {
    const connection = new Connection(socket, this.#context.limits, this.endings);
    this.all.set(socket, connection);
    socket.once('close', () => {
      this.all.delete(socket);
      if (this.#stopped && this.all.size === 0) this.#emptied.resolve();
      // Nothing else ends the requests whose answers waited for earlier ones.
      for (let [it] = connection.pending; it !== undefined; [it] = connection.pending)
        this.#requests.ended(connection, it);
      const { last } = connection;
      if (last?.received === false) this.endings.run(() => last.fail(refusal('request_aborted')));
    });
    return connection;
  }

  /**
   * A proxy may be sending a request on an open connection at this moment. Closing it would break off the request, and the proxy could not
   * know whether to repeat it. So new connections are refused, which every proxy may take elsewhere, and on open ones the next answer says
   * that it is the last. When this resolves, the caller must close those that are still idle at once.
   */
  async stopAccepting(): Promise<void> {
    const { closingTurnsMax, drainIdleRoundsMax, drainIdleMs } = this.#context.limits;
    this.#context.closingListener = true;
    for (const { sockets } of this.servers) {
      await nobodyWaits(sockets, closingTurnsMax);
      sockets.close();
    }
    this.#stopped = true;
    if (this.all.size === 0) return;
    // As long as requests arrive, the proxy has not gone elsewhere yet.
    let before = -1;
    for (let rounds = 0; this.#requests.begun !== before && rounds < drainIdleRoundsMax; rounds++) {
      before = this.#requests.begun;
      await within(drainIdleMs, this.#emptied.promise, undefined);
    }
    await quietTurn(() => this.#requests.begun, closingTurnsMax);
  }

  /** From now on the door refuses requests; connections that owe no answer are ended. */
  drain(): void {
    if (this.#context.draining) return;
    this.#context.draining = true;
    for (const { parser } of this.servers) parser.closeIdleConnections();
    for (const fast of this.fast) fast.endIdle();
  }

  /** Stops listening; resolves when every connection has ended. Connections that have not within `withinMs` are cut off (null: none is). */
  close(withinMs: number | null): Promise<void> {
    this.#closing ??= this.#close(withinMs);
    return this.#closing;
  }

  async #close(withinMs: number | null): Promise<void> {
    // Requests that have begun are answered, and only Node's parser can tell which have.
    const held = this.fast.map((fast) => fast.leaveHeld()).includes(true);
    if (held) await new Promise(setImmediate);
    this.drain();
    const closed = this.servers.map((http) => {
      http.endHandshakes();
      http.parser.close();
      return new Promise<void>((resolve) => void http.sockets.close(() => resolve()));
    });
    for (const { socket, last, pending, upgraded, ending } of this.all.values()) {
      // A lingering connection ends by its own timer, one with unwritten bytes after these; one in the middle of its headers has no request yet.
      const isIdle = pending.length === 0 && last?.answered !== false;
      if (isIdle && !upgraded && !ending && socket.writableLength === 0) socket.destroy();
    }
    this.#stopped = true;
    const timer = withinMs === null ? undefined : setTimeout(() => this.cutOff(), withinMs);
    if (this.all.size > 0) await this.#emptied.promise;
    await Promise.all(closed);
    clearTimeout(timer);
  }

  /** Ends every connection, whatever it still waits for. */
  cutOff(): void {
    for (const socket of this.all.keys()) socket.destroy();
  }
}
