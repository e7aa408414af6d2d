/**
 * The kernel's own lock of a data directory (flock), beside the claims in it (data-dir-lock.ts): it is on the folder itself, so
 * that nothing in it can be deleted to undo it, and holds across containers of one machine. Takes a folder, gives a
 * held lock, or null where there is no program that could take one; refuses with DataDirInUse. Touches no file.
 *
 * Node has no flock(2). But such a lock belongs to the open file, not to who asked for it: a program that is lent the open
 * folder takes the lock and ends, and the lock stays with this process until it closes the folder or ends.
 */
import { spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Closable } from '../kit/closer.ts';
import { DataDirInUse } from './data-dir-lock.ts';
import { childEnv } from './system-user.ts';

/** Of util-linux, BusyBox, and Perl. Status 1, and not a word: somebody else has it. */
const programs = [
  ['flock', '-n', '-x', '3'],
  [
    'perl',
    '-e',
    'open(my $folder, "<&=", 3) or exit 2; exit(flock($folder, 2 | 4) ? 0 : $! == 11 || $! == 35 ? 1 : 2)',
  ],
] as const;

type Taken = 'taken' | 'held' | 'unable';

export async function lockByKernel(folder: string, path = childEnv['PATH'] ?? ''): Promise<Closable | null> {
  const open = openSync(folder, 'r');
  for (const [program, ...args] of programs) {
    const taken = await lend(open, program, args, path);
    if (taken === 'unable') continue;
    if (taken === 'taken') return heldBy(open);
    closeSync(open);
    throw new DataDirInUse(await holderOf(folder));
  }
  closeSync(open);
  return null;
}

function heldBy(open: number): Closable {
  let held = true;
  return {
    close: async () => {
      if (held) closeSync(open);
      held = false;
    },
  };
}

function lend(open: number, program: string, args: readonly string[], path: string): Promise<Taken> {
  return new Promise((resolve) => {
    const child = spawn(program, args, {
      stdio: ['ignore', 'ignore', 'pipe', open],
      env: { ...childEnv, PATH: path },
      // Not `timeout`: its timer stays when there is no such program.
      signal: AbortSignal.timeout(10_000),
    });
    let complaint = '';
    child.stderr?.on('data', (bytes: Buffer) => (complaint += bytes.toString()));
    child.once('error', () => resolve('unable'));
    child.once('close', (code) => {
      if (code === 0) resolve('taken');
      else resolve(code === 1 && complaint === '' ? 'held' : 'unable');
    });
  });
}

/** As it says itself; null: it has not come so far. */
async function holderOf(folder: string): Promise<number | null> {
  try {
    const { pid } = JSON.parse(await readFile(join(folder, 'ports.json'), 'utf8')) as { pid?: unknown };
    return typeof pid === 'number' ? pid : null;
  } catch {
    return null;
  }
}
