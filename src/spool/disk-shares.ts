/**
 * How much of the disk the requests of each table of a database take, and of each owner's tables, and how much they may: neither takes all of
 * it from the others. Takes the segments of the database; returns sums, as of a moment ago; touches nothing.
 */
import { limits } from '../config/limits.ts';
import { rememberedOf } from '../kit/memoize.ts';
import type { Segment, SegmentCounts } from './segment-files.ts';

/** What all databases share. */
export interface SharedDisk {
  /** How much of it requests may take, in bytes. */
  readonly bytesMax: number;
  /** The owner (pg_class.relowner) of each table that the catalog knows, by the table's oid, whether or not the engine is up. */
  readonly ownersOf: (database: string) => ReadonlyMap<number, number>;
  /** Those of all databases. */
  readonly shares: () => readonly DiskShares[];
}

/** What segments hold, in total and for each table by its oid. */
interface SpoolUsage {
  readonly bytes: number;
  readonly of: ReadonlyMap<number, SegmentCounts>;
  /** In bytes, by owner. */
  readonly ofOwners: ReadonlyMap<number, number>;
}

export class DiskShares {
  readonly #database: string;
  readonly #disk: SharedDisk;
  readonly #clock: () => number;
  readonly #segments: () => readonly Segment[];
  /** The last known owner of each table that has spooled, by the table's oid: a table that is dropped, or cannot be read any more, keeps it. */
  readonly #lastOwners = new Map<number, number>();
  #lastUsed: SpoolUsage = { bytes: 0, of: new Map(), ofOwners: new Map() };
  #usedAtMs = -Infinity;
  /** What was written since, in bytes. */
  #usedSince = 0;

  /** `segments`: all of the database; `clock`: monotonic, ms. */
  constructor(database: string, disk: SharedDisk, clock: () => number, segments: () => readonly Segment[]) {
    this.#database = database;
    this.#disk = disk;
    this.#clock = clock;
    this.#segments = segments;
  }

  /** Whether a table has all that it may take, or its owner's tables have. */
  isFull(oid: number): boolean {
    const all = this.#disk.shares();
    const bytesFree = all.reduce((left, { bytes }) => left - bytes, this.#disk.bytesMax);
    const { bytes = 0 } = this.#used(limits.spoolUsedMs).of.get(oid) ?? {};
    const owner = this.#ownerOf(oid);
    // A role is the same in all databases of the server.
    const ofOwner = owner === null ? bytes : all.reduce((sum, one) => sum + one.bytesOfOwner(owner), 0);
    const owners = new Set(all.flatMap((one) => one.#owners().slice(0, 2)));
    const share = limits.spoolShare;
    // Once the owner's tables have taken it, they have `share` times what is then left to the others.
    const leftToOwner = owners.size > 1 ? (share * bytesFree - ofOwner) / (share + 1) : bytesFree;
    return bytes > share * leftToOwner;
  }

  /** A request of so many bytes was written. */
  wrote(bytes: number): void {
    this.#usedSince += bytes;
  }

  /** What requests take, as of a moment ago. */
  get bytes(): number {
    return this.#used(limits.spoolUsedMs).bytes;
  }

  /** What requests of this owner's tables take, as of a moment ago. */
  bytesOfOwner(owner: number): number {
    return this.#used(limits.spoolUsedMs).ofOwners.get(owner) ?? 0;
  }

  /** Now, by the table's oid; requests in segments that are half handed over are counted as long as the segment exists. */
  get counts(): ReadonlyMap<number, SegmentCounts> {
    return this.#used(0).of;
  }

  #used(ageMsMax: number): SpoolUsage {
    const now = this.#clock();
    const isRecent = now - this.#usedAtMs < ageMsMax && this.#usedSince < limits.spoolUsedBytes;
    if (isRecent) return this.#lastUsed;
    const of = new Map<number, SegmentCounts>();
    let bytes = 0;
    for (const { end, counts } of this.#segments()) {
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
    const known = this.#disk.ownersOf(this.#database).get(oid);
    if (known === undefined) return this.#lastOwners.get(oid) ?? null;
    this.#lastOwners.set(oid, known);
    return known;
  }

  /** Of the tables that the catalog knows. */
  #owners(): readonly number[] {
    return distinct(this.#disk.ownersOf(this.#database));
  }
}

const distinct = rememberedOf((owners: ReadonlyMap<number, number>): readonly number[] => [
  ...new Set(owners.values()),
]);
