/** The option `version` at every door of the running program: an older row changes nothing, whichever way it comes, and its sender is told so. */
import assert from 'node:assert/strict';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { asked } from '../support/asked.ts';
import { commandsOf } from '../support/docs.ts';
import { onSomeEngine } from '../support/doors.ts';
import { temporaryFolder } from '../support/headgate.ts';
import { MortalServer } from '../support/mortal-server.ts';
import { SpoolStage } from '../support/spool-stage.ts';
import { within } from '../support/within.ts';
import { WsClient } from '../support/ws-client.ts';

const tables = `
  CREATE TABLE orders (id INT PRIMARY KEY, seen BIGINT, note TEXT) WITH (connector = 'webhook', version = 'seen');
  CREATE TABLE lines (id INT PRIMARY KEY, seen BIGINT, note TEXT) WITH (connector = 'webhook', version = 'seen', is_batched = true);
  CREATE TABLE headed (id INT PRIMARY KEY, seen BIGINT) INCLUDE HEADER 'x-seen' AS seen WITH (connector = 'webhook', version = 'header:X-Seen');
  CREATE TABLE objects (data JSONB, id TEXT GENERATED ALWAYS AS (data #>> '{object,id}') STORED PRIMARY KEY)
    WITH (connector = 'webhook', version = '$.object.updated_at::timestamptz');
  CREATE ROLE newest_owner LOGIN;
  CREATE TABLE theirs (id INT PRIMARY KEY, seen BIGINT, note TEXT) WITH (connector = 'webhook', version = 'seen');
  CREATE FUNCTION said() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN NEW.note := NEW.note || ' by ' || current_user; RETURN NEW; END$$;
  CREATE TRIGGER said BEFORE INSERT ON theirs FOR EACH ROW EXECUTE FUNCTION said();
  ALTER FUNCTION said() OWNER TO newest_owner; ALTER TABLE theirs OWNER TO newest_owner`;

onSomeEngine(
  'tables with the option version keep the newest row of each key',
  async (t, { headgate, client, database, post, rows }) => {
    await client.query(tables);
    const order = (id: number, seen: number | null, note: string) => JSON.stringify({ id, seen, note });
    const answer = async (posted: ReturnType<typeof post>) => {
      const { status, text } = await posted;
      return `${status} ${text}`;
    };

    await t.test('webhooks to a table with version store only newer rows, alone and in batches', async () => {
      assert.equal(await answer(post('orders', order(1, 5, 'five'))), '200 {"rows":1}');
      assert.equal(await answer(post('orders', order(1, 4, 'four'))), '200 {"rows":0,"stale":1}');
      assert.equal(await answer(post('orders', order(1, 5, 'again'))), '200 {"rows":0,"stale":1}');
      assert.match(await answer(post('orders', order(1, null, 'none'))), /^422 .*version_missing/);
      assert.match(await answer(post('orders', '{"id":1,"note":"none"}')), /^422 .*version_missing/);
      assert.deepEqual(await rows('SELECT * FROM orders'), [['1', '5', 'five']]);
      const batch = [order(1, 5, 'five'), order(2, 1, 'one'), order(1, 6, 'six'), order(2, 1, 'again')].join(
        '\n',
      );
      assert.equal(await answer(post('lines', batch)), '200 {"rows":3,"stale":1}');
      assert.match(await answer(post('lines', `${order(3, 1, '')}\n${order(4, null, '')}`)), /^422 .*line 2/);
      for (const [seen, reply] of [
        ['10', '{"rows":1}'],
        ['9', '{"rows":0,"stale":1}'],
      ] as const)
        assert.equal(await answer(post('headed', '{"id":1}', { 'x-seen': seen })), `200 ${reply}`);
      assert.match(await answer(post('headed', '{"id":1,"seen":99}')), /^422 .*version_missing/);
      const object = (at: string) => JSON.stringify({ object: { id: 'o', updated_at: at } });
      assert.equal(await answer(post('objects', object('2026-01-01T00:00:00.5Z'))), '200 {"rows":1}');
      assert.equal(await answer(post('objects', object('2026-01-01T00:00:00Z'))), '200 {"rows":0,"stale":1}');
      assert.match(await answer(post('objects', object('yesterday'))), /^422/);
    });

    await t.test('deletions over a WebSocket leave a tombstone, which no older row passes', async () => {
      const url = (table: string) =>
        `ws://127.0.0.1:${headgate.ports.listen.port}/ingest/${database}/public/${table}`;
      const socket = await WsClient.open(url('orders'));
      socket.send(1, [
        { op: 'upsert', data: { id: 7, seen: 3, note: 'three' } },
        { op: 'delete', data: { id: 7, seen: 2 } },
        { op: 'delete', data: { id: 8, seen: 9 } },
      ]);
      socket.send(2, [{ op: 'upsert', data: { id: 8, seen: 8, note: 'late' } }]);
      await socket.acked(2);
      assert.deepEqual(await rows('SELECT id FROM orders WHERE id > 6'), [['7']]);
      assert.equal(await answer(post('orders', order(8, 9, 'late'))), '200 {"rows":0,"stale":1}');
      assert.equal(await answer(post('orders', order(8, 10, 'new'))), '200 {"rows":1}');
      socket.send(3, [{ op: 'delete', data: { id: 7 } }]);
      assert.match((await socket.ended).fatal ?? '', /does not say how new/);
      const headed = await WsClient.open(url('headed'), { headers: { 'x-seen': '11' } });
      assert.match((await headed.ended).fatal ?? '', /version is a header/);
    });

    await t.test('the option version works for the events gateway, with small and large bodies', async () => {
      const events = async (body: string, query = '&on_conflict=update') => {
        const url = `${headgate.gatewayUrl}/v1/events?name=orders&database=${database}${query}`;
        const { status, text } = await asked(url, { method: 'POST', body });
        return `${status} ${text}`;
      };
      assert.equal(await events(`${order(20, 5, 'five')}\n${order(21, 5, 'five')}`), '200 {"rows":2}');
      assert.equal(
        await events(`${order(20, 4, 'four')}\n${order(21, 6, 'six')}\n${order(8, 9, 'deleted')}`),
        '200 {"rows":1,"stale":2}',
      );
      for (const query of ['', '&on_conflict=ignore', '&on_conflict=error'])
        assert.match(await events(order(22, 1, ''), query), /^400 .*has the option version/);
      assert.match(await events(order(22, null, '')), /^422 .*version_missing/);
      const begun = performance.now();
      const many = Array.from({ length: 20_000 }, (_, i) =>
        order(100 + (i % 10_000), i < 10_000 ? 2 : 1, 'x'.repeat(60)),
      );
      assert.equal(await events(many.join('\n')), '200 {"rows":10000,"stale":10000}');
      assert(performance.now() - begun < 15_000, 'many rows of one key are no work of the square');
      assert.equal(
        await events(`${order(23, null, '')}\n${order(24, 1, '')}`, '&on_conflict=update&on_error=skip').then(
          (it) => it.slice(0, 40),
        ),
        '200 {"rows":1,"skipped":[{"line":1,"error"'.slice(0, 40),
      );
    });

    await t.test('the option version works in a table whose code runs as its owner', async () => {
      await client.query('SET ROLE newest_owner').catch(() => undefined);
      await client.query('RESET ROLE');
      assert.equal(await answer(post('theirs', order(1, 5, 'five'))), '200 {"rows":1}');
      assert.equal(await answer(post('theirs', order(1, 4, 'four'))), '200 {"rows":0,"stale":1}');
      const socket = await WsClient.open(
        `ws://127.0.0.1:${headgate.ports.listen.port}/ingest/${database}/public/theirs`,
      );
      socket.send(1, [{ op: 'delete', data: { id: 1, seen: 5 } }]);
      await socket.acked(1);
      assert.equal(await answer(post('theirs', order(1, 5, 'five'))), '200 {"rows":0,"stale":1}');
      assert.equal(await answer(post('theirs', order(1, 6, 'six'))), '200 {"rows":1}');
      assert.deepEqual(await rows('SELECT note FROM theirs'), [['six by newest_owner']]);
    });

    await t.test('a retry into a table with version is stored only if it is still the newest', async () => {
      await client.query('ALTER TABLE orders ADD CONSTRAINT short CHECK (length(note) < 100)');
      const long = order(30, 5, 'x'.repeat(100));
      assert.match(await answer(post('orders', long)), /^422 .*short/);
      assert.equal(await answer(post('orders', order(30, 6, 'six'))), '200 {"rows":1}');
      await client.query('ALTER TABLE orders DROP CONSTRAINT short');
      const kept = `FROM headgate.rejected_requests WHERE table_name = 'orders' AND reason LIKE '%short%'`;
      await within(5_000, async () => assert.equal((await rows(`SELECT 1 ${kept}`)).length, 1));
      await client.query(`SELECT headgate.retry_rejected(id) ${kept}`);
      await within(5_000, async () =>
        assert.deepEqual(await rows(`SELECT retry_outcome, retry_reason ${kept}`), [
          ['committed', '1 not newer than what the table has'],
        ]),
      );
      assert.deepEqual(await rows('SELECT note FROM orders WHERE id = 30'), [['six']]);
    });

    await t.test('the documented statements of the option version are accepted', async () => {
      for (const [page, name] of [
        ['docs/sql/statements.md', 'version'],
        ['docs/thin-events.md', 'events'],
        ['docs/thin-events.md', 'objects'],
      ] as const)
        await client.query(
          `DROP TABLE IF EXISTS customers; ${(await commandsOf(page, name)).replace('TABLE objects', 'TABLE objects_of_page')}`,
        );
      // Also by a dump of it: what SHOW CREATE TABLE says makes the same table.
      const [shown] = await rows('SHOW CREATE TABLE changes');
      await client.query('DROP TABLE changes');
      await client.query(shown?.[1] ?? '');
      assert.deepEqual((await rows('SHOW CREATE TABLE changes'))[0], shown);
    });

    await t.test('stale rows of tables with version are counted in the metrics', async () => {
      const { text } = await asked(`${headgate.adminUrl}/metrics`);
      assert.match(
        text,
        new RegExp(
          `^headgate_rows_stale_total\\{database="${database}",schema="public",table="lines"\\} 1$`,
          'm',
        ),
      );
      await within(15_000, async () => {
        const shown = await client.query<{ Name: string; Stale: string }>('SHOW ENDPOINTS');
        const stale = Object.fromEntries(shown.rows.map((it) => [it.Name, it.Stale]));
        assert.deepEqual([stale['lines'], stale['headed'], stale['objects']], ['1', '1', '1']);
      });
      assert.deepEqual(await rows(`SELECT sum(stale) FROM headgate.traffic WHERE table_name = 'lines'`), [
        ['1'],
      ]);
    });
  },
);

void test('a table with version stores spooled rows only if they are newer', async (t) => {
  const server = await MortalServer.start(t);
  const stage = new SpoolStage(t, server, await temporaryFolder(t));
  await stage.startHeadgate();
  await stage.sql(
    `CREATE TABLE orders (id INT PRIMARY KEY, seen INT, note TEXT) WITH (connector = 'webhook', version = 'seen', spool = 'fallback')`,
  );
  await within(10_000, async () => {
    await delay(10);
    assert(statSync(join(stage.folder, 'postgres', 'tables.sealed')).size > 500);
  });
  const order = (id: number, seen: number | null) => JSON.stringify({ id, seen, note: `v${seen}` });
  assert.equal((await stage.post('orders', order(1, 5))).text, '{"rows":1}');
  await stage.killServer();
  for (const seen of [7, 6, 4, null, 7])
    assert.equal((await stage.post('orders', order(1, seen))).status, 202);
  for (let id = 2; id < 50; id++) assert.equal((await stage.post('orders', order(id, 2))).status, 202);
  // What is kept survives its process, too.
  await stage.killHeadgate();
  await server.start();
  await stage.ask(`insert into orders values (2, 9, 'newer, by sql')`);
  await stage.startHeadgate();
  await within(20_000, async () => {
    await delay(20);
    assert.equal((await stage.ask('select from orders')).length, 49);
  });
  assert.deepEqual(await stage.ask('select seen, note from orders where id < 3 order by id'), [
    { seen: 7, note: 'v7' },
    { seen: 9, note: 'newer, by sql' },
  ]);
  await within(10_000, async () => {
    const { text } = await asked(`${stage.headgate.adminUrl}/metrics`);
    assert.match(text, /^headgate_rows_stale_total\{.*table="orders"\} [1-9]/m);
  });
  const refused = await stage.ask('select code from headgate.rejected_requests');
  assert.deepEqual(refused, [{ code: 'version_missing' }]);
});
