/** Servers that outlived their Headgate, and servers that Headgate did not start. */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, mkdtemp, readdir, readFile, readlink, rm, stat, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import { DataDirInUse } from '../../src/engine/data-dir-lock.ts';
import { strangerEnv } from '../../src/engine/embedded-process.ts';
import { refuseUnseenServer, stopOrphan } from '../../src/engine/orphaned-server.ts';
import { holderOf } from '../../src/engine/server-processes.ts';
import { onEnd } from '../support/cleanup.ts';
import { EngineChild, postmasterPid } from '../support/engine-process.ts';
import { Spy } from '../support/postgres.ts';
import { embeddedBin, reachable } from '../support/server.ts';
import { fromTemplate } from '../support/template.ts';

const onLinux = process.platform === 'linux';
const silent = (): void => undefined;

async function folderFor(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'hg-orphan-'));
  onEnd(t, 'folder', () => rm(folder, { recursive: true, force: true, maxRetries: 5 }));
  return folder;
}

/** What should be refused is closed when it is not: nothing else would end it. */
async function openOnce(t: TestContext, dataDir: string): Promise<void> {
  const engine = await openEmbeddedEngine({ dataDir, observe: silent });
  onEnd(t, 'engine', () => engine.close());
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
  'an orphaned PostgreSQL without its watchdog is stopped by the next start, which uses its data directory',
  { skip: !onLinux },
  async (t) => {
    const dataDir = join(await folderFor(t), 'data');
    await fromTemplate(dataDir);
    const child = new EngineChild({ dataDir, write: true });
    onEnd(t, 'child', () => child.end('SIGKILL'));
    await child.until((line) => (line.acked ?? 0) >= 10);
    const orphan = await postmasterPid(dataDir);
    process.kill(await watchdogPid(join(dataDir, 'pg')), 'SIGKILL');
    await child.end('SIGKILL');

    const spy = new Spy();
    const engine = await openEmbeddedEngine({ dataDir, observe: spy.observe });
    onEnd(t, 'engine', () => engine.close());
    assert.deepEqual(
      spy.seen.filter((observation) => observation.kind === 'engine.orphan_stopped'),
      [{ kind: 'engine.orphan_stopped', pid: orphan }],
    );
    assert.equal(engine.unavailable, null);
  },
);

test('the embedded server of a killed Headgate stops by itself', async (t) => {
  const dataDir = join(await folderFor(t), 'data');
  await fromTemplate(dataDir);
  const child = new EngineChild({ dataDir, write: true });
  onEnd(t, 'child', () => child.end('SIGKILL'));
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

test(
  'a PostgreSQL that was started by hand on the data directory is left alone, and Headgate refuses to start',
  { skip: !onLinux },
  async (t) => {
    const dataDir = join(await folderFor(t), 'data');
    await fromTemplate(dataDir);
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
    onEnd(t, 'server', async () => {
      server.kill('SIGINT');
      await exited;
    });
    await once(server.stderr, 'data');
    while (!(await readFile(join(cluster, 'postmaster.pid'), 'utf8').catch(() => '')).includes('ready')) {
      await new Promise(setImmediate);
    }
    await assert.rejects(openOnce(t, dataDir), {
      name: 'EngineError',
      message: `the database in ${cluster} is in use by a PostgreSQL that Headgate did not start (pid ${server.pid})`,
    });
    assert.equal(server.exitCode, null);
  },
);

/** The server of a Headgate that lives, its cluster and its user. */
async function served(t: TestContext) {
  const dataDir = join(await folderFor(t), 'data');
  await fromTemplate(dataDir);
  const child = new EngineChild({ dataDir });
  onEnd(t, 'child', () => child.end('SIGKILL'));
  await child.until((line) => line.opened !== undefined);
  const cluster = join(dataDir, 'pg');
  const { uid, gid } = await stat(cluster);
  return { child, cluster, user: process.getuid?.() === 0 ? { uid, gid } : null };
}

test('the PostgreSQL of a running Headgate is not taken for an orphan', async (t) => {
  const { child, cluster, user } = await served(t);
  await assert.rejects(
    stopOrphan(cluster, user, 1_000),
    (error) => error instanceof DataDirInUse && error.pid === child.process.pid,
  );
  assert.equal(child.process.exitCode, null);
});

test(
  'the PostgreSQL of a running Headgate is recognised under another path of its data directory',
  { skip: !onLinux },
  async (t) => {
    const { child, cluster, user } = await served(t);
    const elsewhere = join(await folderFor(t), 'elsewhere');
    await mkdir(elsewhere);
    if (spawnSync('mount', ['--bind', cluster, elsewhere]).status !== 0)
      return t.skip('nothing can be mounted here');
    onEnd(t, 'mount', () => void spawnSync('umount', [elsewhere]));
    const pid = await postmasterPid(join(cluster, '..'));
    assert.deepEqual(await holderOf(pid, elsewhere, user), { is: 'served', by: child.process.pid });
    assert.deepEqual(await strangerEnv(elsewhere, user), {});
  },
);

test('PostgreSQL gets PG_GRANDPARENT_PID only for the pid of a running process of another program', async (t) => {
  const cluster = await folderFor(t);
  const told = async (pid: number) => {
    await writeFile(join(cluster, 'postmaster.pid'), `${pid}\n`);
    return strangerEnv(cluster, null);
  };
  assert.deepEqual(await told(process.pid), { PG_GRANDPARENT_PID: String(process.pid) });
  const ended = spawn('true');
  await once(ended, 'exit');
  assert.deepEqual(await told(ended.pid ?? 0), {});
});

test('a PostgreSQL of another container is noticed by its socket, and Headgate refuses to start', async (t) => {
  const dataDir = join(await folderFor(t), 'data');
  await fromTemplate(dataDir);
  await mkdir(join(dataDir, 'pg', 'run'), { recursive: true });
  const socket = join(dataDir, 'pg', 'run', '.s.PGSQL.5432');
  await refuseUnseenServer('the cluster', socket, 0);
  const server = createServer().listen(socket);
  await once(server, 'listening');
  onEnd(t, 'server', () => new Promise<void>((resolve) => void server.close(() => resolve())));
  const refused = { name: 'EngineError', message: /in use by a PostgreSQL that this process cannot see/ };
  await assert.rejects(refuseUnseenServer('the cluster', socket, 100), refused);
  await assert.rejects(openOnce(t, dataDir), refused);
});
