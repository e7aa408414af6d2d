/**
 * The master keys are in order: the first one seals, all of them open. There is more than one while keys are being rotated. They come from the
 * environment, or from a file (key-file.ts), which is created when nothing is sealed yet, and read again when it has changed. Throws
 * MasterKeyError, one line for the terminal; never shows a key.
 */
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { limits } from '../config/limits.ts';
import type { Settings } from '../config/settings.ts';
import { makeKeyFile, masterKeyOf, parseKeys, readKeyFile } from './key-file.ts';
import type { MasterKey, MasterKeyList } from './key-file.ts';

export interface KeyRing {
  /** Empty if there is no key yet. */
  keys(): readonly MasterKey[];
  /** Creates the first key if there is none: only for a caller that knows that nothing is sealed with another key. */
  make(): Promise<void>;
  /** Checks whether the keys have changed. Never throws: if they cannot be read, the ring stays as it was. */
  reread(): void;
}

/** Fixed keys, from the environment. */
export function fixedKeys(first: Buffer, ...others: readonly Buffer[]): KeyRing {
  const keys: readonly [MasterKey, ...MasterKey[]] = [masterKeyOf(first), ...others.map(masterKeyOf)];
  return { keys: () => keys, make: () => Promise.resolve(), reread: () => {} };
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
