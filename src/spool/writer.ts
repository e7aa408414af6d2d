/**
 * Appends to a spool. Takes payloads to be sealed, returns a promise that resolves when they are on the disk; refuses with
 * `full`, `busy`, `locked` (there is no master key) and `off` (nothing is kept) and with `unknown` (the disk failed, and it could not be
 * recorded that what was being written does not count).
 *
 * One write at a time. Payloads that arrive while the disk is being flushed wait, and are the next group. A segment to which
 * writing has failed is never written to again, and never synced again: after a failed fsync Linux may take pages for
 * clean that are not. The next segment says how much of it counts. A second failure within a minute ends all writing until
 * the next start.
 *
 * The segment after the one in use is made ahead, so that a disk that fills up takes nothing from the one in use.
 */
import type { KeyRing } from '../secrets/key-ring.ts';
import type { MasterKey } from '../secrets/key-file.ts';
import { limits } from '../config/limits.ts';
import type { SpoolFile, SpoolFiles } from './files.ts';
import {
  encodeHeader,
  encodeRecord,
  headerBytes,
  joinPayloads,
  recordsEnd,
  recordSize,
  segmentKey,
} from './format.ts';
import type { EncodedTarget, RecordHead } from './format.ts';
import { count, markPath, removeMarks, segmentPath } from './segment.ts';
import type { Segment, SegmentPosition } from './segment.ts';

/** The table of a request. */
export interface Appendable {
  readonly oid: number;
  /** Another object whenever the description is another one. */
  readonly target: EncodedTarget;
}

/** The groups of requests that share a record each: of one table, in order, as many as are sealed together. */
function togetherOf<WaitingRequest extends { readonly table: Appendable; readonly payload: Buffer }>(
  group: readonly WaitingRequest[],
): readonly (readonly [WaitingRequest, ...WaitingRequest[]])[] {
  const all: [WaitingRequest, ...WaitingRequest[]][] = [];
  const open = new Map<number, { readonly waiting: [WaitingRequest, ...WaitingRequest[]]; bytes: number }>();
  for (const one of group) {
    const { oid, target } = one.table;
    const bytes = one.payload.length;
    const last = open.get(oid);
    const fits =
      last !== undefined &&
      last.waiting[0].table.target === target &&
      last.waiting.length < limits.spoolSealedRequestsMax &&
      last.bytes + bytes <= limits.spoolSealedBytesMax;
    if (fits) {
      last.waiting.push(one);
      last.bytes += bytes;
    } else {
      const waiting: [WaitingRequest, ...WaitingRequest[]] = [one];
      all.push(waiting);
      open.set(oid, { waiting, bytes });
    }
  }
  return all;
}

export interface WriterOptions {
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
  readonly nextNumber: number;
  readonly nextSequence: bigint;
  /** Bytes of the existing segments on the disk; the last of these segments. */
  readonly bytes: number;
  readonly last: Segment | null;
  /** Called when a segment comes into use; it then grows. */
  readonly began: (segment: Segment) => void;
  readonly failed: (error: unknown) => void;
  /** Called when a segment was made. */
  readonly worked: () => void;
}

export class NotKept extends Error {
  override readonly name = 'NotKept';
  readonly why: 'full' | 'busy' | 'locked' | 'off' | 'unknown';

  constructor(why: NotKept['why']) {
    super(`not kept: ${why}`);
    this.why = why;
  }
}

interface WaitingRequest {
  readonly table: Appendable;
  readonly payload: Buffer;
  readonly kept: (sequence: bigint) => void;
  readonly refused: (why: NotKept) => void;
}

interface OpenSegment {
  readonly segment: Segment;
  readonly file: SpoolFile;
  readonly key: Buffer;
}

/** A segment of zeros, not written to yet. */
interface Spare {
  readonly mark: SegmentPosition;
  readonly file: SpoolFile;
}

export class SpoolWriter {
  readonly #options: WriterOptions;
  #waiting: WaitingRequest[] = [];
  #waitingBytes = 0;
  /** By oid. */
  readonly #waitingOf = new Map<number, number>();
  #nextNumber: number;
  #nextSequence: bigint;
  #bytes: number;
  #last: Segment | null;
  #open: OpenSegment | null = null;
  #spare: Promise<Spare | null> | null = null;
  #running: Promise<void> | null = null;
  #off = false;
  #failedAt = -Infinity;
  /** When a segment could not be made. */
  #fullAtMs = -Infinity;

  constructor(options: WriterOptions) {
    this.#options = options;
    this.#nextNumber = options.nextNumber;
    this.#nextSequence = options.nextSequence;
    this.#bytes = options.bytes;
    this.#last = options.last;
  }

  /** Bytes of all files. */
  get bytes(): number {
    return this.#bytes;
  }

  get off(): boolean {
    return this.#off;
  }

  get nextSequence(): bigint {
    return this.#nextSequence;
  }

  /** Resolves with the record's sequence when it is on the disk; rejects with NotKept. */
  append(table: Appendable, payload: Buffer): Promise<bigint> {
    if (this.#off) return Promise.reject(new NotKept('off'));
    const size = recordSize(table.target, payload.length);
    // It would not fit into an empty segment.
    if (headerBytes + size > this.#recordsEnd) return Promise.reject(new NotKept('full'));
    const ofTable = this.#waitingOf.get(table.oid) ?? 0;
    // A table may use half of it while no other waits, and never more than it leaves to the others.
    if (ofTable > 0 && ofTable + size > limits.spoolWaitingBytesMax - this.#waitingBytes)
      return Promise.reject(new NotKept('busy'));
    const done = new Promise<bigint>((kept, refused) =>
      this.#waiting.push({ table, payload, kept, refused }),
    );
    this.#waitingBytes += size;
    this.#waitingOf.set(table.oid, ofTable + size);
    this.#running ??= this.#run();
    return done;
  }

  /** Makes the next segment in advance, so that its first record need not wait for it; tries again if it could not be made before. */
  async prepare(): Promise<void> {
    if (this.#off) return;
    const made = (this.#spare ??= this.#makeSpare());
    if ((await made) === null && this.#spare === made) this.#spare = null;
  }

  /** A segment of so many bytes was removed. */
  freed(bytes: number): void {
    this.#fullAtMs = -Infinity;
    this.#bytes -= bytes;
  }

  /** Ends the segment in use if nothing is being written: the next record begins another one. Returns whether it did. */
  async finishSegment(): Promise<boolean> {
    if (this.#running !== null) return false;
    await this.#closeOpen();
    return true;
  }

  /** Accepts nothing more; what was accepted is on the disk when this resolves. */
  async close(): Promise<void> {
    this.#off = true;
    await this.#running;
    await this.#closeOpen();
    const spare = this.#spare === null ? null : await this.#takeSpare();
    if (spare === null) return;
    const { files, folder } = this.#options;
    await spare.file.close();
    await removeMarks(files, folder, [spare.mark]);
    await files.remove(segmentPath(folder, spare.mark.number));
    this.#bytes -= spare.mark.fileBytes;
  }

  get #recordsEnd(): number {
    return recordsEnd(2, this.#options.segmentBytes);
  }

  async #run(): Promise<void> {
    // Payloads of the same turn of the event loop go together.
    await new Promise(setImmediate);
    while (this.#waiting.length > 0) {
      const group = this.#takeGroup();
      const attempt = { isBegun: false };
      try {
        await this.#write(group, attempt);
      } catch (error) {
        if (error instanceof NotKept) for (const { refused } of group) refused(error);
        else await this.#fail(group, error, attempt.isBegun);
      }
    }
    this.#running = null;
  }

  #takeGroup(): readonly WaitingRequest[] {
    let bytes = 0;
    let count = 0;
    for (const { table, payload } of this.#waiting) {
      const size = recordSize(table.target, payload.length);
      if (count > 0 && (count === limits.spoolGroupRecordsMax || bytes + size > limits.spoolGroupBytesMax))
        break;
      bytes += size;
      count += 1;
      const left = (this.#waitingOf.get(table.oid) ?? 0) - size;
      if (left > 0) this.#waitingOf.set(table.oid, left);
      else this.#waitingOf.delete(table.oid);
    }
    this.#waitingBytes -= bytes;
    return this.#waiting.splice(0, count);
  }

  /** `isBegun`: some of it may be on the disk. Rejects with NotKept, and with the system's errors. */
  async #write(group: readonly WaitingRequest[], attempt: { isBegun: boolean }): Promise<void> {
    const { segment, file, key } = await this.#roomFor(group);
    const first = this.#nextSequence;
    const records: { head: RecordHead; bytes: number; waiting: readonly WaitingRequest[] }[] = [];
    const pieces: Buffer[] = [];
    let end = segment.end;
    for (const waiting of togetherOf(group)) {
      const { oid, target } = waiting[0].table;
      const sequence = this.#nextSequence + BigInt(waiting.length - 1);
      const head = { sequence, table: oid, requests: waiting.length, startsGroup: pieces.length === 0 };
      const payload = joinPayloads(waiting.map((one) => one.payload));
      const record = encodeRecord(head, end, target, payload, key);
      pieces.push(record);
      records.push({ head, bytes: record.length, waiting });
      this.#nextSequence = sequence + 1n;
      end += record.length;
    }
    const bytes = Buffer.concat(pieces);
    attempt.isBegun = true;
    try {
      await file.write([bytes], segment.end);
      await file.syncData();
    } catch (error) {
      this.#nextSequence = first;
      throw error;
    }
    segment.end += bytes.length;
    for (const { head, bytes: size } of records) count(segment, head, size);
    for (const { head, waiting } of records)
      waiting.forEach(({ kept }, i) => kept(head.sequence - BigInt(waiting.length - 1 - i)));
  }

  /** The segment for a group. Rejects with NotKept if there is no room for another segment, or no master key. */
  async #roomFor(group: readonly WaitingRequest[]): Promise<OpenSegment> {
    const open = this.#open;
    // At most: those that are sealed together take less.
    const size = group.reduce((sum, { table, payload }) => sum + recordSize(table.target, payload.length), 0);
    if (open !== null && open.segment.end + size <= this.#recordsEnd) return open;
    const masterKey = this.#masterKey();
    if (masterKey === null) throw new NotKept('locked');
    await this.#closeOpen();
    // null: there was no room for one at the last attempt.
    const spare = (await this.#takeSpare()) ?? (await this.#makeSpare());
    if (spare === null) throw new NotKept('full');
    const opened = await this.#use(spare, masterKey);
    this.#spare ??= this.#makeSpare();
    return opened;
  }

  /** The header is on the disk before anything else: a header that cannot be read was damaged later. */
  async #use({ mark, file }: Spare, masterKey: MasterKey): Promise<OpenSegment> {
    const { spool, random, folder } = this.#options;
    const { number, fileBytes } = mark;
    const header = {
      version: 2 as const,
      number,
      spool,
      salt: random(16),
      keyId: masterKey.id,
      firstSequence: this.#nextSequence,
      before: this.#last === null ? null : { number: this.#last.number, bytes: this.#last.end },
    };
    const key = segmentKey(masterKey, header);
    const segment: Segment = {
      number,
      path: segmentPath(folder, number),
      header,
      mark,
      key,
      fileBytes,
      end: headerBytes,
      last: new Map(),
      counts: new Map(),
      requests: 0,
      damaged: new Set(),
    };
    this.#open = { segment, file, key };
    try {
      for (const place of [0, fileBytes - headerBytes]) await file.write([encodeHeader(header)], place);
      await file.syncData();
    } finally {
      this.#last = segment;
    }
    this.#options.began(segment);
    return this.#open;
  }

  /** null: it is not here. */
  #masterKey(): MasterKey | null {
    const { ring } = this.#options;
    ring.reread();
    return ring.keys()[0] ?? null;
  }

  async #closeOpen(): Promise<void> {
    const open = this.#open;
    this.#open = null;
    await open?.file.close().catch(this.#options.failed);
  }

  /** Whoever is given it uses or removes it: the next one that is prepared is another one. */
  #takeSpare(): Promise<Spare | null> {
    const made = this.#spare ?? this.#makeSpare();
    this.#spare = null;
    return made;
  }

  /** null: the disk, or the spool's share of it, is full, or was a moment ago. */
  async #makeSpare(): Promise<Spare | null> {
    const { files, folder, segmentBytes, bytesLeft, failed, worked, clock } = this.#options;
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
      worked();
      return { mark, file };
    } catch (error) {
      this.#fullAtMs = clock();
      failed(error);
      await file?.close().catch(() => {});
      await removeMarks(files, folder, [mark]).catch(() => {});
      await files.remove(path).catch(() => {});
      this.#bytes -= segmentBytes;
      return null;
    }
  }

  /** The group is refused as soon as the disk says that it does not count. `isBegun`: some of it may be on the disk. */
  async #fail(group: readonly WaitingRequest[], error: unknown, isBegun: boolean): Promise<void> {
    const { clock, failed } = this.#options;
    failed(error);
    const again = clock() - this.#failedAt < limits.spoolFailuresWithinMs;
    this.#failedAt = clock();
    await this.#closeOpen();
    const isCut = await this.#cut();
    for (const { refused } of group) refused(new NotKept(isBegun && !isCut ? 'unknown' : 'busy'));
    if (!again && isCut) return;
    this.#off = true;
    await this.#closeOpen();
    const left = this.#waiting.splice(0);
    this.#waitingBytes = 0;
    this.#waitingOf.clear();
    for (const { refused } of left) refused(new NotKept('off'));
  }

  /** Begins a segment whose header says how much of the last one counts. */
  async #cut(): Promise<boolean> {
    const masterKey = this.#masterKey();
    if (masterKey === null) return false;
    const spare = await this.#takeSpare();
    if (spare === null) return false;
    try {
      await this.#use(spare, masterKey);
      return true;
    } catch (error) {
      this.#options.failed(error);
      return false;
    }
  }
}
