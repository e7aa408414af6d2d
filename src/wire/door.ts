/**
 * The SQL door: a PostgreSQL port that relays every client to the engine, byte by byte, and writes anew only the
 * statements that its rewriter recognises.
 *
 * Takes clients, the engine's endpoint and a `RewriteSql`; gives each client a connection of its own to the engine.
 * Refuses with FATAL 53300 (too many clients), 57P03 (engine unavailable, shutting down), 0A000 (protocol before
 * 3.0), 08P01 (messages out of bounds), 57014 (start-up took too long), 28000 (not encrypted) and, where the door
 * itself asks for passwords, 28P01. Touches no table itself.
 */
import { createServer, type Server, type Socket } from 'node:net';
import type { Endpoint } from '../engine/engine.ts';
import type { TlsSource } from '../guard/tls-source.ts';
import type { RewriteSql } from '../flow.ts';
import type { Closable } from '../kit/closer.ts';
import { type Limits, limits as standardLimits } from '../limits.ts';
import type { Observe } from '../observations.ts';
import { authenticate, type Passwords } from './authenticate.ts';
import { ClientTls } from './client-tls.ts';
import { dialEngine } from './dial.ts';
import { type FatalReason, writeFatal } from './messages.ts';
import { type Opened, readClientOpening } from './opening.ts';
import { Relay, shuttingDown } from './relay.ts';

export interface SqlDoorOptions {
  readonly host: string;
  /** 0 picks a free one. */
  readonly port: number;
  readonly endpoint: () => Endpoint;
  /** null: the engine can be reached; otherwise why not, in one line. */
  readonly unavailable: () => string | null;
  readonly rewrite: RewriteSql;
  readonly observe: Observe;
  readonly limits?: Limits;
  /** null, or not given: clients that ask for TLS read that there is none. */
  readonly tls?: TlsSource | null;
  /** With TLS: clients that do not encrypt are refused. */
  readonly tlsRequired?: boolean;
  /** null, or not given: the engine asks clients for what it wants to know. */
  readonly passwords?: Passwords | null;
}

export interface SqlDoor extends Closable {
  readonly address: { readonly host: string; readonly port: number };
  /** Takes no new clients, ends the idle ones, and resolves when the last one has finished its work and is gone. */
  drain(): Promise<void>;
  /** Ends all clients now. */
  close(): Promise<void>;
}

/** Rejects when the port cannot be listened on. */
export async function openSqlDoor(options: SqlDoorOptions): Promise<SqlDoor> {
  const door = new Door(options);
  await door.listen(options.host, options.port);
  return door;
}

class Door implements SqlDoor {
  readonly #options: SqlDoorOptions;
  readonly #limits: Limits;
  readonly #server: Server;
  readonly #tls: ClientTls | null;
  readonly #relays = new Set<Relay>();
  /** Clients that have not said whom they want. */
  readonly #openings = new Set<Socket>();
  readonly #work = new Set<Promise<void>>();
  /** One for each client that is not yet authenticated; aborted when that takes too long, or at the end. */
  readonly #startups = new Set<AbortController>();
  #closing = false;
  #sessions = 0;
  #sessionNumber = 0;
  #draining = false;

  constructor(options: SqlDoorOptions) {
    this.#options = options;
    this.#limits = options.limits ?? standardLimits;
    const { tls = null } = options;
    this.#tls = tls === null ? null : new ClientTls(tls, this.#limits.sqlStartupTimeoutMs);
    this.#server = createServer(
      { allowHalfOpen: true, noDelay: true, keepAlive: true, keepAliveInitialDelay: 60_000 },
      (socket) => this.#accept(socket),
    );
  }

  listen(host: string, port: number): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen({ host, port }, () => {
        this.#server.off('error', reject);
        // A failing accept (no file descriptors left) costs that client its connection, not the door.
        this.#server.on('error', () => {});
        resolve();
      });
    });
  }

  get address(): { host: string; port: number } {
    const address = this.#server.address();
    if (address === null || typeof address === 'string') throw new Error('the SQL door is not open');
    return { host: address.address, port: address.port };
  }

  async drain(): Promise<void> {
    this.#stopAccepting();
    for (const relay of this.#relays) relay.drain();
    await this.#workDone();
  }

  async close(): Promise<void> {
    this.#stopAccepting();
    this.#closing = true;
    for (const relay of this.#relays) relay.end(shuttingDown, 'closed');
    for (const startup of this.#startups) startup.abort();
    await this.#workDone();
  }

  #stopAccepting(): void {
    if (!this.#draining) this.#server.close();
    this.#draining = true;
    for (const socket of this.#openings) socket.destroy();
  }

  async #workDone(): Promise<void> {
    while (this.#work.size > 0) await Promise.all(this.#work);
  }

  #accept(socket: Socket): void {
    // Until a relay listens there is nobody to tell; 'close' follows every error.
    socket.on('error', () => {});
    if (this.#draining || this.#openings.size >= this.#limits.sqlOpeningsMax) {
      socket.destroy();
      return;
    }
    const work = this.#serve(socket).finally(() => this.#work.delete(work));
    this.#work.add(work);
  }

  /** Never rejects. */
  async #serve(client: Socket): Promise<void> {
    const startup = new AbortController();
    const timer = setTimeout(() => startup.abort(), this.#limits.sqlStartupTimeoutMs);
    const destroy = (): void => void client.destroy();
    startup.signal.addEventListener('abort', destroy);
    this.#openings.add(client);
    this.#startups.add(startup);
    const started = (): void => {
      clearTimeout(timer);
      this.#startups.delete(startup);
    };
    try {
      const came = await readClientOpening(client, this.#limits.sqlStartupBytesMax, this.#tls);
      // Strangers wait among the openings: they cannot keep others from a session.
      const opened = await this.#authenticated(came);
      this.#openings.delete(client);
      if (opened === null) return;
      startup.signal.removeEventListener('abort', destroy);
      const { signal } = startup;
      if (opened.opening.kind === 'cancel') await this.#cancel(opened.client, opened.packet, signal);
      else await this.#session(opened.client, opened, signal, started);
    } catch {
      // The client left, or is none; there is nobody to tell.
    } finally {
      this.#openings.delete(client);
      started();
      client.destroy();
    }
  }

  /** The opening of a client that may come in; null: it has read why not. */
  async #authenticated(opened: Opened): Promise<Opened | null> {
    const { client, opening, rest } = opened;
    // A cancel request shows a key of its own; before PostgreSQL 17 it comes in the clear, whatever its session does.
    if (opening.kind !== 'startup') return opened;
    const { observe, passwords = null, tlsRequired = false } = this.#options;
    if (this.#tls !== null && tlsRequired && !opened.encrypted) {
      const message = 'this door takes encrypted connections only; connect with sslmode=require or better';
      await this.#refuse(client, { sqlstate: '28000', message });
      return null;
    }
    if (passwords === null) return opened;
    const user = opening.parameters.get('user') ?? '';
    const { refused, rest: left } = await authenticate(
      client,
      user,
      rest,
      passwords,
      this.#limits.sqlAuthMessageBytesMax,
    );
    if (refused === null) return { ...opened, rest: left };
    const remoteAddress = client.remoteAddress ?? '';
    observe({ kind: 'sql.login_failed', remoteAddress, user: user.slice(0, 64), sqlstate: refused.sqlstate });
    await this.#refuse(client, refused);
    return null;
  }

  /** Hands a CancelRequest on as it came: only the engine can tell whether its key is right. */
  async #cancel(client: Socket, packet: Buffer, signal: AbortSignal): Promise<void> {
    const engine = await dialEngine(this.#options.endpoint(), signal);
    try {
      await new Promise<void>((resolve) => {
        engine.on('error', () => {});
        engine.once('close', resolve);
        signal.addEventListener('abort', () => engine.destroy(), { once: true });
        if (signal.aborted) engine.destroy();
        engine.resume();
        engine.end(packet);
      });
    } finally {
      engine.destroy();
    }
    // The client waits for this end: only then has its request been served.
    await this.#say(client, null);
  }

  async #session(
    client: Socket,
    opened: Opened,
    signal: AbortSignal,
    authenticated: () => void,
  ): Promise<void> {
    const { observe } = this.#options;
    this.#sessionNumber += 1;
    const session = this.#sessionNumber;
    this.#sessions += 1;
    observe({ kind: 'sql.connected', session, remoteAddress: client.remoteAddress ?? '' });
    let reason = 'the client left';
    try {
      reason = await this.#relay(session, client, opened, signal, authenticated);
    } finally {
      this.#sessions -= 1;
      observe({ kind: 'sql.closed', session, reason });
    }
  }

  /** Gives the reason for the end. */
  async #relay(
    session: number,
    client: Socket,
    { opening, packet, rest }: Opened,
    signal: AbortSignal,
    authenticated: () => void,
  ): Promise<string> {
    const refused = this.#refusal(opening);
    if (refused !== null) return this.#refuse(client, refused);
    let engine: Socket;
    try {
      engine = await dialEngine(this.#options.endpoint(), signal);
    } catch (error) {
      const message = `the database cannot be reached: ${(error as Error).message}`;
      return this.#refuse(client, this.#draining ? shuttingDown : { sqlstate: '57P03', message });
    }
    const parameters = opening.kind === 'startup' ? opening.parameters : new Map<string, string>();
    const relay = new Relay({
      client,
      engine,
      authenticated: () => {
        signal.removeEventListener('abort', tooLong);
        authenticated();
      },
      database: parameters.get('database') ?? parameters.get('user') ?? '',
      user: parameters.get('user') ?? '',
      rewrite: this.#options.rewrite,
      limits: this.#limits,
      rewritten: (statements) => this.#options.observe({ kind: 'sql.rewritten', session, statements }),
      failed: (error) => this.#options.observe({ kind: 'sql.failed', session, error }),
    });
    const tooLong = (): void =>
      relay.end(
        { sqlstate: '57014', message: 'canceling authentication due to timeout' },
        'start-up timeout',
      );
    signal.addEventListener('abort', tooLong);
    this.#relays.add(relay);
    try {
      relay.start(packet, rest);
      if (this.#closing) relay.end(shuttingDown, 'closed');
      else if (this.#draining) relay.drain();
      return await relay.closed;
    } finally {
      signal.removeEventListener('abort', tooLong);
      this.#relays.delete(relay);
    }
  }

  #refusal(opening: Opened['opening']): FatalReason | null {
    if (opening.kind === 'unsupported') {
      const message = `unsupported frontend protocol ${opening.version}: the server supports 3.0 and 3.2`;
      return { sqlstate: '0A000', message };
    }
    if (this.#draining) return { sqlstate: '57P03', message: 'Headgate is shutting down' };
    if (this.#sessions > this.#limits.sqlConnectionsMax) {
      return { sqlstate: '53300', message: 'sorry, too many clients already' };
    }
    const unavailable = this.#options.unavailable();
    return unavailable === null ? null : { sqlstate: '57P03', message: unavailable };
  }

  async #refuse(client: Socket, fatal: FatalReason): Promise<string> {
    await this.#say(client, writeFatal(fatal));
    return `refused: ${fatal.message}`;
  }

  /** Ends a client's connection with a last message; resolves when the client has read it, left, or dawdled. */
  async #say(client: Socket, last: Buffer | null): Promise<void> {
    if (client.destroyed) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(() => client.destroy(), this.#limits.sqlLingerMs);
      client.once('close', () => {
        clearTimeout(timer);
        resolve();
      });
      client.resume();
      if (last === null) client.end();
      else client.end(last);
    });
  }
}
