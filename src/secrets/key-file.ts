/**
 * A master key and the file of master keys. A key has 32 bytes and is identified by its id, which reveals nothing of the key itself. The file has
 * one key per line, and only its owner can read it; it is written whole or not at all. Throws MasterKeyError, one line for the terminal; never
 * shows a key.
 */
import { randomBytes, createHash } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { chmod, link, mkdir, open, rename, unlink } from 'node:fs/promises';
import { dirname } from 'node:path';
import { PlainError } from '../kit/plain-error.ts';
import { limits } from '../config/limits.ts';

export interface MasterKey {
  /** `keyIdBytes` long. */
  readonly id: Buffer;
  readonly key: Buffer;
}

export const keyIdBytes = 4;

export function masterKeyOf(key: Buffer): MasterKey {
  const id = createHash('sha256').update('headgate master key id\0').update(key).digest();
  return { id: id.subarray(0, keyIdBytes), key };
}

export class MasterKeyError extends PlainError {
  override readonly name = 'MasterKeyError';
}

export type MasterKeyList = readonly [MasterKey, ...MasterKey[]];

const keyBytes = 32;

export function parseMasterKey(text: string, source: string): Buffer {
  const key = Buffer.from(text.trim(), 'base64');
  // Buffer.from skips characters that are not base64; only a text that encodes to itself again is valid.
  const same = key.toString('base64').replace(/=+$/, '') === text.trim().replace(/=+$/, '');
  if (key.length !== keyBytes || !same) {
    throw new MasterKeyError(`${source} must hold ${keyBytes} bytes in base64`);
  }
  return key;
}

export function parseKeys(text: string, source: string): readonly [Buffer, ...Buffer[]] {
  const [first = '', ...others] = text.split(/[\s,]+/).filter((part) => part !== '');
  if (others.length >= limits.masterKeysMax) {
    throw new MasterKeyError(`${source} holds more than ${limits.masterKeysMax} keys`);
  }
  return [parseMasterKey(first, source), ...others.map((other) => parseMasterKey(other, source))];
}

/** The keys of an existing file. Throws MasterKeyError. */
export function readKeyFile(path: string): MasterKeyList {
  const source = `the master key file ${path}`;
  let text: string;
  let mode: number;
  try {
    text = readFileSync(path, 'utf8');
    ({ mode } = statSync(path));
  } catch (error) {
    throw new MasterKeyError(`${source} cannot be read: ${(error as Error).message}`);
  }
  if (process.platform !== 'win32' && (mode & 0o077) !== 0) {
    throw new MasterKeyError(`${source} can be read by others; run: chmod 600 ${path}`);
  }
  const [first, ...others] = parseKeys(text, source);
  return [masterKeyOf(first), ...others.map(masterKeyOf)];
}

export function newMasterKey(): MasterKey {
  return masterKeyOf(randomBytes(keyBytes));
}

/** Two processes that start at the same time agree on one key, and a crash leaves none or all of it. */
export async function makeKeyFile(path: string): Promise<void> {
  await writeBeside(path, [newMasterKey()], (beside) =>
    link(beside, path).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error;
    }),
  );
}

/** The file then contains these keys and no others, or, after a crash, what it contained before. */
export function replaceKeyFile(path: string, keys: readonly MasterKey[]): Promise<void> {
  return writeBeside(path, keys, (beside) => rename(beside, path));
}

async function writeBeside(
  path: string,
  keys: readonly MasterKey[],
  putInPlace: (beside: string) => Promise<void>,
): Promise<void> {
  const beside = `${path}.${process.pid}.${randomBytes(4).toString('hex')}`;
  try {
    await mkdir(dirname(path), { recursive: true });
    const file = await open(beside, 'wx', 0o600);
    try {
      await file.writeFile(keys.map(({ key }) => `${key.toString('base64')}\n`).join(''));
      await file.sync();
    } finally {
      await file.close();
    }
    await chmod(beside, 0o600);
    await putInPlace(beside);
    await syncFolder(dirname(path));
  } catch (error) {
    throw new MasterKeyError(`the master key file ${path} cannot be created: ${(error as Error).message}`);
  } finally {
    await unlink(beside).catch(() => {});
  }
}

/** A new name in a folder is durable only once the folder is; losing the key would lose every secret. */
async function syncFolder(path: string): Promise<void> {
  if (process.platform === 'win32') return;
  const folder = await open(path, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
