/**
 * Whether rows can be written at all: an engine that answers may be a standby, be set to read-only, or have no space left.
 * Takes an engine that is up and signs of doubt, provides `unavailable`; refuses nothing. Probes only when in doubt: after
 * a commit that failed, and when the disk of the data directory is nearly full. The probe is a temporary table of one page,
 * created and rolled back, on a connection that is closed again.
 */
import type { Engine } from './engine.ts';
import { statfs } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, type ClientBase } from 'pg';
import type { Closable } from '../kit/closer.ts';
import { limits } from '../config/limits.ts';
import type { Readers } from '../observe/context.ts';
import { hangUp } from './close-client.ts';
import { sqlstateOf } from './sqlstate.ts';

/**
 * null: the server accepts writes; otherwise why not. For PostgreSQL 14 and later. Every name is qualified: the owner of a database decides
 * with ALTER DATABASE … SET search_path what a name means there.
 */
export async function readOnlyReason(client: ClientBase): Promise<'standby' | 'read-only' | null> {
  const answer = await client.query<{ standby: boolean; readonly: boolean }>(
    `select pg_catalog.pg_is_in_recovery() as standby,
       pg_catalog.current_setting('default_transaction_read_only')::pg_catalog.bool as readonly`,
  );
  const { standby, readonly } = answer.rows[0] ?? { standby: false, readonly: false };
  return standby ? 'standby' : readonly ? 'read-only' : null;
}

/** Takes a page where the database's own tables take theirs, and leaves nothing behind. */
const probe = `begin;
  set local temp_tablespaces = '';
  set local statement_timeout = ${limits.engineAnswerMs};
  create temporary table headgate_probe on commit drop as select 1 as n;
  rollback`;

/** No space, a failing disk, read-only: conditions that keep every row from being written. */
const nothingWritten = ['53100', '58030', '25006'];

/** What makes it doubt. `watch`: null as long as there is none. */
export function doubtsOf(watch: () => WriteWatch | null): Readers {
  const doubt = (): void => watch()?.doubt();
  return { 'group.aborted': doubt, 'group.unknown': doubt, 'rejected.unwritable': doubt };
}

export class WriteWatch implements Closable {
  /** null: rows can be written, as far as is known. */
  unavailable: string | null = null;
  readonly #engine: Pick<Engine, 'kind' | 'clientConfig' | 'defaultDatabase' | 'unavailable'>;
  readonly #folder: string | null;
  readonly #stop = new AbortController();
  readonly #running: Promise<void>;
  #doubt = false;
  #askedAtMs = -Infinity;

  /** `folder`: on the disk of the tables; null: that disk is not on this machine. */
  constructor(
    engine: Pick<Engine, 'kind' | 'clientConfig' | 'defaultDatabase' | 'unavailable'>,
    folder: string | null,
  ) {
    this.#engine = engine;
    this.#folder = folder;
    this.#running = this.#run();
  }

  /** Rows could not be written, perhaps for a reason that keeps every row from being written. */
  doubt(): void {
    this.#doubt = true;
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    const lookMs = limits.writeLookMs;
    while (!signal.aborted) {
      await sleep(lookMs, undefined, { signal }).catch(() => undefined);
      if (!signal.aborted && (await this.#inDoubt())) await this.#ask(signal);
    }
  }

  async #inDoubt(): Promise<boolean> {
    // It is then not probed.
    if (this.#engine.unavailable !== null) return false;
    if (this.unavailable !== null) return true;
    // Repeated failures for another reason are not a reason to write all the time.
    if (performance.now() - this.#askedAtMs < limits.writeProbeRestMs) return false;
    return this.#doubt || (await this.#noRoom());
  }

  async #noRoom(): Promise<boolean> {
    const folder = this.#folder;
    if (folder === null) return false;
    const { bavail, bsize } = await statfs(folder).catch(() => ({ bavail: Infinity, bsize: 1 }));
    return bavail * bsize < limits.writeRoomBytes;
  }

  async #ask(signal: AbortSignal): Promise<void> {
    this.#doubt = false;
    this.#askedAtMs = performance.now();
    const client = new Client({
      // A database that nobody drops.
      ...this.#engine.clientConfig(
        this.#engine.kind === 'embedded' ? 'postgres' : this.#engine.defaultDatabase,
      ),
      connectionTimeoutMillis: limits.engineAnswerMs,
      query_timeout: 2 * limits.engineAnswerMs,
    });
    client.on('error', () => undefined);
    const hangUpNow = (): void => void hangUp(client);
    signal.addEventListener('abort', hangUpNow, { once: true });
    try {
      await client.connect();
      await client.query(probe);
      this.unavailable = null;
    } catch (error) {
      const sqlstate = sqlstateOf(error);
      // An engine that went away is reported elsewhere, and a probe that this role is not permitted says nothing.
      if (sqlstate !== null && nothingWritten.includes(sqlstate))
        this.unavailable = `nothing can be written: ${(error as Error).message.replaceAll(/\s+/g, ' ')}`;
      else if (sqlstate !== null) this.unavailable = null;
    } finally {
      signal.removeEventListener('abort', hangUpNow);
      await hangUp(client);
    }
  }
}
