/**
 * The bytes of the spool; pure. A segment is a header (headers.ts), records, each at a multiple of eight, zeros after them, and the header
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
import { createCipheriv, createDecipheriv } from 'node:crypto';
import { crc32 } from 'node:zlib';

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

function headSum(bytes: Buffer, at: number): number {
  return crc32(bytes.subarray(at + 8, at + headBytes[2]), crc32(bytes.subarray(at, at + 4)));
}

/** What is at a position in a segment. */
export type ScannedRecord =
  | { readonly is: 'record'; readonly head: RecordHead; /** With its padding. */ readonly size: number }
  | { readonly is: 'end' }
  /** More bytes are needed to decide: at least so many from here. */
  | { readonly is: 'more'; readonly bytes: number }
  /** `known`: what its head says, and how many bytes it takes; null: the head is damaged, too. */
  | { readonly is: 'damage'; readonly known: { readonly head: RecordHead; readonly size: number } | null };

const unknown: ScannedRecord = { is: 'damage', known: null };

/** Where in a segment a window begins. */
export interface Whereabouts {
  readonly version: Version;
  /** The position of `bytes` in the segment. */
  readonly start: number;
  /** Where the segment's records end at the latest: a record that announces more is damaged. */
  readonly to: number;
}

/** Examines `bytes` from `at`. Never throws, whatever the bytes are. */
export function lookAt(bytes: Buffer, at: number, { version, start, to }: Whereabouts): ScannedRecord {
  const here = bytes.length - at;
  const left = to - start - at;
  if (left < 4) return { is: 'end' };
  if (here < 4) return { is: 'more', bytes: 4 };
  const length = bytes.readUInt32LE(at);
  if (length === 0) return { is: 'end' };
  const headSize = headBytes[version];
  if (left < headSize) return unknown;
  if (here < headSize) return { is: 'more', bytes: headSize };
  const size = padded(length);
  const head = headAt(bytes, at, version);
  if (head === null || length < headSize + tagBytes) return unknown;
  if (version === 1) {
    if (size > left) return unknown;
    if (here < size) return { is: 'more', bytes: size };
    const isWhole = crc32(bytes.subarray(at + 8, at + length)) === bytes.readUInt32LE(at + 4);
    return isWhole ? { is: 'record', head, size } : unknown;
  }
  if (bytes.readUInt32LE(at + 24) !== start + at || headSum(bytes, at) !== bytes.readUInt32LE(at + 4))
    return unknown;
  if (size > left) return { is: 'damage', known: { head, size } };
  if (here < size) return { is: 'more', bytes: size };
  const isWhole = crc32(bytes.subarray(at + headSize, at + length)) === bytes.readUInt32LE(at + 28);
  return isWhole ? { is: 'record', head, size } : { is: 'damage', known: { head, size } };
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

export interface OpenedRecord {
  /** The description of its table; null: it is in a record of its own. */
  readonly target: Buffer | null;
  readonly payload: Buffer;
}

/** The complete record that `lookAt` has found at `at`; null: it cannot be opened with this key. */
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
