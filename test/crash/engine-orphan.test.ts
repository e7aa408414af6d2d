/** Servers that outlived their Headgate, and servers that Headgate did not start. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, readdir, readFile, readlink, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import { EngineChild, postmasterPid } from '../support/engine-process.ts';
import { Spy } from '../support/postgres.ts';
import { embeddedBin, reachable } from '../support/server.ts';

const onLinux = process.platform === 'linux';
const silent = (): void => undefined;

async function folderFor(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'hg-orphan-'));
  t.after(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }));
  return folder;
}

/** The shell that waits for Headgate's end, found by its folder and its command line. */
async function watchdogPid(cluster: string): Promise<number> {
  for (const name of await readdir('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    const cwd = await readlink(join('/proc', name, 'cwd')).catch(() => '');
    const command = await readFile(join('/proc', name, 'cmdline'), 'latin1').catch(() => '');
    if (cwd === cluster && command.startsWith('/bin/sh')) return Number(name);
  }
  throw new Error('no watchdog');
}

test(
  'an orphan, whose watchdog was killed too, is stopped and the directory served',
  { skip: !onLinux },
  async (t) => {
    const dataDir = join(await folderFor(t), 'data');
    const child = new EngineChild({ dataDir, write: true });
    t.after(() => child.end('SIGKILL'));
    await child.until((line) => (line.acked ?? 0) >= 10);
    const orphan = await postmasterPid(dataDir);
    process.kill(await watchdogPid(join(dataDir, 'pg')), 'SIGKILL');
    await child.end('SIGKILL');

    const spy = new Spy();
    const engine = await openEmbeddedEngine({ dataDir, observe: spy.observe });
    t.after(() => engine.close());
    assert.deepEqual(
      spy.seen.filter((observation) => observation.kind === 'engine.orphan_stopped'),
      [{ kind: 'engine.orphan_stopped', pid: orphan }],
    );
    assert.equal(engine.unavailable, null);
  },
);

test('when Headgate is killed its server stops by itself', async (t) => {
  const dataDir = join(await folderFor(t), 'data');
  const child = new EngineChild({ dataDir, write: true });
  t.after(() => child.end('SIGKILL'));
  await child.until((line) => (line.acked ?? 0) >= 10);
  await child.end('SIGKILL');
  // A clean stop removes the file; there is no process of ours left that could tell.
  while (
    await stat(join(dataDir, 'pg', 'postmaster.pid')).then(
      () => true,
      () => false,
    )
  ) {
    await new Promise(setImmediate);
  }
});

test('a server that somebody started by hand is left alone', { skip: !onLinux }, async (t) => {
  const dataDir = join(await folderFor(t), 'data');
  await (await openEmbeddedEngine({ dataDir, observe: silent })).close();
  const cluster = join(dataDir, 'pg');
  const { uid, gid } = await stat(cluster);
  const user = process.getuid?.() === 0 ? { uid, gid } : {};
  const programs = await folderFor(t);
  await chmod(programs, 0o755);
  const server = spawn(
    join(reachable(embeddedBin, programs, user), 'postgres'),
    ['-D', '/proc/self/cwd', '-c', 'listen_addresses=', '-c', 'unix_socket_directories=run'],
    {
      cwd: cluster,
      env: { LC_ALL: 'C' },
      stdio: ['ignore', 'ignore', 'pipe'],
      ...user,
    },
  );
  const exited = once(server, 'exit');
  t.after(async () => {
    server.kill('SIGINT');
    await exited;
  });
  await once(server.stderr, 'data');
  while (!(await readFile(join(cluster, 'postmaster.pid'), 'utf8').catch(() => '')).includes('ready')) {
    await new Promise(setImmediate);
  }
  await assert.rejects(openEmbeddedEngine({ dataDir, observe: silent }), {
    name: 'EngineError',
    message: `the database in ${cluster} is in use by a PostgreSQL that Headgate did not start (pid ${server.pid})`,
  });
  assert.equal(server.exitCode, null);
});
