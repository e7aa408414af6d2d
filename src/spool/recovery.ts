/**
 * Finds out what a spool's folder holds by reading all of it: there is no index and no checkpoint that could be wrong.
 * Takes a folder as any crash, and any disk, may have left it; returns the segments that count, and what was lost. Never
 * refuses because of what it reads: a part that cannot be read is copied to `quarantine/` and reported, and the records around
 * it stay. Rejects with the system's errors only.
 *
 * A group is on the disk before the next one is written, so everything before the beginning of a group was complete. What cannot be read
 * at the end of the last segment was being written when the process ended if a sector of it is as it was before (`isTorn`): no sender was
 * told that it is kept, and it is left out. Otherwise it was complete, and is damaged. A file that is missing or shorter than its mark says
 * (`markPath`) was damaged.
 */
import type { KeyRing } from '../secrets/key-ring.ts';
import { NoFile } from './files.ts';
import type { SpoolFiles } from './files.ts';
import { headBytes, headerBytes, keyOf, padded, recordsEnd, tagBytes } from './format.ts';
import type { SegmentHeader, Version } from './format.ts';
import { quarantine, quarantineFile, quarantineMark } from './quarantine.ts';
import type { UnreadablePart } from './disk-health.ts';
import { lastNonZero, readHeader, reading, scanRecords } from './scan-records.ts';
import type { Damage, FoundHeader, Scanned } from './scan-records.ts';
import { count, recountAs, removeMarks, segmentOf, segmentPath, segmentsIn } from './segment-files.ts';
import type { FoundSegment, Segment, SegmentCounted, SegmentPosition } from './segment-files.ts';

export interface Recovered {
  /** In order. Nothing is appended to any of them. */
  readonly segments: readonly Segment[];
  readonly nextNumber: number;
  readonly nextSequence: bigint;
  readonly lost: readonly UnreadablePart[];
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

interface Headed extends FoundSegment {
  /** null: it is missing, or no plain file. */
  readonly found: FoundHeader | null;
}

/** What the header of the next segment says of one. */
interface Next {
  /** How much of it counts. */
  readonly bytes: number;
  readonly firstSequence: bigint;
}

/** A part that could not be read, and how much of the segment was good before it. */
interface Doubt {
  readonly segment: Segment;
  readonly damage: Damage;
  /** What was counted of the segment before it, to undo what was counted after it. */
  readonly before: SegmentCounted;
}

class Recovery implements Recovered {
  readonly segments: Segment[] = [];
  readonly lost: UnreadablePart[] = [];
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
    const all: Headed[] = [];
    for (const { number, mark, exists } of await segmentsIn(this.#files, this.#folder)) {
      this.nextNumber = number + 1;
      all.push({ number, mark, exists, found: exists ? await this.#headerOf(number, mark) : null });
    }
    const nexts = new Map<number, Next>();
    for (const { number, found } of all) {
      const header = found?.header ?? null;
      if (header === null || header.before === null || !this.#isOurs(header, number)) continue;
      const { before, firstSequence } = header;
      nexts.set(before.number, { bytes: before.bytes, firstSequence });
    }
    for (const one of all) await this.#take(one, nexts.get(one.number) ?? null);
    await this.#judgeLast();
  }

  /** null: it is no plain file. */
  async #headerOf(number: number, mark: SegmentPosition | null): Promise<FoundHeader | null> {
    const path = segmentPath(this.#folder, number);
    return reading(this.#files, path, (file) => readHeader(file, mark?.fileBytes ?? null)).catch(
      (error: unknown) => {
        if (error instanceof NoFile) return null;
        throw error;
      },
    );
  }

  /** Otherwise it is a copy of another file. */
  #isOurs(header: SegmentHeader, number: number): boolean {
    return header.number === number && header.spool.equals(this.#spool);
  }

  async #take({ number, mark, exists, found }: Headed, next: Next | null): Promise<void> {
    if (found === null) {
      if (mark !== null) await this.#markLost(mark, null, null);
      // Somebody has put it there: it is moved away unread.
      if (exists) await this.#setAside(number, 0, 'no header');
      return;
    }
    const { header, size, fileBytes, isUnused } = found;
    const isCut = size < fileBytes;
    if (header !== null && this.#isOurs(header, number)) {
      await this.#scan(found, header, mark, next);
      return;
    }
    // Made ahead and never used, or writing to it had failed before anything was kept in it.
    const isEmpty = (header === null && isUnused && !isCut) || next?.bytes === headerBytes;
    if (isEmpty && (next?.bytes ?? 0) <= headerBytes) {
      await removeMarks(this.#files, this.#folder, [mark]);
      await this.#files.remove(segmentPath(this.#folder, number));
      return;
    }
    if (mark !== null && isCut) await this.#markLost(mark, size, null);
    else await removeMarks(this.#files, this.#folder, [mark]);
    await this.#setAside(number, size, header === null ? 'no header' : 'of another spool');
  }

  async #scan(
    { size, fileBytes, damagedAt }: FoundHeader,
    header: SegmentHeader,
    mark: SegmentPosition | null,
    next: Next | null,
  ): Promise<void> {
    const { number, version } = header;
    const key = keyOf(header, this.#ring);
    const segment = segmentOf(this.#folder, header, { mark, key, fileBytes: size });
    this.segments.push(segment);
    const from = damagedAt ?? 0;
    const ofHeader = { from, to: from + headerBytes, oid: null, requests: 0 };
    if (damagedAt !== null)
      this.lost.push(await quarantine(this.#files, segment, ofHeader, 'its header is damaged'));
    if (header.firstSequence > this.nextSequence) this.nextSequence = header.firstSequence;
    const written = Math.min(next?.bytes ?? size, recordsEnd(version, fileBytes));
    const stretch = {
      version,
      from: headerBytes,
      to: Math.min(written, size),
      full: next !== null,
      after: this.nextSequence - 1n,
      next: next?.firstSequence ?? null,
    };
    await reading(this.#files, segment.path, async (file) => {
      for await (const found of scanRecords(file, stretch)) await this.#count(segment, found);
    });
    // All of it was on the disk when the next segment was begun, or when it was cut.
    const isCut = size < fileBytes || (next?.bytes ?? 0) > size;
    if (next !== null || isCut) await this.#believe();
    if (next !== null) segment.end = stretch.to;
    if (!isCut) return;
    const requests =
      version === 1 || next === null ? null : Math.max(0, Number(next.firstSequence - this.nextSequence));
    if (mark !== null && size < fileBytes) await this.#markLost(mark, size, requests);
    else
      this.lost.push({
        segment: `${number}.seg`,
        bytes: (next?.bytes ?? size) - size,
        reason: 'the file was cut',
        kept: null,
        requests,
      });
  }

  async #count(segment: Segment, found: Scanned): Promise<void> {
    if (found.is === 'damage') {
      const before = { last: new Map(segment.last), counts: new Map(segment.counts) };
      this.#doubts.push({ segment, damage: found, before });
      return;
    }
    const { head } = found;
    if (head.startsGroup) await this.#believe();
    segment.end = found.to;
    this.nextSequence = head.sequence + 1n;
    count(segment, head, found.to - found.from);
  }

  /** What cannot be read had been complete. */
  async #believe(): Promise<void> {
    const doubts = this.#doubts;
    this.#doubts = [];
    for (const { segment, damage } of doubts) this.lost.push(await quarantine(this.#files, segment, damage));
  }

  /** The last group was complete; or it was not, and ends at the first place that cannot be read. */
  async #judgeLast(): Promise<void> {
    const torn = await Promise.all(this.#doubts.map((doubt) => this.#isTorn(doubt)));
    if (!torn.includes(true)) {
      await this.#believe();
      return;
    }
    for (const { segment, damage, before } of this.#doubts.toReversed()) {
      const { from, to } = damage;
      const name = `${segment.number}.seg`;
      this.lost.push({ segment: name, bytes: to - from, reason: 'unfinished', kept: null, requests: null });
      segment.end = from;
      recountAs(segment, before);
    }
    this.#doubts = [];
  }

  async #isTorn({ segment, damage: { from, to, size } }: Doubt): Promise<boolean> {
    const { path, header, fileBytes, end } = segment;
    return reading(this.#files, path, async (file) => {
      const isFollowed = to <= end;
      const bytes = Buffer.alloc((isFollowed ? to : await lastNonZero(file, from, to)) - from);
      await file.read(bytes, from);
      const extent = isFollowed ? bytes.length : size;
      return isTorn(bytes, { position: from, size: extent, version: header.version, fileBytes });
    });
  }

  async #markLost(mark: SegmentPosition, size: number | null, requests: number | null): Promise<void> {
    this.lost.push(await quarantineMark(this.#files, this.#folder, mark, size, requests));
  }

  async #setAside(number: number, bytes: number, reason: UnreadablePart['reason']): Promise<void> {
    const path = segmentPath(this.#folder, number);
    this.lost.push(await quarantineFile(this.#files, path, { segment: `${number}.seg`, bytes, reason }));
  }
}

/** Where a part is that cannot be read. */
interface Extent {
  /** Of its first byte, in the segment. */
  readonly position: number;
  /** What its head announces; null: that cannot be read. */
  readonly size: number | null;
  readonly version: Version;
  /** Bytes of the segment's file. */
  readonly fileBytes: number;
}

/**
 * Whether the process ended while it wrote this part, and so acknowledged nothing of it: a sector is as it was before, zeros. What
 * was written completely, and has changed since, has none. `bytes`: up to the last that is not zero.
 */
function isTorn(bytes: Buffer, { position, size, version, fileBytes }: Extent): boolean {
  // Nothing but its length says where a record of version 1 ends.
  const announced = size ?? (version === 1 && bytes.length >= 4 ? padded(bytes.readUInt32LE(0)) : 0);
  // No record was ever longer than its file: the file was cut, or the length has changed.
  if (position + announced > fileBytes) return false;
  if (Math.max(announced, headBytes[version] + tagBytes) > padded(bytes.length)) return true;
  for (let at = 0; at < bytes.length;) {
    const next = Math.min(bytes.length, at + sectorBytes - ((position + at) % sectorBytes));
    if (bytes.subarray(at, next).every((byte) => byte === 0)) return true;
    at = next;
  }
  return false;
}

/** What disks write as a whole, or a part of it. */
const sectorBytes = 512;
