/**
 * The key that seals secrets: 32 bytes, from the environment or from a file that only its owner can read. The file
 * is made on first start, whole or not at all. Throws MasterKeyError, one line for the terminal; never shows a key.
 */
import { randomBytes } from 'node:crypto';
import { chmod, link, mkdir, open, readFile, stat, unlink } from 'node:fs/promises';
import { dirname } from 'node:path';

export class MasterKeyError extends Error {
  override readonly name = 'MasterKeyError';
}

const keyBytes = 32;

export function parseMasterKey(text: string, source: string): Buffer {
  const key = Buffer.from(text.trim(), 'base64');
  // Buffer.from skips what is no base64; only a text that says the same again is one.
  const same = key.toString('base64').replace(/=+$/, '') === text.trim().replace(/=+$/, '');
  if (key.length !== keyBytes || !same) {
    throw new MasterKeyError(`${source} must hold ${keyBytes} bytes in base64`);
  }
  return key;
}

/** Reads the key file, or makes it (mode 0600) when there is none. */
export async function loadMasterKey(path: string): Promise<Buffer> {
  const text = (await readText(path)) ?? (await makeKeyFile(path));
  const { mode } = await stat(path);
  if (process.platform !== 'win32' && (mode & 0o077) !== 0) {
    throw new MasterKeyError(`the master key file ${path} can be read by others; run: chmod 600 ${path}`);
  }
  return parseMasterKey(text, `the master key file ${path}`);
}

async function readText(path: string): Promise<string | null> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw new MasterKeyError(`the master key file ${path} cannot be read: ${(error as Error).message}`);
  }
}

/** Written beside and linked into place: two starts at once agree on one key, and a crash leaves none or all of it. */
async function makeKeyFile(path: string): Promise<string> {
  const beside = `${path}.${process.pid}.${randomBytes(4).toString('hex')}`;
  try {
    await mkdir(dirname(path), { recursive: true });
    const file = await open(beside, 'wx', 0o600);
    try {
      await file.writeFile(`${randomBytes(keyBytes).toString('base64')}\n`);
      await file.sync();
    } finally {
      await file.close();
    }
    await chmod(beside, 0o600);
    await link(beside, path).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error;
    });
    await syncFolder(dirname(path));
  } catch (error) {
    throw new MasterKeyError(`the master key file ${path} cannot be made: ${(error as Error).message}`);
  } finally {
    await unlink(beside).catch(() => {});
  }
  const text = await readText(path);
  if (text === null) throw new MasterKeyError(`the master key file ${path} vanished while it was made`);
  return text;
}

/** A new name in a folder is durable once the folder is; losing the key would lose every secret. */
async function syncFolder(path: string): Promise<void> {
  if (process.platform === 'win32') return;
  const folder = await open(path, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
