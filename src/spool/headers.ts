/**
 * The header of a segment (format.ts): its bytes, the key that follows from it, and how it is read from the first of its two places in which
 * it can be. Takes an open file; changes nothing; rejects with the system's errors.
 */
import { hkdfSync } from 'node:crypto';
import { crc32 } from 'node:zlib';
import type { MasterKey } from '../secrets/key-file.ts';
import { keyIdBytes } from '../secrets/key-file.ts';
import type { KeyRing } from '../secrets/key-ring.ts';
import type { SpoolFile } from './files.ts';
import { headerBytes, recordsEnd } from './format.ts';
import type { Version } from './format.ts';
import { onlyZeros } from './scan-records.ts';

const magics: Readonly<Record<Version, Buffer>> = {
  1: Buffer.from('HGS\x01', 'latin1'),
  2: Buffer.from('HGS\x02', 'latin1'),
};
const idBytes = 16;
const saltBytes = 16;

export interface SegmentHeader {
  readonly version: Version;
  /** In its file's name, and here: a file with another name is a copy of another file. */
  readonly number: number;
  /** 16 bytes. */
  readonly spool: Buffer;
  /** 16 bytes. */
  readonly salt: Buffer;
  readonly keyId: Buffer;
  /** No record in it has a smaller sequence. */
  readonly firstSequence: bigint;
  /** The segment that was written to before this one, and how much of it counts: what follows there was refused. */
  readonly before: { readonly number: number; readonly bytes: number } | null;
}

export function encodeHeader(header: SegmentHeader): Buffer {
  const bytes = Buffer.alloc(headerBytes);
  magics[header.version].copy(bytes);
  header.keyId.copy(bytes, 8, 0, keyIdBytes);
  bytes.writeUInt32LE(header.before?.number ?? 0, 4);
  bytes.writeUInt32LE(header.before?.bytes ?? 0, 12);
  header.spool.copy(bytes, 16, 0, idBytes);
  header.salt.copy(bytes, 32, 0, saltBytes);
  bytes.writeBigUInt64LE(header.firstSequence, 48);
  bytes.writeUInt32LE(header.number, 56);
  bytes.writeUInt32LE(crc32(bytes.subarray(0, 60)), 60);
  return bytes;
}

/** null: no header of a known version. */
export function decodeHeader(bytes: Buffer): SegmentHeader | null {
  if (bytes.length < headerBytes) return null;
  const version = ([1, 2] as const).find((known) => bytes.subarray(0, 4).equals(magics[known]));
  if (version === undefined || crc32(bytes.subarray(0, 60)) !== bytes.readUInt32LE(60)) return null;
  const before = bytes.readUInt32LE(4);
  return {
    version,
    number: bytes.readUInt32LE(56),
    spool: Buffer.from(bytes.subarray(16, 32)),
    salt: Buffer.from(bytes.subarray(32, 48)),
    keyId: Buffer.from(bytes.subarray(8, 8 + keyIdBytes)),
    firstSequence: bytes.readBigUInt64LE(48),
    before: before === 0 ? null : { number: before, bytes: bytes.readUInt32LE(12) },
  };
}

/** The key of one segment. */
export function segmentKey({ key }: MasterKey, { version, spool, salt, number }: SegmentHeader): Buffer {
  const use = version === 1 ? 'headgate spool' : 'headgate spool 2';
  return Buffer.from(hkdfSync('sha256', key, salt, `${use} ${spool.toString('hex')} ${number}`, 32));
}

/** null: its master key is not here. */
export function keyOf(header: SegmentHeader, ring: KeyRing): Buffer | null {
  const masterKey = ring.keys().find(({ id }) => id.equals(header.keyId));
  return masterKey === undefined ? null : segmentKey(masterKey, header);
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
