/**
 * Requests of one delivery id with different bodies: nothing that was answered with a 2xx is lost, whoever sent it, and by whichever door.
 * What the senders do is taken from their own sources, which are named where it is used.
 */
import assert from 'node:assert/strict';
import { createHmac, randomUUID } from 'node:crypto';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import type { Client } from 'pg';
import { asked } from '../support/asked.ts';
import { sharedHeadgate, startHeadgate, temporaryFolder } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { MortalServer } from '../support/mortal-server.ts';
import { SpoolStage } from '../support/spool-stage.ts';
import { within } from '../support/within.ts';
import { WsClient } from '../support/ws-client.ts';

const keptAnswer = { status: 202, text: '{"rows":0,"kept":1,"code":"delivery_differs"}' };

interface Kept {
  readonly id: string;
  readonly status: number;
  readonly code: string;
  readonly door: string;
  readonly body: Buffer;
  readonly retry_outcome: string | null;
}

const shared = sharedHeadgate();

class Room {
  readonly headgate: Headgate;
  readonly client: Client;

  constructor(headgate: Headgate, client: Client) {
    this.headgate = headgate;
    this.client = client;
  }

  /** Its tables are in a Headgate of several tests, unless that needs settings of its own. */
  static async open(t: TestContext, ddl: string, args: readonly string[] = []): Promise<Room> {
    const headgate = args.length === 0 ? await shared() : await startHeadgate(t, { args });
    const client = await headgate.client(t);
    await client.query(ddl);
    return new Room(headgate, client);
  }

  post(table: string, body: string | Buffer, headers: Record<string, string> = {}) {
    return this.headgate.post(`dev/public/${encodeURIComponent(table)}`, body, headers);
  }

  /** What the owner of the table finds of authentic requests, at this moment. */
  async kept(table: string): Promise<Kept[]> {
    const { rows } = await this.client.query<Kept>(
      `SELECT id::text, status, code, door, body, retry_outcome FROM headgate.rejected_requests
        WHERE table_name = $1 AND authenticated ORDER BY id`,
      [table],
    );
    return rows;
  }

  /** Stores them all, by the statement that the documentation shows. */
  async retryAll(table: string): Promise<void> {
    await this.client.query(
      `SELECT headgate.retry_rejected(id) FROM headgate.rejected_requests WHERE table_name = $1 AND code = 'delivery_differs'`,
      [table],
    );
    await within(60_000, async () =>
      assert.deepEqual(
        (await this.kept(table)).map((it) => it.retry_outcome),
        (await this.kept(table)).map(() => 'committed'),
      ),
    );
  }
}

/**
 * WooCommerce, plugins/woocommerce/includes/class-wc-webhook.php: the body is the JSON of one order, the signature its HMAC in base64, the
 * delivery id wp_hash(<id of the webhook> . strtotime('now')), i.e. an HMAC-MD5 that is the same for all deliveries of one second. A
 * delivery whose answer is neither 2xx, 301 nor 302 counts as failed, and after five in a row the webhook is disabled.
 */
function wooCommerce(
  key: string,
  second: number,
  order: object,
): { body: string; headers: Record<string, string> } {
  const body = JSON.stringify(order);
  return {
    body,
    headers: {
      'Content-Type': 'application/json',
      'X-WC-Webhook-Topic': 'order.created',
      'X-WC-Webhook-ID': '7',
      'X-WC-Webhook-Signature': createHmac('sha256', key).update(body).digest('base64'),
      'X-WC-Webhook-Delivery-ID': createHmac('md5', 'the site’s salt').update(`7${second}`).digest('hex'),
    },
  };
}

test('four WooCommerce orders with one delivery id are stored or kept for the owner unchanged, each with a 2xx', async (t) => {
  const room = await Room.open(
    t,
    `CREATE SECRET woo WITH (backend = 'meta') AS 'ck_secret';
     CREATE TABLE orders (data JSONB) WITH (connector = 'webhook', dedupe = 'header:x-wc-webhook-delivery-id')
       VALIDATE SECRET woo USING woocommerce`,
  );
  const orders = [1, 2, 3, 4].map((id) =>
    wooCommerce('ck_secret', 1_764_000_000, { id, total: `${id}0.00`, note: 'é "\\' }),
  );
  for (const { body, headers } of orders) {
    const { status } = await room.post('orders', body, headers);
    assert(status >= 200 && status < 300, `${status}`);
  }
  // Not a moment later: an answer was given because they were there.
  const kept = await room.kept('orders');
  const { rows } = await room.client.query<{ id: number }>(`SELECT (data->>'id')::int AS id FROM orders`);
  const stored = rows.map(({ id }) => id);
  assert.equal(stored.length, 1);
  assert.deepEqual(
    kept.map(({ body }) => body),
    orders.filter((_, i) => !stored.includes(i + 1)).map(({ body }) => Buffer.from(body)),
  );
  for (const { code, status, door } of kept)
    assert.deepEqual([code, status, door], ['delivery_differs', 200, 'http']);
  // A copy of each gets the answer that the first one got, and is kept nowhere.
  for (const { body, headers } of orders)
    assert.equal((await room.post('orders', body, headers)).status, 200);
  assert.equal((await room.kept('orders')).length, 3);
  // Whoever has no key puts nothing there.
  const [first] = orders;
  assert.equal((await room.post('orders', '{"id":5}', first?.headers)).status, 401);

  await room.retryAll('orders');
  const all = await room.client.query<{ id: number }>(
    `SELECT (data->>'id')::int AS id FROM orders ORDER BY 1`,
  );
  assert.deepEqual(
    all.rows.map(({ id }) => id),
    [1, 2, 3, 4],
  );
  const metrics = (await asked(`${room.headgate.adminUrl}/metrics`)).text;
  assert.match(
    metrics,
    /^headgate_deliveries_differing_total\{database="dev",schema="public",table="orders"\} 6$/m,
  );
  await within(5_000, async () => {
    const { rows: traffic } = await room.client.query<{ n: number }>(
      `SELECT coalesce(sum(refused), 0)::int AS n FROM headgate.traffic WHERE table_name = 'orders'`,
    );
    assert.equal(traffic[0]?.n, 6);
  });
});

/**
 * GitLab, lib/gitlab/web_hooks/recursion_detection/uuid.rb: a request that was made by a webhook hands its UUID on to the webhooks that it
 * triggers, so a cascade of events has one X-Gitlab-Event-UUID.
 */
test('of GitLab events that share an id and arrive together one is stored, the others are kept for the owner', async (t) => {
  const room = await Room.open(
    t,
    `CREATE SECRET lab WITH (backend = 'meta') AS 'token';
     CREATE TABLE events (data JSONB) WITH (connector = 'webhook', dedupe = 'header:x-gitlab-event-uuid')
       VALIDATE SECRET lab USING gitlab`,
  );
  const uuid = randomUUID();
  const bodies = Array.from({ length: 40 }, (_, i) =>
    JSON.stringify({ object_kind: 'note', object_attributes: { id: i } }),
  );
  const answers = await Promise.all(
    bodies.map((body) =>
      room.post('events', body, { 'X-Gitlab-Token': 'token', 'X-Gitlab-Event-UUID': uuid }),
    ),
  );
  assert(answers.every(({ status }) => status >= 200 && status < 300));
  const { rows } = await room.client.query<{ data: object }>('SELECT data FROM events');
  const found = [
    ...rows.map(({ data }) => data),
    ...(await room.kept('events')).map(({ body }) => JSON.parse(String(body))),
  ];
  const number = (it: unknown) => (it as { object_attributes: { id: number } }).object_attributes.id;
  assert.deepEqual(
    found.map(number).toSorted((a, b) => a - b),
    bodies.map((_, i) => i),
  );
  assert.equal(rows.length, 1);
});

/** Stripe’s API reference: `pending_webhooks` is the number of endpoints that have not accepted the event yet; the event is otherwise the same. */
test('a Stripe event repeated with another pending_webhooks is a copy, and one with other data is kept for the owner', async (t) => {
  const room = await Room.open(
    t,
    `CREATE SECRET s WITH (backend = 'meta') AS 'whsec_x';
     CREATE TABLE st (data JSONB) WITH (connector = 'webhook', dedupe = 'sender') VALIDATE SECRET s USING stripe;
     CREATE TABLE by_id (data JSONB) WITH (connector = 'webhook', dedupe = '$.id', dedupe_compare = 'id')`,
  );
  const event = (pending: number, amount: number) =>
    JSON.stringify({
      id: 'evt_1',
      object: 'event',
      pending_webhooks: pending,
      type: 'invoice.paid',
      data: { object: { amount } },
    });
  const post = (body: string) => {
    const time = Math.floor(Date.now() / 1_000);
    const signature = createHmac('sha256', 'whsec_x').update(`${time}.${body}`).digest('hex');
    return room.post('st', body, { 'Stripe-Signature': `t=${time},v1=${signature}` });
  };
  for (const body of [event(2, 5), event(1, 5), event(0, 5)]) assert.equal((await post(body)).status, 200);
  assert.deepEqual(await room.kept('st'), []);
  assert.equal((await post(event(0, 6))).status, 200);
  assert.deepEqual(
    (await room.kept('st')).map(({ body }) => String(body)),
    [event(0, 6)],
  );
  const { rows } = await room.client.query<{ 'Create Sql': string }>('SHOW CREATE TABLE st');
  assert.match(
    rows[0]?.['Create Sql'] ?? '',
    /dedupe = '\$\.id',\n {2}dedupe_compare = '\$\.type, \$\.data'/,
  );
  // Whoever wants it as it was.
  for (const body of [event(2, 5), event(1, 6)]) assert.equal((await room.post('by_id', body)).status, 200);
  assert.deepEqual(await room.kept('by_id'), []);
  for (const [sql, code] of [
    [`ALTER TABLE by_id SET (dedupe_compare = 'everything')`, '22023'],
    [`ALTER TABLE by_id SET (dedupe_compare = 'header:authorization')`, '22023'],
    [
      `CREATE TABLE z (data JSONB) WITH (connector = 'webhook', is_batched = true, dedupe = 'header:a', dedupe_compare = '$.a')`,
      '0A000',
    ],
  ] as const)
    await assert.rejects(room.client.query(sql), { code });
  // A statement that names only the id compares bodies again: of deliveries from then on.
  await room.client.query(`ALTER TABLE by_id SET (dedupe = '$.id')`);
  await within(5_000, async () => {
    const id = randomUUID();
    assert.equal((await room.post('by_id', JSON.stringify({ id, n: 1 }))).status, 200);
    assert.equal((await room.post('by_id', JSON.stringify({ id, n: 2 }))).status, 202);
  });
});

test('conflicting deliveries of 20 MB, in batches, over WebSockets and to oddly named tables are kept for the owner', async (t) => {
  const name = `we"ird\n'; t`;
  const quoted = `"${name.replaceAll('"', '""')}"`;
  const room = await Room.open(
    t,
    `CREATE TABLE ${quoted} (data JSONB) WITH (connector = 'webhook', dedupe = 'header:x-id', spool_status = '200');
     CREATE TABLE lines (n INT) WITH (connector = 'webhook', is_batched = true, dedupe = 'header:x-id');
     CREATE TABLE many (data JSONB) WITH (connector = 'webhook', dedupe = '$.id')`,
  );
  const large = Buffer.from(`{"text":"${'x'.repeat(20_000_000)}"}`);
  assert.equal((await room.post(name, '{"first":1}', { 'x-id': 'a' })).status, 200);
  const answer = await room.post(name, large, { 'x-id': 'a' });
  assert.deepEqual(
    [answer.status, answer.text, answer.headers.get('headgate-stored')],
    [200, keptAnswer.text, 'rejected_requests'],
  );
  const [kept] = await room.kept(name);
  assert(kept?.body.equals(large) === true);
  await room.retryAll(name);
  const { rows } = await room.client.query<{ n: number }>(
    `SELECT length(data->>'text') AS n FROM ${quoted} WHERE data ? 'text'`,
  );
  assert.equal(rows[0]?.n, 20_000_000);

  assert.equal((await room.post('lines', '{"n":1}\n{"n":2}\n', { 'x-id': 'b' })).status, 200);
  assert.deepEqual(
    (await room.post('lines', '{"n":1}\n{"n":3}\n', { 'x-id': 'b' })).text,
    '{"rows":0,"kept":2,"code":"delivery_differs"}',
  );
  await room.retryAll('lines');
  const lines = await room.client.query<{ n: number }>('SELECT n FROM lines ORDER BY n');
  assert.deepEqual(
    lines.rows.map(({ n }) => n),
    [1, 1, 2, 3],
  );

  // A WebSocket: its client still has the batch, and reads that it was not taken; what comes behind it takes no effect.
  const url = `ws://127.0.0.1:${room.headgate.ports.listen.port}/ingest/dev/public/many`;
  const item = (id: string, n: number) => ({ op: 'insert', data: { id, n } }) as const;
  const socket = await WsClient.open(url);
  socket.send(1, [item('a', 1), item('b', 2)]);
  await socket.acked(1);
  socket.send(2, [item('c', 1)]);
  socket.send(3, [item('a', 1), item('b', 3)]);
  socket.send(4, [item('d', 1)]);
  assert.match((await socket.ended).fatal ?? '', /another delivery with this id, and another body/);
  await within(5_000, async () =>
    assert.deepEqual(
      (await room.kept('many')).map(({ code, status, door }) => [code, status, door]),
      [['delivery_differs', 409, 'websocket']],
    ),
  );
  const { rows: many } = await room.client.query(`SELECT data->>'id' AS id FROM many ORDER BY 1`);
  assert.deepEqual(many, [{ id: 'a' }, { id: 'b' }, { id: 'c' }]);
});

test('a conflicting delivery that cannot be kept is answered 503, so that its sender repeats it', async (t) => {
  const room = await Room.open(
    t,
    `CREATE TABLE t (data JSONB) WITH (connector = 'webhook', dedupe = '$.id')`,
    ['--rejected-rows-max=0'],
  );
  assert.equal((await room.post('t', '{"id":1}')).status, 200);
  const holder = await room.headgate.client(t);
  await holder.query('BEGIN; LOCK TABLE headgate.rejected_requests IN ACCESS EXCLUSIVE MODE');
  const { status, text } = await room.post('t', '{"id":1,"n":2}');
  assert.equal(status, 503, text);
  // Copies and others are not held up.
  assert.equal((await room.post('t', '{"id":1}')).status, 200);
  assert.equal((await room.post('t', '{"id":2}')).status, 200);
  await holder.query('ROLLBACK');
  const again = await room.post('t', '{"id":1,"n":2}');
  assert.deepEqual([again.status, again.text], [202, keptAnswer.text]);
  // Also where no other refused request is kept, and it stays whatever is trimmed.
  await room.retryAll('t');
  assert.equal((await room.kept('t')).length, 1);
  const { rows } = await room.client.query('SELECT FROM t');
  assert.equal(rows.length, 3);
});

test("dedupe = 'off' forgets the ids of deliveries, which are stored again after dedupe is switched on", async (t) => {
  const room = await Room.open(
    t,
    `CREATE TABLE switched (data JSONB) WITH (connector = 'webhook', dedupe = '$.id');
     CREATE TABLE other (data JSONB) WITH (connector = 'webhook', dedupe = '$.id')`,
  );
  for (const table of ['switched', 'switched', 'other'])
    assert.equal((await room.post(table, '{"id":1}')).status, 200);
  await room.client.query(`ALTER TABLE switched SET (dedupe = 'off')`);
  const { rows: known } = await room.client.query(
    `SELECT relation::text FROM headgate.delivery WHERE relation IN ('switched'::regclass, 'other'::regclass)`,
  );
  assert.deepEqual(known, [{ relation: 'other' }]);
  await room.client.query(`ALTER TABLE switched SET (dedupe = '$.id')`);
  await within(5_000, async () => {
    await room.post('switched', '{"id":1}');
    const { rows } = await room.client.query('SELECT FROM switched');
    assert.equal(rows.length, 2);
  });
  assert.equal((await room.post('switched', '{"id":1}')).status, 200);
  const { rows } = await room.client.query('SELECT FROM switched');
  assert.equal(rows.length, 2);
});

test('a refused request whose delivery id was taken meanwhile is stored by its second retry', async (t) => {
  const room = await Room.open(
    t,
    `CREATE TABLE taken (id INT CHECK (id > 0), n INT) WITH (connector = 'webhook', dedupe = '$.n')`,
  );
  assert.equal((await room.post('taken', '{"id":-1,"n":1}')).status, 422);
  assert.equal((await room.post('taken', '{"id":2,"n":1}')).status, 200);
  await room.client.query('ALTER TABLE taken DROP CONSTRAINT taken_id_check');
  await within(5_000, async () => assert.equal((await room.kept('taken')).length, 1));
  await room.client.query(
    'SELECT headgate.retry_rejected(id) FROM headgate.rejected_requests WHERE table_name = $1',
    ['taken'],
  );
  await within(5_000, async () =>
    assert.equal((await room.kept('taken'))[0]?.retry_outcome, 'delivery_differs'),
  );
  await room.retryAll('taken');
  const { rows } = await room.client.query('SELECT id FROM taken ORDER BY id');
  assert.deepEqual(rows, [{ id: -1 }, { id: 2 }]);
});

test("a spooled request with another delivery's id is kept for its owner, and its neighbours are stored", async (t) => {
  const server = await MortalServer.start(t);
  const stage = new SpoolStage(t, server, await temporaryFolder(t));
  await stage.startHeadgate();
  await stage.sql(
    `CREATE TABLE k (data JSONB) WITH (connector = 'webhook', spool = 'fallback', dedupe = '$.id')`,
  );
  const body = (id: number, n: number) => JSON.stringify({ id, n });
  assert.deepEqual(await stage.statuses('k', [body(1, 1)]), [200]);
  // What the spool knows of the table is on the disk: each process of several reads it there.
  await within(60_000, async () =>
    assert(statSync(join(stage.folder, 'postgres', 'tables.sealed')).size > 400),
  );
  await stage.killServer();
  assert.deepEqual(
    await stage.statuses('k', [body(1, 1), body(2, 1), body(1, 2), body(2, 2), body(3, 1)]),
    [202, 202, 202, 202, 202],
  );
  await server.start();
  await stage.untilDirect('k', body(9, 1));
  const kept = await stage.ask<Kept>(`select body, door, code from headgate.rejected_requests order by id`);
  assert.deepEqual(
    kept.map((it) => [it.door, it.code, String(it.body)]),
    [
      ['spool', 'delivery_differs', body(1, 2)],
      ['spool', 'delivery_differs', body(2, 2)],
    ],
  );
  assert.deepEqual(await stage.ids('k'), [1, 2, 3, 9]);
  await stage.sql('SELECT headgate.retry_rejected(id) FROM headgate.rejected_requests');
  await within(60_000, async () => assert.deepEqual(await stage.ids('k'), [1, 1, 2, 2, 3, 9]));
});
