/**
 * The spools of all databases: one folder, which this process alone may use. Takes what the catalog has confirmed, and tells
 * what is known of a table while nobody can confirm it; returns the spool of a database. Refuses to open (throws SpoolError) a
 * folder that another process uses. Touches its folder alone.
 *
 *   <folder>/<database>/tables.sealed   what is known of its tables, with the time at which it was true, so that a start without the database
 *                                       knows which senders to accept; counts as none if it cannot be opened, or is from the future
 *   <folder>/<database>/<id>/           a spool (spool.ts)
 */
import { join } from 'node:path';
import type { Closable } from '../kit/closer.ts';
import { PlainError } from '../kit/plain-error.ts';
import { rememberedOf } from '../kit/memoize.ts';
import { limits } from '../config/limits.ts';
import type { Observe } from '../observe/observations.ts';
import { DatabaseSpool } from './database-spool.ts';
import type { DatabaseSpoolOptions } from './database-spool.ts';
import type { Drainer } from './drainer.ts';
import { reading } from './scan-records.ts';
import type { SpoolFiles } from './files.ts';

export interface KnownTables {
  /** headgate.home() of the database. */
  readonly home: string;
  /** ms since 1970 */
  readonly confirmedAtMs: number;
  /** Rows of the catalog, each as JSON. */
  readonly rows: readonly string[];
}

interface SpoolSeals {
  readonly seal: (plaintext: string, identity: string) => string;
  readonly open: (sealed: string, identity: string) => string;
}

const name = 'tables.sealed';
const identityOf = (database: string) => `spool:${database}`;

/** Written as a whole, or not at all. */
async function writeKnown(
  files: SpoolFiles,
  folder: string,
  database: string,
  known: KnownTables,
  { seal }: SpoolSeals,
): Promise<void> {
  const next = join(folder, `${name}.next`);
  await files.remove(next).catch(() => {});
  const file = await files.create(next);
  try {
    await file.write([Buffer.from(seal(JSON.stringify(known), identityOf(database)))], 0);
    await file.sync();
  } finally {
    await file.close();
  }
  await files.rename(next, join(folder, name));
  await files.syncFolder(folder);
}

/** null: there is no file, or none that is trusted. */
async function readKnown(
  files: SpoolFiles,
  folder: string,
  database: string,
  nowMs: number,
  { open }: SpoolSeals,
): Promise<KnownTables | null> {
  if (!(await files.list(folder)).includes(name)) return null;
  const sealed = await reading(files, join(folder, name), async (file) => {
    const bytes = Buffer.alloc(await file.size());
    return bytes.toString('latin1', 0, await file.read(bytes, 0));
  });
  try {
    const known = JSON.parse(open(sealed, identityOf(database))) as KnownTables;
    return known.confirmedAtMs <= nowMs ? known : null;
  } catch {
    return null;
  }
}

export class SpoolError extends PlainError {
  override readonly name = 'SpoolError';
}

export interface SpoolsOptions extends Omit<
  DatabaseSpoolOptions,
  'database' | 'folder' | 'bytesLeft' | 'bytesFree' | 'bytesOfOwner' | 'hasSeveralOwners'
> {
  readonly root: string;
  readonly bytesMax: number;
  readonly seal: (plaintext: string, identity: string) => string;
  readonly open: (sealed: string, identity: string) => string;
  /** Locks the folder for this process; null: nothing here can lock it. */
  readonly lock: (folder: string) => Promise<Closable | null>;
  readonly drain: (kept: DatabaseSpool) => Drainer;
  /** Called with what an earlier process knew of the tables of a database; null: nothing. `isLeft`: it has left requests of them. */
  readonly remember: (database: string, known: KnownTables | null, isLeft: boolean) => void;
  readonly opened: (kept: DatabaseSpool) => void;
  /** headgate.home(); rejects if the database cannot be asked. */
  readonly home: (database: string) => Promise<string>;
  readonly observe: Observe;
}

/** What the catalog has read of a database. */
export interface Confirmed {
  /** Changes whenever a table changes. */
  readonly version: number;
  /** Rows of the tables that spool, as JSON. */
  readonly rows: () => readonly string[];
}

interface OpenDatabase {
  readonly kept: DatabaseSpool;
  readonly drainer: Drainer;
  writtenVersion: number;
  writtenAtMs: number;
}

export class Spools implements Closable {
  readonly #options: SpoolsOptions;
  readonly #databases = new Map<string, OpenDatabase>();
  /** The work in progress for each database, one after another. */
  readonly #running = new Map<string, Promise<void>>();
  readonly #lock: Closable;
  #closed = false;

  private constructor(options: SpoolsOptions, lock: Closable) {
    this.#options = options;
    this.#lock = lock;
  }

  /** Rejects with SpoolError and the system's errors. */
  static async open(options: SpoolsOptions): Promise<Spools> {
    const { files, root } = options;
    await files.makeFolder(root);
    const lock = await options.lock(root).catch((error: unknown) => {
      if (error instanceof SpoolError) throw error;
      throw new SpoolError(`another Headgate uses the folder ${root}`);
    });
    if (lock === null)
      throw new SpoolError(`nothing here can lock the folder ${root}: install flock, or Perl`);
    const spools = new Spools(options, lock);
    try {
      for (const name of await files.list(root)) {
        const database = databaseOf(name);
        if (database !== null) await spools.#openDatabase(database, null);
      }
    } catch (error) {
      await spools.close();
      throw error;
    }
    return spools;
  }

  /** null: none was opened. */
  spoolOf(database: string): DatabaseSpool | null {
    return this.#databases.get(database)?.kept ?? null;
  }

  get all(): readonly { readonly kept: DatabaseSpool; readonly drainer: Drainer }[] {
    return [...this.#databases.values()];
  }

  get bytes(): number {
    let sum = 0;
    for (const { kept } of this.#databases.values()) sum += kept.bytes;
    return sum;
  }

  /** The catalog of a database is what the engine has. Never throws, returns at once. */
  confirmed(database: string, confirmed: Confirmed): void {
    if (this.#closed || this.#running.has(database)) return;
    const open = this.#databases.get(database);
    const { clock } = this.#options;
    const isWritten =
      open !== undefined &&
      open.writtenVersion === confirmed.version &&
      clock() - open.writtenAtMs < limits.spoolSnapshotMs;
    open?.kept.wake();
    if (isWritten) return;
    const run = this.#write(database, confirmed)
      .catch((error: unknown) => this.#failed(database, error))
      .finally(() => this.#running.delete(database));
    this.#running.set(database, run);
  }

  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all(this.#running.values());
    for (const { drainer } of this.#databases.values()) await drainer.close();
    for (const { kept } of this.#databases.values()) await kept.close();
    await this.#lock.close();
  }

  async #write(database: string, confirmed: Confirmed): Promise<void> {
    const rows = confirmed.rows();
    const known = this.#databases.get(database);
    if (rows.length === 0 && known === undefined) return;
    const { files, root, nowMs, clock, home: ask, seal, open: unseal } = this.#options;
    const [confirmedAtMs, startedMs] = [nowMs(), clock()];
    const home = await ask(database).catch(() => null);
    // The database is unreachable again; it will be confirmed later.
    if (home === null) return;
    const open = known ?? (await this.#openDatabase(database, home));
    open.kept.home = home;
    const folder = join(root, folderOf(database));
    await writeKnown(files, folder, database, { home, confirmedAtMs, rows }, { seal, open: unseal });
    if (rows.length > 0) await open.kept.prepare();
    open.writtenVersion = confirmed.version;
    open.writtenAtMs = startedMs;
  }

  /** `home`: what the database has answered; null: it was not asked. */
  async #openDatabase(database: string, home: string | null): Promise<OpenDatabase> {
    const { files, root, bytesMax, nowMs, drain, remember, opened, seal, open: unseal } = this.#options;
    const folder = join(root, folderOf(database));
    await files.makeFolder(folder);
    await files.syncFolder(root);
    const bytesLeft = () => bytesMax - this.bytes;
    const bytesFree = () => this.all.reduce((left, { kept: one }) => left - one.shares.bytes, bytesMax);
    // A role is the same in all databases of the server.
    const bytesOfOwner = (owner: number) =>
      this.all.reduce((sum, { kept: one }) => sum + one.shares.bytesOfOwner(owner), 0);
    const hasSeveralOwners = () => {
      const owners = this.all.map(({ kept: { database: name } }) => distinct(this.#options.ownersOf(name)));
      return new Set(owners.flatMap((some) => some.slice(0, 2))).size > 1;
    };
    const bounds = { bytesLeft, bytesFree, bytesOfOwner, hasSeveralOwners };
    const kept = await DatabaseSpool.open({ ...this.#options, ...bounds, database, folder });
    const known = await readKnown(files, folder, database, nowMs(), { seal, open: unseal });
    const ownHome = home ?? known?.home;
    if (ownHome !== undefined) kept.home = ownHome;
    remember(
      database,
      known,
      kept.spools.some(({ segments }) => segments.length > 0),
    );
    const open = { kept, drainer: drain(kept), writtenVersion: -1, writtenAtMs: 0 };
    this.#databases.set(database, open);
    opened(kept);
    if (known !== null && known.rows.length > 0) await kept.prepare();
    return open;
  }

  #failed(database: string, error: unknown): void {
    const reason = error instanceof Error ? error.message : String(error);
    this.#options.observe({ kind: 'spool.failed', database, reason });
  }
}

/** What was written about the tables of all databases, for a process that keeps nothing itself. */
export async function knownTables({
  files,
  root,
  nowMs,
  seal,
  open,
}: Pick<SpoolsOptions, 'files' | 'root' | 'nowMs' | 'seal' | 'open'>): Promise<
  ReadonlyMap<string, KnownTables>
> {
  const all = new Map<string, KnownTables>();
  for (const name of await files.list(root)) {
    const database = databaseOf(name);
    const known =
      database === null ? null : await readKnown(files, join(root, name), database, nowMs(), { seal, open });
    if (database !== null && known !== null) all.set(database, known);
  }
  return all;
}

/** Letters that every file system allows in a name; everything else as its bytes. */
function folderOf(database: string): string {
  const escape = (byte: number) => `%${byte.toString(16).padStart(2, '0')}`;
  return [...Buffer.from(database)]
    .map((byte) => (/[a-z0-9_]/.test(String.fromCharCode(byte)) ? String.fromCharCode(byte) : escape(byte)))
    .join('');
}

/** null: not a folder of Headgate's. */
function databaseOf(name: string): string | null {
  if (!/^(?:[a-z0-9_]|%[0-9a-f]{2})+$/.test(name)) return null;
  const bytes = name.replaceAll(/%(..)/g, (_, hex: string) => String.fromCharCode(parseInt(hex, 16)));
  return Buffer.from(bytes, 'latin1').toString();
}

const distinct = rememberedOf((owners: ReadonlyMap<number, number>): readonly number[] => [
  ...new Set(owners.values()),
]);
