/**
 * Deliveries at length: 100,000 rows (HEADGATE_TEST_ROWS: another number), sent on by `headgate start`, with kills on both sides. A receiver that is slow, down,
 * refuses, resets and lies has each row at least once, by the package of Standard Webhooks, and in order by key; a second Headgate has each exactly once.
 */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { onEnd } from '../support/cleanup.ts';
import { commandsOf } from '../support/docs.ts';
import { startHeadgate, temporaryFolder } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { deliverySecret, SignedReceiver } from '../support/signed-receiver.ts';
import type { Answering } from '../support/signed-receiver.ts';
import { within } from '../support/within.ts';

const count = Number(process.env['HEADGATE_TEST_ROWS'] ?? 100_000);
const kills = 5;

/** Of the first attempt of a row. */
const faults: readonly Answering[] = [
  (response) => (response.writeHead(500).end(), false),
  (response) => (response.writeHead(429, { 'retry-after': '1' }).end(), false),
  (response) => (response.destroy(), false),
  (response) => (
    response.writeHead(200, { 'content-length': '1000' }).write('x', () => response.destroy()),
    true
  ),
  (response) => (setTimeout(() => response.end(), 2_000).unref(), true),
  (response) => (response.writeHead(302, { location: 'http://127.0.0.1:1/' }).end(), false),
];

interface Taken {
  readonly n: number;
  readonly key: number;
}

/** Every hundredth row meets a fault. */
const faulty = ({ n }: Taken, attempt: number): Answering | undefined =>
  attempt === 1 && n % 100 === 0 ? faults[(n / 100) % faults.length] : undefined;

async function prepared(t: TestContext, to: string, host: string) {
  const folder = await temporaryFolder(t);
  await writeFile(join(folder, 'secret'), deliverySecret);
  const plan = { table: 'orders', to, secretFile: 'secret', key: 'key', concurrency: 32, attempts: 1_000 };
  await writeFile(join(folder, 'deliver.json'), JSON.stringify([plan]));
  const env = { HEADGATE_DELIVER: join(folder, 'deliver.json'), HEADGATE_DELIVER_HOSTS: host };
  const dataDir = join(folder, 'data');
  const start = (args: readonly string[] = []): Promise<Headgate> => startHeadgate(t, { dataDir, env, args });
  const headgate = await start();
  const root = await headgate.client(t);
  await root.query(await commandsOf('docs/workers.md', 'table'));
  await root.query(`ALTER TABLE orders ADD COLUMN key INT; CREATE INDEX ON orders (key, id) WHERE done_at IS NULL;
    INSERT INTO orders (data, key) SELECT jsonb_build_object('n', g, 'key', g % 1000, 'text', 'ä€😀 "' || g), g % 1000 FROM generate_series(1, ${count}) g`);
  // On its own ports again: another one that it picks may be that of a receiver which is down at that moment.
  const again = () => start(headgate.samePorts);
  return { headgate, start: again };
}

/** Until so many rows are open at most. Looks once a second: it counts on the processors that deliver. */
async function untilOpen(headgate: Headgate, t: TestContext, most: number, ms: number): Promise<void> {
  const client = await headgate.client(t);
  // What waits for its next attempt; what is on its way would be sent once more.
  const hurry = await commandsOf('docs/deliver.md', 'at-once');
  for (const end = performance.now() + ms; ; await pause(1_000)) {
    await client.query(hurry);
    const { rows } = await client.query<{ n: number }>(
      'SELECT count(*)::int AS n FROM orders WHERE done_at IS NULL',
    );
    const open = rows[0]?.n ?? 0;
    if (open <= most) break;
    assert.ok(performance.now() < end, `${open} rows are open`);
  }
  await client.end();
}

test(
  'deliver sends each row, signed and in order by key, to a receiver that fails in every way',
  { timeout: 3_600_000 },
  async (t) => {
    const receiver = new SignedReceiver(faulty);
    const host = await receiver.listen();
    onEnd(t, 'receiver', () => receiver.close());
    let { headgate, start } = await prepared(t, `http://${host}/hook`, host);
    const began = performance.now();
    for (let kill = 1; kill <= kills; kill++) {
      await within(600_000, async () =>
        assert.ok(receiver.taken.size >= (count * kill) / (kills + 1), `${receiver.taken.size}`),
      );
      // It goes away, so that all who call it fail, and comes back; Headgate is killed with its rows in hand.
      await receiver.close();
      await headgate.signal('SIGKILL');
      headgate = await start();
      await within(60_000, async () => assert.match(headgate.stderr, /"delivery\.down"/));
      await receiver.listen();
    }
    await untilOpen(headgate, t, 0, 1_200_000);
    assert.equal(receiver.taken.size, count);
    assert.deepEqual(new Set([...receiver.taken.values()].map(({ n }) => n)).size, count);
    const last = new Map<number, number>();
    for (const { key, n } of receiver.taken.values()) {
      assert.ok((last.get(key) ?? 0) < n, `key ${key}: ${n} after ${last.get(key)}`);
      last.set(key, n);
    }
    const sent = [...receiver.attempts.values()].reduce((sum, n) => sum + n, 0);
    t.diagnostic(
      `${count} rows, ${sent} requests, ${kills} kills, ${Math.round((performance.now() - began) / 1_000)} s`,
    );
  },
);

test(
  'deliver stores each row exactly once in a second Headgate, with kills on both sides',
  { timeout: 3_600_000 },
  async (t) => {
    const secondDir = join(await temporaryFolder(t), 'second');
    let second = await startHeadgate(t, { dataDir: secondDir });
    const args = second.samePorts;
    const receiver = (await commandsOf('docs/deliver.md', 'receiver')).replace('whsec_…', deliverySecret);
    await (await second.client(t)).query(receiver);
    const host = `127.0.0.1:${second.ports.listen.port}`;
    let { headgate, start } = await prepared(t, `http://${host}/webhook/dev/public/copies`, host);
    const began = performance.now();
    for (let kill = 1; kill <= kills; kill++) {
      await untilOpen(headgate, t, count - (count * kill) / (kills + 1), 600_000);
      await Promise.all([headgate.signal('SIGKILL'), second.signal('SIGKILL')]);
      headgate = await start();
      await within(60_000, async () => assert.match(headgate.stderr, /"delivery\.down"/));
      second = await startHeadgate(t, { dataDir: secondDir, args });
    }
    await untilOpen(headgate, t, 0, 1_200_000);
    const digest = (table: string) => `SELECT count(*)::int AS n, count(DISTINCT data)::int AS different,
    md5(string_agg(md5(data::text), '' ORDER BY md5(data::text) COLLATE "C")) AS all FROM ${table}`;
    const { rows: there } = await (await second.client(t)).query(digest('copies'));
    assert.deepEqual(there, (await (await headgate.client(t)).query(digest('orders'))).rows);
    assert.deepEqual([there[0]?.['n'], there[0]?.['different']], [count, count]);
    t.diagnostic(
      `${count} rows, ${kills} kills on both sides, ${Math.round((performance.now() - began) / 1_000)} s`,
    );
  },
);
