/**
 * Keeps one light connection to an engine and thereby knows whether it is up. Takes how to bring the engine up
 * (embedded) and how to connect to it, provides `unavailable` and `serverVersion`; refuses nothing: a failed attempt is
 * repeated, indefinitely, with a growing pause. Reports `engine.ready` and `engine.lost`, alternately, and before the first
 * `engine.ready` each new reason as `engine.unreachable`.
 *
 * It is one loop: prepare → dial → greet → hold until lost → pause → prepare … A caller that needs the first result
 * awaits `settled`.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, type ClientConfig } from 'pg';
import { backoffMs } from '../kit/backoff.ts';
import type { Closable } from '../kit/closer.ts';
import { deferred, within } from '../kit/promises.ts';
import { limits } from '../config/limits.ts';
import type { Observe } from '../observe/observations.ts';
import { EngineError } from './engine.ts';
import { isRisingWave } from './server-product.ts';
import { hangUp } from './close-client.ts';
import { wordsOf } from './connection-failure.ts';
import { readOnlyReason } from './writability.ts';

interface WatchOptions {
  /** The engine's name in observations. */
  readonly engine: string;
  readonly clientConfig: () => ClientConfig;
  readonly observe: Observe;
  /** Brings the engine to where it can be connected to; a rejection is a failed attempt. */
  readonly prepare?: (signal: AbortSignal) => Promise<void>;
  /** Called first on a new connection; a rejection is a failed attempt. */
  readonly greet?: (client: Client) => Promise<void>;
  /** Checks that the server responds and is still the wanted one; a rejection is a loss. By default `select 1`. */
  readonly check?: (client: Client) => Promise<unknown>;
  /** The reason of an error, for people; default: its message. */
  readonly describe?: (error: Error) => string;
  /** A better reason for a loss than the socket's error, if there is one. */
  readonly explain?: () => string | null;
  /** Failures that pass without intervention in a moment: `settled` waits them out. */
  readonly passes?: (error: Error) => boolean;
  /** Texts that must not appear in a reason. */
  readonly secrets?: readonly string[];
  readonly random?: () => number;
  /** The oldest acceptable server; default: the oldest that Headgate's catalog and commit statements work on. */
  readonly serverVersionMin?: number;
}

/** The oldest server that Headgate's catalog and commit statements work on. */
const versionMin = 140_000;

const words = { standby: 'a standby', 'read-only': 'read-only (default_transaction_read_only)' };

export class EngineWatch implements Closable {
  serverVersion = 0;
  unavailable: string | null = 'the database is starting';
  /** null: it accepts writes, as far as is known; otherwise the reason, in one line. */
  readOnly: string | null = null;
  /** Resolves at the first success with null, or at the first failure that is not transient, with its error. */
  readonly settled: Promise<Error | null>;
  readonly #options: WatchOptions;
  readonly #stop = new AbortController();
  readonly #settle: (error: Error | null) => void;
  readonly #running: Promise<void>;
  #doubt: () => void = () => {};
  #wasReady = false;

  constructor(options: WatchOptions) {
    this.#options = options;
    const settled = deferred<Error | null>();
    this.settled = settled.promise;
    this.#settle = settled.resolve;
    this.#running = this.#run();
  }

  /** Checks the server at once instead of when the check is due. */
  doubt(): void {
    this.#doubt();
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { engine, observe, random = Math.random } = this.#options;
    const { signal } = this.#stop;
    let failures = 0;
    while (!signal.aborted) {
      const startedAt = performance.now();
      const error = await this.#attempt(startedAt, () => (failures = 0));
      if (signal.aborted) break;
      const reason = this.#describe(error);
      const passes = this.#options.passes?.(error) === true;
      // Every attempt has its reason, but after a success only the first failure is reported.
      if (this.unavailable === null) observe({ kind: 'engine.lost', engine, reason });
      else if (!this.#wasReady && !passes && reason !== this.unavailable)
        observe({ kind: 'engine.unreachable', engine, reason });
      this.unavailable = reason;
      if (!passes) this.#settle(error);
      failures += 1;
      const pause = backoffMs(failures, limits.engineBackoffMinMs, limits.engineBackoffMs, random);
      await sleep(pause, undefined, { signal }).catch(() => undefined);
    }
    this.unavailable = 'the database is closed';
    this.#settle(new EngineError(this.unavailable));
  }

  /** One connection from dialling to its loss. Returns what ended it; never rejects. */
  async #attempt(startedAt: number, succeeded: () => void): Promise<Error> {
    const { engine, observe, prepare, greet, clientConfig } = this.#options;
    const { signal } = this.#stop;
    const connection = new AbortController();
    const abort = (): void => connection.abort();
    signal.addEventListener('abort', abort, { once: true });
    let client: Client | null = null;
    try {
      await prepare?.(signal);
      signal.throwIfAborted();
      client = new Client({ ...clientConfig(), connectionTimeoutMillis: limits.engineAnswerMs });
      const lost = whenLost(client, connection.signal);
      await Promise.race([client.connect(), lost.then((error) => Promise.reject(error))]);
      const version = await this.#readVersion(client);
      await greet?.(client);
      await this.#check(client);
      signal.throwIfAborted();
      succeeded();
      this.#wasReady = true;
      this.unavailable = null;
      observe({ kind: 'engine.ready', engine, version, seconds: (performance.now() - startedAt) / 1_000 });
      this.#settle(null);
      return await Promise.race([lost, this.#heartbeat(client, connection.signal)]);
    } catch (error) {
      return error instanceof Error ? error : new Error(String(error));
    } finally {
      signal.removeEventListener('abort', abort);
      connection.abort();
      if (client !== null) await hangUp(client);
    }
  }

  /** Without it, a connection whose other end vanished (power, network) would appear alive for hours. */
  async #heartbeat(client: Client, signal: AbortSignal): Promise<Error> {
    try {
      for (;;) {
        await this.#pause(signal);
        const late = new Error(`the database has not answered for ${limits.engineAnswerMs} ms`);
        const answer = this.#check(client).then(() => null);
        const first = await within(limits.engineAnswerMs, answer, late);
        if (first !== null) return first;
      }
    } catch (error) {
      return error as Error;
    }
  }

  /** Until the next check is due, or requested. */
  async #pause(signal: AbortSignal): Promise<void> {
    const woken = new AbortController();
    const wake = (): void => woken.abort();
    this.#doubt = wake;
    signal.addEventListener('abort', wake, { once: true });
    await sleep(limits.engineHeartbeatMs, undefined, { signal: woken.signal }).catch(() => undefined);
    signal.removeEventListener('abort', wake);
    signal.throwIfAborted();
  }

  async #check(client: Client): Promise<unknown> {
    // An older server speaks the protocol but has other functions.
    if (this.serverVersion >= versionMin) {
      let reason = await readOnlyReason(client);
      // The default is that of the session's beginning, and may have been changed since.
      if (reason === 'read-only') reason = await this.#reasonNow();
      this.readOnly = reason === null ? null : `nothing can be written: the database is ${words[reason]}`;
    }
    return this.#options.check?.(client) ?? client.query('select 1');
  }

  async #reasonNow(): Promise<'standby' | 'read-only' | null> {
    const bounds = { connectionTimeoutMillis: limits.engineAnswerMs, query_timeout: limits.engineAnswerMs };
    const client = new Client({ ...this.#options.clientConfig(), ...bounds });
    client.on('error', () => undefined);
    try {
      await client.connect();
      return await readOnlyReason(client);
    } catch {
      return 'read-only';
    } finally {
      await hangUp(client);
    }
  }

  async #readVersion(client: Client): Promise<string> {
    const answer = await client.query<{ number: number; name: string; product: string }>({
      text: `select pg_catalog.current_setting('server_version_num')::int as number,
        pg_catalog.current_setting('server_version') as name, pg_catalog.version() as product`,
    });
    const { number, name, product } = answer.rows[0] ?? { number: 0, name: 'unknown', product: '' };
    const { serverVersionMin = versionMin } = this.#options;
    if (number < serverVersionMin) {
      const min = Math.floor(serverVersionMin / 10_000);
      throw new EngineError(
        isRisingWave(product)
          ? `the server is a RisingWave, which only headgate gateway can serve; Headgate's own tables need PostgreSQL ${min} or later`
          : `the server is PostgreSQL ${name}; Headgate needs ${min} or later`,
      );
    }
    this.serverVersion = number;
    return name;
  }

  /** One line, without a password, wherever the text comes from. */
  #describe(error: Error): string {
    let text = this.#options.explain?.() ?? this.#options.describe?.(error) ?? wordsOf(error);
    for (const secret of this.#options.secrets ?? []) {
      if (secret !== '') text = text.replaceAll(secret, '***');
    }
    return text.replaceAll(/\s+/g, ' ').slice(0, limits.engineLogLineCharsMax);
  }
}

function whenLost(client: Client, signal: AbortSignal): Promise<Error> {
  return new Promise((resolve) => {
    client.on('error', resolve);
    client.on('end', () => resolve(new Error('the connection was closed')));
    signal.addEventListener('abort', () => resolve(new Error('closed')), { once: true });
  });
}
