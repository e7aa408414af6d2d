/** Digests. */
import { createHash } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { EvaluationError } from './errors.ts';
import { checkName, functionsOf } from './function-table.ts';
import type { FunctionRow } from './function-table.ts';

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

/** Refuses an algorithm that is given at CREATE and not supported here. */
const named = { ...keeps, specialise: checkName(hashName, 1) };

export const digestRows: readonly FunctionRow[] = [
  fn(
    'digest',
    ['bytea', 'text'],
    'bytea',
    (data, name) => digest(hashName(name), data),
    'The digest of the bytes; algorithms as for hmac.',
    named,
  ),
  fn(
    'digest',
    ['text', 'text'],
    'bytea',
    (data, name) => digest(hashName(name), data),
    'The digest of a text in UTF-8.',
    named,
  ),
  fn('md5', ['text'], 'text', (data) => digest('md5', data).toString('hex'), 'MD5 in hexadecimal.', keeps),
  fn('md5', ['bytea'], 'text', (data) => digest('md5', data).toString('hex'), 'MD5 in hexadecimal.', keeps),
  ...(['sha1', 'sha224', 'sha256', 'sha384', 'sha512'] as const).map((name) =>
    fn(name, ['bytea'], 'bytea', (data) => digest(name, data), `${name.toUpperCase()} of the bytes.`, keeps),
  ),
  fn('crc32', ['bytea'], 'int8', (data) => BigInt(crc32(data)), 'CRC-32 of the bytes.'),
];
