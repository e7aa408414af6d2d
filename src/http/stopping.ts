/**
 * How a door that speaks HTTP stops: it accepts no connection any more, then refuses requests (`drain`), then waits for those that run, and ends every connection.
 * Takes the servers and connections of the door; touches nothing else.
 */
import { nobodyWaits, quietTurn } from '../kit/idle-tick.ts';
import { within } from '../kit/promises.ts';
import type { FastConnections } from './fast-connections.ts';
import type { LiveRequest, ReceivedRequests, ServerContext } from './requests.ts';
import type { NodeServer } from './server.ts';

export class HttpStopping {
  /** Those that were opened. */
  readonly servers: NodeServer[] = [];
  readonly fast: FastConnections[] = [];
  readonly #context: ServerContext;
  readonly #requests: Pick<ReceivedRequests<LiveRequest>, 'connections' | 'stopped' | 'emptied' | 'begun'>;
  #closing: Promise<void> | null = null;

  constructor(context: ServerContext, requests: ReceivedRequests<LiveRequest>) {
    this.#context = context;
    this.#requests = requests;
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
    this.#requests.stopped = true;
    if (this.#requests.connections.size === 0) return;
    // As long as requests arrive, the proxy has not gone elsewhere yet.
    let before = -1;
    for (let rounds = 0; this.#requests.begun !== before && rounds < drainIdleRoundsMax; rounds++) {
      before = this.#requests.begun;
      await within(drainIdleMs, this.#requests.emptied.promise, undefined);
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
    for (const { socket, idle, pending, upgraded, ending } of this.#requests.connections.values()) {
      // A lingering connection ends by its own timer, one with unwritten bytes after these; one in the middle of its headers has no request yet.
      if (idle && pending.length === 0 && !upgraded && !ending && socket.writableLength === 0)
        socket.destroy();
    }
    this.#requests.stopped = true;
    const timer = withinMs === null ? undefined : setTimeout(() => this.cutOff(), withinMs);
    if (this.#requests.connections.size > 0) await this.#requests.emptied.promise;
    await Promise.all(closed);
    clearTimeout(timer);
  }

  /** Ends every connection, whatever it still waits for. */
  cutOff(): void {
    for (const socket of this.#requests.connections.keys()) socket.destroy();
  }
}
