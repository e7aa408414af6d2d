/**
 * The header of a segment, from the first of its two places in which it can be read. Takes an open file; changes nothing; rejects with the
 * system's errors.
 */
import type { SpoolFile } from './files.ts';
import { decodeHeader, headerBytes, recordsEnd } from './format.ts';
import type { SegmentHeader } from './format.ts';
import { onlyZeros } from './segment.ts';

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
