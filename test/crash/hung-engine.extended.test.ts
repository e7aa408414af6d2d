/** A stop while the engine hangs, its processes stopped as by a disk that does not answer: it ends, within its bound. */
import assert from 'node:assert/strict';
import { access, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { until } from '../support/until.ts';
import { asked } from '../support/asked.ts';
import { childrenOf } from '../../src/engine/server-processes.ts';
import { limits } from '../../src/config/limits.ts';
import { onEnd } from '../support/cleanup.ts';
import { postmasterPid } from '../support/engine-process.ts';
import { spawnHeadgate, startHeadgate, temporaryFolder } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { startTcpServer } from '../support/tls-server.ts';
import { signalAll } from '../support/signal-all.ts';

/** Whether the process is there, and not only its entry. */
function lives(pid: number): Promise<boolean> {
  return access(join('/proc', String(pid), 'cwd', '.')).then(
    () => true,
    () => false,
  );
}

/** Stops the whole server in the midst of its work; gives its pids. */
async function hang(postmaster: number): Promise<number[]> {
  process.kill(postmaster, 'SIGSTOP');
  const pids = [postmaster, ...(await childrenOf(postmaster))];
  signalAll(pids, 'SIGSTOP');
  return pids;
}

/** With a request that waits for its row, an open session, and an event on its way. */
async function makeBusy(t: TestContext, headgate: Headgate, database: string): Promise<void> {
  const client = await headgate.client(t, database);
  await client.query(`CREATE TABLE busy (data JSONB) WITH (connector = 'webhook')`);
  const { status } = await headgate.post(`${database}/public/busy`, '{"kept": true}');
  assert.equal(status, 200);
}

async function stopsInTime(headgate: Headgate): Promise<void> {
  const started = performance.now();
  const ended = await headgate.signal('SIGTERM');
  const tookMs = performance.now() - started;
  assert.deepEqual(ended, { code: 1, signal: null });
  assert.ok(tookMs < limits.stopMs + 1_000, `${tookMs} ms`);
  assert.match(headgate.stderr, /"kind":"service\.cut_off"/);
  assert.match(headgate.stderr, /"kind":"service\.stopped"/);
}

suite('a stop with a hung engine ends in time', { skip: process.platform !== 'linux' }, () => {
  test('a stop with a hung embedded engine kills all of its processes and loses no row answered 200', async (t) => {
    const dataDir = await temporaryFolder(t);
    const headgate = await startHeadgate(t, { dataDir });
    await makeBusy(t, headgate, 'dev');
    const pids = await hang(await postmasterPid(dataDir));
    const waiting = headgate.post('dev/public/busy', '{"kept": "perhaps"}').catch(() => null);
    await stopsInTime(headgate);
    await waiting;
    for (const pid of pids) assert.equal(await lives(pid), false, `${pid}`);
    const again = await startHeadgate(t, { dataDir });
    const { rows } = await (
      await again.client(t)
    ).query<{ n: number }>(`select count(*)::int as n from busy where data @> '{"kept": true}'`);
    assert.equal(rows[0]?.n, 1);
  });

  test('a stop with a hung external PostgreSQL ends in time and leaves its processes alone', async (t) => {
    const server = await startTcpServer();
    onEnd(t, 'server', () => server.close());
    const url = `postgresql://root@127.0.0.1:${server.port}/postgres`;
    const headgate = await startHeadgate(t, { env: { HEADGATE_DATABASE_URL: url } });
    await makeBusy(t, headgate, 'postgres');
    const pids = await hang(server.pid);
    onEnd(t, 'hang', () => {
      signalAll(pids, 'SIGCONT');
    });
    const waiting = headgate.post('postgres/public/busy', '{}').catch(() => null);
    const started = performance.now();
    const { code } = await headgate.signal('SIGTERM');
    assert.ok(performance.now() - started < limits.stopMs + 1_000);
    assert.equal(code, /service\.cut_off/.test(headgate.stderr) ? 1 : 0);
    await waiting;
    for (const pid of pids) assert.equal(await lives(pid), true, `${pid}`);
  });

  test('a second signal ends a stopping Headgate at once', async (t) => {
    const dataDir = await temporaryFolder(t);
    const headgate = await startHeadgate(t, { dataDir });
    const pids = await hang(await postmasterPid(dataDir));
    onEnd(t, 'hang', () => {
      signalAll(pids, 'SIGKILL');
    });
    headgate.child.kill('SIGTERM');
    const draining = new Promise<void>((resolve) =>
      headgate.child.stderr?.on('data', () => {
        if (headgate.stderr.includes('service.draining')) resolve();
      }),
    );
    await draining;
    // The same signal, until it is late enough to be a second one.
    await until(() => headgate.child.exitCode !== null || !headgate.child.kill('SIGTERM'));
    assert.equal(headgate.child.exitCode, 143);
  });
});

test("the data directory's lock holds after its folder was deleted", async (t) => {
  const first = await startHeadgate(t);
  await rm(join(first.dataDir, 'lock'), { recursive: true });
  const second = await spawnHeadgate(t, { dataDir: first.dataDir });
  assert.deepEqual(await second.ended, { code: 1, signal: null });
  assert.match(
    second.stderr,
    new RegExp(`^headgate: .* in use by another Headgate \\(pid ${first.child.pid}\\)$`, 'm'),
  );
  assert.equal((await asked(`${first.adminUrl}/readyz`)).status, 200);
});
