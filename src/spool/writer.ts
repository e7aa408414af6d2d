/**
 * Appends to a spool. Takes payloads to be sealed, returns a promise that resolves when they are on the disk; refuses with
 * `full`, `busy` and `off` (nothing is kept) and with `unknown` (the disk failed, and it could not be recorded that
 * what was being written does not count).
 *
 * One write at a time. Payloads that arrive while the disk is being flushed wait, and are the next group. A segment to which
 * writing has failed is never written to again, and never synced again: after a failed fsync Linux may take pages for
 * clean that are not. The next segment says how much of it counts. A second failure within a minute ends all writing until
 * the next start.
 *
 * The segment after the one in use is made ahead, so that a disk that fills up takes nothing from the one in use.
 */
import type { KeyRing } from '../secrets/key-ring.ts';
import { limits } from '../tables/limits.ts';
import type { SpoolFile, SpoolFiles } from './files.ts';
import { encodeHeader, encodeRecord, headerBytes, joinPayloads, recordSize, segmentKey } from './format.ts';
import type { RecordHead } from './format.ts';
import { count, segmentPath } from './segment.ts';
import type { Segment } from './segment.ts';

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
}

export interface Appendable {
  readonly oid: number;
  /** Changes whenever the description of the table does. */
  readonly version: string;
  readonly describe: () => Buffer;
}

export class NotKept extends Error {
  override readonly name = 'NotKept';
  readonly why: 'full' | 'busy' | 'off' | 'unknown';

  constructor(why: NotKept['why']) {
    super(`not kept: ${why}`);
    this.why = why;
  }
}

interface Waiting {
  readonly table: Appendable;
  readonly payload: Buffer;
  readonly kept: (sequence: bigint) => void;
  readonly refused: (why: NotKept) => void;
}

interface Open {
  readonly segment: Segment;
  readonly file: SpoolFile;
  readonly key: Buffer;
  /** The version of each table that was written to this segment, by oid. */
  readonly told: Map<number, string>;
}

/** A segment of zeros, not written to yet. */
interface Spare {
  readonly number: number;
  readonly file: SpoolFile;
}

export class SpoolWriter {
  readonly #options: WriterOptions;
  #waiting: Waiting[] = [];
  #waitingBytes = 0;
  /** By oid. */
  readonly #waitingOf = new Map<number, number>();
  #nextNumber: number;
  #nextSequence: bigint;
  #bytes: number;
  #last: Segment | null;
  #open: Open | null = null;
  #spare: Promise<Spare | null> | null = null;
  #running: Promise<void> | null = null;
  #off = false;
  #failedAt = -Infinity;

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
    const size = recordSize(payload.length);
    // It would not fit into an empty segment after the description of its table.
    if (headerBytes + recordSize(table.describe().length) + size > this.#options.segmentBytes)
      return Promise.reject(new NotKept('full'));
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

  /** Makes the segment for the first record in advance, so that the record need not wait for it. */
  async prepare(): Promise<void> {
    this.#spare ??= this.#makeSpare();
    await this.#spare;
  }

  /** A segment of so many bytes was removed. */
  freed(bytes: number): void {
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
    const spare = await this.#spare;
    this.#spare = null;
    if (spare === null) return;
    await spare.file.close();
    await this.#options.files.remove(segmentPath(this.#options.folder, spare.number));
    this.#bytes -= this.#options.segmentBytes;
  }

  async #run(): Promise<void> {
    // Payloads of the same turn of the event loop go together.
    await new Promise(setImmediate);
    while (this.#waiting.length > 0) {
      const group = this.#takeGroup();
      try {
        await this.#write(group);
      } catch (error) {
        await this.#fail(group, error);
      }
    }
    this.#running = null;
  }

  #takeGroup(): readonly Waiting[] {
    let bytes = 0;
    let count = 0;
    for (const { table, payload } of this.#waiting) {
      const size = recordSize(payload.length);
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

  async #write(group: readonly Waiting[]): Promise<void> {
    const open = await this.#roomFor(group);
    if (open === null) return group.forEach(({ refused }) => refused(new NotKept('full')));
    const { segment, file, key, told } = open;
    const first = this.#nextSequence;
    const records: {
      readonly head: RecordHead;
      readonly bytes: number;
      readonly waiting: readonly Waiting[];
    }[] = [];
    const pieces: Buffer[] = [];
    const add = (kind: 'request' | 'table', table: number, payloads: readonly Buffer[]) => {
      const sequence = this.#nextSequence + BigInt(payloads.length - 1);
      const requests = kind === 'request' ? payloads.length : 0;
      const head = { sequence, table, kind, requests, startsGroup: pieces.length === 0 };
      const record = encodeRecord(head, joinPayloads(payloads), key);
      pieces.push(record);
      this.#nextSequence = sequence + 1n;
      return { head, bytes: record.length };
    };
    for (const waiting of togetherOf(group)) {
      const { oid, version, describe } = waiting[0].table;
      if (told.get(oid) !== version) {
        told.set(oid, version);
        add('table', oid, [describe()]);
      }
      const payloads = waiting.map(({ payload }) => payload);
      records.push({ ...add('request', oid, payloads), waiting });
    }
    const bytes = Buffer.concat(pieces);
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

  /** The segment for a group; null: there is no room for another segment. */
  async #roomFor(group: readonly Waiting[]): Promise<Open | null> {
    const open = this.#open;
    if (open !== null && open.segment.end + this.#sizeIn(open, group) <= this.#options.segmentBytes)
      return open;
    await this.#closeOpen();
    // null: there was no room for one at the last attempt.
    const spare = (await this.#spare) ?? (await this.#makeSpare());
    this.#spare = null;
    if (spare === null) return null;
    const opened = await this.#use(spare);
    this.#spare = this.#makeSpare();
    return opened;
  }

  /** At most: each table is described once. */
  #sizeIn({ told }: Pick<Open, 'told'>, group: readonly Waiting[]): number {
    const tables = new Map<number, string>();
    let bytes = 0;
    for (const { table, payload } of group) {
      bytes += recordSize(payload.length);
      const known = tables.get(table.oid) ?? told.get(table.oid);
      if (known !== table.version) bytes += recordSize(table.describe().length);
      tables.set(table.oid, table.version);
    }
    return bytes;
  }

  /** The header is on the disk before anything else: a header that cannot be read was damaged later. */
  async #use({ number, file }: Spare): Promise<Open> {
    const { ring, spool, random, folder, segmentBytes } = this.#options;
    ring.reread();
    const masterKey = ring.keys()[0];
    if (masterKey === undefined) throw new Error('there is no master key to seal with');
    const header = {
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
      key,
      fileBytes: segmentBytes,
      end: headerBytes,
      last: new Map(),
      counts: new Map(),
      requests: 0,
      damaged: new Set(),
    };
    this.#open = { segment, file, key, told: new Map() };
    try {
      await file.write([encodeHeader(header)], 0);
      await file.syncData();
    } finally {
      this.#last = segment;
    }
    this.#options.began(segment);
    return this.#open;
  }

  async #closeOpen(): Promise<void> {
    const open = this.#open;
    this.#open = null;
    await open?.file.close().catch(this.#options.failed);
  }

  /** null: the disk, or the spool's share of it, is full. */
  async #makeSpare(): Promise<Spare | null> {
    const { files, folder, segmentBytes, bytesLeft, failed } = this.#options;
    if (segmentBytes > bytesLeft()) return null;
    const number = this.#nextNumber++;
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
      return { number, file };
    } catch (error) {
      failed(error);
      await file?.close().catch(() => {});
      await files.remove(path).catch(() => {});
      this.#bytes -= segmentBytes;
      return null;
    }
  }

  /** The group is refused as soon as the disk says that it does not count. */
  async #fail(group: readonly Waiting[], error: unknown): Promise<void> {
    const { clock, failed } = this.#options;
    failed(error);
    const again = clock() - this.#failedAt < limits.spoolFailuresWithinMs;
    this.#failedAt = clock();
    await this.#closeOpen();
    const isWritten = await this.#cut();
    for (const { refused } of group) refused(new NotKept(isWritten ? 'busy' : 'unknown'));
    if (!again && isWritten) return;
    this.#off = true;
    await this.#closeOpen();
    const left = this.#waiting.splice(0);
    this.#waitingBytes = 0;
    this.#waitingOf.clear();
    for (const { refused } of left) refused(new NotKept('off'));
  }

  /** Begins a segment whose header says how much of the last one counts. */
  async #cut(): Promise<boolean> {
    this.#spare ??= this.#makeSpare();
    const spare = await this.#spare;
    this.#spare = null;
    if (spare === null) return false;
    try {
      await this.#use(spare);
      return true;
    } catch (error) {
      this.#options.failed(error);
      return false;
    }
  }
}

/** The groups of requests that share a record each: of one table, in order, as many as are sealed together. */
function togetherOf(group: readonly Waiting[]): readonly (readonly [Waiting, ...Waiting[]])[] {
  const all: [Waiting, ...Waiting[]][] = [];
  const open = new Map<number, { readonly waiting: [Waiting, ...Waiting[]]; bytes: number }>();
  for (const one of group) {
    const { oid, version } = one.table;
    const bytes = one.payload.length;
    const last = open.get(oid);
    const fits =
      last !== undefined &&
      last.waiting[0].table.version === version &&
      last.waiting.length < limits.spoolSealedRequestsMax &&
      last.bytes + bytes <= limits.spoolSealedBytesMax;
    if (fits) {
      last.waiting.push(one);
      last.bytes += bytes;
    } else {
      const waiting: [Waiting, ...Waiting[]] = [one];
      all.push(waiting);
      open.set(oid, { waiting, bytes });
    }
  }
  return all;
}
