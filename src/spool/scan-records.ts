/**
 * Reads the records of a segment in order, a piece of its file at a time, and continues after damaged parts; and its header, from the first of the two
 * places in which it can be. Takes an open file and a part of it; returns records and damage; changes nothing; rejects with the system's errors.
 */
import { crc32 } from 'node:zlib';
import { limits } from '../config/limits.ts';
import type { SpoolFile, SpoolFiles } from './files.ts';
import { decodeHeader, headBytes, headerBytes, headSum, padded, recordsEnd, tagBytes } from './format.ts';
import type { RecordHead, SegmentHeader, Version } from './format.ts';

/** A record, or a part in which none could be read. */
export type Scanned =
  | {
      readonly is: 'record';
      readonly head: RecordHead;
      readonly from: number;
      readonly to: number;
      /** Holds the record at `at`, until the next one is requested. */
      readonly bytes: Buffer;
      readonly at: number;
    }
  | Damage;

export interface Damage {
  readonly is: 'damage';
  readonly from: number;
  readonly to: number;
  /** Whose requests they are; null: that cannot be read. */
  readonly oid: number | null;
  /** How many requests there are; null: nothing tells. */
  readonly requests: number | null;
  /** How many bytes its first record takes; null: that cannot be read. */
  readonly size: number | null;
}

export interface SegmentRange {
  readonly version: Version;
  readonly from: number;
  readonly to: number;
  /** The bytes up to `to` are known to have been records, to the last one: zeros among them are damage, too. */
  readonly full: boolean;
  /** Every record's sequence is larger than the one before; the first one's is larger than this. null: not known. */
  readonly after: bigint | null;
  /** The sequence of the first request after the stretch; null: not known. */
  readonly next?: bigint | null;
}

/** Everything between two positions in a segment, in order. Rejects with the system's errors only. */
export async function* scanRecords(file: SpoolFile, stretch: SegmentRange): AsyncGenerator<Scanned, void> {
  const reader = new SegmentReader(file, stretch);
  let { after } = stretch;
  let damage: Omit<Damage, 'is' | 'to'> | null = null;
  /** `first`: the first request after it. */
  const ended = (to: number, first: bigint | null): Damage | null => {
    if (damage === null) return null;
    // Only requests have numbers in version 2, so that a gap among them says how many are lost.
    const isKnown = stretch.version > 1 && first !== null && after !== null;
    const requests = isKnown ? Number(first - (after ?? 0n) - 1n) : damage.requests;
    const one = { is: 'damage' as const, ...damage, to, requests };
    damage = null;
    return one;
  };
  while (reader.place < stretch.to) {
    const found = await reader.look();
    const from = reader.place;
    const known = found.is === 'record' ? found : found.is === 'damage' ? found.known : null;
    // Records must not overlap: a record of several requests has the numbers before its own, too.
    const isNext = known !== null && firstOf(known.head) > (after ?? 0n) && known.size <= stretch.to - from;
    if (known !== null && isNext) {
      // The window may be another one once the damage has been taken.
      const { here } = reader;
      const before = ended(from, firstOf(known.head));
      if (before !== null) yield before;
      const { head, size } = known;
      after = head.sequence;
      const to = from + size;
      if (found.is === 'record') yield { is: 'record', head, from, to, ...here };
      else yield { is: 'damage', from, to, oid: head.table, requests: head.requests, size };
      reader.skip(size);
      continue;
    }
    if (found.is === 'end' && damage === null && !stretch.full && (await onlyZeros(file, from, stretch.to)))
      return;
    const requests = known?.head.requests ?? null;
    damage ??= { from, oid: known?.head.table ?? null, requests, size: known?.size ?? null };
    reader.skip(8);
  }
  const last = ended(stretch.to, stretch.next ?? null);
  if (last !== null) yield last;
}

function firstOf({ sequence, requests }: RecordHead): bigint {
  return sequence - BigInt(Math.max(1, requests)) + 1n;
}

/** What is at a position in a segment. */
type FoundRecord =
  | { readonly is: 'record'; readonly head: RecordHead; /** With its padding. */ readonly size: number }
  | { readonly is: 'end' }
  /** `known`: what its head says, and how many bytes it takes; null: the head is damaged, too. */
  | { readonly is: 'damage'; readonly known: { readonly head: RecordHead; readonly size: number } | null };

const unknown: FoundRecord = { is: 'damage', known: null };

/** A window on a file that moves forward. */
class SegmentReader {
  readonly #file: SpoolFile;
  readonly #stretch: SegmentRange;
  /** The position in the file at which the window begins. */
  #start: number;
  #window: Buffer = Buffer.alloc(0);
  #at = 0;

  constructor(file: SpoolFile, stretch: SegmentRange) {
    this.#file = file;
    this.#stretch = stretch;
    this.#start = stretch.from;
  }

  get place(): number {
    return this.#start + this.#at;
  }

  get here(): { readonly bytes: Buffer; readonly at: number } {
    return { bytes: this.#window, at: this.#at };
  }

  /** Never throws because of what the bytes are. */
  async look(): Promise<FoundRecord> {
    for (;;) {
      const found = this.#lookAt();
      if (typeof found === 'object') return found;
      // A file that is shorter than it should be ends here.
      if (!(await this.#fill(found))) return unknown;
    }
  }

  /** A number: more bytes are needed to decide, at least so many from here. */
  #lookAt(): FoundRecord | number {
    const [bytes, at] = [this.#window, this.#at];
    const { version, to } = this.#stretch;
    const here = bytes.length - at;
    const left = to - this.place;
    if (left < 4) return { is: 'end' };
    if (here < 4) return 4;
    const length = bytes.readUInt32LE(at);
    if (length === 0) return { is: 'end' };
    const headSize = headBytes[version];
    if (left < headSize) return unknown;
    if (here < headSize) return headSize;
    const size = padded(length);
    const head = headAt(bytes, at, version);
    if (head === null || length < headSize + tagBytes) return unknown;
    if (version === 1) {
      if (size > left) return unknown;
      if (here < size) return size;
      const isWhole = crc32(bytes.subarray(at + 8, at + length)) === bytes.readUInt32LE(at + 4);
      return isWhole ? { is: 'record', head, size } : unknown;
    }
    if (bytes.readUInt32LE(at + 24) !== this.place || headSum(bytes, at) !== bytes.readUInt32LE(at + 4))
      return unknown;
    if (size > left) return { is: 'damage', known: { head, size } };
    if (here < size) return size;
    const isWhole = crc32(bytes.subarray(at + headSize, at + length)) === bytes.readUInt32LE(at + 28);
    return isWhole ? { is: 'record', head, size } : { is: 'damage', known: { head, size } };
  }

  skip(bytes: number): void {
    this.#at += bytes;
  }

  /** Makes the window hold so many bytes from here on. */
  async #fill(bytes: number): Promise<boolean> {
    const left = this.#stretch.to - this.place;
    const wanted = Buffer.allocUnsafe(Math.min(left, Math.max(bytes, limits.spoolReadBytes)));
    const place = this.place;
    const read = await this.#file.read(wanted, place);
    this.#start = place;
    this.#at = 0;
    this.#window = wanted.subarray(0, read);
    return read >= bytes;
  }
}

/** null: no head has these values. */
function headAt(bytes: Buffer, at: number, version: Version): RecordHead | null {
  const kind = bytes[at + 20] ?? 0;
  const flags = bytes[at + 21] ?? 0;
  const requests = bytes.readUInt16LE(at + 22);
  if (flags > 1 || (version === 1 ? kind !== 1 && kind !== 2 : kind !== 0 || requests === 0)) return null;
  return {
    sequence: bytes.readBigUInt64LE(at + 8),
    table: bytes.readUInt32LE(at + 16),
    requests: kind === 2 ? 0 : Math.max(1, requests),
    startsGroup: flags === 1,
  };
}

/** Whether a part of a file holds nothing but zeros, as far as it exists. */
async function onlyZeros(file: SpoolFile, from: number, to: number): Promise<boolean> {
  for await (const { piece } of pieces(file, from, to)) if (!isZero(piece)) return false;
  return true;
}

/** Where the zeros begin that a part of a file ends with. */
export async function lastNonZero(file: SpoolFile, from: number, to: number): Promise<number> {
  let end = from;
  for await (const { place, piece } of pieces(file, from, to))
    if (!isZero(piece)) end = place + piece.findLastIndex((byte) => byte !== 0) + 1;
  return end;
}

const zeros = Buffer.alloc(limits.spoolReadBytes);

function isZero(piece: Buffer): boolean {
  return piece.equals(zeros.subarray(0, piece.length));
}

/** Each is overwritten by the next. */
async function* pieces(file: SpoolFile, from: number, to: number) {
  const bytes = Buffer.alloc(Math.min(limits.spoolReadBytes, Math.max(0, to - from)));
  for (let place = from; place < to;) {
    const read = await file.read(bytes.subarray(0, to - place), place);
    if (read === 0) return;
    yield { place, piece: bytes.subarray(0, read) };
    place += read;
  }
}

/** Opens a segment for as long as `use` runs. */
export async function reading<T>(
  files: SpoolFiles,
  path: string,
  use: (file: SpoolFile) => Promise<T>,
): Promise<T> {
  const file = await files.open(path);
  try {
    return await use(file);
  } finally {
    await file.close();
  }
}

export interface FoundHeader {
  /** null: there is none, or none that can be read. */
  readonly header: SegmentHeader | null;
  /** Bytes of the file as it is. */
  readonly size: number;
  /** How many it had when it was made. */
  readonly fileBytes: number;
  /** Nothing was written to it after its header: records are written only once that is on the disk. */
  readonly isUnused: boolean;
  /** Where the other one is, if it cannot be read although records follow, and both were written before these. */
  readonly damagedAt: number | null;
}

/** `made`: how many bytes the file had when it was made; null: not known. */
export async function readHeader(file: SpoolFile, made: number | null): Promise<FoundHeader> {
  const size = await file.size();
  const fileBytes = made ?? size;
  const places = [0, fileBytes - headerBytes];
  const copies = await Promise.all(places.map((place) => bytesAt(file, place)));
  const decoded = copies.map((bytes) => decodeHeader(bytes));
  const header = decoded[0] ?? (decoded[1]?.version === 1 ? null : decoded[1]) ?? null;
  const isUnused = await onlyZeros(file, headerBytes, recordsEnd(header?.version ?? 2, fileBytes));
  const found = { header, size, fileBytes, isUnused };
  // Version 1 has one, and a file that was cut has lost the other.
  if (header === null || header.version === 1 || size < fileBytes) return { ...found, damagedAt: null };
  const other = decoded.indexOf(null);
  // If there are no records, the process may have ended while it wrote one of them.
  return { ...found, damagedAt: other >= 0 && !isUnused ? (places[other] ?? null) : null };
}

async function bytesAt(file: SpoolFile, place: number): Promise<Buffer> {
  const bytes = Buffer.alloc(headerBytes);
  return place < 0 ? bytes.subarray(0, 0) : bytes.subarray(0, await file.read(bytes, place));
}
