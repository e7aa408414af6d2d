/** A segment as 0.1.0 wrote it before version 2, by the description of the format at that time and not by code of Headgate's own. */
import { createCipheriv, createHash, hkdfSync, randomBytes } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';

export interface Version1 {
  /** headgate.home() of the database. */
  readonly home: string;
  readonly database: string;
  readonly tables: readonly { readonly oid: number; readonly table: string }[];
  /** In turn of each table. */
  readonly bodies: readonly string[];
}

/** Returns the path of the segment in a new spool. */
export function writeVersion1(
  folder: string,
  masterKey: string,
  { home, database, tables, bodies }: Version1,
): string {
  const key = Buffer.from(masterKey.trim().split('\n')[0] ?? '', 'base64');
  const id = (Date.now() - 60_000).toString(16).padStart(12, '0') + randomBytes(10).toString('hex');
  const salt = randomBytes(16);
  const segmentKey = Buffer.from(hkdfSync('sha256', key, salt, `headgate spool ${id} 1`, 32));
  const file = Buffer.alloc(1024 * 1024);
  file.write('HGS\x01', 0, 'latin1');
  createHash('sha256').update('headgate master key id\0').update(key).digest().copy(file, 8, 0, 4);
  Buffer.from(id, 'hex').copy(file, 16);
  salt.copy(file, 32);
  file.writeBigUInt64LE(1n, 48);
  file.writeUInt32LE(1, 56);
  file.writeUInt32LE(crc32(file.subarray(0, 60)), 60);
  let at = 64;
  let sequence = 0n;
  const record = (kind: 1 | 2, oid: number, payload: Buffer) => {
    sequence += 1n;
    const length = 40 + payload.length;
    const bytes = Buffer.alloc(Math.ceil(length / 8) * 8);
    bytes.writeUInt32LE(length, 0);
    bytes.writeBigUInt64LE(sequence, 8);
    bytes.writeUInt32LE(oid, 16);
    bytes[20] = kind;
    bytes[21] = 1;
    bytes.writeUInt16LE(kind === 1 ? 1 : 0, 22);
    const nonce = Buffer.alloc(12);
    nonce.writeBigUInt64LE(sequence, 4);
    const cipher = createCipheriv('aes-256-gcm', segmentKey, nonce).setAAD(bytes.subarray(8, 24));
    cipher.update(payload).copy(bytes, 24);
    cipher.final();
    cipher.getAuthTag().copy(bytes, length - 16);
    bytes.writeUInt32LE(crc32(bytes.subarray(8, length)), 4);
    at += bytes.copy(file, at);
  };
  const described = new Set<number>();
  bodies.forEach((body, i) => {
    const { oid, table } = tables[i % tables.length] ?? { oid: 0, table: '' };
    if (!described.has(oid))
      record(2, oid, Buffer.from(JSON.stringify({ database, schema: 'public', table, oid, home })));
    described.add(oid);
    const head = Buffer.from(
      JSON.stringify({
        method: 'POST',
        requestTarget: `/webhook/${database}/public/${table}`,
        rawHeaders: [],
        arrivedAtMs: Date.now(),
        remoteAddress: '127.0.0.1',
      }),
    );
    const length = Buffer.alloc(4);
    length.writeUInt32LE(head.length);
    record(1, oid, Buffer.concat([length, head, Buffer.from(body)]));
  });
  mkdirSync(join(folder, id), { recursive: true });
  const path = join(folder, id, '00000000000000000001.seg');
  writeFileSync(path, file, { mode: 0o600 });
  return path;
}
