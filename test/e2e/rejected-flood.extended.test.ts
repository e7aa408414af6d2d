/** Refused requests by the thousand, of a WebSocket, with the database away, and where none are to be kept. */
import assert from 'node:assert/strict';
import { performance } from 'node:perf_hooks';
import { suite, test } from 'node:test';
import { asked } from '../support/asked.ts';
import { limits } from '../../src/config/limits.ts';
import { sharedHeadgate, startHeadgate } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { within } from '../support/within.ts';
import { WsClient } from '../support/ws-client.ts';

async function keptBy(headgate: Headgate): Promise<Record<string, number>> {
  const text = (await asked(`${headgate.adminUrl}/metrics`)).text;
  const found = text.matchAll(/^headgate_rejected_requests_total\{result="(\w+)"\} (\d+)$/gm);
  return Object.fromEntries([...found].map(([, result = '', n]) => [result, Number(n)]));
}

const total = (kept: Record<string, number>) => Object.values(kept).reduce((sum, n) => sum + n, 0);

/** The flood has one of its own: what it uses up, others would miss. */
const shared = sharedHeadgate();

suite('a flood of refused requests harms nobody else', () => {
  test('a flood of refused requests is answered, counted and cut off, without harm to other senders', async (t) => {
    const headgate = await startHeadgate(t);
    const client = await headgate.client(t);
    await client.query(`CREATE TABLE t (data JSONB) WITH (connector = 'webhook')
      VALIDATE AS secure_compare(headers->>'authorization', 'right')`);
    const started = performance.now();
    const forged = async (n: number) => {
      for (let i = 0; i < n; i++) {
        const answer = await headgate.post('dev/public/t', 'x'.repeat(2_000), { authorization: 'wrong' });
        assert.equal(answer.status, 401);
      }
    };
    const honest = async (n: number) => {
      for (let i = 0; i < n; i++)
        assert.equal((await headgate.post('dev/public/t', '{}', { authorization: 'right' })).status, 200);
    };
    await Promise.all([...Array.from({ length: 10 }, () => forged(60)), honest(60)]);
    const seconds = (performance.now() - started) / 1_000;
    await within(5_000, async () => assert.equal(total(await keptBy(headgate)), 600));
    const kept = await keptBy(headgate);
    const { rowCount } = await client.query('select from headgate.rejected_requests');
    assert.equal(rowCount, kept['stored']);
    assert.deepEqual([kept['queue'], kept['engine']], [0, 0]);
    const most = limits.rejectedBurst + Math.ceil((seconds + 1) * limits.rejectedPerSecond);
    assert(
      (rowCount ?? 0) >= limits.rejectedBurst && (rowCount ?? 0) <= most,
      `${rowCount} of at most ${most}`,
    );
    assert.equal((await client.query('select from t')).rowCount, 60);
    assert.equal(headgate.stderr.split('\n').filter((line) => /"level":"(warn|error)"/.test(line)).length, 0);
  });

  test('a refused WebSocket batch is kept with the number of its item, and so is a refused WebSocket', async (t) => {
    const headgate = await shared();
    const client = await headgate.client(t);
    await client.query(`CREATE TABLE batches (n int CHECK (n < 10)) WITH (connector = 'webhook');
      CREATE TABLE shut (data JSONB) WITH (connector = 'webhook')
        VALIDATE AS secure_compare(headers->>'authorization', 'right')`);
    const url = (table: string) => `ws://127.0.0.1:${headgate.ports.listen.port}/ingest/dev/public/${table}`;
    const open = await WsClient.open(url('batches'));
    open.send(1, [{ op: 'insert', data: { n: 1 } }]);
    open.send(2, [
      { op: 'insert', data: { n: 2 } },
      { op: 'insert', data: { n: 99 } },
    ]);
    open.send(3, [{ op: 'insert', data: { n: 3 } }]);
    assert.match((await open.ended).fatal ?? '', /dml_batch_id 2 item 2: /);
    const shut = await WsClient.open(url('shut'), { headers: { authorization: 'wrong canary' } });
    assert.equal((await shut.ended).fatal, 'Signature verification failed');
    await within(5_000, async () => {
      const { rows } = await client.query<Record<string, unknown>>(
        `select table_name, door, code, reason, authenticated, method, remote_address, encode(body, 'escape') as body
         from headgate.rejected_requests order by table_name`,
      );
      assert.equal(rows.length, 2);
      const [batch, stream] = rows;
      assert.deepEqual(
        [batch?.['door'], batch?.['code'], batch?.['authenticated'], batch?.['method']],
        ['websocket', 'row_refused', true, 'GET'],
      );
      assert.match(String(batch?.['reason']), /^item 2: /);
      assert.match(String(batch?.['body']), /"dml_batch_id":2/);
      assert.match(String(batch?.['remote_address']), /127\.0\.0\.1/);
      assert.deepEqual([stream?.['code'], stream?.['authenticated']], ['signature_failed', false]);
      assert.match(String(stream?.['body']), /"type":"init"/);
      assert(!JSON.stringify(rows).includes('canary'));
    });
    assert.equal((await client.query('select from batches')).rowCount, 1);
  });

  test('refused requests are written after their database connection was cut', async (t) => {
    const headgate = await shared();
    const client = await headgate.client(t);
    await client.query(`CREATE TABLE waiting (data JSONB) WITH (connector = 'webhook')`);
    const before = await keptBy(headgate);
    const more = async () => total(await keptBy(headgate)) - total(before);
    assert.equal((await headgate.post('dev/public/waiting', 'no json')).status, 422);
    await within(5_000, async () =>
      assert.equal((await keptBy(headgate))['stored'], (before['stored'] ?? 0) + 1),
    );
    // Their connection is cut off again and again, under requests.
    const cut = `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'headgate rejected requests'`;
    for (let i = 0; i < 5; i++) {
      await client.query(cut);
      assert.equal((await headgate.post('dev/public/waiting', 'no json')).status, 422);
    }
    await within(10_000, async () => assert.equal(await more(), 6));
    const { stored = 0 } = await keptBy(headgate);
    const rows = async () => (await client.query('select from headgate.rejected_requests')).rowCount ?? 0;
    // A statement whose connection was cut off is counted as lost, and may have been stored all the same.
    await within(5_000, async () => assert((await rows()) >= stored));
  });

  test('HEADGATE_REJECTED_ROWS_MAX=0 keeps no refused request and uses at most one connection', async (t) => {
    const headgate = await startHeadgate(t, { args: ['--rejected-rows-max=0'] });
    const client = await headgate.client(t);
    await client.query(`CREATE TABLE t (data JSONB) WITH (connector = 'webhook')`);
    assert.equal((await headgate.post('dev/public/t', 'no json')).status, 422);
    assert.equal(total(await keptBy(headgate)), 0);
    const own = `select from pg_stat_activity where application_name = 'headgate rejected requests'`;
    assert(((await client.query(own)).rowCount ?? 0) <= 1);
    assert.equal((await client.query('select from headgate.rejected_requests')).rowCount, 0);
  });

  test('a database with refused requests can be dropped, and another of the same name is served', async (t) => {
    const headgate = await shared();
    const root = await headgate.client(t);
    for (let round = 0; round < 2; round++) {
      await root.query('CREATE DATABASE other');
      const client = await headgate.clientAs(t, 'root', 'other');
      await client.query(`CREATE TABLE t (data JSONB) WITH (connector = 'webhook')`);
      assert.equal((await headgate.post('other/public/t', 'no json')).status, 422);
      await within(5_000, async () =>
        assert.equal((await client.query('select from headgate.rejected_requests')).rowCount, 1),
      );
      await client.end();
      await root.query('DROP DATABASE other');
    }
  });
});
