/**
 * One file of the spool, as known while a process runs: its names, what it holds and how far it counts. Touches nothing but marks that are to be
 * removed.
 */
import { basename, join } from 'node:path';
import type { SpoolFiles } from './files.ts';
import { headerBytes } from './format.ts';
import type { RecordHead } from './format.ts';
import type { SegmentHeader } from './headers.ts';
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

export interface SegmentPosition {
  readonly number: number;
  /** Bytes of the segment's file. */
  readonly fileBytes: number;
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
