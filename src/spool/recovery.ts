/**
 * Finds out what a spool's folder holds by reading all of it: there is no index and no checkpoint that could be wrong.
 * Takes a folder as any crash, and any disk, may have left it; returns the segments that count, and what was lost. Never
 * refuses because of what it reads: a part that cannot be read is copied to `quarantine/` and reported, and the records around
 * it stay. Rejects with the system's errors only.
 *
 * A group is on the disk before the next one is written. A part that cannot be read and that no beginning of a group
 * follows anywhere was being written when the process ended: no sender was told that it is kept, and it is left out.
 */
import { join } from 'node:path';
import type { KeyRing } from '../secrets/key-ring.ts';
import { NoFile } from './files.ts';
import type { SpoolFile, SpoolFiles } from './files.ts';
import { decodeHeader, headerBytes, segmentKey } from './format.ts';
import type { SegmentHeader } from './format.ts';
import { quarantine } from './quarantine.ts';
import type { Lost } from './quarantine.ts';
import { count, reading, scanRecords, segmentNumber, segmentPath } from './segment.ts';
import type { Counted, Scanned, Segment } from './segment.ts';

export interface Recovered {
  /** In order. Nothing is appended to any of them. */
  readonly segments: readonly Segment[];
  readonly nextNumber: number;
  readonly nextSequence: bigint;
  readonly lost: readonly Lost[];
}

/** `spool`: the id in the headers, 16 bytes. */
export async function recover(
  files: SpoolFiles,
  folder: string,
  spool: Buffer,
  ring: KeyRing,
): Promise<Recovered> {
  const recovery = new Recovery(files, folder, spool, ring);
  await recovery.run();
  return recovery;
}

interface Known {
  readonly number: number;
  readonly header: SegmentHeader;
  readonly fileBytes: number;
}

/** `header` null: the file is not to be used, for this reason. */
interface Headed extends Omit<Known, 'header'> {
  readonly header: SegmentHeader | null;
  readonly reason: 'no header' | 'of another spool';
}

/** A part that could not be read, and how much of the segment was good before it. */
interface Doubt {
  readonly segment: Segment;
  readonly from: number;
  readonly to: number;
  /** What was counted of the segment before it, to undo what was counted after it. */
  readonly before: {
    readonly requests: number;
    readonly last: ReadonlyMap<number, bigint>;
    readonly counts: ReadonlyMap<number, Counted>;
  };
}

class Recovery implements Recovered {
  readonly segments: Segment[] = [];
  readonly lost: Lost[] = [];
  nextNumber = 1;
  nextSequence = 1n;
  readonly #files: SpoolFiles;
  readonly #folder: string;
  readonly #spool: Buffer;
  readonly #ring: KeyRing;
  /** Since these, no beginning of a group was seen. */
  #doubts: Doubt[] = [];

  constructor(files: SpoolFiles, folder: string, spool: Buffer, ring: KeyRing) {
    this.#files = files;
    this.#folder = folder;
    this.#spool = spool;
    this.#ring = ring;
  }

  async run(): Promise<void> {
    const numbers = (await this.#files.list(this.#folder))
      .map(segmentNumber)
      .filter((number) => number !== null)
      .toSorted((a, b) => a - b);
    const found: Headed[] = [];
    for (const number of numbers) {
      this.nextNumber = number + 1;
      const one = await this.#headerOf(number);
      if (one !== null) found.push(one);
    }
    const counts = new Map(found.map(({ header }) => [header?.before?.number, header?.before?.bytes]));
    for (const { number, header, fileBytes, reason } of found) {
      const bytes = counts.get(number) ?? null;
      if (header !== null) await this.#scan({ number, header, fileBytes }, bytes);
      // Writing to it had failed before anything was kept in it.
      else if (bytes === headerBytes) await this.#files.remove(segmentPath(this.#folder, number));
      else await this.#setAside(number, fileBytes, reason);
    }
    this.#forgetUnfinished();
  }

  /** null: nothing was ever written to it, and it is removed. */
  async #headerOf(number: number): Promise<Headed | null> {
    const path = segmentPath(this.#folder, number);
    const found = await reading(this.#files, path, async (file) => {
      const bytes = Buffer.alloc(headerBytes);
      const read = await file.read(bytes, 0);
      const size = await file.size();
      const known = decodeHeader(bytes.subarray(0, read));
      return { fileBytes: size, header: known, unused: known === null && (await isUnused(file, size)) };
    }).catch((error: unknown) => {
      if (error instanceof NoFile) return null;
      throw error;
    });
    // Somebody has put it there: it is moved away unread.
    if (found === null) return { number, fileBytes: 0, header: null, reason: 'no header' };
    const { fileBytes, header, unused } = found;
    // Made ahead; the process ended before its header was complete.
    if (unused) {
      await this.#files.remove(path);
      return null;
    }
    if (header === null) return { number, fileBytes, header, reason: 'no header' };
    const isOurs = header.number === number && header.spool.equals(this.#spool);
    return { number, fileBytes, header: isOurs ? header : null, reason: 'of another spool' };
  }

  /** `bytes`: how much of it counts, if the next segment says so. */
  async #scan({ number, header, fileBytes }: Known, bytes: number | null): Promise<void> {
    const path = segmentPath(this.#folder, number);
    const masterKey = this.#ring.keys().find(({ id }) => id.equals(header.keyId));
    const segment: Segment = {
      number,
      path,
      header,
      key: masterKey === undefined ? null : segmentKey(masterKey, header),
      fileBytes,
      end: headerBytes,
      last: new Map(),
      counts: new Map(),
      requests: 0,
      damaged: new Set(),
    };
    this.segments.push(segment);
    const stretch = {
      from: headerBytes,
      to: Math.min(bytes ?? fileBytes, fileBytes),
      full: bytes !== null,
      after: this.nextSequence - 1n,
    };
    await reading(this.#files, path, async (file) => {
      for await (const found of scanRecords(file, stretch)) await this.#take(segment, found);
    });
    if (bytes === null) return;
    // All of it was on the disk when the next segment was begun.
    await this.#believe();
    segment.end = stretch.to;
    if (bytes > fileBytes)
      this.lost.push({ segment: `${number}.seg`, bytes: bytes - fileBytes, reason: 'damaged', kept: null });
  }

  async #take(segment: Segment, found: Scanned): Promise<void> {
    if (found.is === 'damage') {
      this.#doubt(segment, found.from, found.to);
      return;
    }
    const { head } = found;
    if (head.startsGroup) await this.#believe();
    segment.end = found.to;
    this.nextSequence = head.sequence + 1n;
    if (head.kind === 'table') return;
    count(segment, head, found.to - found.from);
  }

  #doubt(segment: Segment, from: number, to: number): void {
    const { requests, last, counts } = segment;
    const before = { requests, last: new Map(last), counts: new Map(counts) };
    this.#doubts.push({ segment, from, to, before });
  }

  /** Another group was begun after them: what cannot be read had been complete. */
  async #believe(): Promise<void> {
    const doubts = this.#doubts;
    this.#doubts = [];
    for (const { segment, from, to } of doubts)
      this.lost.push(await quarantine(this.#files, segment, from, to));
  }

  /** The last group was not finished: it ends at the first place that cannot be read. */
  #forgetUnfinished(): void {
    for (const { segment, from, to, before } of this.#doubts.toReversed()) {
      const name = `${segment.number}.seg`;
      this.lost.push({ segment: name, bytes: to - from, reason: 'unfinished', kept: null });
      segment.end = from;
      segment.requests = before.requests;
      segment.last.clear();
      for (const [id, sequence] of before.last) segment.last.set(id, sequence);
      segment.counts.clear();
      for (const [id, of] of before.counts) segment.counts.set(id, of);
    }
    this.#doubts = [];
  }

  async #setAside(number: number, bytes: number, reason: Lost['reason']): Promise<void> {
    const path = segmentPath(this.#folder, number);
    const folder = join(this.#folder, 'quarantine');
    const kept = join(folder, `${number}.seg`);
    await this.#files.makeFolder(folder);
    await this.#files.rename(path, kept);
    await this.#files.syncFolder(folder);
    await this.#files.syncFolder(this.#folder);
    this.lost.push({ segment: `${number}.seg`, bytes, reason, kept });
  }
}

/** Whether nothing follows the header: records are written only once the header is on the disk. */
async function isUnused(file: SpoolFile, size: number): Promise<boolean> {
  const scanned = scanRecords(file, { from: headerBytes, to: size, full: false, after: 0n });
  const first = await scanned.next();
  await scanned.return();
  return first.done === true;
}
