/** `headgate deliver`: a receiver that does what receivers do, judged by the package of Standard Webhooks; and a second Headgate. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Webhook } from 'standardwebhooks';
import { onEnd } from '../support/cleanup.ts';
import { commandsOf } from '../support/docs.ts';
import { startHeadgate, temporaryFolder } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { startReceiver } from '../support/receiver.ts';
import { times } from '../support/sample.ts';
import { until } from '../support/until.ts';
import { within } from '../support/within.ts';

const cli = fileURLToPath(new URL('../../src/app/cli.js', import.meta.url));
const secret = `whsec_${Buffer.from('a secret of thirty-two bytes ...').toString('base64')}`;

async function secretFile(t: TestContext): Promise<string> {
  const file = join(await temporaryFolder(t), 'secret');
  await writeFile(file, `${secret}\n`);
  return file;
}

interface Running {
  readonly child: ChildProcess;
  readonly said: () => string;
}

function deliver(t: TestContext, headgate: Headgate, file: string, to: string, ...more: string[]): Running {
  const dsn = `postgresql://root@127.0.0.1:${headgate.ports.sql.port}/dev`;
  const args = [cli, 'deliver', 'orders', '--to', to, '--secret-file', file, '--dsn', dsn, ...more];
  const { host } = new URL(to);
  const child = spawn(process.execPath, args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, HEADGATE_DELIVER_HOSTS: host },
  });
  let said = '';
  for (const stream of [child.stdout, child.stderr])
    stream?.setEncoding('utf8').on('data', (text: string) => (said += text));
  const ended = once(child, 'exit');
  onEnd(t, 'deliver', async () => {
    child.kill('SIGKILL');
    await ended;
  });
  return { child, said: () => said };
}

/** What the receiver does with the n-th request for a row; `true`: it takes it. */
type Behaviour = (response: ServerResponse, n: number) => boolean;

const behaviours: readonly Behaviour[] = [
  (response) => (response.end('ok'), true),
  (response, n) => (response.writeHead(n === 1 ? 500 : 204).end(), n > 1),
  (response, n) => (
    response.writeHead(n === 1 ? 429 : 200, n === 1 ? { 'retry-after': '1' } : {}).end(),
    n > 1
  ),
  (response, n) => (n === 1 ? response.destroy() : response.end(), n > 1),
  // It announces more than it sends, and resets.
  (response, n) => {
    if (n > 1) response.end();
    else response.writeHead(200, { 'content-length': '1000' }).write('x', () => response.destroy());
    return true;
  },
  (response, n) => (
    response.writeHead(n === 1 ? 302 : 200, { location: 'http://127.0.0.1:1/' }).end(),
    n > 1
  ),
  // It says no end of things.
  (response, n) => (response.writeHead(n === 1 ? 200 : 201).end('y'.repeat(n === 1 ? 100_000 : 1)), true),
];

test(
  'headgate deliver delivers each row, signed, despite receiver failures, and in order by key',
  { timeout: 180_000 },
  async (t) => {
    const headgate = await startHeadgate(t);
    const root = await headgate.client(t);
    await root.query(await commandsOf('docs/workers.md', 'table'));
    await root.query(`ALTER TABLE orders ADD COLUMN key TEXT GENERATED ALWAYS AS (data->>'key') STORED`);
    const webhook = new Webhook(secret);
    const requests = new Map<string, number>();
    const taken = new Map<string, { key: string; n: number }>();
    const order: { key: string; n: number }[] = [];
    const host = await startReceiver(t, (request, response) => {
      let text = '';
      request.setEncoding('utf8').on('data', (part: string) => (text += part));
      request.on('end', () => {
        const headers = request.headers as Record<string, string>;
        // Throws if the signature, or its time, is not right.
        const data = webhook.verify(text, headers) as { key: string; n: number };
        const id = headers['webhook-id'] ?? '';
        const n = (requests.get(id) ?? 0) + 1;
        requests.set(id, n);
        if (!(behaviours[data.n % behaviours.length] ?? behaviours[0])?.(response, n)) return;
        if (!taken.has(id)) order.push(data);
        taken.set(id, data);
      });
    });
    const count = times(35, 2_000);
    for (let n = 0; n < count; n++)
      assert.equal(
        (await headgate.post('dev/public/orders', JSON.stringify({ key: `k${n % 5}`, n, digits: 1 }))).status,
        200,
      );
    const to = `http://${host}/hook`;
    const file = await secretFile(t);
    let running = deliver(t, headgate, file, to, '--key', 'key', '--attempts', '1000');
    for (let kills = times(1, 20); kills > 0; kills--) {
      const before = taken.size;
      await within(60_000, async () => {
        await root.query(
          'UPDATE orders SET run_after = now() WHERE done_at IS NULL AND last_error IS NOT NULL',
        );
        assert(taken.size > before || taken.size === count, running.said());
      });
      running.child.kill('SIGKILL');
      // What it held is free at once.
      await root.query('UPDATE orders SET run_after = now() WHERE done_at IS NULL');
      running = deliver(t, headgate, file, to, '--key', 'key', '--attempts', '1000');
    }
    await within(120_000, async () => {
      await root.query(
        'UPDATE orders SET run_after = now() WHERE done_at IS NULL AND last_error IS NOT NULL',
      );
      const { rows } = await root.query('SELECT count(*)::int AS n FROM orders WHERE done_at IS NULL');
      assert.deepEqual(rows, [{ n: 0 }], running.said());
    });
    assert.equal(taken.size, count);
    assert.match([...taken.keys()][0] ?? '', /^orders_\d+$/);
    for (let key = 0; key < 5; key++) {
      const numbers = order.filter((it) => it.key === `k${key}`).map(({ n }) => n);
      assert.deepEqual(
        numbers,
        numbers.toSorted((a, b) => a - b),
        `k${key}`,
      );
    }
  },
);

test('rows with one key go out one after the other, and each as soon as the one before has arrived', async (t) => {
  const headgate = await startHeadgate(t);
  const root = await headgate.client(t);
  await root.query(await commandsOf('docs/workers.md', 'table'));
  await root.query('ALTER TABLE orders ADD COLUMN key INT');
  const count = 40;
  await root.query(
    `INSERT INTO orders (data, key) SELECT jsonb_build_object('n', g), 1 FROM generate_series(1, ${count}) g`,
  );
  const taken: number[] = [];
  const times: number[] = [];
  let answersMs = 0;
  const host = await startReceiver(t, (request, response) => {
    let text = '';
    request.setEncoding('utf8').on('data', (part: string) => (text += part));
    request.on('end', () => {
      taken.push((JSON.parse(text) as { n: number }).n);
      times.push(performance.now());
      setTimeout(() => response.end(), answersMs);
    });
  });
  const to = `http://${host}/hook`;
  const file = await secretFile(t);
  const ordered = deliver(t, headgate, file, to, '--key', 'key');
  await within(60_000, async () => assert.equal(taken.length, count));
  assert.deepEqual(
    taken,
    Array.from({ length: count }, (_, i) => i + 1),
  );
  // A look at the table every half a second would take twenty seconds.
  const [first = 0, last = Infinity] = [times[0], times.at(-1)];
  assert.ok(last - first < 10_000, `${last - first} ms`);

  // Each wait for the only row that it may send at one time leaves nothing behind: Node warns of listeners that pile up.
  ordered.child.kill('SIGKILL');
  await once(ordered.child, 'exit');
  answersMs = 30;
  await root.query('UPDATE orders SET done_at = NULL, attempts = 0, run_after = now()');
  const single = deliver(t, headgate, file, to, '--concurrency', '1');
  await within(60_000, async () => assert.ok(taken.length >= 2 * count));
  assert.doesNotMatch(single.said(), /warning/i);
});

test('410 ends it, the last attempt makes a row dead, and a host that is not listed is not called', async (t) => {
  const headgate = await startHeadgate(t);
  const root = await headgate.client(t);
  await root.query(await commandsOf('docs/workers.md', 'table'));
  await headgate.post('dev/public/orders', '{"n":1}');
  let status = 500;
  let asked = 0;
  const host = await startReceiver(t, (_, response) => {
    asked += 1;
    response.writeHead(status).end();
  });
  const to = `http://${host}/`;
  const file = await secretFile(t);
  const one = deliver(t, headgate, file, to, '--attempts', '1', '--json');
  await until(() => one.said().includes('"outcome":"dead"') || one.child.exitCode !== null);
  assert.match(one.said(), /"attempt":1,"outcome":"dead","why":"it answered 500"/);
  one.child.kill('SIGINT');
  const [code] = (await once(one.child, 'exit')) as [number];
  assert.equal(code, 130);
  status = 410;
  await headgate.post('dev/public/orders', '{"n":2}');
  const gone = deliver(t, headgate, file, to, '--attempts', '1');
  const [ended] = (await once(gone.child, 'exit')) as [number];
  assert.deepEqual([ended, gone.said().includes('it wants no more'), asked], [1, true, 2]);
  const { rows } = await root.query('SELECT done_at, last_error FROM orders ORDER BY id');
  assert.deepEqual(rows, [
    { done_at: null, last_error: 'it answered 500' },
    { done_at: null, last_error: 'it answered 410' },
  ]);
  const elsewhere = spawn(
    process.execPath,
    [cli, 'deliver', 'orders', '--to', to, '--secret-file', file, '--data-dir', headgate.dataDir],
    {
      stdio: 'ignore',
      env: { ...process.env, HEADGATE_DELIVER_HOSTS: '127.0.0.1:1' },
    },
  );
  const [refused] = (await once(elsewhere, 'exit')) as [number];
  assert.deepEqual([refused === 0, asked], [false, 2]);

  // A name of this machine is listed, and no network: nothing is tried.
  await root.query('TRUNCATE orders');
  await headgate.post('dev/public/orders', '{"n":3}');
  status = 200;
  const named = to.replace('127.0.0.1', 'localhost');
  const local = deliver(t, headgate, file, named);
  const [unreachable] = (await once(local.child, 'close')) as [number];
  assert.deepEqual([unreachable, asked], [1, 2]);
  assert.match(local.said(), /localhost has addresses that are not called .*HEADGATE_DELIVER_NETWORKS/);
  const untouched = await root.query('SELECT attempts, done_at, last_error FROM orders');
  assert.deepEqual(untouched.rows, [{ attempts: 0, done_at: null, last_error: null }]);

  // A person sees where to, each delivery, and when there is another one.
  status = 500;
  const shown = deliver(t, headgate, file, to);
  await until(() => shown.said().includes('500') || shown.child.exitCode !== null);
  status = 200;
  await until(() => shown.said().includes('delivered') || shown.child.exitCode !== null);
  assert.match(
    shown.said(),
    /^delivering orders to http:\S+\/; Ctrl-C ends\nrow \d+, attempt 1: failed: it answered 500; again in [345] s\nrow \d+, attempt 2: delivered\n/,
  );

  // After an outage: one row waits for its fifth attempt, another one is on its way.
  await root.query(`INSERT INTO orders (data, attempts, run_after) VALUES
    ('{"n":4}', 4, now() + interval '2 hours'), ('{"n":5}', 1, now() + interval '1 minute')`);
  await root.query(await commandsOf('docs/deliver.md', 'at-once'));
  await until(() => shown.said().includes('attempt 5: delivered') || shown.child.exitCode !== null);
  await within(5_000, async () => {
    const after = await root.query(
      'SELECT attempts, done_at IS NOT NULL AS done FROM orders ORDER BY id DESC LIMIT 2',
    );
    assert.deepEqual(after.rows, [
      { attempts: 1, done: false },
      { attempts: 5, done: true },
    ]);
  });
});

test(
  'into a second Headgate each row arrives exactly once, with kills on both sides',
  { timeout: 180_000 },
  async (t) => {
    const headgate = await startHeadgate(t);
    const root = await headgate.client(t);
    await root.query(await commandsOf('docs/workers.md', 'table'));
    const dataDir = join(await temporaryFolder(t), 'second');
    let second = await startHeadgate(t, { dataDir });
    const { listen } = second.ports;
    const args = second.samePorts;
    const receiver = (await commandsOf('docs/deliver.md', 'receiver')).replace('whsec_…', secret);
    await (await second.client(t)).query(receiver);
    const count = times(60, 5_000);
    await root.query(
      `INSERT INTO orders (data) SELECT jsonb_build_object('n', g % 50, 'text', 'ä€😀') FROM generate_series(1, ${count}) g`,
    );
    const file = await secretFile(t);
    const to = `http://127.0.0.1:${listen.port}/webhook/dev/public/copies`;
    let running = deliver(t, headgate, file, to, '--attempts', '1000');
    const open = async (): Promise<number> =>
      (await root.query<{ n: number }>('SELECT count(*)::int AS n FROM orders WHERE done_at IS NULL')).rows[0]
        ?.n ?? 0;
    for (let kills = times(1, 10); kills > 0; kills--) {
      const before = await open();
      await within(60_000, async () => {
        await root.query(
          'UPDATE orders SET run_after = now() WHERE done_at IS NULL AND last_error IS NOT NULL',
        );
        assert((await open()) < before || before === 0, running.said());
      });
      running.child.kill('SIGKILL');
      await second.signal('SIGKILL');
      await root.query('UPDATE orders SET run_after = now() WHERE done_at IS NULL');
      running = deliver(t, headgate, file, to, '--attempts', '1000');
      second = await startHeadgate(t, { dataDir, args });
    }
    await within(120_000, async () => {
      await root.query(
        'UPDATE orders SET run_after = now() WHERE done_at IS NULL AND last_error IS NOT NULL',
      );
      assert.equal(await open(), 0, running.said());
    });
    const rows = async (client: { query: (text: string) => Promise<{ rows: object[] }> }, table: string) =>
      (
        await client.query(
          `SELECT data::text AS data, count(*)::int AS n FROM ${table} GROUP BY data::text ORDER BY data::text COLLATE "C"`,
        )
      ).rows;
    const there = await second.client(t);
    assert.deepEqual(await rows(there, 'copies'), await rows(root, 'orders'));
  },
);
