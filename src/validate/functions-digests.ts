/**
 * Digests, and HMAC (RFC 2104) with a key that is the same for every request. Pure.
 * HMAC takes the key once and returns functions of the bytes: for a short message, two digests that are each computed in one call cost about
 * half as much as a Hmac object of node:crypto, which is a stream with a native part that has to be garbage-collected; a long message would
 * have to be copied, so it uses a Hmac.
 */
import { createHash, createHmac, createSecretKey, hash } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { EvaluationError } from './errors.ts';
import { functionsOf } from './function-table.ts';
import type { FunctionRow, Implementation } from './function-table.ts';
import type { Value } from './types.ts';

const fn = functionsOf('digests');

const hashNames: ReadonlySet<string> = new Set(['md5', 'sha1', 'sha224', 'sha256', 'sha384', 'sha512']);

/** The algorithms that hmac, digest and the verifying functions support. */
export function hashName(name: string): string {
  const lower = name.toLowerCase();
  if (hashNames.has(lower)) return lower;
  throw new EvaluationError('22023', `no such hash algorithm: known are ${[...hashNames].join(', ')}`);
}

function digest(name: string, data: Buffer | string): Buffer {
  return createHash(name).update(data).digest();
}

const keeps = { carries: 0, role: 'hash' } as const;

export const digestRows: readonly FunctionRow[] = [
  fn(
    'digest',
    ['bytea', 'text'],
    'bytea',
    (data, name) => digest(hashName(name), data),
    'The digest of the bytes; algorithms as for hmac.',
    {
      ...keeps,
      specialise: ([, name]) => {
        if (typeof name === 'string') hashName(name);
        return null;
      },
    },
  ),
  fn(
    'digest',
    ['text', 'text'],
    'bytea',
    (data, name) => digest(hashName(name), data),
    'The digest of a text in UTF-8.',
    {
      ...keeps,
      specialise: ([, name]) => {
        if (typeof name === 'string') hashName(name);
        return null;
      },
    },
  ),
  fn('md5', ['text'], 'text', (data) => digest('md5', data).toString('hex'), 'MD5 in hexadecimal.', keeps),
  fn('md5', ['bytea'], 'text', (data) => digest('md5', data).toString('hex'), 'MD5 in hexadecimal.', keeps),
  ...(['sha1', 'sha224', 'sha256', 'sha384', 'sha512'] as const).map((name) =>
    fn(name, ['bytea'], 'bytea', (data) => digest(name, data), `${name.toUpperCase()} of the bytes.`, keeps),
  ),
  fn('crc32', ['bytea'], 'int8', (data) => BigInt(crc32(data)), 'CRC-32 of the bytes.'),
];

/** For longer messages copying is not worthwhile. */
const shortBytesMax = 4 * 1024;
/** The block size of SHA-384 and SHA-512; the other algorithms have 64 bytes. */
const wideBlockBytes = 128;
const blockBytes = 64;

/** The inner block and the message. Evaluation is synchronous, so one buffer serves the whole process. */
const inner = Buffer.alloc(wideBlockBytes + shortBytesMax);

interface KeyedHmac {
  digest(data: Buffer): Buffer;
  encoded(data: Buffer, encoding: 'hex' | 'base64'): string;
}

/** `algorithm`: one of `hashName()`. */
export function keyedHmac(key: Buffer, algorithm: string): KeyedHmac {
  const object = createSecretKey(key);
  const block = algorithm === 'sha384' || algorithm === 'sha512' ? wideBlockBytes : blockBytes;
  const shortKey = key.length > block ? createHash(algorithm).update(key).digest() : key;
  const innerPad = Buffer.alloc(block, 0x36);
  const outer = Buffer.concat([Buffer.alloc(block, 0x5c), createHash(algorithm).digest()]);
  shortKey.forEach((byte, i) => {
    innerPad[i] = byte ^ 0x36;
    outer[i] = byte ^ 0x5c;
  });
  const short = (data: Buffer, encoding: 'binary' | 'hex' | 'base64'): string => {
    inner.set(innerPad);
    inner.set(data, block);
    // One character per byte; a Buffer would take longer.
    outer.write(hash(algorithm, inner.subarray(0, block + data.length), 'binary'), block, 'latin1');
    return hash(algorithm, outer, encoding);
  };
  const long = (data: Buffer) => createHmac(algorithm, object).update(data);
  return {
    digest: (data) =>
      data.length > shortBytesMax ? long(data).digest() : Buffer.from(short(data, 'binary'), 'latin1'),
    encoded: (data, encoding) =>
      data.length > shortBytesMax ? long(data).digest(encoding) : short(data, encoding),
  };
}

function keyed(key: string | Buffer): Buffer {
  if (key.length === 0) throw new EvaluationError('22023', 'hmac: the key is empty');
  return typeof key === 'string' ? Buffer.from(key, 'utf8') : key;
}

/** Implements hmac() for arguments of which none is known before. */
export function hmac(key: string | Buffer, data: Buffer, algorithm: string): Buffer {
  return createHmac(hashName(algorithm), keyed(key)).update(data).digest();
}

/** The same with a key that is. */
export function preparedHmac([key, , algorithm]: readonly (Value | undefined)[]): Implementation | null {
  const hash = typeof algorithm === 'string' ? hashName(algorithm) : null;
  if (typeof key !== 'string' && !Buffer.isBuffer(key)) return null;
  if (hash === null) {
    const object = createSecretKey(keyed(key));
    return (_, data, name) =>
      createHmac(hashName(name as string), object)
        .update(data as Buffer)
        .digest();
  }
  const made = keyedHmac(keyed(key), hash);
  return (_, data) => made.digest(data as Buffer);
}

/** node:crypto writes hex and base64 itself, which saves a buffer; base64 of 57 bytes or more has line breaks. */
export function encodedHmac(
  [key, , algorithm]: readonly (Value | undefined)[],
  format: string,
): Implementation | null {
  if ((typeof key !== 'string' && !Buffer.isBuffer(key)) || typeof algorithm !== 'string') return null;
  if (format !== 'hex' && format !== 'base64') return null;
  const hash = hashName(algorithm);
  if (hash === 'sha512' && format === 'base64') return null;
  const made = keyedHmac(keyed(key), hash);
  return (_, data) => made.encoded(data as Buffer, format);
}
