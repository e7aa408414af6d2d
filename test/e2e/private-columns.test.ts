/** Columns that only the owner's side sets (private): no request fills them, through whichever door it comes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import type { Client } from 'pg';
import { asked } from '../support/asked.ts';
import { startHeadgate, temporaryFolder } from '../support/headgate.ts';
import { MortalServer } from '../support/mortal-server.ts';
import { SpoolStage } from '../support/spool-stage.ts';
import { within } from '../support/within.ts';
import { WsClient } from '../support/ws-client.ts';

const columns = 'id INT PRIMARY KEY, note TEXT, done_at TIMESTAMPTZ, attempts INT NOT NULL DEFAULT 0';
const evil = (id: number) => ({ id, note: 'n', done_at: '2020-01-01', attempts: 99, DONE_AT: '2020-01-01' });

/** Every row is as the owner's side has left it. */
async function untouched(client: Client, table: string, count: number): Promise<void> {
  const { rows } = await client.query(
    `SELECT count(*)::int AS n, count(*) FILTER (WHERE done_at IS NULL AND attempts = 0 AND note = 'n')::int AS good FROM ${table}`,
  );
  assert.deepEqual(rows, [{ n: count, good: count }], table);
}

test('no port fills a private column', async (t) => {
  const headgate = await startHeadgate(t);
  const root = await headgate.client(t);
  const make = (name: string, options: string) =>
    root.query(
      `CREATE TABLE ${name} (${columns}) WITH (connector = 'webhook', private = 'done_at, Attempts'${options})`,
    );
  await make('orders', '');
  await make('forms', `, format = 'form'`);
  await make('batches', ', is_batched = true');
  await make('strict', `, on_unknown = 'reject'`);
  const post = (table: string, body: string, headers = {}) =>
    headgate.post(`dev/public/${table}`, body, headers);
  assert.equal((await post('orders', JSON.stringify(evil(1)))).status, 200);
  assert.equal((await post('forms', 'id=1&note=n&done_at=2020-01-01&attempts=99')).status, 200);
  const lines = [1, 2, 3].map((id) => JSON.stringify(evil(id))).join('\n');
  assert.equal((await post('batches', lines)).status, 200);
  const strict = await post('strict', JSON.stringify(evil(1)));
  assert.deepEqual([strict.status, /key_unknown/.test(strict.text)], [422, true]);
  await untouched(root, 'orders', 1);
  await untouched(root, 'forms', 1);
  await untouched(root, 'batches', 3);

  await t.test('a WebSocket never fills a private column: insert, upsert and update', async () => {
    const client = await WsClient.open(
      `ws://127.0.0.1:${headgate.ports.listen.port}/ingest/dev/public/orders`,
    );
    client.send(1, [
      { op: 'insert', data: evil(2) },
      { op: 'upsert', data: evil(3) },
      { op: 'update', data: evil(1) },
    ]);
    await client.acked(1);
    await client.close();
    await untouched(root, 'orders', 3);
  });

  await t.test('an upsert leaves private columns unchanged', async () => {
    await root.query('UPDATE orders SET done_at = now(), attempts = 7 WHERE id = 3');
    assert.equal((await post('orders', '{"id":3,"note":"again","attempts":0,"done_at":null}')).status, 200);
    const { rows } = await root.query(
      'SELECT note, attempts, done_at IS NOT NULL AS done FROM orders WHERE id = 3',
    );
    assert.deepEqual(rows, [{ note: 'again', attempts: 7, done: true }]);
    await root.query('DELETE FROM orders WHERE id = 3');
  });

  await t.test(
    'POST /v1/events never fills a private column, on every path and with a scoped token',
    async () => {
      await root.query(`CREATE TABLE parts (${columns.replace('PRIMARY KEY', 'NOT NULL')}) PARTITION BY RANGE (id)
      WITH (connector = 'webhook', private = 'done_at, attempts')`);
      await root.query('CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (1000)');
      const token = (await root.query<{ token: string }>('CREATE TOKEN app FOR INSERT ON orders')).rows[0];
      const value = Object.values(token ?? {}).find((it) => it.startsWith('hg')) ?? '';
      let id = 100;
      let sent = 0;
      for (const table of ['orders', 'parts', 'parts_1'])
        for (const query of ['', '&on_conflict=update', '&on_conflict=ignore', '&on_error=skip'])
          for (const authorization of table === 'orders' && value !== '' ? ['', `Bearer ${value}`] : ['']) {
            if (query.includes('update') && (authorization !== '' || table !== 'orders')) continue;
            if (query.includes('ignore') && table !== 'orders') continue;
            id += 1;
            const answer = await asked(`${headgate.gatewayUrl}/v1/events?name=${table}${query}`, {
              method: 'POST',
              body: JSON.stringify(evil(id)),
              headers: {
                'content-type': 'application/x-ndjson',
                ...(authorization === '' ? {} : { authorization }),
              },
            });
            assert.equal(answer.status, 200, answer.text);
            sent += table === 'orders' ? 1 : 0;
          }
      assert.equal(sent, 7);
      await untouched(root, 'orders', 2 + sent);
      await untouched(root, 'parts', 4);
      // A large body takes a transaction of its own.
      const large = Array.from({ length: 30_000 }, (_, i) => JSON.stringify(evil(10_000 + i))).join('\n');
      const answer = await asked(`${headgate.gatewayUrl}/v1/events?name=orders`, {
        method: 'POST',
        body: large,
        headers: { 'content-type': 'application/x-ndjson' },
      });
      assert.equal(answer.status, 200, answer.text);
      await untouched(root, 'orders', 2 + sent + 30_000);
    },
  );

  await t.test('a retried request never fills a private column', async () => {
    await root.query(
      "CREATE TABLE late (id INT PRIMARY KEY, note TEXT, done_at TIMESTAMPTZ, attempts INT DEFAULT 0, CHECK (id < 5)) WITH (connector = 'webhook', private = 'done_at, attempts')",
    );
    assert.equal((await post('late', JSON.stringify(evil(9)))).status, 422);
    await root.query('ALTER TABLE late DROP CONSTRAINT late_id_check');
    await within(10_000, async () => {
      const { rowCount } = await root.query(
        `SELECT FROM headgate.rejected_requests WHERE table_name = 'late'`,
      );
      assert.equal(rowCount, 1);
    });
    await root.query(
      `SELECT headgate.retry_rejected(id, force => true) FROM headgate.rejected_requests WHERE table_name = 'late'`,
    );
    await within(10_000, () => untouched(root, 'late', 1));
  });

  await t.test('the private option follows a renamed column, and ALTER TABLE changes it', async () => {
    await root.query('ALTER TABLE orders RENAME COLUMN done_at TO "Done, at"');
    const shown = async () =>
      (await root.query<{ 'Create Sql': string }>('SHOW CREATE TABLE orders')).rows[0]?.['Create Sql'] ?? '';
    assert.match(await shown(), /private = '"Done, at", attempts'/);
    await within(5_000, async () => {
      assert.equal((await post('orders', '{"id":5,"note":"n","Done, at":"2020-01-01"}')).status, 200);
      const { rows } = await root.query('SELECT "Done, at" IS NULL AS open FROM orders WHERE id = 5');
      assert.deepEqual(rows, [{ open: true }]);
    });
    // What SHOW CREATE TABLE prints makes the same table again.
    const text = await shown();
    await root.query('DROP TABLE orders');
    await root.query(text);
    assert.equal(await shown(), text);
    await root.query(`ALTER TABLE orders SET (private = '')`);
    assert.doesNotMatch(await shown(), /private/);
    await within(5_000, async () => {
      assert.equal((await post('orders', '{"id":6,"attempts":5}')).status, 200);
      assert.deepEqual((await root.query('SELECT attempts FROM orders WHERE id = 6')).rows, [
        { attempts: 5 },
      ]);
    });
  });

  await t.test(
    'invalid private columns are refused, and a table with changed columns reports it',
    async () => {
      const refuses = (columnList: string, rest: string, message: RegExp) =>
        assert.rejects(root.query(`CREATE TABLE x (${columnList}) ${rest}`), message);
      const of = (value: string, more = '') => `WITH (connector = 'webhook', private = '${value}'${more})`;
      await refuses('data JSONB', of('nothing'), /column "nothing" does not exist/);
      await refuses('data JSONB, n INT NOT NULL', of('n'), /NOT NULL and has no default/);
      await refuses('data JSONB', of('data'), /has a column that takes the body/);
      await refuses('data JSONB, h TEXT', `INCLUDE HEADER 'x' AS h ${of('h')}`, /filled from the request/);
      await refuses('data JSONB, d INT', of('d', `, document = 'd'`), /cannot take the body/);
      for (const wrong of ['a b', ',', 'a,', 'a,,b', '"a', "a''b"])
        await refuses('a INT', of(wrong), /private is a list of columns/);
      await refuses('a INT, b INT', of('a, "a"'), /private has "a" twice/);
      const notices: string[] = [];
      root.on('notice', ({ message = '', hint }) => notices.push(`${message} ${String(hint)}`));
      await root.query(`CREATE TABLE n1 (data JSONB, done_at TIMESTAMPTZ) WITH (connector = 'webhook')`);
      assert.match(
        notices.join('\n'),
        /because "done_at" has no default .*document = 'data'.*private = 'done_at'/,
      );
      notices.length = 0;
      await root.query(
        `CREATE TABLE n2 (data JSONB, done_at TIMESTAMPTZ) WITH (connector = 'webhook', private = 'done_at')`,
      );
      await root.query(`CREATE TABLE n3 (id INT, note TEXT) WITH (connector = 'webhook')`);
      await root.query(
        `CREATE TABLE n4 (data JSONB, done_at TIMESTAMPTZ) WITH (connector = 'webhook', document = '')`,
      );
      assert(!notices.join('\n').includes('no default'), notices.join('\n'));
      assert.equal((await post('n2', '{"any":1}')).status, 200);
      assert.deepEqual((await root.query('SELECT data, done_at FROM n2')).rows, [
        { data: { any: 1 }, done_at: null },
      ]);
    },
  );
});

test('a spooled request does not reveal private columns', async (t: TestContext) => {
  const server = await MortalServer.start(t);
  const stage = new SpoolStage(t, server, await temporaryFolder(t));
  await stage.startHeadgate();
  await stage.sql(
    `CREATE TABLE orders (${columns}) WITH (connector = 'webhook', spool = 'fallback', private = 'done_at, attempts')`,
  );
  await within(10_000, async () =>
    assert.equal((await stage.post('orders', JSON.stringify(evil(1)))).status, 200),
  );
  await stage.killServer();
  await within(10_000, async () =>
    assert.equal((await stage.post('orders', JSON.stringify(evil(2)))).status, 202),
  );
  await server.start();
  await within(20_000, async () =>
    assert.deepEqual(
      await stage.ask(`SELECT id, done_at, attempts FROM orders ORDER BY id`),
      [1, 2].map((id) => ({ id, done_at: null, attempts: 0 })),
    ),
  );
});
