/**
 * One file of the spool, as known while a process runs: what it holds and how far it counts. Reads its records in
 * order, a piece of the file at a time, and continues after damaged parts.
 */
import { join } from 'node:path';
import { limits } from '../tables/limits.ts';
import type { SpoolFile, SpoolFiles } from './files.ts';
import { lookAt } from './format.ts';
import type { RecordHead, SegmentHeader } from './format.ts';

export interface Segment {
  readonly number: number;
  readonly path: string;
  readonly header: SegmentHeader;
  /** null: no known master key opens it. */
  readonly key: Buffer | null;
  /** Bytes of the file, used or not. */
  readonly fileBytes: number;
  /** How much is written and on the disk, in bytes. */
  end: number;
  /** The last request of each table, by the table's oid. */
  readonly last: Map<number, bigint>;
  /** What it holds of each table, by the table's oid. */
  readonly counts: Map<number, Counted>;
  /** Requests that it holds. */
  requests: number;
  /** Where parts begin that cannot be read, and were reported and put aside. */
  readonly damaged: Set<number>;
}

export interface Counted {
  readonly requests: number;
  readonly bytes: number;
}

export function segmentPath(folder: string, number: number): string {
  return join(folder, `${String(number).padStart(20, '0')}.seg`);
}

/** Counts a record of a table's requests, up to this sequence, of so many bytes. */
export function count(
  segment: Pick<Segment, 'requests' | 'counts' | 'last'>,
  { table: oid, sequence, requests }: Pick<RecordHead, 'table' | 'sequence' | 'requests'>,
  bytes: number,
): void {
  segment.requests += requests;
  const known = segment.counts.get(oid);
  segment.counts.set(oid, {
    requests: (known?.requests ?? 0) + requests,
    bytes: (known?.bytes ?? 0) + bytes,
  });
  segment.last.set(oid, sequence);
}

/** null: not the name of a segment. */
export function segmentNumber(name: string): number | null {
  return /^0{10}\d{10}\.seg$/.test(name) ? Number(name.slice(0, 20)) : null;
}

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
  | { readonly is: 'damage'; readonly from: number; readonly to: number };

export interface Stretch {
  readonly from: number;
  readonly to: number;
  /** The bytes up to `to` are known to have been records, to the last one: zeros among them are damage, too. */
  readonly full: boolean;
  /** Every record's sequence is larger than the one before; the first one's is larger than this. */
  readonly after: bigint;
}

/** Everything between two positions in a segment, in order. Rejects with the system's errors only. */
export async function* scanRecords(file: SpoolFile, stretch: Stretch): AsyncGenerator<Scanned, void> {
  const reader = new Reader(file, stretch);
  let { after } = stretch;
  let damagedFrom: number | null = null;
  while (reader.place < stretch.to) {
    const found = await reader.look();
    // Records must not overlap: a record of several requests has the numbers before its own, too.
    if (found.is === 'record' && found.head.sequence - BigInt(Math.max(1, found.head.requests)) >= after) {
      if (damagedFrom !== null) yield { is: 'damage', from: damagedFrom, to: reader.place };
      damagedFrom = null;
      after = found.head.sequence;
      const from = reader.place;
      yield { is: 'record', head: found.head, from, to: from + found.size, ...reader.here };
      reader.skip(found.size);
      continue;
    }
    if (found.is === 'end' && damagedFrom === null && !stretch.full && (await reader.onlyZeros())) return;
    damagedFrom ??= reader.place;
    reader.skip(8);
  }
  if (damagedFrom !== null) yield { is: 'damage', from: damagedFrom, to: stretch.to };
}

/** A window on a file that moves forward. */
class Reader {
  readonly #file: SpoolFile;
  readonly #to: number;
  /** The position in the file at which the window begins. */
  #start: number;
  #window: Buffer = Buffer.alloc(0);
  #at = 0;

  constructor(file: SpoolFile, { from, to }: Stretch) {
    this.#file = file;
    this.#start = from;
    this.#to = to;
  }

  get place(): number {
    return this.#start + this.#at;
  }

  get here(): { readonly bytes: Buffer; readonly at: number } {
    return { bytes: this.#window, at: this.#at };
  }

  async look() {
    for (;;) {
      const found = lookAt(this.#window, this.#at, this.#to - this.place);
      if (found.is !== 'more') return found;
      // A file that is shorter than it should be ends here.
      if (!(await this.#fill(found.bytes))) return { is: 'damage' } as const;
    }
  }

  skip(bytes: number): void {
    this.#at += bytes;
  }

  async onlyZeros(): Promise<boolean> {
    const bytes = Buffer.alloc(limits.spoolReadBytes);
    const zeros = Buffer.alloc(limits.spoolReadBytes);
    for (let place = this.place; place < this.#to;) {
      const read = await this.#file.read(bytes.subarray(0, Math.min(bytes.length, this.#to - place)), place);
      if (read === 0) return true;
      if (!bytes.subarray(0, read).equals(zeros.subarray(0, read))) return false;
      place += read;
    }
    return true;
  }

  /** Makes the window hold so many bytes from here on. */
  async #fill(bytes: number): Promise<boolean> {
    const left = this.#to - this.place;
    const wanted = Buffer.allocUnsafe(Math.min(left, Math.max(bytes, limits.spoolReadBytes)));
    const place = this.place;
    const read = await this.#file.read(wanted, place);
    this.#start = place;
    this.#at = 0;
    this.#window = wanted.subarray(0, read);
    return read >= bytes;
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
