/**
 * The bytes of the spool; pure. A segment is a header and records, each at a multiple of eight, and zeros after them.
 *
 *   header   0 magic "HGS\1" | 4 number of the segment before, u32 | 8 id of the master key, 4
 *            12 bytes of the segment before that count, u32
 *            16 id of the spool, 16 | 32 salt, 16 | 48 first sequence, u64 | 56 number of the segment, u32 | 60 CRC-32
 *   record   0 length without padding, u32 | 4 CRC-32 of what follows | 8 sequence, u64 | 16 oid of the table, u32
 *            20 kind, u8 | 21 flags, u8 | 22 how many requests, u16 | 24 sealed payload | tag, 16 | zeros up to a multiple of 8
 *   payload  of one request: the request; of several: u32 length and the request, for each
 *
 * Small requests of a table share a record: sealing one costs as much as sealing a few KiB. The record's sequence is that
 * of its last request; the requests before it have the numbers before. The unit of damage is a record.
 *
 * Integers are little-endian. A length of zero is the end. The CRC finds what a disk has changed, without the key; the
 * seal (AES-256-GCM) hides payloads from anyone who reads the disk, and prevents records from being moved. A segment has a key of
 * its own, derived from the master key and its salt, so that the sequence can be the nonce: no sequence is written twice
 * into one segment.
 */
import { createCipheriv, createDecipheriv, hkdfSync } from 'node:crypto';
import { crc32 } from 'node:zlib';
import type { MasterKey } from '../secrets/key-ring.ts';
import { keyIdBytes } from '../secrets/key-ring.ts';

export const headerBytes = 64;
const recordHeadBytes = 24;
const tagBytes = 16;
/** No record is shorter: a record with an empty payload has a head and a tag. */
const recordBytesMin = recordHeadBytes + tagBytes;
const magic = Buffer.from('HGS\x01', 'latin1');
const idBytes = 16;
const saltBytes = 16;

export interface SegmentHeader {
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

/** `table`: the name and the identity of a table, written once per segment before its first request. */
export type RecordKind = 'request' | 'table';
const kinds: readonly (RecordKind | null)[] = [null, 'request', 'table'];

export interface RecordHead {
  /** Of its last request. */
  readonly sequence: bigint;
  /** How many it holds; 0: it holds no requests. */
  readonly requests: number;
  /** The table's oid. */
  readonly table: number;
  readonly kind: RecordKind;
  /** The records before it were on the disk when it was written: what is damaged there was once complete. */
  readonly startsGroup: boolean;
}

export function encodeHeader(header: SegmentHeader): Buffer {
  const bytes = Buffer.alloc(headerBytes);
  magic.copy(bytes);
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

/** null: no header of this version. */
export function decodeHeader(bytes: Buffer): SegmentHeader | null {
  if (bytes.length < headerBytes || !bytes.subarray(0, magic.length).equals(magic)) return null;
  if (crc32(bytes.subarray(0, 60)) !== bytes.readUInt32LE(60)) return null;
  const before = bytes.readUInt32LE(4);
  return {
    number: bytes.readUInt32LE(56),
    spool: Buffer.from(bytes.subarray(16, 32)),
    salt: Buffer.from(bytes.subarray(32, 48)),
    keyId: Buffer.from(bytes.subarray(8, 8 + keyIdBytes)),
    firstSequence: bytes.readBigUInt64LE(48),
    before: before === 0 ? null : { number: before, bytes: bytes.readUInt32LE(12) },
  };
}

/** The key of one segment. */
export function segmentKey({ key }: MasterKey, { spool, salt, number }: SegmentHeader): Buffer {
  return Buffer.from(hkdfSync('sha256', key, salt, `headgate spool ${spool.toString('hex')} ${number}`, 32));
}

/** How much space a record with a payload of that length takes in a segment, in bytes. */
export function recordSize(payloadBytes: number): number {
  return padded(recordBytesMin + payloadBytes);
}

export function encodeRecord(head: RecordHead, payload: Buffer, key: Buffer): Buffer {
  const length = recordBytesMin + payload.length;
  const bytes = Buffer.allocUnsafe(padded(length));
  bytes.fill(0, length);
  bytes.writeUInt32LE(length, 0);
  bytes.writeBigUInt64LE(head.sequence, 8);
  bytes.writeUInt32LE(head.table, 16);
  bytes[20] = kinds.indexOf(head.kind);
  bytes[21] = head.startsGroup ? 1 : 0;
  bytes.writeUInt16LE(head.requests, 22);
  const cipher = createCipheriv('aes-256-gcm', key, nonceOf(head.sequence)).setAAD(bytes.subarray(8, 24));
  cipher.update(payload).copy(bytes, recordHeadBytes);
  cipher.final();
  cipher.getAuthTag().copy(bytes, length - tagBytes);
  bytes.writeUInt32LE(crc32(bytes.subarray(8, length)), 4);
  return bytes;
}

/** What is at a position in a segment. */
export type Found =
  | { readonly is: 'record'; readonly head: RecordHead; /** With its padding. */ readonly size: number }
  | { readonly is: 'end' }
  /** More bytes are needed to decide: at least so many from here. */
  | { readonly is: 'more'; readonly bytes: number }
  | { readonly is: 'damage' };

/**
 * Examines `bytes` from `at`. `left`: bytes of the segment from there on; a record that announces more is damaged.
 * Never throws, whatever the bytes are.
 */
export function lookAt(bytes: Buffer, at: number, left: number): Found {
  const here = bytes.length - at;
  if (left < 4) return { is: 'end' };
  if (here < 4) return { is: 'more', bytes: 4 };
  const length = bytes.readUInt32LE(at);
  if (length === 0) return { is: 'end' };
  const size = padded(length);
  if (length < recordBytesMin || size > left) return { is: 'damage' };
  if (here < size) return { is: 'more', bytes: size };
  if (crc32(bytes.subarray(at + 8, at + length)) !== bytes.readUInt32LE(at + 4)) return { is: 'damage' };
  const kind = kinds[bytes[at + 20] ?? 0] ?? null;
  if (kind === null) return { is: 'damage' };
  const head = {
    sequence: bytes.readBigUInt64LE(at + 8),
    table: bytes.readUInt32LE(at + 16),
    requests: kind === 'request' ? Math.max(1, bytes.readUInt16LE(at + 22)) : 0,
    kind,
    startsGroup: ((bytes[at + 21] ?? 0) & 1) === 1,
  };
  return { is: 'record', head, size };
}

/** The payload of a record with these requests. */
export function joinPayloads(payloads: readonly Buffer[]): Buffer {
  const [only] = payloads;
  if (only !== undefined && payloads.length === 1) return only;
  const bytes = Buffer.allocUnsafe(payloads.reduce((sum, { length }) => sum + 4 + length, 0));
  let at = 0;
  for (const payload of payloads) {
    at = bytes.writeUInt32LE(payload.length, at);
    at += payload.copy(bytes, at);
  }
  return bytes;
}

/** The reverse; what was sealed is what was joined. */
export function splitPayloads(payload: Buffer, requests: number): Buffer[] {
  if (requests === 1) return [payload];
  const payloads: Buffer[] = [];
  for (let at = 0; at < payload.length;) {
    const end = at + 4 + payload.readUInt32LE(at);
    payloads.push(payload.subarray(at + 4, end));
    at = end;
  }
  return payloads;
}

/** The payload of the complete record that `lookAt` has found at `at`; null: it cannot be opened with this key. */
export function openRecord(bytes: Buffer, at: number, key: Buffer): Buffer | null {
  const length = bytes.readUInt32LE(at);
  const decipher = createDecipheriv('aes-256-gcm', key, nonceOf(bytes.readBigUInt64LE(at + 8)), {
    authTagLength: tagBytes,
  })
    .setAAD(bytes.subarray(at + 8, at + recordHeadBytes))
    .setAuthTag(bytes.subarray(at + length - tagBytes, at + length));
  const payload = decipher.update(bytes.subarray(at + recordHeadBytes, at + length - tagBytes));
  try {
    decipher.final();
    return payload;
  } catch {
    return null;
  }
}

function nonceOf(sequence: bigint): Buffer {
  const nonce = Buffer.alloc(12);
  nonce.writeBigUInt64LE(sequence, 4);
  return nonce;
}

function padded(length: number): number {
  return Math.ceil(length / 8) * 8;
}
