/**
 * The files of a spool, called segments: the one in use (writer.ts writes to it), and the one after it, which is made ahead, so that a disk that fills
 * up takes nothing from the one in use; how they are named, begun and removed, and what is known of each while a process runs. Refuses with `full`
 * and `locked` (there is no master key), and rejects with the system's errors.
 */
import { basename, join } from 'node:path';
import type { KeyRing } from '../secrets/key-ring.ts';
import type { MasterKey } from '../secrets/key-file.ts';
import { limits } from '../config/limits.ts';
import type { DiskHealth } from './disk-health.ts';
import type { SpoolFile, SpoolFiles } from './files.ts';
import { encodeHeader, headerBytes, recordsEnd, segmentKey } from './format.ts';
import type { RecordHead, SegmentHeader } from './format.ts';
import type { SegmentRange } from './scan-records.ts';

export interface Segment {
  readonly number: number;
  readonly path: string;
  readonly header: SegmentHeader;
  /** The file that says that this one exists; null: there is none, as in version 1. */
  readonly mark: SegmentPosition | null;
  /** null: no known master key opens it. */
  key: Buffer | null;
  /** Bytes of the file, used or not. */
  readonly fileBytes: number;
  /** How much is written and on the disk, in bytes. */
  end: number;
  /** The last request of each table, by the table's oid. */
  readonly last: Map<number, bigint>;
  /** What it holds of each table, by the table's oid. */
  readonly counts: Map<number, SegmentCounts>;
  /** Where parts begin that cannot be read, and were reported and put aside. */
  readonly damaged: Set<number>;
}

export interface FoundSegment extends Pick<Segment, 'number' | 'mark'> {
  /** There is something of its name. */
  readonly exists: boolean;
}

/** What was counted in a segment. */
export interface SegmentCounted {
  readonly last: ReadonlyMap<number, bigint>;
  readonly counts: ReadonlyMap<number, SegmentCounts>;
}

export interface SegmentCounts {
  readonly requests: number;
  readonly bytes: number;
}

export interface SegmentPosition {
  readonly number: number;
  /** Bytes of the segment's file. */
  readonly fileBytes: number;
}

/** Why a request is not kept. */
export class NotKept extends Error {
  override readonly name = 'NotKept';
  readonly why: 'full' | 'busy' | 'locked' | 'off' | 'unknown';

  constructor(why: NotKept['why']) {
    super(`not kept: ${why}`);
    this.why = why;
  }
}

export interface SegmentFilesOptions {
  readonly files: SpoolFiles;
  readonly folder: string;
  /** 16 bytes. */
  readonly spool: Buffer;
  readonly ring: KeyRing;
  readonly segmentBytes: number;
  /** How much space new files may take, in bytes. */
  readonly bytesLeft: () => number;
  readonly random: (bytes: number) => Buffer;
  /** A monotonic clock, ms. */
  readonly clock: () => number;
  readonly health: Pick<DiskHealth, 'failed' | 'worked'>;
}

export interface OpenSegment {
  readonly segment: Segment;
  readonly file: SpoolFile;
  readonly key: Buffer;
}

/** A segment of zeros, not written to yet. */
interface Spare {
  readonly mark: SegmentPosition;
  readonly file: SpoolFile;
}

export class SegmentFiles {
  readonly #options: SegmentFilesOptions;
  /** All that hold requests, in order; the last one may be the one in use. */
  #segments: Segment[];
  #nextNumber: number;
  #bytes: number;
  /** The last one that was begun. */
  #last: Segment | null;
  #open: OpenSegment | null = null;
  #spare: Promise<Spare | null> | null = null;
  /** When a segment could not be made. */
  #fullAtMs = -Infinity;

  /** `segments`: those of before, to which nothing is appended. */
  constructor(options: SegmentFilesOptions, segments: readonly Segment[], nextNumber: number) {
    this.#options = options;
    this.#segments = [...segments];
    this.#nextNumber = nextNumber;
    this.#bytes = segments.reduce((sum, { fileBytes }) => sum + fileBytes, 0);
    this.#last = segments.at(-1) ?? null;
  }

  get segments(): readonly Segment[] {
    return this.#segments;
  }

  /** Bytes of all files. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Up to where records may fill a segment. */
  get recordsEnd(): number {
    return recordsEnd(2, this.#options.segmentBytes);
  }

  /** The segment in use; null: the next record begins another one. */
  get open(): OpenSegment | null {
    return this.#open;
  }

  /** Begins another segment. Rejects with NotKept if there is no room for one, or no master key, and with the system's errors. */
  async next(firstSequence: bigint): Promise<OpenSegment> {
    const masterKey = this.#masterKey();
    if (masterKey === null) throw new NotKept('locked');
    await this.finish();
    // null: there was no room for one at the last attempt.
    const spare = (await this.#takeSpare()) ?? (await this.#makeSpare());
    if (spare === null) throw new NotKept('full');
    const opened = await this.#use(spare, masterKey, firstSequence);
    this.#spare ??= this.#makeSpare();
    return opened;
  }

  /** Begins a segment whose header says how much of the last one counts. Returns whether it could. */
  async cut(firstSequence: bigint): Promise<boolean> {
    const masterKey = this.#masterKey();
    if (masterKey === null) return false;
    const spare = await this.#takeSpare();
    if (spare === null) return false;
    try {
      await this.#use(spare, masterKey, firstSequence);
      return true;
    } catch (error) {
      this.#options.health.failed(error);
      return false;
    }
  }

  /** Makes the next segment in advance, so that its first record need not wait for it; tries again if it could not be made before. */
  async prepare(): Promise<void> {
    const made = (this.#spare ??= this.#makeSpare());
    if ((await made) === null && this.#spare === made) this.#spare = null;
  }

  /** The next record begins another segment. */
  async finish(): Promise<void> {
    const open = this.#open;
    this.#open = null;
    await open?.file.close().catch((error: unknown) => this.#options.health.failed(error));
  }

  /** Removes these, whose requests have all arrived. Rejects with the system's errors. */
  async remove(gone: readonly Segment[]): Promise<void> {
    const { files, folder } = this.#options;
    await removeMarks(
      files,
      folder,
      gone.map(({ mark }) => mark),
    );
    for (const segment of gone) {
      await files.remove(segment.path);
      this.#fullAtMs = -Infinity;
      this.#bytes -= segment.fileBytes;
      this.#segments = this.#segments.filter((one) => one !== segment);
    }
    await files.syncFolder(folder);
  }

  async close(): Promise<void> {
    await this.finish();
    const spare = this.#spare === null ? null : await this.#takeSpare();
    if (spare === null) return;
    const { files, folder } = this.#options;
    await spare.file.close();
    await removeMarks(files, folder, [spare.mark]);
    await files.remove(segmentPath(folder, spare.mark.number));
    this.#bytes -= spare.mark.fileBytes;
  }

  /** The header is on the disk before anything else: a header that cannot be read was damaged later. */
  async #use({ mark, file }: Spare, masterKey: MasterKey, firstSequence: bigint): Promise<OpenSegment> {
    const { spool, random, folder } = this.#options;
    const { number, fileBytes } = mark;
    const header = {
      version: 2 as const,
      number,
      spool,
      salt: random(16),
      keyId: masterKey.id,
      firstSequence,
      before: this.#last === null ? null : { number: this.#last.number, bytes: this.#last.end },
    };
    const key = segmentKey(masterKey, header);
    const segment = segmentOf(folder, header, { mark, key, fileBytes });
    this.#open = { segment, file, key };
    try {
      for (const place of [0, fileBytes - headerBytes]) await file.write([encodeHeader(header)], place);
      await file.syncData();
    } finally {
      this.#last = segment;
    }
    this.#segments.push(segment);
    return this.#open;
  }

  /** null: it is not here. */
  #masterKey(): MasterKey | null {
    const { ring } = this.#options;
    ring.reread();
    return ring.keys()[0] ?? null;
  }

  /** Whoever is given it uses or removes it: the next one that is prepared is another one. */
  #takeSpare(): Promise<Spare | null> {
    const made = this.#spare ?? this.#makeSpare();
    this.#spare = null;
    return made;
  }

  /** null: the disk, or the spool's share of it, is full, or was a moment ago. */
  async #makeSpare(): Promise<Spare | null> {
    const { files, folder, segmentBytes, bytesLeft, health, clock } = this.#options;
    if (segmentBytes > bytesLeft()) return null;
    // Each attempt fills the disk as far as it goes.
    if (clock() - this.#fullAtMs < limits.spoolMakeAgainMs) return null;
    const number = this.#nextNumber++;
    const mark = { number, fileBytes: segmentBytes };
    const path = segmentPath(folder, number);
    this.#bytes += segmentBytes;
    let file: SpoolFile | null = null;
    try {
      file = await files.create(path);
      const zeros = Buffer.alloc(Math.min(segmentBytes, limits.spoolReadBytes));
      for (let at = 0; at < segmentBytes; at += zeros.length)
        await file.write([zeros.subarray(0, Math.min(zeros.length, segmentBytes - at))], at);
      await file.sync();
      await files.syncFolder(folder);
      await (await files.create(markPath(folder, mark))).close();
      await files.syncFolder(folder);
      health.worked();
      return { mark, file };
    } catch (error) {
      this.#fullAtMs = clock();
      health.failed(error);
      await file?.close().catch(() => {});
      await removeMarks(files, folder, [mark]).catch(() => {});
      await files.remove(path).catch(() => {});
      this.#bytes -= segmentBytes;
      return null;
    }
  }
}

export function segmentPath(folder: string, number: number): string {
  return join(folder, `${String(number).padStart(20, '0')}.seg`);
}

/** Before the segments themselves are removed. */
export async function removeMarks(
  files: SpoolFiles,
  folder: string,
  marks: readonly (SegmentPosition | null)[],
): Promise<void> {
  const names = new Set(await files.list(folder));
  const paths = marks.flatMap((mark) => (mark === null ? [] : [markPath(folder, mark)]));
  const there = paths.filter((path) => names.has(basename(path)));
  if (there.length === 0) return;
  for (const path of there) await files.remove(path);
  await files.syncFolder(folder);
}

/** Counts a record of a table's requests, up to this sequence, of so many bytes. */
export function count(
  segment: Pick<Segment, 'counts' | 'last'>,
  { table: oid, sequence, requests }: Pick<RecordHead, 'table' | 'sequence' | 'requests'>,
  bytes: number,
): void {
  // It describes a table.
  if (requests === 0) return;
  const known = segment.counts.get(oid);
  segment.counts.set(oid, {
    requests: (known?.requests ?? 0) + requests,
    bytes: (known?.bytes ?? 0) + bytes,
  });
  segment.last.set(oid, sequence);
}

/** Counts what a segment holds anew. */
export function recountAs({ last, counts }: Segment, now: SegmentCounted): void {
  last.clear();
  for (const [oid, sequence] of now.last) last.set(oid, sequence);
  counts.clear();
  for (const [oid, of] of now.counts) counts.set(oid, of);
}

/** A segment of a folder, in which nothing was counted yet. */
export function segmentOf(
  folder: string,
  header: SegmentHeader,
  known: Pick<Segment, 'mark' | 'key' | 'fileBytes'>,
): Segment {
  const { number } = header;
  const path = segmentPath(folder, number);
  const counted = { last: new Map<number, bigint>(), counts: new Map<number, SegmentCounts>() };
  return { number, path, header, ...known, end: headerBytes, ...counted, damaged: new Set() };
}

/** The segments that a folder has, or should have, in order: with the name of a segment, or a mark. */
export async function segmentsIn(files: SpoolFiles, folder: string): Promise<readonly FoundSegment[]> {
  const names = await files.list(folder);
  const marks = new Map(names.flatMap((name) => markOf(name) ?? []).map((mark) => [mark.number, mark]));
  const existing = new Set(names.map(segmentNumber).filter((number) => number !== null));
  return [...new Set([...existing, ...marks.keys()])]
    .toSorted((a, b) => a - b)
    .map((number) => ({ number, mark: marks.get(number) ?? null, exists: existing.has(number) }));
}

/** null: not the name of a segment. */
function segmentNumber(name: string): number | null {
  return /^0{10}\d{10}\.seg$/.test(name) ? Number(name.slice(0, 20)) : null;
}

/**
 * The path of an empty file that says that a segment exists, and of how many bytes it is. It is made after the segment is on the disk, and
 * removed before the segment is: a segment that is missing or shorter although it is there was damaged.
 */
export function markPath(folder: string, { number, fileBytes }: SegmentPosition): string {
  return join(folder, `${String(number).padStart(20, '0')}-${fileBytes}.made`);
}

/** null: not the name of such a file. */
function markOf(name: string): SegmentPosition | null {
  const [, number, fileBytes] = /^0{10}(\d{10})-(\d{1,10})\.made$/.exec(name) ?? [];
  return number === undefined ? null : { number: Number(number), fileBytes: Number(fileBytes) };
}

/** All of a segment that is written and on the disk, from a position on. */
export function writtenOf(
  { header, end }: Pick<Segment, 'header' | 'end'>,
  from = headerBytes,
): SegmentRange {
  const { version, firstSequence } = header;
  return { version, from, to: end, full: true, after: from === headerBytes ? firstSequence - 1n : null };
}
