/** Refused requests as a table: what is kept of them, who sees it, and what a retry does. */
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { suite, test } from 'node:test';
import type { Client } from 'pg';
import { sharedHeadgate } from '../support/headgate.ts';
import { within } from '../support/within.ts';

interface Row {
  readonly id: string;
  readonly status: number;
  readonly code: string;
  readonly reason: string;
  readonly authenticated: boolean;
  readonly target: string;
  readonly headers: Record<string, string>;
  readonly headers_left_out: string[];
  readonly body: Buffer | null;
  readonly body_bytes: string | null;
  readonly retry_outcome: string | null;
  readonly retry_reason: string | null;
}

/** Waits until `count` rows are there. */
async function rejected(client: Client, count: number, table = 't'): Promise<readonly Row[]> {
  let rows: readonly Row[] = [];
  await within(5_000, async () => {
    ({ rows } = await client.query<Row>(
      'select * from headgate.rejected_requests where table_name = $1 order by id',
      [table],
    ));
    assert.equal(rows.length, count);
  });
  return rows;
}

async function settled(client: Client, id: string): Promise<Row> {
  let row: Row | undefined;
  await within(5_000, async () => {
    const { rows } = await client.query<Row>('select * from headgate.rejected_requests where id = $1', [id]);
    row = rows[0];
    assert(
      row?.retry_outcome !== 'waiting' && row?.retry_outcome !== 'running' && row?.retry_outcome !== null,
    );
  });
  assert(row !== undefined);
  return row;
}

const shared = sharedHeadgate();

suite('refused requests are kept in headgate.rejected_requests', () => {
  test('rejected requests are kept with what their owner needs, without credentials', async (t) => {
    const headgate = await shared();
    const client = await headgate.client(t);
    await client.query(`CREATE SECRET s WITH (backend = 'meta') AS 'key';
      CREATE TABLE t (data JSONB) WITH (connector = 'webhook')
      VALIDATE SECRET s AS secure_compare(headers->>'x-proof', encode(hmac(s, data, 'sha256'), 'hex'))`);
    const proof = (body: string | Buffer) => createHmac('sha256', 'key').update(body).digest('hex');
    const post = (body: string | Buffer, headers: Record<string, string>, query = '') =>
      headgate.post(`dev/public/t${query}`, body, headers);
    assert.equal((await post('{}', { 'x-proof': proof('{}') })).status, 200);
    const secretive = {
      'x-proof': 'canary-1',
      authorization: 'Bearer canary-2',
      cookie: 'canary-3',
      'x-api-key': 'canary-4',
      'x-custom': 'shown',
    };
    const forged = Buffer.from([0, 255, 254, 39, 92]);
    assert.equal((await post(forged, secretive, '?token=canary-5&canary-6&a=b')).status, 401);
    assert.equal((await post('{"a":', { 'x-proof': proof('{"a":') })).status, 422);
    assert.equal((await post('{}', { 'x-proof': proof('{}'), 'content-encoding': 'zstd' })).status, 415);
    const large = Buffer.alloc(100_000, 0x20);
    assert.equal((await post(large, { 'x-proof': proof(large) })).status, 422);
    assert.equal((await post(large, { 'x-proof': 'forged' })).status, 401);
    assert.equal((await headgate.post('dev/public/nothing', '{}')).status, 404);
    const [first, second, third, fourth, fifth] = await rejected(client, 5);
    assert.equal(first?.code, 'signature_failed');
    assert.equal(first.status, 401);
    assert.equal(first.authenticated, false);
    assert.deepEqual(first.body, forged);
    assert.equal(first.target, '/webhook/dev/public/t?token=***&***&a=***');
    assert.equal(first.headers['x-custom'], 'shown');
    assert.deepEqual(first.headers_left_out.toSorted(), ['authorization', 'cookie', 'x-api-key', 'x-proof']);
    assert(!JSON.stringify(first).includes('canary'));
    assert.equal(second?.code, 'body_not_json');
    assert.equal(second.authenticated, true);
    assert.equal(second.body?.toString(), '{"a":');
    assert.equal(third?.code, 'encoding_unsupported');
    assert.equal(third.body, null);
    assert.equal(third.body_bytes, null);
    assert.deepEqual(fourth?.body, large);
    assert.equal(fifth?.body?.length, 64 * 1024);
    assert.equal(fifth.body_bytes, '100000');
    const summary = await client.query<{ code: string; requests: string }>(
      'select code, requests, last_reason, last_id from headgate.rejected_summary where table_name = $1 order by code',
      ['t'],
    );
    assert.deepEqual(
      summary.rows.map(({ code, requests }) => [code, requests]),
      [
        ['body_not_json', '2'],
        ['encoding_unsupported', '1'],
        ['signature_failed', '2'],
      ],
    );
  });

  test("rejected requests are visible to their table's owner only, and are dropped with it", async (t) => {
    const headgate = await shared();
    const root = await headgate.client(t);
    await root.query(`CREATE ROLE alice LOGIN; CREATE ROLE bob LOGIN;
      GRANT CREATE ON SCHEMA public TO alice, bob`);
    const alice = await headgate.clientAs(t, 'alice');
    const bob = await headgate.clientAs(t, 'bob');
    for (const [name, client] of Object.entries({ alice, bob })) {
      await client.query(`CREATE TABLE ${name}s (data JSONB) WITH (connector = 'webhook')`);
      assert.equal((await headgate.post(`dev/public/${name}s`, 'no json')).status, 422);
    }
    await rejected(root, 1, 'alices');
    const [bobs] = await rejected(root, 1, 'bobs');
    const seen = await alice.query<{ table_name: string }>(
      'select table_name from headgate.rejected_requests',
    );
    assert.deepEqual(seen.rows, [{ table_name: 'alices' }]);
    const summed = await alice.query<{ table_name: string }>(
      'select table_name from headgate.rejected_summary',
    );
    assert.deepEqual(summed.rows, [{ table_name: 'alices' }]);
    const where = 'PL/pgSQL function headgate.retry_rejected(bigint,boolean) line 6 at RAISE';
    await assert.rejects(alice.query('select headgate.retry_rejected($1)', [bobs?.id]), {
      code: 'P0002',
      where,
    });
    await assert.rejects(alice.query(`update headgate.rejected_requests set body = 'x'`), { code: '42501' });
    await assert.rejects(alice.query('insert into headgate.rejected_requests (code) values (1)'), {
      code: '42501',
    });
    await assert.rejects(alice.query('delete from headgate.rejected_requests'), { code: '42501' });
    const forget = 'select headgate.forget_rejected($1) as forgotten';
    const [alices] = await rejected(root, 1, 'alices');
    await assert.rejects(alice.query(forget, [bobs?.id]), { code: 'P0002' });
    assert.deepEqual((await alice.query(forget, [alices?.id])).rows, [{ forgotten: true }]);
    await assert.rejects(alice.query(forget, [alices?.id]), { code: 'P0002' });
    await bob.query('DROP TABLE bobs');
    await rejected(root, 0, 'bobs');
    await rejected(root, 0, 'alices');
  });
});

suite('headgate.retry_rejected stores refused requests', () => {
  test('retry_rejected stores requests that now fit, many at once, and returns each outcome', async (t) => {
    const headgate = await shared();
    const client = await headgate.client(t);
    await client.query(`CREATE TABLE fits (id int PRIMARY KEY, webhook text, arrived timestamptz)
      INCLUDE HEADER 'webhook-id' AS webhook INCLUDE TIMESTAMP AS arrived
      INCLUDE BODY AS raw INCLUDE PATH AS path INCLUDE QUERY AS query INCLUDE METHOD AS method WITH (connector = 'webhook')`);
    for (let id = 1; id <= 5; id++) {
      const body = JSON.stringify({ id: id * 10_000_000_000 });
      const answer = await headgate.post('dev/public/fits?k=v', body, { 'webhook-id': `w${id} é` });
      assert.equal(answer.status, 422, answer.text);
    }
    const rows = await rejected(client, 5, 'fits');
    const [first] = rows;
    assert(first !== undefined);
    // Nothing has changed: refused again, with the reason.
    const asked = await client.query<{ said: string }>('select headgate.retry_rejected($1) as said', [
      first.id,
    ]);
    assert.match(asked.rows[0]?.said ?? '', /^waiting/);
    const again = await settled(client, first.id);
    assert.equal(again.retry_outcome, 'payload_undecodable');
    assert.match(again.retry_reason ?? '', /column "id"/);
    await client.query('ALTER TABLE fits ALTER COLUMN id TYPE bigint');
    await client.query(
      "BEGIN; select headgate.retry_rejected(id) from headgate.rejected_requests where table_name = 'fits'; ROLLBACK",
    );
    await client.query('ALTER TABLE fits RENAME TO u');
    await client.query(
      `select headgate.retry_rejected(id) from headgate.rejected_requests where relation = 'u'::regclass`,
    );
    for (const { id } of rows) assert.equal((await settled(client, id)).retry_outcome, 'committed');
    const stored = await client.query('select id, webhook, raw, path, query, method from u order by id');
    assert.deepEqual(stored.rows.at(-1), {
      id: '50000000000',
      webhook: 'w5 é',
      raw: Buffer.from('{"id":50000000000}'),
      path: '/webhook/dev/public/fits',
      query: 'k=v',
      method: 'POST',
    });
    assert.equal(stored.rows.length, 5);
    const times = await client.query(
      'select from u join headgate.rejected_requests r on abs(extract(epoch from r.received_at - u.arrived)) < 0.001',
    );
    assert((times.rowCount ?? 0) >= 5, 'they arrived when they did');
    const twice = await client.query<{ said: string }>('select headgate.retry_rejected($1) as said', [
      first.id,
    ]);
    assert.match(twice.rows[0]?.said ?? '', /^not retried: .* is stored/);
    assert.equal(
      (await client.query(`select from headgate.rejected_requests where relation = 'u'::regclass`)).rowCount,
      5,
    );
  });

  test('retry_rejected stores a request refused by VALIDATE by force only', async (t) => {
    const headgate = await shared();
    const client = await headgate.client(t);
    await client.query(`CREATE TABLE forced (data JSONB) WITH (connector = 'webhook')
      VALIDATE AS secure_compare(headers->>'authorization', 'right')`);
    assert.equal(
      (await headgate.post('dev/public/forced', '{"n":1}', { authorization: 'wrong' })).status,
      401,
    );
    const [row] = await rejected(client, 1, 'forced');
    assert(row !== undefined);
    const retry = async (force: boolean) =>
      (
        await client.query<{ said: string }>('select headgate.retry_rejected($1, $2) as said', [
          row.id,
          force,
        ])
      ).rows[0]?.said;
    assert.match((await retry(false)) ?? '', /VALIDATE did not accept it/);
    assert.match((await retry(true)) ?? '', /^waiting/);
    assert.equal((await settled(client, row.id)).retry_outcome, 'committed');
    assert.deepEqual((await client.query('select * from forced')).rows, [{ data: { n: 1 } }]);
    await assert.rejects(client.query('select headgate.retry_rejected(4711)'), { code: 'P0002' });
  });
});
