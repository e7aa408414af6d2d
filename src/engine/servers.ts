/**
 * Which of several servers to use. Takes the servers of a connection string and what is required of one, returns the
 * one in use; rejects if none of them is suitable, with the reason for each. All are probed at the same time, because a
 * vanished server takes seconds to fail; the first suitable one in the order of the text wins.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, type ClientConfig } from 'pg';
import { deferred } from '../kit/promises.ts';
import { limits } from '../config/limits.ts';
import type { Dsn, Server } from './dsn.ts';
import { EngineError } from './engine.ts';
import { hangUp } from './close-client.ts';
import { connectionFailure, hasNoTls, wantsPlain, wordsOf } from './connection-failure.ts';
import { readOnlyReason } from './writability.ts';

/** What probing a server showed: the server to use, or why it cannot be used. */
interface ProbedServer {
  readonly server: Server | null;
  /** The same with the encryption, or without, with which it answered last. */
  readonly tried: Server;
  readonly reason: string;
}

export class Servers {
  readonly #dsn: Dsn;
  #current: Server;

  constructor(dsn: Dsn) {
    const [first] = dsn.servers;
    if (first === undefined) throw new EngineError('the database URL names no server');
    this.#dsn = dsn;
    this.#current = first;
  }

  get current(): Server {
    return this.#current;
  }

  /** There is nothing to choose, and nothing to check on the only server. */
  get single(): boolean {
    const { servers, sessions } = this.#dsn;
    return servers.length === 1 && sessions === 'any' && this.#current.plain === null;
  }

  /** For one client, or for a pool: a pool's clients connect to the server that is in use when they are created. */
  clientConfig(database: string): ClientConfig {
    const now = (): ClientConfig => configOf(this.#current);
    const base = { application_name: 'headgate', keepAlive: true, ...now(), database };
    if (this.#dsn.servers.length === 1 && this.#dsn.servers[0]?.plain === null) return base;
    // What `pg-pool` creates its clients from; `pg` itself ignores it.
    const follows = {
      Client: class extends Client {
        constructor(options: ClientConfig = {}) {
          const { host, port, ssl, password } = now();
          // A pool keeps the password where a copy of its options does not contain it.
          super({ ...options, host, port, ssl, password } as ClientConfig);
        }
      },
    };
    return { ...base, ...follows };
  }

  /** Finds the server to use from now on. */
  async choose(signal: AbortSignal): Promise<void> {
    const probes = this.#dsn.servers.map((server) => this.#probe(server, signal));
    const fits = probes.map((probe) => probe.then((it) => (it.server === null ? Promise.reject(it) : it)));
    // Once one server is suitable, those before it in the list get only a short time to answer.
    const enough = Promise.any(fits).then(
      () => sleep(limits.engineChoiceMs, null, { signal }).catch(() => null),
      () => null,
    );
    for (const probe of probes) {
      const found = await Promise.race([probe, enough]);
      if (found === null || found.server === null) continue;
      this.#current = found.server;
      return;
    }
    // Those that were skipped may have answered since.
    const all = await Promise.all(probes);
    const late = all.find((found) => found.server !== null)?.server ?? null;
    if (late === null) {
      // Until the next choice others connect to it, too, and are to hear the same.
      this.#current = all.find(({ tried }) => tried.name === this.#current.name)?.tried ?? this.#current;
      throw new EngineError(all.map((found) => found.reason).join('; '));
    }
    this.#current = late;
  }

  /** Why a connection to the server in use failed, or ended, in one line. */
  reasonOf(error: unknown): string {
    return error instanceof EngineError ? error.message : failureAt(this.#current, error);
  }

  /** Rejects if the server at the other end is not suitable. */
  async check(client: Client): Promise<void> {
    const { sessions } = this.#dsn;
    if (sessions === 'any') return void (await client.query('select 1'));
    const refuses = await readOnlyReason(client);
    if (refuses === 'standby') throw new EngineError('the server is a standby');
    if (refuses === 'read-only' && sessions === 'read-write')
      throw new EngineError('the server is read-only');
  }

  /** The server, or the same without TLS, or why neither can be used; never rejects. `refused`: what it has answered with TLS. */
  async #probe(server: Server, signal: AbortSignal, refused = ''): Promise<ProbedServer> {
    const client = new Client({ ...configOf(server), connectionTimeoutMillis: limits.engineAnswerMs });
    client.on('error', () => {});
    const stopped = deferred<never>();
    stopped.promise.catch(() => undefined);
    // The promise of a `pg` client that is ended while it logs in may never settle.
    const stop = (): void => stopped.reject(new EngineError('closed'));
    signal.addEventListener('abort', stop, { once: true });
    try {
      await Promise.race([client.connect().then(() => this.check(client)), stopped.promise]);
      return { server, tried: server, reason: '' };
    } catch (error) {
      const { plain } = server;
      if (plain !== null && wantsPlain(error))
        return await this.#probe(plain, signal, hasNoTls(error) ? '' : wordsOf(error));
      const said = error instanceof EngineError ? error.message : failureAt(server, error, refused !== '');
      const reason =
        refused === '' || refused === wordsOf(error) ? said : `with SSL ${refused}; without SSL ${said}`;
      return {
        server: null,
        tried: server,
        reason: this.#dsn.servers.length === 1 ? reason : `${server.name}: ${reason}`,
      };
    } finally {
      signal.removeEventListener('abort', stop);
      await hangUp(client);
    }
  }
}

/** In one line, for people. `triedSsl`: the same was attempted with SSL. */
export function failureAt({ name, config }: Server, error: unknown, triedSsl = false): string {
  const { user = '', database = '', ssl } = config;
  return connectionFailure(error, { user, database, at: name, triedSsl: triedSsl || ssl !== false });
}

/** Created for each client: `pg` hides the key in the object that it is given. */
function configOf({ config }: Server): ClientConfig {
  return { ...config, ...(typeof config.ssl === 'object' ? { ssl: { ...config.ssl } } : {}) };
}
