/**
 * What PostgreSQL has committed holds for the next request, at each door. The right answer is PostgreSQL's: changes are made in its own sessions, past
 * Headgate, and are committed before a request is sent.
 */
import assert from 'node:assert/strict';
import { request } from 'node:http';
import { suite, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { asked } from '../support/asked.ts';
import { wholeFile } from '../support/cleanup.ts';
import { checkedBy, serverOf, stageOn, webhook } from '../support/freshness-stage.ts';
import type { Stage } from '../support/freshness-stage.ts';
import { times } from '../support/sample.ts';
import { until } from '../support/until.ts';
import { within } from '../support/within.ts';
import { WsClient } from '../support/ws-client.ts';

const rounds = times(4, 40);
const floodS = times(1, 2);
const checked = checkedBy('s');

const file = wholeFile();
let started: Promise<Stage> | null = null;
/** For tests that neither stop its sessions nor count what others do. */
const shared = (): Promise<Stage> =>
  (started ??= serverOf(file, ['track_functions=all']).then((server) => stageOn(file, server)));

suite('changes of the catalog count at once', () => {
  test('a request that fits the newly committed table is accepted at once, at every port', async () => {
    const { headgate, port, plain } = await shared();
    await port.query(`CREATE SECRET s WITH (backend = 'meta') AS 'k'`);
    for (const name of ['hook', 'socket', 'asked'])
      await port.query(`CREATE TABLE ${name} (id int) ${webhook}`);
    await port.query(`CREATE TABLE keyed (data JSONB) ${checked}`);
    await plain.query('CREATE TABLE plain (id int); CREATE TABLE lines (id int); CREATE TABLE keys (id int)');
    const events = async (query: string, body: string) =>
      asked(`${headgate.gatewayUrl}/v1/events?${query}`, { method: 'POST', body });
    const bad: string[] = [];
    const expect = (what: string, status: number, wanted: number, text = '') =>
      void (status === wanted || bad.push(`${what}: ${status} ${text}`));
    for (let i = 0; i < rounds; i++) {
      const body = `{"c${i}":1}`;
      // What is remembered of each table is as it was before.
      const before = await Promise.all([
        headgate.post('postgres/public/hook', body),
        headgate.post('postgres/public/keyed', '{}', { x: `key ${i}` }),
        events('name=plain', body),
        events('name=keys&on_conflict=update', '{"id":1}'),
        asked(`${headgate.webhookUrl}/postgres/public/asked`, { headers: { a: `a${i}` } }),
      ]);
      assert.deepEqual(
        before.map(({ status }) => status),
        [422, 401, 422, 400, 405],
      );
      await plain.query(
        ['hook', 'socket', 'plain', 'lines'].map((it) => `ALTER TABLE ${it} ADD c${i} int`).join(';'),
      );
      const hook = await headgate.post('postgres/public/hook', body);
      expect('hook', hook.status, 200, hook.text);
      const [one, some] = await Promise.all([
        events('name=plain', body),
        events('name=lines&on_error=skip', body),
      ]);
      expect('event', one.status, 200, one.text);
      if (some.text !== '{"rows":1,"skipped":[],"skippedTotal":0}') bad.push(`skip: ${some.text}`);
      const ws = await WsClient.open(
        `ws://127.0.0.1:${headgate.ports.listen.port}/ingest/postgres/public/socket`,
      );
      ws.send(1, [{ op: 'insert', data: { [`c${i}`]: 1 } }]);
      ws.ws.close(1000);
      const end = await ws.ended;
      if (end.fatal !== null) bad.push(`socket: ${end.fatal}`);
      await port.query(`ALTER SECRET s AS 'key ${i}'`);
      const right = await headgate.post('postgres/public/keyed', '{}', { x: `key ${i}` });
      expect('key', right.status, 200, right.text);
      if (i % 3 === 2) await port.query('ALTER TABLE asked DROP ANSWER');
      await port.query(`ALTER TABLE asked ANSWER UNCHECKED WHEN headers->>'a' = 'a${i}' STATUS 204`);
      const got = await asked(`${headgate.webhookUrl}/postgres/public/asked`, { headers: { a: `a${i}` } });
      expect('handshake', got.status, 204, got.text);
      await plain.query('ALTER TABLE keys ADD PRIMARY KEY (id)');
      const key = await events('name=keys&on_conflict=update', '{"id":1}');
      expect('key of events', key.status, 200, key.text);
      await plain.query('ALTER TABLE keys DROP CONSTRAINT keys_pkey');
    }
    assert.deepEqual(bad, []);
    const sum = Array.from({ length: rounds }, (_, i) => `count(c${i})`).join('+');
    for (const table of ['hook', 'plain', 'lines']) {
      const { rows } = await plain.query<{ n: string }>(`SELECT ${sum} AS n FROM ${table}`);
      assert.equal(rows[0]?.n, String(rounds), table);
    }
  });

  test('a request whose key is revoked while its body arrives is refused', async () => {
    const { headgate, port } = await shared();
    await port.query(`CREATE SECRET slow WITH (backend = 'meta') AS 'old'`);
    await port.query(`CREATE TABLE slowly (data JSONB) ${checkedBy('slow')}`);
    const slow = request(`${headgate.webhookUrl}/postgres/public/slowly`, {
      method: 'POST',
      headers: { x: 'old', 'content-length': 12, 'content-type': 'application/json' },
    });
    const answer = new Promise<number>((resolve, reject) => {
      slow.on('response', (response) => resolve(response.resume().statusCode ?? 0)).on('error', reject);
    });
    slow.write('{"n":');
    // The request is being read.
    await within(5_000, async () =>
      assert.equal((await headgate.post('postgres/public/slowly', '{}', { x: 'old' })).status, 200),
    );
    await port.query(`ALTER SECRET slow AS 'new'`);
    await within(5_000, async () =>
      assert.equal((await headgate.post('postgres/public/slowly', '{}', { x: 'old' })).status, 401),
    );
    slow.end('123456}');
    assert.equal(await answer, 401);
  });

  test('a flood of forged requests causes a bounded number of catalog queries a second', async () => {
    const { headgate, port, plain } = await shared();
    await port.query(`CREATE SECRET flood WITH (backend = 'meta') AS 'k'`);
    await port.query(`CREATE TABLE flooded (data JSONB) ${checkedBy('flood')}`);
    const looks = async () => {
      const { rows } = await plain.query<{ calls: string }>(
        `SELECT coalesce(sum(calls), 0) AS calls FROM pg_stat_user_functions WHERE funcname LIKE '%\\_versions'`,
      );
      return Number(rows[0]?.calls ?? 0);
    };
    // PostgreSQL counts what a session has done a second later or more: the looks of the test before are counted first.
    let before = await looks();
    await until(async () => {
      await delay(1_100);
      const now = await looks();
      const isQuiet = now - before <= 6;
      before = now;
      return isQuiet;
    });
    const started = performance.now();
    const seconds = () => (performance.now() - started) / 1_000;
    let forged = 0;
    // Of a transaction each, so that something may have changed.
    const others = (async () => {
      while (seconds() < floodS) await plain.query('SELECT pg_current_xact_id()');
    })();
    const senders = Array.from({ length: 16 }, async () => {
      for (; seconds() < floodS; forged++)
        assert.equal((await headgate.post('postgres/public/flooded', '{}', { x: 'forged' })).status, 401);
    });
    await Promise.all([...senders, others]);
    const tookS = seconds();
    // PostgreSQL counts what a session has done a second later at most.
    await delay(1_100);
    const count = (await looks()) - before;
    assert(forged > 4 * count, `${forged} requests, ${count} looks`);
    assert(count > 0 && count < (tookS + 1) * 24, `${count} looks in ${tookS} s`);
  });
});
