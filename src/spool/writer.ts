/**
 * Appends to a spool: the step in which a request is kept. Takes payloads to be sealed, returns a promise that resolves when they are on the
 * disk; refuses with `full`, `busy`, `locked` (there is no master key) and `off` (nothing is kept) and with `unknown` (the disk failed, and it
 * could not be recorded that what was being written does not count).
 *
 * One write at a time. Payloads that arrive while the disk is being flushed wait, and are the next group. A segment to which
 * writing has failed is never written to again, and never synced again: after a failed fsync Linux may take pages for
 * clean that are not. The next segment says how much of it counts. A second failure within a minute ends all writing until
 * the next start.
 */
import { limits } from '../config/limits.ts';
import type { DiskHealth } from './disk-health.ts';
import { encodeRecord, headerBytes, recordSize } from './format.ts';
import type { EncodedTarget, RecordHead } from './format.ts';
import { joinPayloads } from './kept-request.ts';
import { count, NotKept } from './segment-files.ts';
import type { SegmentFiles, SegmentFilesOptions } from './segment-files.ts';

/** The table of a request. */
export interface Appendable {
  readonly oid: number;
  /** Another object whenever the description is another one. */
  readonly target: EncodedTarget;
}

interface WaitingRequest {
  readonly table: Appendable;
  readonly payload: Buffer;
  readonly kept: (sequence: bigint) => void;
  readonly refused: (why: NotKept) => void;
}

export class SpoolWriter {
  readonly #segments: SegmentFiles;
  readonly #health: Pick<DiskHealth, 'failed'>;
  readonly #clock: () => number;
  #waiting: WaitingRequest[] = [];
  #waitingBytes = 0;
  /** By oid. */
  readonly #waitingOf = new Map<number, number>();
  #nextSequence: bigint;
  #running: Promise<void> | null = null;
  #off = false;
  #failedAt = -Infinity;

  constructor(
    segments: SegmentFiles,
    { health, clock }: Pick<SegmentFilesOptions, 'health' | 'clock'>,
    nextSequence: bigint,
  ) {
    this.#segments = segments;
    this.#health = health;
    this.#clock = clock;
    this.#nextSequence = nextSequence;
  }

  /** It accepts nothing any more: it is closed, or the disk failed twice. */
  get off(): boolean {
    return this.#off;
  }

  /** The last sequence that was given out; 0: none was. */
  get lastSequence(): bigint {
    return this.#nextSequence - 1n;
  }

  /** Resolves with the record's sequence when it is on the disk; rejects with NotKept. */
  append(table: Appendable, payload: Buffer): Promise<bigint> {
    if (this.#off) return Promise.reject(new NotKept('off'));
    const size = recordSize(table.target, payload.length);
    // It would not fit into an empty segment.
    if (headerBytes + size > this.#segments.recordsEnd) return Promise.reject(new NotKept('full'));
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
    const first = this.#nextSequence;
    // At most: those that are sealed together take less.
    const most = group.reduce((sum, { table, payload }) => sum + recordSize(table.target, payload.length), 0);
    const { open, recordsEnd } = this.#segments;
    const fits = open !== null && open.segment.end + most <= recordsEnd;
    const { segment, file, key } = fits ? open : await this.#segments.next(first);
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

  /** The group is refused as soon as the disk says that it does not count. `isBegun`: some of it may be on the disk. */
  async #fail(group: readonly WaitingRequest[], error: unknown, isBegun: boolean): Promise<void> {
    this.#health.failed(error);
    const now = this.#clock();
    const again = now - this.#failedAt < limits.spoolFailuresWithinMs;
    this.#failedAt = now;
    await this.#segments.finish();
    const isCut = await this.#segments.cut(this.#nextSequence);
    for (const { refused } of group) refused(new NotKept(isBegun && !isCut ? 'unknown' : 'busy'));
    if (!again && isCut) return;
    this.#off = true;
    await this.#segments.finish();
    const left = this.#waiting.splice(0);
    this.#waitingBytes = 0;
    this.#waitingOf.clear();
    for (const { refused } of left) refused(new NotKept('off'));
  }

  /** Makes the next segment in advance (`SegmentFiles.prepare`), as long as anything is accepted. */
  async prepare(): Promise<void> {
    if (!this.#off) await this.#segments.prepare();
  }

  /** Ends the segment in use if nothing is being written: the next record begins another one. Returns whether it did. */
  async finishSegment(): Promise<boolean> {
    if (this.#running !== null) return false;
    await this.#segments.finish();
    return true;
  }

  /** Accepts nothing more; what was accepted is on the disk when this resolves. */
  async close(): Promise<void> {
    this.#off = true;
    await this.#running;
    await this.#segments.close();
  }
}

/** The groups of requests that share a record each: of one table, in order, as many as are sealed together. */
function togetherOf(
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
