/**
 * The kernel's own lock on a data directory (flock), in addition to the claims in it (data-dir-lock.ts): it is on the folder
 * itself, so that it cannot be undone by deleting something in the folder, and it holds across containers of one machine. Takes
 * a folder, returns a held lock, or null if there is no program that could take one; refuses with DataDirInUse. Touches no file.
 *
 * Node has no flock(2). But such a lock belongs to the open file, not to the process that took it: a program that is lent the
 * open folder takes the lock and ends, and the lock stays with this process until it closes the folder or ends.
 */
import { spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Closable } from '../kit/closer.ts';
import { DataDirInUse } from './data-dir-lock.ts';
import { childEnv } from './system-user.ts';

/** From util-linux, BusyBox, and Perl. Exit status 1 without output: another process holds it. */
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
      // Not `timeout`: its timer stays if there is no such program.
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

/** As the holder itself reports; null: it has not got that far. */
async function holderOf(folder: string): Promise<number | null> {
  try {
    const { pid } = JSON.parse(await readFile(join(folder, 'ports.json'), 'utf8')) as { pid?: unknown };
    return typeof pid === 'number' ? pid : null;
  } catch {
    return null;
  }
}
