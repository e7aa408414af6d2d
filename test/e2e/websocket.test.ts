import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { onEnd } from '../support/cleanup.ts';
import type { Doors } from '../support/doors.ts';
import { onSomeEngine } from '../support/doors.ts';
import { temporaryFolder } from '../support/headgate.ts';
import { within } from '../support/within.ts';
import { WsClient, WsSender } from '../support/ws-client.ts';
import type { WsOptions } from '../support/ws-client.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url));

function urlOf({ headgate, database }: Doors, table: string): string {
  return `ws://127.0.0.1:${headgate.ports.listen.port}/ingest/${database}/public/${table}`;
}

async function open(t: TestContext, doors: Doors, table: string, options: WsOptions = {}): Promise<WsClient> {
  const client = await WsClient.open(urlOf(doors, table), options);
  onEnd(t, 'WebSocket', async () => void (await client.kill()));
  return client;
}

const upsert = (data: unknown) => ({ op: 'upsert', data }) as const;

onSomeEngine('batches of WebSocket clients are stored', async (t, doors) => {
  const { client, rows } = doors;

  await t.test('WebSocket batches are applied in order, each completely or not at all', async (t) => {
    await client.query(
      `CREATE TABLE orders (id bigint PRIMARY KEY, amount numeric(6,2), note text DEFAULT 'none') WITH (connector = 'webhook')`,
    );
    const ws = await open(t, doors, 'orders');
    ws.send(1, [
      upsert({ id: 1, amount: 1.5 }),
      upsert({ id: 2, amount: 2 }),
      upsert({ id: 1, amount: 9.25 }),
    ]);
    ws.send(2, []);
    ws.send('18446744073709551614', [
      { op: 'delete', data: { id: 2 } },
      { op: 'insert', data: { id: 3, amount: '12.30', note: null } },
      { op: 'delete', data: { id: 4 } },
      { op: 'update', data: { id: 4, amount: 4 } },
    ]);
    await ws.acked(3);
    const stored = [['1', '9.25', 'none'], ['3', '12.30', null], ['4', '4.00', 'none']]; // prettier-ignore
    assert.deepEqual(await rows('SELECT * FROM orders ORDER BY id'), stored);
    ws.send('18446744073709551615', [upsert({ id: 5, amount: 5 }), upsert({ id: 6, amount: 'much' })]);
    const { code, fatal, acks } = await ws.ended;
    assert.deepEqual([code, acks.length], [1008, 3]);
    assert.equal(
      fatal,
      'dml_batch_id 18446744073709551615 item 2: failed to decode webhook JSON payload: column "amount": invalid input syntax for type numeric: "much"',
    );
    assert.deepEqual(await rows('SELECT * FROM orders ORDER BY id'), stored);
  });

  await t.test('WebSocket batches continue while their table changes, without loss', async (t) => {
    await client.query(`CREATE TABLE moving (id bigint PRIMARY KEY, a text) WITH (connector = 'webhook')`);
    const sender = new WsSender(() => urlOf(doors, 'moving'));
    onEnd(t, 'sender', () => sender.stop());
    const changes = [
      'ALTER TABLE moving ADD COLUMN b text',
      'ALTER TABLE moving ALTER COLUMN a TYPE varchar(100)',
      'ALTER TABLE moving RENAME COLUMN a TO c',
      'ALTER TABLE moving ADD COLUMN a text',
      'ALTER TABLE moving DROP COLUMN c',
    ];
    let id = 0;
    for (const change of changes) {
      for (let i = 0; i < 40; i++)
        sender.send([upsert({ id: id++, a: 'x' }), upsert({ id: id++, a: 'y', b: 'z' })]);
      await client.query(change);
    }
    await sender.drained();
    assert.deepEqual(sender.fatals, []);
    assert.deepEqual(await rows('SELECT count(*), min(id), max(id) FROM moving'), [
      [String(id), '0', String(id - 1)],
    ]);
  });

  await t.test(
    "WebSocket batches are accepted as long as the table's check accepts the first frame",
    async (t) => {
      await client.query(`CREATE SECRET key WITH (backend = 'meta') AS 'first'`);
      await client.query(
        `CREATE TABLE signed (id bigint PRIMARY KEY) WITH (connector = 'webhook') VALIDATE SECRET key
       AS secure_compare(headers->>'x-signature', 'sha256=' || encode(hmac(key, payload, 'sha256'), 'hex'))`,
      );
      const sign = { header: 'x-signature', key: 'first' };
      const ws = await open(t, doors, 'signed', { sign });
      ws.send(1, [upsert({ id: 1 })]);
      await ws.acked(1);
      const stranger = await open(t, doors, 'signed', { sign: { ...sign, key: 'other' } });
      stranger.send(1, [upsert({ id: 2 })]);
      assert.deepEqual(await stranger.ended, {
        code: 1008,
        fatal: 'Signature verification failed',
        acks: [],
      });
      await client.query(`ALTER SECRET key AS 'second'`);
      // A changed secret is known within a second.
      let id = 2;
      const acked = () => ws.acked(id).then(() => true, () => false); // prettier-ignore
      for (ws.send(id, [upsert({ id: 3 })]); await acked(); ws.send(id, [upsert({ id: 3 })])) id += 1;
      const { code, fatal } = await ws.ended;
      assert.deepEqual([code, fatal], [1008, `dml_batch_id ${id}: Signature verification failed`]);
      const again = await open(t, doors, 'signed', { sign: { ...sign, key: 'second' } });
      again.send(1, [upsert({ id: 4 })]);
      await again.acked(1);
      assert.deepEqual(await rows('SELECT id FROM signed WHERE id <> 3 ORDER BY id'), [['1'], ['4']]);
    },
  );

  await t.test(
    "WebSocket batches are repeated by the client when the engine's connection is lost",
    async (t) => {
      await client.query(`CREATE TABLE cut (id bigint PRIMARY KEY, n int) WITH (connector = 'webhook')`);
      const sender = new WsSender(() => urlOf(doors, 'cut'));
      onEnd(t, 'sender', () => sender.stop());
      const model = new Map<number, number>();
      for (let n = 0; n < 400; n++) {
        const id = (n * 7) % 50;
        const gone = n % 9 === 0;
        sender.send([gone ? { op: 'delete', data: { id } } : upsert({ id, n })]);
        if (gone) model.delete(id);
        else model.set(id, n);
        if (n % 50 === 25) {
          await client.query(
            `select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'headgate commit%'`,
          );
        }
      }
      await sender.drained();
      const stored = await rows('SELECT id, n FROM cut ORDER BY id');
      assert.deepEqual(
        stored,
        [...model].sort(([a], [b]) => a - b).map((row) => row.map(String)),
      );
    },
  );

  await t.test('the documented WebSocket example sends batches', async (t) => {
    await client.query(`CREATE SECRET example WITH (backend = 'meta') AS 'k'`);
    await client.query(
      `CREATE TABLE documented (id bigint PRIMARY KEY, amount numeric) WITH (connector = 'webhook') VALIDATE SECRET example
       AS secure_compare(headers->>'x-signature', encode(hmac(example, payload, 'sha256'), 'hex'))`,
    );
    const page = readFileSync(join(root, 'docs/http.md'), 'utf8');
    const code = /```js\n([^]*?)```/.exec(page)?.[1] ?? '';
    const folder = await temporaryFolder(t);
    symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
    writeFileSync(
      join(folder, 'example.mjs'),
      code.replace(/'ws:[^']*'/, JSON.stringify(urlOf(doors, 'documented'))),
    );
    const child = spawn(process.execPath, ['example.mjs'], {
      cwd: folder,
      env: { KEY: 'k' },
      stdio: 'inherit',
    });
    const exited = new Promise((resolve) => child.once('exit', resolve));
    onEnd(t, 'example', async () => {
      child.kill();
      await exited;
    });
    await within(10_000, async () =>
      assert.deepEqual(await rows('SELECT * FROM documented'), [['1', '12.5']]),
    );
  });
});
