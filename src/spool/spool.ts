/**
 * One spool: a folder of segments that this process alone writes to (`writer`), and reads back in order (`requests`). Returns requests to the
 * caller that hands them to the database, and removes segments whose requests have all arrived there. Knows nothing of databases: which
 * requests have arrived is told by positions that were committed together with the rows.
 */
import { join } from 'node:path';
import type { DiskHealth } from './disk-health.ts';
import { headerBytes, keyOf, openRecord } from './format.ts';
import type { Sealed } from './kept-request.ts';
import { quarantine, recount } from './quarantine.ts';
import type { UnreadablePart } from './disk-health.ts';
import { reading, scanRecords } from './scan-records.ts';
import type { Damage } from './scan-records.ts';
import { recover } from './recovery.ts';
import { SegmentFiles, writtenOf } from './segment-files.ts';
import type { Segment, SegmentFilesOptions } from './segment-files.ts';
import { SpoolWriter } from './writer.ts';

export interface SpoolOptions extends Omit<SegmentFilesOptions, 'folder' | 'spool' | 'health'> {
  /** Holds a folder for each spool, named by its id. */
  readonly root: string;
  readonly health: Pick<DiskHealth, 'failed' | 'worked' | 'damaged'>;
}

/** Requests of one table that were sealed together. */
export interface SpooledRequests extends Sealed {
  readonly oid: number;
  /** The description of the table, as it was appended; null: in a segment of version 1 (`tables`). */
  readonly target: Buffer | null;
  /** The place after them. */
  readonly place: ReadPosition;
}

/** Where a reader is: it has read all segments before, and this one up to a position. */
export interface ReadPosition {
  readonly segment: number;
  readonly at: number;
}

export const beginning: ReadPosition = { segment: 0, at: 0 };

export class Spool {
  /** 32 hexadecimal digits. */
  readonly id: string;
  /** What could not be read when it was opened. */
  readonly lost: readonly UnreadablePart[];
  readonly segmentFiles: SegmentFiles;
  readonly writer: SpoolWriter;
  readonly #options: SpoolOptions;

  private constructor(
    options: SpoolOptions,
    id: string,
    lost: readonly UnreadablePart[],
    segmentFiles: SegmentFiles,
    nextSequence: bigint,
  ) {
    this.#options = options;
    this.id = id;
    this.lost = lost;
    this.segmentFiles = segmentFiles;
    this.writer = new SpoolWriter(segmentFiles, options, nextSequence);
  }

  get segments(): readonly Segment[] {
    return this.segmentFiles.segments;
  }

  /**
   * Everything from a place on that is on the disk now, in order: the records whose last request is wanted, with the place after
   * them. What cannot be read is reported, put aside and skipped; so is a segment whose master key is not here, after `locked` was called
   * with it: nothing after it may arrive before it.
   */
  async *requests(
    from: ReadPosition,
    wanted: (oid: number, sequence: bigint) => boolean,
    locked: (segment: Segment) => void = () => undefined,
  ): AsyncGenerator<SpooledRequests, void> {
    for (const segment of this.segments) {
      if (segment.number < from.segment) continue;
      const { key, header, number } = segment;
      if (key === null) {
        locked(segment);
        continue;
      }
      const start = number === from.segment ? Math.max(from.at, headerBytes) : headerBytes;
      const { files, health } = this.#options;
      try {
        const file = await files.open(segment.path);
        try {
          for await (const found of scanRecords(file, writtenOf(segment, start))) {
            if (found.is === 'damage') {
              await this.#putAside(segment, found);
              continue;
            }
            const { sequence: last, table: oid, requests } = found.head;
            if (requests === 0 || !wanted(oid, last)) continue;
            const opened = openRecord(found.bytes, found.at, key, header.version);
            if (opened === null) {
              await this.#putAside(segment, { ...found, oid, requests });
              continue;
            }
            const first = last - BigInt(requests - 1);
            yield { oid, first, last, ...opened, place: { segment: number, at: found.to } };
          }
        } finally {
          await file.close();
        }
      } catch (error) {
        health.failed(error);
        throw error;
      }
    }
  }

  /**
   * Removes the segments whose requests have all arrived: `position` returns, by oid, the last one that has, and is trusted
   * to be as durable as the segment that is removed.
   */
  async forget(position: (oid: number) => bigint): Promise<void> {
    const arrived = ({ key, last }: Segment) =>
      key !== null && [...last].every(([oid, sequence]) => sequence <= position(oid));
    const current = this.segments.at(-1);
    const idle = current !== undefined && arrived(current) && (await this.writer.finishSegment());
    const gone = this.segments.filter((segment) => arrived(segment) && (segment !== current || idle));
    if (gone.length > 0) await this.segmentFiles.remove(gone);
  }

  /** Once. What it held is not waited for: its tables would spool forever. */
  async #putAside(segment: Segment, damage: Pick<Damage, 'from' | 'to' | 'oid' | 'requests'>): Promise<void> {
    if (segment.damaged.has(damage.from)) return;
    const { files, health } = this.#options;
    health.damaged(await quarantine(files, segment, damage));
    await recount(files, segment);
  }

  /** Whether segments can be read now whose master key was not here before. */
  unlock(): boolean {
    const locked = this.segments.filter(({ key }) => key === null);
    if (locked.length === 0) return false;
    this.#options.ring.reread();
    for (const segment of locked) segment.key = keyOf(segment.header, this.#options.ring);
    return locked.some(({ key }) => key !== null);
  }

  /** What segments of version 1 say about each table, by its oid, as far as it can be read. */
  async tables(): Promise<ReadonlyMap<number, Buffer>> {
    const told = new Map<number, Buffer>();
    for (const segment of this.segments) {
      const { key, path, header } = segment;
      if (key === null || header.version !== 1) continue;
      await reading(this.#options.files, path, async (file) => {
        for await (const found of scanRecords(file, writtenOf(segment))) {
          if (found.is !== 'record' || found.head.requests > 0) continue;
          const opened = openRecord(found.bytes, found.at, key, 1);
          if (opened !== null) told.set(found.head.table, opened.payload);
        }
      });
    }
    return told;
  }

  /** Opens the spool of this id, or makes it. Rejects with the system's errors. */
  static async open(options: SpoolOptions, id: string): Promise<Spool> {
    const { files, root, ring } = options;
    const folder = join(root, id);
    await files.makeFolder(folder);
    await files.syncFolder(root);
    const spool = Buffer.from(id, 'hex');
    const { segments, lost, nextNumber, nextSequence } = await recover(files, folder, spool, ring);
    const segmentFiles = new SegmentFiles({ ...options, folder, spool }, segments, nextNumber);
    return new Spool(options, id, lost, segmentFiles, nextSequence);
  }
}
