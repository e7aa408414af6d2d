/**
 * The requests of one database that are kept on the disk: the spool that this process writes to, and those that earlier
 * ones have left. Takes requests that were checked and decoded; returns promises that resolve when they are on the disk, in an order
 * that the drainer (drainer.ts) keeps. Refuses with `spool_full`, `overloaded`, `engine_unavailable` and `commit_unknown`.
 *
 * A spool is written to by one process, during one life of it. Another process, which may have been given a copy of its folder,
 * only ever reads it, so that a sequence of a spool never means two requests.
 */
import { join } from 'node:path';
import type { Closable } from '../kit/closer.ts';
import type { Observe, TableName } from '../observe/observations.ts';
import { limits } from '../config/limits.ts';
import { refusal, Refused } from '../errors/refusals.ts';
import { DiskHealth } from './disk-health.ts';
import { DiskShares } from './disk-shares.ts';
import type { SharedDisk } from './disk-shares.ts';
import { encodeTarget } from './format.ts';
import { encodeTable } from './kept-request.ts';
import type { SpooledTable } from './kept-request.ts';
import { NotKept } from './segment-files.ts';
import { Spool } from './spool.ts';
import type { SpoolOptions } from './spool.ts';
import { madeAtMs, newSpoolId, spoolIds } from './spool-folder.ts';
import { TableGate } from './table-order.ts';
import type { Appendable } from './writer.ts';

export interface DatabaseSpoolOptions extends Omit<SpoolOptions, 'root' | 'health'> {
  readonly disk: SharedDisk;
  readonly database: string;
  /** The folder of this database. */
  readonly folder: string;
  readonly ageMsMax: number;
  /** ms since 1970 */
  readonly nowMs: () => number;
  readonly observe: Observe;
}

/** A table with its present name. */
export type NamedTable = TableName & { readonly oid: number };

export class DatabaseSpool implements Closable {
  readonly database: string;
  readonly health: DiskHealth;
  readonly shares: DiskShares;
  readonly #options: DatabaseSpoolOptions;
  readonly #gates = new Map<number, TableGate>();
  /** What this process has written about its tables, by oid. */
  readonly told = new Map<number, SpooledTable & Appendable>();
  /** Tables that an earlier process has spooled, as long as it is not known since when. */
  readonly undated = new Set<number>();
  #spools: Spool[] = [];
  #own: Spool | null = null;
  #opening: Promise<Spool> | null = null;
  /** headgate.home() of the database; set by Spools whenever the catalog is confirmed, and from the folder at a start; null: not known yet. */
  home: string | null = null;
  #closed = false;
  #woken = new AbortController();

  private constructor(options: DatabaseSpoolOptions) {
    const { database, observe, files, folder } = options;
    this.#options = options;
    this.database = database;
    this.health = new DiskHealth(database, observe, files, folder);
    const all = () => this.#spools.flatMap(({ segments }) => segments);
    this.shares = new DiskShares(database, options.disk, options.clock, all);
  }

  gateOf(oid: number): TableGate {
    let gate = this.#gates.get(oid);
    if (gate === undefined) {
      gate = new TableGate(oid);
      this.#gates.set(oid, gate);
    }
    return gate;
  }

  /** null: the table has never spooled. */
  knownGate(oid: number): TableGate | null {
    return this.#gates.get(oid) ?? null;
  }

  get gates(): Iterable<TableGate> {
    return this.#gates.values();
  }

  /** Throws Refused if a request of this table would be kept in vain. Called before its body is read. */
  admit(gate: TableGate): void {
    if (!this.#hasKey) throw new Refused(noKey);
    if (!this.usable) throw new Refused('engine_unavailable');
    const { nowMs, ageMsMax } = this.#options;
    if (gate.sinceMs !== null && nowMs() - gate.sinceMs > ageMsMax) throw new Refused(full);
    if (this.shares.isFull(gate.oid)) throw new Refused(full);
  }

  /** Resolves when the request is on the disk; rejects with Refused. */
  async append(table: NamedTable, gate: TableGate, payload: Buffer): Promise<void> {
    this.admit(gate);
    gate.beginAppend();
    try {
      // Without a wait if it exists: requests are written in the order in which they get here.
      const own = this.#own ?? (await this.#makeOwn());
      await own.writer.append(this.#appendable(table), payload);
      this.shares.wrote(payload.length);
    } catch (error) {
      throw refusedFor(error);
    } finally {
      gate.endAppend();
    }
    this.wake();
  }

  #appendable({ database, schema, table, oid }: NamedTable): Appendable {
    const home = this.home ?? '';
    const told = this.told.get(oid);
    if (told?.schema === schema && told.table === table && told.home === home) return told;
    const kept = { database, schema, table, oid, home };
    const made = { ...kept, target: encodeTarget(encodeTable(kept)) };
    this.told.set(oid, made);
    return made;
  }

  /** There may be something to hand over: the drainer (drainer.ts), which was started with this spool, sleeps no longer, unless the database is away: then it asks from time to time. */
  wake(): void {
    if (!this.#woken.signal.aborted) this.#woken.abort();
  }

  /** For the drainer: a signal that the next `wake` aborts. */
  untilWoken(): AbortSignal {
    this.#woken = new AbortController();
    return this.#woken.signal;
  }

  /** In the order in which they are handed over; the last one may be this process's own. */
  get spools(): readonly Spool[] {
    return this.#spools;
  }

  get own(): Spool | null {
    return this.#own;
  }

  /** Of all files. */
  get bytes(): number {
    return this.#spools.reduce((sum, { segmentFiles }) => sum + segmentFiles.bytes, 0);
  }

  /** Whether requests can be kept: the identity of the database is known, the disk works, and there is a master key to seal with. */
  get usable(): boolean {
    return !this.#closed && this.home !== null && this.#own?.writer.off !== true && this.#hasKey;
  }

  get #hasKey(): boolean {
    const { ring } = this.#options;
    if (ring.keys().length === 0) ring.reread();
    return ring.keys().length > 0;
  }

  /** Including what earlier processes have left. Rejects with the system's errors. */
  static async open(options: DatabaseSpoolOptions): Promise<DatabaseSpool> {
    const kept = new DatabaseSpool(options);
    for (const id of (await spoolIds(options.files, options.folder)).toSorted())
      kept.#takeOver(await kept.#openSpool(id));
    await kept.health.lookAside();
    return kept;
  }

  async #openSpool(id: string): Promise<Spool> {
    const { folder: root } = this.#options;
    const spool = await Spool.open({ ...this.#options, root, health: this.health }, id);
    this.#spools = [...this.#spools, spool];
    return spool;
  }

  /** It is not known yet what of it has arrived: until then its tables continue to spool. */
  #takeOver(spool: Spool): void {
    for (const lost of spool.lost) this.health.damaged(lost);
    for (const { last } of spool.segments)
      for (const oid of last.keys()) {
        this.gateOf(oid).fill(madeAtMs(spool.id));
        this.undated.add(oid);
      }
  }

  /** Makes the segment that the first request goes to. Rejects with the system's errors. */
  async prepare(): Promise<void> {
    const own = await this.#makeOwn();
    await own.writer.prepare();
  }

  #makeOwn(): Promise<Spool> {
    this.#opening ??= this.#openOwn().catch((error: unknown) => {
      this.#opening = null;
      throw error;
    });
    return this.#opening;
  }

  async #openOwn(): Promise<Spool> {
    const existing = this.#spools.map(({ id }) => id);
    const { nowMs, random } = this.#options;
    return (this.#own = await this.#openSpool(newSpoolId(existing, nowMs(), random(10))));
  }

  /** Removes a spool that holds nothing any more and is not written to. */
  async remove(spool: Spool): Promise<void> {
    this.#spools = this.#spools.filter((one) => one !== spool);
    await spool.writer.close();
    const folder = join(this.#options.folder, spool.id);
    // What was quarantined stays.
    await this.#options.files.removeFolder(folder).catch(() => {});
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#opening?.catch(() => {});
    for (const spool of this.#spools) await spool.writer.close();
    if (this.#own !== null && this.#own.segments.length === 0) await this.remove(this.#own);
  }
}

const full = { ...refusal('spool_full'), retryAfterSeconds: limits.spoolFullRetrySeconds };
const noKey = refusal(
  'engine_unavailable',
  'the database is not available, and the master key is not here, without which no request is kept',
);
const notTold = refusal(
  'commit_unknown',
  'the database is not available, and the disk failed while the request was being kept',
);

/** What the sender is told; other errors stay as they are. */
function refusedFor(error: unknown): unknown {
  if (!(error instanceof NotKept)) return error;
  switch (error.why) {
    case 'full':
      return new Refused(full);
    case 'busy':
      return new Refused('overloaded');
    case 'locked':
      return new Refused(noKey);
    case 'off':
      return new Refused('engine_unavailable');
    case 'unknown':
      return new Refused(notTold);
  }
}
