/**
 * The files that a spool is written to: the segment in use, and the one after it, which is made ahead, so that a disk that fills up takes
 * nothing from the one in use. Returns a segment with room; refuses with `full` and `locked` (there is no master key), and rejects with the
 * system's errors. Knows nothing of requests (writer.ts).
 */
import type { KeyRing } from '../secrets/key-ring.ts';
import type { MasterKey } from '../secrets/key-file.ts';
import { limits } from '../config/limits.ts';
import type { DiskHealth } from './disk-health.ts';
import type { SpoolFile, SpoolFiles } from './files.ts';
import { headerBytes, recordsEnd } from './format.ts';
import { encodeHeader, segmentKey } from './headers.ts';
import { NotKept } from './not-kept.ts';
import { markPath, removeMarks, segmentOf, segmentPath } from './segment.ts';
import type { Segment, SegmentPosition } from './segment.ts';

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

  /** The segment in use, if so many bytes fit into it. */
  current(bytes: number): OpenSegment | null {
    const open = this.#open;
    return open !== null && open.segment.end + bytes <= this.recordsEnd ? open : null;
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
