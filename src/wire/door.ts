/**
 * The SQL door: a PostgreSQL port that relays every client to the engine, byte by byte, and rewrites only the statements
 * that its rewriter recognises.
 *
 * Takes clients, the engine's endpoint and a `RewriteSql`; gives each client its own connection to the engine. Refuses
 * with FATAL 53300 (too many clients, or wrong passwords; or others need the place of a client that is silent before it has logged in),
 * 57P03 (engine unavailable, shutting down), 0A000 (protocol before 3.0), 08P01 (messages out of bounds), 57014 (startup
 * took too long), 28000 (not encrypted, or a role of Headgate's own) and, if the door itself asks for passwords, 28P01. Touches no table itself.
 */
import { createServer, type Server, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import type { Endpoint } from '../engine/engine.ts';
import { LoginBackoff } from '../access/login-backoff.ts';
import type { TlsSource } from '../access/tls-source.ts';
import type { RewriteSql } from '../ddl/rewrite.ts';
import type { Closable } from '../kit/closer.ts';
import { listenAt } from '../kit/listen-at.ts';
import type { ListenAt } from '../kit/listen-at.ts';
import { type Limits, limits as standardLimits } from '../config/limits.ts';
import type { Observe } from '../observe/observations.ts';
import { sendCancelRequest } from '../engine/cancellation.ts';
import { authenticate, type Passwords } from './authenticate.ts';
import { dialEngine } from './engine-socket.ts';
import { followerRefused } from './replication-clients.ts';
import { type FatalReason, writeFatal } from './messages.ts';
import { ClientTls, namesOf, Newcomers, readClientOpening, Startup } from './startup.ts';
import type { NegotiatedClient } from './startup.ts';
import { Relay, shuttingDown } from './relay.ts';
import { isHeadgatesLogin } from '../engine/login-names.ts';

export interface SqlDoorOptions extends ListenAt {
  readonly endpoint: () => Endpoint;
  /** How many connections the engine has for everybody, of which clients get at most half; 0 or absent: enough. */
  readonly serverConnections?: () => number;
  /** null: the engine can be reached; otherwise the reason, in one line. */
  readonly unavailable: () => string | null;
  readonly rewrite: RewriteSql;
  readonly observe: Observe;
  readonly limits?: Limits;
  /** null or absent: clients that ask for TLS are told that there is none. */
  readonly tls?: TlsSource | null;
  /** With TLS: clients that do not encrypt are refused. */
  readonly tlsRequired?: boolean;
  /** null or absent: the engine authenticates clients itself. */
  readonly passwords?: Passwords | null;
  /** Clients reach the engine only through this door, so a follower of its log may only follow publications. Another server has its own rules. */
  readonly ownEngine?: boolean;
}

export interface SqlDoor extends Closable {
  readonly address: { readonly host: string; readonly port: number };
  /** Accepts no new clients, ends the idle ones, and resolves when the last one has finished its work and left. */
  drain(): Promise<void>;
  /** Ends all clients now. */
  close(): Promise<void>;
}

/** Rejects when the port cannot be listened on. */
export async function openSqlDoor(options: SqlDoorOptions): Promise<SqlDoor> {
  const door = new PostgresDoor(options);
  await door.listen(options);
  return door;
}

const tooManyWrong: FatalReason = {
  sqlstate: '53300',
  message: 'too many passwords for this role were wrong, and others wait to be looked at',
  hint: 'Try again in ten seconds.',
};

function userOf(opening: NegotiatedClient['opening']): string {
  return opening.kind === 'startup' ? namesOf(opening.parameters).user : '';
}

class PostgresDoor implements SqlDoor {
  readonly #options: SqlDoorOptions;
  readonly #limits: Limits;
  readonly #server: Server;
  readonly #tls: ClientTls | null;
  readonly #relays = new Set<Relay>();
  readonly #work = new Set<Promise<void>>();
  /** Clients that are not authenticated yet, and CancelRequests. */
  readonly #startups = new Set<Startup>();
  readonly #newcomers: Newcomers;
  /** Those of them that the engine is authenticating: each has a connection to the engine. */
  readonly #askedByEngine = new Newcomers(Infinity);
  readonly #wrongPasswords: LoginBackoff;
  #closing = false;
  /** Connections to the engine, except those for CancelRequests. */
  #sessions = 0;
  /** The same by the name that the client has given. */
  readonly #sessionsOf = new Map<string, number>();
  #sessionNumber = 0;
  #draining = false;

  constructor(options: SqlDoorOptions) {
    this.#options = options;
    this.#limits = options.limits ?? standardLimits;
    const { tls = null } = options;
    this.#wrongPasswords = new LoginBackoff(this.#limits);
    this.#newcomers = new Newcomers(this.#limits.sqlOpeningsMax);
    this.#tls = tls === null ? null : new ClientTls(tls, this.#limits.sqlStartupTimeoutMs);
    this.#server = createServer(
      { allowHalfOpen: true, noDelay: true, keepAlive: true, keepAliveInitialDelay: 60_000 },
      (socket) => this.#accept(socket),
    );
  }

  listen(at: ListenAt): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(listenAt(at), () => {
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
    for (const startup of this.#startups) startup.end(shuttingDown);
    await this.#workDone();
  }

  #stopAccepting(): void {
    if (!this.#draining) this.#server.close();
    this.#draining = true;
    for (const startup of this.#startups) if (!startup.served) startup.end(shuttingDown);
  }

  async #workDone(): Promise<void> {
    while (this.#work.size > 0) await Promise.all(this.#work);
  }

  #accept(socket: Socket): void {
    // Until a relay listens, errors have no recipient; 'close' follows every error.
    socket.on('error', () => {});
    if (this.#draining) {
      socket.destroy();
      return;
    }
    const work = this.#serve(socket).finally(() => this.#work.delete(work));
    this.#work.add(work);
  }

  /** Never rejects. */
  async #serve(client: Socket): Promise<void> {
    const startup = new Startup(client, this.#limits.sqlStartupTimeoutMs, () => this.#left(startup));
    this.#startups.add(startup);
    this.#newcomers.add(startup);
    try {
      const moved = (voice: Socket | null): void => {
        startup.speaksBy(voice);
        this.#newcomers.moved(startup);
      };
      const came = await readClientOpening(client, this.#limits.sqlStartupBytesMax, this.#tls, moved);
      const opened = await this.#authenticated(came, startup, () => moved(came.client));
      if (opened === null) return;
      startup.served = true;
      if (opened.opening.kind === 'cancel') await this.#cancel(opened.client, opened.packet, startup.signal);
      else await this.#session(opened.client, opened, startup);
    } catch {
      // The client left, or is not a PostgreSQL client; there is nobody to tell.
    } finally {
      startup.leave();
      client.destroy();
    }
  }

  #left(startup: Startup): void {
    this.#startups.delete(startup);
    this.#newcomers.remove(startup);
    this.#askedByEngine.remove(startup);
  }

  /** The opening of a client that is admitted; null: it has been told why not. */
  async #authenticated(
    opened: NegotiatedClient,
    startup: Startup,
    moved: () => void,
  ): Promise<NegotiatedClient | null> {
    const { client, opening, rest } = opened;
    // A cancel request has its own key; before PostgreSQL 17 it is sent in the clear, whatever its session does.
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
      moved,
      () => this.#turn(user, startup),
    );
    if (refused === null) return { ...opened, rest: left };
    if (refused.sqlstate === '28P01') this.#wrongPasswords.wrong(user, startup.network, performance.now());
    const remoteAddress = client.remoteAddress ?? '';
    observe({ kind: 'sql.login_failed', remoteAddress, user: user.slice(0, 64), sqlstate: refused.sqlstate });
    await this.#refuse(client, refused);
    return null;
  }

  /** After wrong passwords: waits until one more may be looked at, or says that too many wait. */
  async #turn(user: string, { network, signal }: Startup): Promise<FatalReason | null> {
    const waitMs = this.#wrongPasswords.waitMs(user, network, performance.now());
    if (waitMs === null) return tooManyWrong;
    if (waitMs > 0) await delay(waitMs, undefined, { signal, ref: false });
    return null;
  }

  /** Passes a CancelRequest on unchanged: the engine runs the statement, unless Headgate itself works on it. */
  async #cancel(client: Socket, packet: Buffer, signal: AbortSignal): Promise<void> {
    for (const relay of this.#relays) relay.cancel(packet);
    const engine = await dialEngine(this.#options.endpoint(), signal);
    try {
      await new Promise<void>((resolve) => {
        engine.once('close', resolve);
        signal.addEventListener('abort', () => engine.destroy(), { once: true });
        if (signal.aborted) engine.destroy();
        sendCancelRequest(engine, packet);
      });
    } finally {
      engine.destroy();
    }
    // The client waits for this end: it means that its request has been served.
    await this.#say(client, null);
  }

  async #session(client: Socket, opened: NegotiatedClient, startup: Startup): Promise<void> {
    const { observe } = this.#options;
    this.#sessionNumber += 1;
    const session = this.#sessionNumber;
    observe({ kind: 'sql.connected', session, remoteAddress: client.remoteAddress ?? '' });
    let reason = 'the client left';
    try {
      // If the door has authenticated the client, nothing more is expected from it before it is in.
      if ((this.#options.passwords ?? null) === null) this.#askedByEngine.add(startup);
      else this.#newcomers.remove(startup);
      const refused = this.#refusal(opened.opening);
      if (refused !== null) this.#askedByEngine.remove(startup);
      if (refused !== null) reason = await this.#refuse(client, refused);
      else reason = await this.#admitted(session, client, opened, startup);
    } finally {
      observe({ kind: 'sql.closed', session, reason });
    }
  }

  async #admitted(
    session: number,
    client: Socket,
    opened: NegotiatedClient,
    startup: Startup,
  ): Promise<string> {
    const user = userOf(opened.opening);
    let counted = 0;
    const count = (change: number): void => {
      counted += change;
      this.#sessions += change;
      const held = (this.#sessionsOf.get(user) ?? 0) + change;
      if (held > 0) this.#sessionsOf.set(user, held);
      else this.#sessionsOf.delete(user);
    };
    const ended = (): void => count(-counted);
    count(1);
    // A client that makes way frees its place at once, however long the end of its connection takes.
    startup.signal.addEventListener('abort', ended);
    try {
      return await this.#relay(session, client, opened, startup);
    } finally {
      ended();
    }
  }

  /** Returns the reason for the end. */
  async #relay(
    session: number,
    client: Socket,
    { opening, packet, rest }: NegotiatedClient,
    startup: Startup,
  ): Promise<string> {
    let engine: Socket;
    try {
      engine = await dialEngine(this.#options.endpoint(), startup.signal);
    } catch (error) {
      if (startup.signal.aborted) return 'it has made way';
      const message = `the database cannot be reached: ${(error as Error).message}`;
      return this.#refuse(client, this.#draining ? shuttingDown : { sqlstate: '57P03', message });
    }
    const { ownEngine = false } = this.#options;
    const parameters = opening.kind === 'startup' ? opening.parameters : new Map<string, string>();
    const relay = new Relay(client, engine, () => startup.leave(), {
      ...namesOf(parameters),
      followerRefused: parameters.has('replication') ? (sql) => followerRefused(sql, ownEngine) : null,
      rewrite: this.#options.rewrite,
      limits: this.#limits,
      rewritten: (statements) => this.#options.observe({ kind: 'sql.rewritten', session, statements }),
      failed: (error) => this.#options.observe({ kind: 'sql.failed', session, error }),
    });
    startup.endsBy((why) => {
      relay.end(why ?? shuttingDown, why?.message ?? 'closed');
      client.destroySoon();
    });
    this.#relays.add(relay);
    try {
      relay.start(packet, rest);
      if (this.#closing) relay.end(shuttingDown, 'closed');
      else if (this.#draining) relay.drain();
      return await relay.closed;
    } finally {
      this.#relays.delete(relay);
    }
  }

  #refusal(opening: NegotiatedClient['opening']): FatalReason | null {
    if (opening.kind === 'unsupported') {
      const message = `unsupported frontend protocol ${opening.version}: the server supports 3.0 and 3.2`;
      return { sqlstate: '0A000', message };
    }
    if (opening.kind === 'startup' && isHeadgatesLogin(opening.parameters.get('user') ?? ''))
      return { sqlstate: '28000', message: "this role is Headgate's own, to store rows: log in as another" };
    if (this.#draining) return { sqlstate: '57P03', message: 'Headgate is shutting down' };
    const unavailable = this.#options.unavailable();
    if (unavailable !== null) return { sqlstate: '57P03', message: unavailable };
    const { sqlReservedMax, sqlReservedOfOneMax } = this.#limits;
    // Whoever takes all places must not keep the others out, for example the one who would end that.
    const reserved = (this.#sessionsOf.get(userOf(opening)) ?? 0) < sqlReservedOfOneMax ? sqlReservedMax : 0;
    if (this.#sessions >= this.#most + reserved) {
      // Clients that the engine is still authenticating make way; this one is among them.
      if (this.#askedByEngine.size <= 1)
        return { sqlstate: '53300', message: 'sorry, too many clients already' };
      this.#askedByEngine.evict();
    }
    return null;
  }

  /** Without those that are reserved. The rest of the server's are for Headgate itself: rows are stored whoever fills the door. */
  get #most(): number {
    const { sqlConnectionsMax, sqlReservedMax, sqlReservedOfOneMax } = this.#limits;
    const all = this.#options.serverConnections?.() ?? 0;
    if (all === 0) return sqlConnectionsMax;
    return Math.min(sqlConnectionsMax, Math.max(sqlReservedOfOneMax, (all >> 1) - sqlReservedMax));
  }

  async #refuse(client: Socket, fatal: FatalReason): Promise<string> {
    await this.#say(client, writeFatal(fatal));
    return `refused: ${fatal.message}`;
  }

  /** Ends a client's connection with a last message; resolves when the client has read it, has left, or has taken too long. */
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
