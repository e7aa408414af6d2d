/**
 * The master keys are in order: the first one seals, all of them open. There is more than one while keys are
 * being rotated. A key is identified by its id, which reveals nothing of the key itself. Each has 32 bytes, from the environment or from a file that
 * only its owner can read, one per line. The file is created when nothing is sealed yet, whole or not at all, and read again when it has changed. Throws
 * MasterKeyError, one line for the terminal; never shows a key.
 */
import { randomBytes, createHash } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { chmod, link, mkdir, open, rename, unlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { PlainError } from '../kit/plain-error.ts';
import { limits } from '../config/limits.ts';
import type { Settings } from '../config/settings.ts';

export interface MasterKey {
  /** `keyIdBytes` long. */
  readonly id: Buffer;
  readonly key: Buffer;
}

export interface KeyRing {
  /** Empty if there is no key yet. */
  keys(): readonly MasterKey[];
  /** Creates the first key if there is none: only for a caller that knows that nothing is sealed with another key. */
  make(): Promise<void>;
  /** Checks whether the keys have changed. Never throws: if they cannot be read, the ring stays as it was. */
  reread(): void;
}

export const keyIdBytes = 4;

function masterKeyOf(key: Buffer): MasterKey {
  const id = createHash('sha256').update('headgate master key id\0').update(key).digest();
  return { id: id.subarray(0, keyIdBytes), key };
}

/** Fixed keys, from the environment. */
export function fixedKeys(first: Buffer, ...others: readonly Buffer[]): KeyRing {
  const keys: readonly [MasterKey, ...MasterKey[]] = [masterKeyOf(first), ...others.map(masterKeyOf)];
  return { keys: () => keys, make: () => Promise.resolve(), reread: () => {} };
}

export class MasterKeyError extends PlainError {
  override readonly name = 'MasterKeyError';
}

type MasterKeyList = readonly [MasterKey, ...MasterKey[]];

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

function parseKeys(text: string, source: string): readonly [Buffer, ...Buffer[]] {
  const [first = '', ...others] = text.split(/[\s,]+/).filter((part) => part !== '');
  if (others.length >= limits.masterKeysMax) {
    throw new MasterKeyError(`${source} holds more than ${limits.masterKeysMax} keys`);
  }
  return [parseMasterKey(first, source), ...others.map((other) => parseMasterKey(other, source))];
}

/** Keys from the environment, separated by commas: the first one seals, all of them open. */
export function parseMasterKeys(text: string, source: string): KeyRing {
  return fixedKeys(...parseKeys(text, source));
}

/** The keys that the settings lead to. */
export function masterKeys({
  masterKey,
  masterKeyFile,
  dataDir,
}: Pick<Settings, 'masterKey' | 'masterKeyFile' | 'dataDir'>): KeyRing {
  if (masterKey !== null) return parseMasterKeys(masterKey, 'HEADGATE_MASTER_KEY');
  return loadMasterKeys(masterKeyFile ?? join(dataDir, 'master.key'));
}

/** Reads the key file. If it does not exist, the ring is empty until the file is put there, or created (mode 0600). */
export function loadMasterKeys(path: string): KeyRing {
  return new KeyFile(path);
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

class KeyFile implements KeyRing {
  readonly #path: string;
  #keys: MasterKeyList | readonly [];
  /** Which version of the file was read last. */
  #mark: string;

  constructor(path: string) {
    this.#path = path;
    this.#mark = fileMark(path);
    this.#keys = this.#mark === '' ? [] : readKeyFile(path);
  }

  keys(): MasterKeyList | readonly [] {
    return this.#keys;
  }

  async make(): Promise<void> {
    if (this.#keys.length > 0) return;
    await makeKeyFile(this.#path);
    this.#mark = fileMark(this.#path);
    this.#keys = readKeyFile(this.#path);
  }

  /** Synchronous, because sealing is: checks the file's date, and reads the file only if that has changed. */
  reread(): void {
    const mark = fileMark(this.#path);
    if (mark !== this.#mark) this.#readAgain(mark);
  }

  #readAgain(mark: string): void {
    this.#mark = mark;
    try {
      const read = readKeyFile(this.#path);
      // A key that a rotation removed from the file still opens what it sealed, for as long as this process runs.
      const left = this.#keys.filter((old) => !read.some(({ id }) => id.equals(old.id)));
      this.#keys = [...read, ...left.slice(0, limits.masterKeysMax)];
    } catch {
      // A missing or damaged file takes no keys from a running process.
    }
  }
}

function fileMark(path: string): string {
  const stats = statSync(path, { throwIfNoEntry: false, bigint: true });
  return stats === undefined ? '' : `${stats.ino}/${stats.mtimeNs}/${stats.size}`;
}

export function newMasterKey(): MasterKey {
  return masterKeyOf(randomBytes(keyBytes));
}

/** Two processes that start at the same time agree on one key, and a crash leaves none or all of it. */
async function makeKeyFile(path: string): Promise<void> {
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
