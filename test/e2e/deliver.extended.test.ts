/** `headgate deliver`: order by key, the ends of a delivery, and a second Headgate as its receiver. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { test } from 'node:test';
import { cli, deliver, secret, secretFile } from '../support/deliver-command.ts';
import { commandsOf } from '../support/docs.ts';
import { startHeadgate, temporaryFolder } from '../support/headgate.ts';
import { startReceiver } from '../support/receiver.ts';
import { times } from '../support/sample.ts';
import { until } from '../support/until.ts';
import { within } from '../support/within.ts';

test('deliver sends rows with one key one after the other, each as soon as the one before has arrived', async (t) => {
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

test('headgate deliver ends at a 410, gives a row up after the last attempt, and calls listed hosts only', async (t) => {
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
  'deliver stores each row exactly once in a second Headgate, with kills on both sides',
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
