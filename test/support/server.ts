/**
 * A throw-away PostgreSQL of any version on a Unix socket, for tests that are about a version or need a server that
 * Headgate does not run. Tests that need just a database take testDatabase().
 */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { findPackage } from '../../src/engine/embedded-binaries.ts';

export interface TestServer {
  readonly socketDir: string;
  close(): Promise<void>;
}

export const embeddedBin = join(findPackage(), 'native', 'bin');

/** The one that may be installed beside, of an older version. */
export const debianBin = '/usr/lib/postgresql/15/bin';

export async function startServer(bin: string): Promise<TestServer> {
  // PostgreSQL refuses root.
  const ids = process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : {};
  const socketDir = mkdtempSync(join(tmpdir(), 'headgate-server-'));
  chmodSync(socketDir, 0o700);
  if (ids.uid !== undefined) chownSync(socketDir, ids.uid, ids.gid);
  const data = join(socketDir, 'data');
  const init = spawnSync(
    join(bin, 'initdb'),
    ['-D', data, '-U', 'root', '-A', 'trust', '-E', 'UTF8', '--locale=C', '-N'],
    {
      ...ids,
      encoding: 'utf8',
    },
  );
  if (init.status !== 0) throw new Error(`initdb: ${init.stderr}`);
  const args = ['-D', data, '-k', socketDir, '-c', 'listen_addresses=', '-c', 'fsync=off'];
  const child = spawn(join(bin, 'postgres'), args, { ...ids, stdio: 'ignore' });
  const exited = once(child, 'exit');
  // The server says in its pid file that it is ready.
  for (;;) {
    if (child.exitCode !== null) throw new Error('postgres did not start');
    const pidFile = tryRead(join(data, 'postmaster.pid')).split('\n');
    if (pidFile[0] === String(child.pid) && pidFile[7]?.trim() === 'ready') break;
    await pause(10);
  }
  return {
    socketDir,
    async close() {
      child.kill('SIGINT');
      await exited;
      rmSync(socketDir, { recursive: true, force: true });
    },
  };
}

function tryRead(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}
