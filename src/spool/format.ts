/**
 * The bytes of the spool; pure. A segment is a header, records, each at a multiple of eight, zeros after them, and the header
 * once more in its last 64 bytes.
 *
 *   header   0 magic "HGS\2" | 4 number of the segment before, u32 | 8 id of the master key, 4
 *            12 bytes of the segment before that count, u32
 *            16 id of the spool, 16 | 32 salt, 16 | 48 first sequence, u64 | 56 number of the segment, u32 | 60 CRC-32
 *   record   0 length without padding, u32 | 4 CRC-32 of the head without itself | 8 sequence, u64 | 16 oid of the table, u32
 *            20 0, u8 | 21 flags, u8 | 22 how many requests, u16 | 24 its position in the segment, u32 | 28 CRC-32 of what follows
 *            32 sealed (u16 length of the table's description | description | payload) | tag, 16 | 0xff up to a multiple of 8
 *   payload  of one request: the request; of several: u32 length and the request, for each (kept-request.ts)
 *
 * Small requests of a table share a record: sealing one costs as much as sealing a few KiB. The record's sequence is that
 * of its last request; the requests before it have the numbers before. The unit of damage is a record: each says for which table of which
 * database it is, so that no other record is needed to hand it over (decision 0094).
 *
 * Integers are little-endian. A length of zero is the end. The CRCs find what a disk has changed, without the key: if only the head is
 * right, it tells whose requests are lost, and where the next record is. The seal (AES-256-GCM) hides payloads from anyone who reads the
 * disk; it covers the head, and so binds a record to its place, its sequence and its table. A segment has a key of its own, derived from the
 * master key, the spool, the segment's number and its salt, so that the sequence can be the nonce: no sequence is written twice into one
 * segment. No eight aligned bytes of a record are zero, except by a chance of 2^-64: zeros are places that were never written.
 *
 * Version 1, "HGS\1", is only read. It has no second header, heads of 24 bytes without position (4 CRC-32 of what follows | 20 kind, u8),
 * zeros as padding, and descriptions in records of their own (kind 2), once before the first requests of a table (kind 1).
 */
import { createCipheriv, createDecipheriv, hkdfSync } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { keyIdBytes } from '../secrets/key-file.ts';
import type { MasterKey } from '../secrets/key-file.ts';
import type { KeyRing } from '../secrets/key-ring.ts';

export type Version = 1 | 2;

export const headerBytes = 64;
export const headBytes: Readonly<Record<Version, number>> = { 1: 24, 2: 32 };
export const tagBytes = 16;
const lengthBytes = 2;

export interface RecordHead {
  /** Of its last request. */
  readonly sequence: bigint;
  /** How many it holds; 0: it describes a table, in version 1. */
  readonly requests: number;
  /** The table's oid. */
  readonly table: number;
  /** The records before it were on the disk when it was written: what is damaged there was once complete. */
  readonly startsGroup: boolean;
}

/** How much space a record takes in a segment, in bytes. */
export function recordSize(target: EncodedTarget, payloadBytes: number): number {
  return padded(headBytes[2] + target.length + payloadBytes + tagBytes);
}

/** The description of a table as it begins a sealed part. */
export type EncodedTarget = Buffer & { readonly '': unique symbol };

export function encodeTarget(description: Buffer): EncodedTarget {
  const bytes = Buffer.allocUnsafe(lengthBytes + description.length);
  bytes.writeUInt16LE(description.length, 0);
  description.copy(bytes, lengthBytes);
  return bytes as EncodedTarget;
}

/** How much of a segment of so many bytes records may fill: up to this position. */
export function recordsEnd(version: Version, fileBytes: number): number {
  return version === 1 ? fileBytes : fileBytes - headerBytes;
}

/** `position`: where the record will be in its segment. */
export function encodeRecord(
  head: RecordHead,
  position: number,
  target: EncodedTarget,
  payload: Buffer,
  key: Buffer,
): Buffer {
  const start = headBytes[2];
  const length = start + target.length + payload.length + tagBytes;
  const bytes = Buffer.allocUnsafe(padded(length));
  bytes.fill(0xff, length);
  bytes.writeUInt32LE(length, 0);
  bytes.writeBigUInt64LE(head.sequence, 8);
  bytes.writeUInt32LE(head.table, 16);
  bytes[20] = 0;
  bytes[21] = head.startsGroup ? 1 : 0;
  bytes.writeUInt16LE(head.requests, 22);
  bytes.writeUInt32LE(position, 24);
  const cipher = createCipheriv('aes-256-gcm', key, nonceOf(head.sequence)).setAAD(bytes.subarray(8, 28));
  let at = start;
  for (const piece of [target, payload]) at += cipher.update(piece).copy(bytes, at);
  cipher.final();
  cipher.getAuthTag().copy(bytes, at);
  bytes.writeUInt32LE(crc32(bytes.subarray(start, length)), 28);
  bytes.writeUInt32LE(headSum(bytes, 0), 4);
  return bytes;
}

/** The CRC-32 of a head. */
export function headSum(bytes: Buffer, at: number): number {
  return crc32(bytes.subarray(at + 8, at + headBytes[2]), crc32(bytes.subarray(at, at + 4)));
}

export interface OpenedRecord {
  /** The description of its table; null: it is in a record of its own. */
  readonly target: Buffer | null;
  readonly payload: Buffer;
}

/** The complete record at `at` (scan-records.ts); null: it cannot be opened with this key. */
export function openRecord(bytes: Buffer, at: number, key: Buffer, version: Version): OpenedRecord | null {
  const length = bytes.readUInt32LE(at);
  const start = headBytes[version];
  const decipher = createDecipheriv('aes-256-gcm', key, nonceOf(bytes.readBigUInt64LE(at + 8)), {
    authTagLength: tagBytes,
  })
    .setAAD(bytes.subarray(at + 8, at + (version === 1 ? start : 28)))
    .setAuthTag(bytes.subarray(at + length - tagBytes, at + length));
  const opened = decipher.update(bytes.subarray(at + start, at + length - tagBytes));
  try {
    decipher.final();
  } catch {
    return null;
  }
  if (version === 1) return { target: null, payload: opened };
  const end = lengthBytes + opened.readUInt16LE(0);
  return { target: opened.subarray(lengthBytes, end), payload: opened.subarray(end) };
}

function nonceOf(sequence: bigint): Buffer {
  const nonce = Buffer.alloc(12);
  nonce.writeBigUInt64LE(sequence, 4);
  return nonce;
}

export function padded(length: number): number {
  return Math.ceil(length / 8) * 8;
}

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
