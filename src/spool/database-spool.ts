/**
 * The requests of one database that are kept on the disk: the spool that this process writes to, and those that earlier
 * ones have left. Takes requests that were checked and decoded; returns promises that resolve when they are on the disk, in an order
 * that the drainer (drainer.ts) keeps. Refuses with `spool_full`, `overloaded`, `engine_unavailable` and `commit_unknown`.
 *
 * A spool is written to by one process, during one life of it. Another process, which may have been given a copy of its folder,
 * only ever reads it, so that a sequence of a spool never means two requests. Ids of spools sort by the time at which they were made.
 */
import { join } from 'node:path';
import type { Closable } from '../kit/closer.ts';
import type { Observe, TableName } from '../observe/observations.ts';
import { limits } from '../config/limits.ts';
import { refusal, Refused } from '../errors/refusals.ts';
import { encodeTarget } from './format.ts';
import { encodeTable } from './kept-request.ts';
import type { SpooledTable } from './kept-request.ts';
import { quarantinedIn } from './quarantine.ts';
import type { Quarantined, UnreadablePart } from './quarantine.ts';
import type { SegmentCounts } from './segment.ts';
import { Spool } from './spool.ts';
import type { SpoolOptions } from './spool.ts';
import { TableGate } from './table-order.ts';
import { NotKept } from './writer.ts';
import type { Appendable } from './writer.ts';

class DiskReport {
  readonly #database: string;
  readonly #observe: Observe;
  #reason = '';
  #failures = 0;

  constructor(database: string, observe: Observe) {
    this.#database = database;
    this.#observe = observe;
  }

  readonly failed = (error: unknown): void => {
    const reason = error instanceof Error ? error.message : String(error);
    // Messages of the system name a path, which is another one each time.
    const kind = (error as NodeJS.ErrnoException | null)?.code ?? reason;
    this.#failures += 1;
    if (kind !== this.#reason) this.#observe({ kind: 'spool.failed', database: this.#database, reason });
    this.#reason = kind;
  };

  readonly worked = (): void => {
    if (this.#failures === 0) return;
    this.#observe({ kind: 'spool.works', database: this.#database, failures: this.#failures });
    this.#failures = 0;
    this.#reason = '';
  };
}

export interface DatabaseSpoolOptions extends Omit<SpoolOptions, 'root' | 'failed' | 'worked' | 'damaged'> {
  readonly database: string;
  /** The folder of this database. */
  readonly folder: string;
  readonly ageMsMax: number;
  /** How much of the disk requests may still take, in bytes. */
  readonly bytesFree: () => number;
  /** The owner (pg_class.relowner) of each table that the catalog knows, by the table's oid, whether or not the engine is up. */
  readonly ownersOf: (database: string) => ReadonlyMap<number, number>;
  /** What requests of this owner's tables take in all databases, in bytes. */
  readonly bytesOfOwner: (owner: number) => number;
  /** Whether the tables that are known have more than one owner, in all databases. */
  readonly hasSeveralOwners: () => boolean;
  /** ms since 1970 */
  readonly nowMs: () => number;
  readonly observe: Observe;
}

/** What segments hold, in total and for each table by its oid. */
interface SpoolUsage {
  readonly bytes: number;
  readonly of: ReadonlyMap<number, SegmentCounts>;
  /** In bytes, by owner. */
  readonly ofOwners: ReadonlyMap<number, number>;
}

/** A table with its present name. */
export type NamedTable = TableName & { readonly oid: number };

/** The state of a table and its spool, to be shown. */
export interface GateView {
  readonly oid: number;
  readonly state: string;
  readonly requests: number;
  readonly sinceMs: number | null;
  readonly reason: string | null;
}

export class DatabaseSpool implements Closable {
  readonly database: string;
  readonly #options: DatabaseSpoolOptions;
  readonly #gates = new Map<number, TableGate>();
  /** What this process has written about its tables, by oid. */
  readonly told = new Map<number, SpooledTable>();
  readonly #appendables = new Map<number, Appendable>();
  /** The last known owner of each table that has spooled, by the table's oid: a table that is dropped, or cannot be read any more, keeps it. */
  readonly #owners = new Map<number, number>();
  readonly #disk: DiskReport;
  #spools: Spool[] = [];
  #quarantined: readonly Quarantined[] = [];
  #own: Spool | null = null;
  #opening: Promise<Spool> | null = null;
  /** headgate.home() of the database; null: not asked yet. */
  #home: string | null = null;
  #closed = false;
  #lastUsed: SpoolUsage = { bytes: 0, of: new Map(), ofOwners: new Map() };
  #usedAtMs = -Infinity;
  /** What was written since, in bytes. */
  #usedSince = 0;
  /** Called when there is something to hand over. */
  wake: () => void = () => undefined;

  private constructor(options: DatabaseSpoolOptions) {
    this.#options = options;
    this.database = options.database;
    this.#disk = new DiskReport(options.database, options.observe);
  }

  /** Including what earlier processes have left. Rejects with the system's errors. */
  static async open(options: DatabaseSpoolOptions): Promise<DatabaseSpool> {
    const kept = new DatabaseSpool(options);
    for (const id of (await Spool.list(options.files, options.folder)).toSorted()) {
      const spool = await Spool.open(kept.#spoolOptions, id);
      kept.#spools = [...kept.#spools, spool];
      kept.#takeOver(spool);
    }
    await kept.lookAside();
    return kept;
  }

  get #spoolOptions(): SpoolOptions {
    const { failed, worked } = this.#disk;
    return {
      ...this.#options,
      root: this.#options.folder,
      failed,
      worked,
      damaged: (lost) => this.#damaged(lost),
    };
  }

  #damaged({ segment, bytes, reason, kept: place, requests }: UnreadablePart): void {
    if (reason === 'unfinished') return;
    const { database, observe } = this.#options;
    observe({ kind: 'spool.damaged', database, segment, bytes, requests, reason, place });
    void this.lookAside();
  }

  /** What was put aside because it cannot be read, and has not been removed by a person, as of the last look. */
  get quarantined(): readonly Quarantined[] {
    return this.#quarantined;
  }

  /** Looks at it again. Never rejects. */
  async lookAside(): Promise<void> {
    const { files, folder } = this.#options;
    try {
      const ids = await Spool.list(files, folder);
      const all = await Promise.all(ids.map((id) => quarantinedIn(files, join(folder, id))));
      this.#quarantined = all.flat();
    } catch (error) {
      this.#disk.failed(error);
    }
  }

  /** In the order in which they are handed over; the last one may be this process's own. */
  get spools(): readonly Spool[] {
    return this.#spools;
  }

  get own(): Spool | null {
    return this.#own;
  }

  get home(): string | null {
    return this.#home;
  }

  set home(home: string) {
    this.#home = home;
  }

  get bytes(): number {
    return this.#spools.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  /** How much of them requests take, as of a moment ago. */
  get bytesUsed(): number {
    return this.#used().bytes;
  }

  /** How much of them requests of this owner's tables take, as of a moment ago. */
  bytesOfOwner(owner: number): number {
    return this.#used().ofOwners.get(owner) ?? 0;
  }

  get gates(): Iterable<TableGate> {
    return this.#gates.values();
  }

  /** What is on the disk; requests in segments that are half handed over are counted as long as the segment exists. */
  views(): readonly GateView[] {
    const { of } = this.#used(0);
    return [...this.#gates.values()].flatMap(({ oid, state, sinceMs, reason }) =>
      state === 'open' ? [] : [{ oid, state, requests: of.get(oid)?.requests ?? 0, sinceMs, reason }],
    );
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

  /** Whether requests can be kept: the identity of the database is known, the disk works, and there is a master key to seal with. */
  get usable(): boolean {
    return !this.#closed && this.#home !== null && this.#own?.off !== true && this.#hasKey;
  }

  get #hasKey(): boolean {
    const { ring } = this.#options;
    if (ring.keys().length === 0) ring.reread();
    return ring.keys().length > 0;
  }

  /** Makes the segment that the first request goes to. Rejects with the system's errors. */
  async prepare(): Promise<void> {
    const own = await this.#makeOwn();
    await own.prepare();
  }

  /** Throws Refused if a request of this table would be kept in vain. Called before its body is read. */
  admit(gate: TableGate): void {
    if (!this.#hasKey) throw new Refused(noKey);
    if (!this.usable) throw new Refused('engine_unavailable');
    const { nowMs, ageMsMax, bytesFree, bytesOfOwner, hasSeveralOwners } = this.#options;
    if (gate.sinceMs !== null && nowMs() - gate.sinceMs > ageMsMax) throw new Refused(full);
    const { bytes = 0 } = this.#used().of.get(gate.oid) ?? {};
    const owner = this.#ownerOf(gate.oid);
    const ofOwner = owner === null ? bytes : bytesOfOwner(owner);
    const share = limits.spoolShare;
    // Once the owner's tables have taken it, they have `share` times what is then left to the others.
    const leftToOwner = hasSeveralOwners() ? (share * bytesFree() - ofOwner) / (share + 1) : bytesFree();
    if (bytes > share * leftToOwner) throw new Refused(full);
  }

  /** Resolves when the request is on the disk; rejects with Refused. */
  async append(table: NamedTable, gate: TableGate, payload: Buffer): Promise<void> {
    this.admit(gate);
    gate.beginAppend();
    let sequence: bigint | null = null;
    try {
      // Without a wait if it exists: requests are written in the order in which they get here.
      const own = this.#own ?? (await this.#makeOwn());
      sequence = await own.append(this.#appendable(table), payload);
      this.#usedSince += payload.length;
    } catch (error) {
      throw refusedFor(error);
    } finally {
      gate.endAppend(sequence);
    }
    this.wake();
  }

  /** Removes a spool that holds nothing any more and is not written to. */
  async remove(spool: Spool): Promise<void> {
    this.#spools = this.#spools.filter((one) => one !== spool);
    await spool.close();
    const folder = join(this.#options.folder, spool.id);
    // What was quarantined stays.
    await this.#options.files.removeFolder(folder).catch(() => {});
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#opening?.catch(() => {});
    for (const spool of this.#spools) await spool.close();
    if (this.#own !== null && this.#own.segments.length === 0) await this.remove(this.#own);
  }

  #used(ageMsMax: number = limits.spoolUsedMs): SpoolUsage {
    const now = this.#options.clock();
    const isRecent = now - this.#usedAtMs < ageMsMax && this.#usedSince < limits.spoolUsedBytes;
    if (isRecent) return this.#lastUsed;
    const of = new Map<number, SegmentCounts>();
    let bytes = 0;
    for (const { end, counts } of this.#spools.flatMap(({ segments }) => segments)) {
      bytes += end;
      for (const [oid, more] of counts) {
        const known = of.get(oid);
        of.set(oid, {
          requests: (known?.requests ?? 0) + more.requests,
          bytes: (known?.bytes ?? 0) + more.bytes,
        });
      }
    }
    const ofOwners = new Map<number, number>();
    for (const [oid, { bytes: ofTable }] of of) {
      const owner = this.#ownerOf(oid);
      if (owner !== null) ofOwners.set(owner, (ofOwners.get(owner) ?? 0) + ofTable);
    }
    this.#usedAtMs = now;
    this.#usedSince = 0;
    return (this.#lastUsed = { bytes, of, ofOwners });
  }

  /**
   * null: not known, as of a table that an earlier process has spooled and the catalog has not read yet. Such a table counts as if its
   * owner had no other.
   */
  #ownerOf(oid: number): number | null {
    const known = this.#options.ownersOf(this.database).get(oid);
    if (known === undefined) return this.#owners.get(oid) ?? null;
    this.#owners.set(oid, known);
    return known;
  }

  /** It is not known yet what of it has arrived: until then its tables continue to spool. */
  #takeOver(spool: Spool): void {
    for (const lost of spool.lost) this.#damaged(lost);
    for (const { last } of spool.segments)
      for (const oid of last.keys()) this.gateOf(oid).fill(madeAtMs(spool.id));
  }

  #makeOwn(): Promise<Spool> {
    this.#opening ??= this.#openOwn().catch((error: unknown) => {
      this.#opening = null;
      throw error;
    });
    return this.#opening;
  }

  async #openOwn(): Promise<Spool> {
    const own = await Spool.open(this.#spoolOptions, this.#newId());
    this.#spools = [...this.#spools, own];
    this.#own = own;
    return own;
  }

  /** Later than that of every existing spool, whatever the clock says. */
  #newId(): string {
    const last = this.#spools.reduce((most, { id }) => Math.max(most, madeAtMs(id)), 0);
    const made = Math.max(this.#options.nowMs(), last + 1);
    return made.toString(16).padStart(12, '0') + this.#options.random(10).toString('hex');
  }

  #appendable({ database, schema, table, oid }: NamedTable): Appendable {
    const home = this.#home ?? '';
    const told = this.told.get(oid);
    const known = this.#appendables.get(oid);
    if (known !== undefined && told?.schema === schema && told.table === table && told.home === home)
      return known;
    const kept = { database, schema, table, oid, home };
    const made = { oid, target: encodeTarget(encodeTable(kept)) };
    this.told.set(oid, kept);
    this.#appendables.set(oid, made);
    return made;
  }
}

/** When a spool was made, in ms since 1970. */
export function madeAtMs(id: string): number {
  return parseInt(id.slice(0, 12), 16);
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
