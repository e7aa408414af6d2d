/** docs/workers.md: its blocks as it gives them, and its workers while they and Headgate are killed. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { getEventListeners, once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { transform } from 'esbuild';
import { createClient } from '../../src/client/client.ts';
import { onEnd } from '../support/cleanup.ts';
import { commandsOf } from '../support/docs.ts';
import { sharedHeadgate, startHeadgate, temporaryFolder } from '../support/headgate.ts';
import { run } from '../support/run.ts';
import { isLong, times } from '../support/sample.ts';
import { within } from '../support/within.ts';

const page = 'docs/workers.md';
const child = fileURLToPath(new URL('../support/worker-child.js', import.meta.url));
const clientModule = fileURLToPath(new URL('../../src/client/client.js', import.meta.url));
const cli = fileURLToPath(new URL('../../src/app/cli.js', import.meta.url));

const shared = sharedHeadgate();

test('the SQL of docs/workers.md claims, marks, fails and revives rows', async (t) => {
  const headgate = await shared();
  const root = await headgate.client(t);
  const notices: string[] = [];
  root.on('notice', ({ message = '' }) => notices.push(message));
  await root.query(await commandsOf(page, 'table'));
  assert(!notices.join('\n').includes('no default'));
  const post = (body: string) => headgate.post('dev/public/orders', body);
  for (const body of ['{"total":1}', '{"total":2,"done_at":"2020-01-01","attempts":99}', '[3]'])
    assert.equal((await post(body)).status, 200);
  await root.query(await commandsOf(page, 'grant'));
  const worker = await headgate.clientAs(t, 'worker');
  const claim = await commandsOf(page, 'claim');
  const claimed = await worker.query<{ id: string; attempts: number }>(claim);
  assert.deepEqual(
    claimed.rows.map(({ attempts }) => attempts),
    [1, 1, 1],
  );
  assert.equal((await worker.query(claim)).rowCount, 0, 'they are claimed');
  const ids = claimed.rows.map(({ id }) => id);
  assert.equal((await worker.query(await commandsOf(page, 'failed'), [ids[0], 1, 'why'])).rowCount, 1);
  assert.equal((await worker.query(await commandsOf(page, 'done'), [ids[1], 1])).rowCount, 1);
  assert.equal((await worker.query(await commandsOf(page, 'done'), [ids[1], 1])).rowCount, 0, 'it is done');
  // Its lease is over, and another worker has the row.
  await root.query('UPDATE orders SET run_after = now() WHERE done_at IS NULL');
  assert.equal((await worker.query(claim)).rowCount, 2);
  assert.equal((await worker.query(await commandsOf(page, 'done'), [ids[2], 1])).rowCount, 0, 'the fence');
  await assert.rejects(worker.query(`UPDATE orders SET data = '0'`), /permission denied/);
  await root.query('UPDATE orders SET attempts = 10, run_after = now() WHERE done_at IS NULL');
  assert.equal((await worker.query(await commandsOf(page, 'dead'))).rowCount, 2);
  const { stdout } = await run(process.execPath, [
    cli,
    'endpoints',
    '--data-dir',
    headgate.dataDir,
    '--json',
  ]);
  assert.match(stdout, /"open":2,"dead":2/);
  assert.equal((await worker.query(await commandsOf(page, 'revive'))).rowCount, 2);
  assert.equal((await worker.query(claim)).rowCount, 2);
});

test('the programs of docs/workers.md work as printed', async (t) => {
  const headgate = await shared();
  const root = await headgate.client(t);
  await root.query(`DROP TABLE IF EXISTS orders; ${await commandsOf(page, 'table')}`);
  await root.query('CREATE TABLE shipped (order_id BIGINT PRIMARY KEY, total INT)');
  const programs = [await commandsOf(page, 'work'), await commandsOf(page, 'effect')];
  for (const [i, program] of programs.entries()) {
    await headgate.post('dev/public/orders', `{"total":${i}}`);
    const begin = i === 0 ? '' : (programs[0] ?? '').split('\n').slice(0, 3).join('\n');
    const source = `const stop = new AbortController(); const stopping = stop.signal; globalThis.setTimeout(() => stop.abort(), 3000);
      const ship = async (data, { idempotencyKey }) => { console.log('shipped', idempotencyKey, data.total); };
      ${begin}\n${program}`;
    const { code } = await transform(
      source.replace('headgate/client', clientModule).replace('http://localhost:8000', headgate.gatewayUrl),
      { loader: 'ts', format: 'esm' },
    );
    const file = join(await temporaryFolder(t), 'program.mjs');
    await writeFile(file, code);
    const ran = await run(process.execPath, [file]);
    assert.equal(ran.code, 0, ran.stderr);
    if (i === 0) assert.equal(ran.stdout, 'shipped 1 0\n');
  }
  assert.deepEqual((await root.query('SELECT order_id, total FROM shipped')).rows, [
    { order_id: '2', total: 1 },
  ]);
  assert.deepEqual((await root.query('SELECT count(*)::int AS n FROM orders WHERE done_at IS NULL')).rows, [
    { n: 0 },
  ]);
});

test('client.work retries a handler that throws, aborts one that lost its row, and throws refusals of its table', async (t) => {
  const headgate = await shared();
  const root = await headgate.client(t);
  await root.query(`DROP TABLE IF EXISTS orders; ${await commandsOf(page, 'table')}`);
  await root.query(`INSERT INTO orders (data) VALUES ('{"n":1}'), ('{"n":2}')`);
  const client = createClient({ url: headgate.gatewayUrl });
  const stop = new AbortController();
  const attempts: string[] = [];
  const lost: string[] = [];
  const working = client.work<{ data: { n: number } }>(
    'public.orders',
    async ({ data }, { attempt, signal }) => {
      attempts.push(`${data.n} ${attempt}`);
      if (data.n === 1) throw new Error(`no\0thing of ${attempt}`);
      if (attempt > 1) return;
      // Somebody takes the row away.
      await root.query(
        `UPDATE orders SET attempts = 5, run_after = now() + interval '1 hour' WHERE data = '{"n":2}'`,
      );
      await once(signal, 'abort');
      lost.push('2');
    },
    { lease: 1, attempts: 2, backoffMax: 0.1, idle: 20, signal: stop.signal },
  );
  await within(20_000, async () => {
    const { rows } = await root.query(
      `SELECT attempts, last_error, done_at FROM orders WHERE data = '{"n":1}' AND run_after <= now()`,
    );
    assert.deepEqual(rows, [{ attempts: 2, last_error: 'nothing of 2', done_at: null }]);
    assert.deepEqual(lost, ['2']);
  });
  stop.abort();
  await working;
  assert.deepEqual(attempts.toSorted(), ['1 1', '1 2', '2 1']);
  assert.deepEqual((await root.query(`SELECT attempts, done_at FROM orders WHERE data = '{"n":2}'`)).rows, [
    { attempts: 5, done_at: null },
  ]);
  await assert.rejects(
    client.work('nothing', () => undefined),
    { code: '42P01' },
  );
  await assert.rejects(
    client.work('orders; DROP TABLE orders', () => undefined),
    TypeError,
  );
});

test('client.work at its concurrency limit leaves no abort listeners behind', async (t) => {
  const headgate = await shared();
  const root = await headgate.client(t);
  await root.query(`DROP TABLE IF EXISTS orders; ${await commandsOf(page, 'table')}`);
  await root.query(`INSERT INTO orders (data) SELECT to_jsonb(g) FROM generate_series(1, 15) g`);
  const stop = new AbortController();
  const listeners: number[] = [];
  await createClient({ url: headgate.gatewayUrl }).work(
    'orders',
    () => {
      listeners.push(getEventListeners(stop.signal, 'abort').length);
      if (listeners.length === 15) stop.abort();
    },
    { concurrency: 1, idle: 60_000, signal: stop.signal },
  );
  assert.equal(listeners.length, 15);
  assert(Math.max(...listeners) <= 1, listeners.join(' '));
});

test('client.work claims and marks rows in one request, and joins effects that end together', async (t) => {
  const headgate = await shared();
  const root = await headgate.client(t);
  await root.query(`DROP TABLE IF EXISTS orders, shipped; ${await commandsOf(page, 'table')}`);
  await root.query('CREATE TABLE shipped (order_id BIGINT, attempt INT)');
  const effect = { sql: 'INSERT INTO shipped SELECT id, $1 FROM done', params: [1] };
  for (const of of ['no effect', 'effect']) {
    await root.query('INSERT INTO orders (data) SELECT to_jsonb(g) FROM generate_series(1, 100) g');
    const stop = new AbortController();
    let asked = 0;
    const counted: typeof fetch = (...args) => {
      asked += 1;
      return fetch(...args);
    };
    let handled = 0;
    const client = createClient({ url: headgate.gatewayUrl, fetch: counted });
    const working = client.work(
      'orders',
      () => {
        handled += 1;
        return of === 'effect' ? effect : undefined;
      },
      { concurrency: 10, idle: 60_000, signal: stop.signal },
    );
    await within(20_000, async () => {
      const { rowCount } = await root.query('SELECT FROM orders WHERE done_at IS NULL');
      assert.deepEqual([rowCount, handled], [0, 100]);
    });
    stop.abort();
    await working;
    // Ten claims of ten rows each, nine of them with the marks of those before; the last marks with a claim that finds nothing.
    if (of === 'no effect') assert.equal(asked, 11);
    // A transaction of effects that takes long is followed by smaller ones.
    else assert.ok(asked < 100, `${asked} requests`);
  }
  assert.deepEqual(
    (await root.query('SELECT count(*)::int AS n, count(DISTINCT order_id)::int AS ids FROM shipped')).rows,
    [{ n: 100, ids: 100 }],
  );
});

test('the stream program of docs/workers.md copies each row once while it is killed', async (t) => {
  const headgate = await shared();
  const root = await headgate.client(t);
  await root.query(await commandsOf(page, 'calls'));
  const file = join(await temporaryFolder(t), 'stream.mjs');
  const { code } = await transform(
    (await commandsOf(page, 'stream'))
      .replace('headgate/client', clientModule)
      .replace(`'pg'`, JSON.stringify(import.meta.resolve('pg')))
      .replace('http://localhost:8000', headgate.gatewayUrl),
    { loader: 'ts', format: 'esm' },
  );
  await writeFile(file, code);
  const target = `postgresql://root@127.0.0.1:${headgate.ports.sql.port}/dev`;
  const copied = async (): Promise<number> => {
    const { rows } = await root.query<{ n: number }>('SELECT count(*)::int AS n FROM copied');
    return rows[0]?.n ?? 0;
  };
  const insert = 'INSERT INTO calls (data) SELECT to_jsonb(g) FROM generate_series(1, 100) g';
  const kills = times(2, 3);
  for (let kill = 1; kill <= kills; kill++) {
    await root.query(insert);
    const child = spawn(process.execPath, [file], {
      env: { ...process.env, TARGET: target },
      stdio: 'ignore',
    });
    const ended = once(child, 'exit');
    onEnd(t, 'stream', () => void child.kill('SIGKILL'));
    // Somewhere in the middle, and the last time at the end.
    const before = await copied().catch(() => 0);
    const enough = kill === kills ? 100 * kills : before + 20;
    await within(30_000, async () => assert(child.exitCode === null && (await copied()) >= enough));
    child.kill('SIGKILL');
    await ended;
  }
  const sorted = (table: string) => root.query(`SELECT id, data FROM ${table} ORDER BY id`);
  assert.deepEqual((await sorted('copied')).rows, (await sorted('calls')).rows);
});

interface Worker {
  process: ChildProcess;
  kills: number;
}

test(
  'killed workers and a killed Headgate leave no row unhandled, and each effect is stored once',
  { timeout: isLong ? 900_000 : 180_000 },
  async (t: TestContext) => {
    const folder = await temporaryFolder(t);
    const dataDir = join(folder, 'data');
    let headgate = await startHeadgate(t, { dataDir });
    const args = headgate.samePorts;
    const client = createClient({ url: headgate.gatewayUrl, retries: 1_000 });
    await (
      await headgate.client(t)
    ).query(`${await commandsOf(page, 'table')}; CREATE TABLE shipped (order_id BIGINT, attempt INT);`);
    const file = join(folder, 'attempts');
    await writeFile(file, '');
    const start = (): ChildProcess =>
      spawn(process.execPath, [child, headgate.gatewayUrl, file], { stdio: 'ignore' });
    const workers: Worker[] = Array.from({ length: 4 }, () => ({ process: start(), kills: 0 }));
    onEnd(t, 'workers', () => workers.forEach(({ process: it }) => void it.kill('SIGKILL')));
    const enough = new AbortController();
    let answered = 0;
    const latencies: number[] = [];
    const senders = Array.from({ length: 6 }, async () => {
      // 300 requests a second of all of them together.
      for (let due = performance.now(); !enough.signal.aborted; due += 20) {
        const began = performance.now();
        const answer = await headgate.post('dev/public/orders', '{"total":1}').catch(() => null);
        latencies.push(performance.now() - began);
        if (answer?.status === 200) answered += 1;
        const restMs = due + 20 - performance.now();
        await pause(answer === null ? 50 : Math.max(1, restMs));
      }
    });
    const kills = times(1, 20);
    const headgateKills = times(1, 5);
    const killing = workers.map(async (worker) => {
      while (worker.kills < kills) {
        const before = answered;
        await within(60_000, async () => assert(answered > before + 100));
        worker.process.kill('SIGKILL');
        worker.kills += 1;
        worker.process = start();
      }
    });
    for (let kill = 0; kill < headgateKills; kill++) {
      const before = answered;
      await within(60_000, async () => assert(answered > before + 300));
      await headgate.signal('SIGKILL');
      headgate = await startHeadgate(t, { dataDir, args });
    }
    await Promise.all(killing);
    enough.abort();
    await Promise.all(senders);
    await within(60_000, async () => {
      const { rows } = await client.query('SELECT count(*) AS n FROM orders WHERE done_at IS NULL');
      assert.deepEqual(rows, [{ n: 0 }]);
    });
    const { rows } = await client.query<Record<string, number>>(`SELECT
    (SELECT count(*) FROM orders) AS stored, (SELECT count(*) FROM shipped) AS shipped, (SELECT count(DISTINCT order_id) FROM shipped) AS once`);
    const { stored = 0, shipped, once: distinct } = rows[0] ?? {};
    assert(stored >= answered, `${stored} of ${answered}`);
    assert.deepEqual([shipped, distinct], [stored, stored]);
    const lines = (await readFile(file, 'utf8')).trim().split('\n').length;
    latencies.sort((a, b) => a - b);
    const p99 = latencies[Math.floor(latencies.length * 0.99)] ?? 0;
    t.diagnostic(
      `${answered} answered, ${stored} stored, ${lines - stored} handled once more, p99 ${p99.toFixed(1)} ms, ${kills * workers.length} and ${headgateKills} kills`,
    );
  },
);
