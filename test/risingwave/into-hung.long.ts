/**
 * RisingWave that takes INSERTs and never answers: what its senders read, what other tables notice, and that Headgate stops and starts beside it; and
 * a Headgate that is killed when what it hands over is stored there, and its position is not.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Client } from 'pg';
import { onEnd } from '../support/cleanup.ts';
import { startHeadgate, temporaryFolder } from '../support/headgate.ts';
import { until } from '../support/until.ts';
import { onStandInOnly, openServer } from './support.ts';

test('into survives a RisingWave that does not answer', { skip: onStandInOnly }, async (t) => {
  const { standIn, dsn, client: there } = await openServer(t);
  const env = { HEADGATE_INTO_HOSTS: new URL(dsn).host };
  const dataDir = await temporaryFolder(t);
  const first = await startHeadgate(t, { env, dataDir });
  const root = await first.client(t);
  const ids = async () =>
    (await there.query<{ id: number }>('SELECT id FROM spooled ORDER BY id')).rows.map(({ id }) => id);
  await root.query(`CREATE SECRET rw WITH (backend = 'meta') AS '${dsn}'`);
  const options = { plain: ", into = 'rw'", spooled: ", into = 'rw', spool = 'fallback'", beside: '' };
  for (const [name, more] of Object.entries(options)) {
    if (more !== '') await there.query(`CREATE TABLE ${name} (id INT PRIMARY KEY)`);
    await root.query(`CREATE TABLE ${name} (id INT) WITH (connector = 'webhook' ${more})`);
  }
  const post = async (name: string, id: number) =>
    (await first.post(`dev/public/${name}`, `{"id": ${id}}`)).status;
  for (const name of Object.keys(options)) assert.equal(await post(name, 0), 200);

  standIn.fault = ({ word }) => (word === 'insert' ? { kind: 'hang' } : null);
  const hanging = Promise.all([post('plain', 1), post('spooled', 1)]);
  for (let i = 1; i < 200; i++) {
    const began = performance.now();
    assert.equal(await post('beside', i), 200);
    assert.ok(performance.now() - began < 2_000);
  }
  // 8 s, and then nobody knows; where it spools it is kept.
  assert.deepEqual(await hanging, [503, 202]);
  assert.equal(await post('spooled', 2), 202);
  assert.match((await fetch(`${first.adminUrl}/readyz`)).status.toString(), /200/);

  // While a hand-over hangs.
  const inserts = () => standIn.said.filter(({ word }) => word === 'insert').length;
  const before = inserts();
  await until(() => inserts() > before);
  const began = performance.now();
  assert.deepEqual(await first.signal('SIGTERM'), { code: 0, signal: null });
  assert.ok(performance.now() - began < 8_000, 'it stops');
  assert.deepEqual(await ids(), [0]);

  standIn.fault = () => null;
  await startHeadgate(t, { env, dataDir });
  await until(async () => (await ids()).join() === '0,1,2');
});

test('into survives a Headgate killed during a hand-over', { skip: onStandInOnly }, async (t) => {
  const { standIn, dsn, client } = await openServer(t);
  const env = { HEADGATE_INTO_HOSTS: new URL(dsn).host };
  const dataDir = await temporaryFolder(t);
  const first = await startHeadgate(t, { env, dataDir });
  const root = await first.client(t);
  await root.query(`CREATE SECRET rw WITH (backend = 'meta') AS '${dsn}'`);
  for (const [name, key] of [
    ['plain', ''],
    ['keyed', 'PRIMARY KEY'],
  ] as const) {
    await client.query(`CREATE TABLE ${name} (id INT ${key})`);
    await root.query(
      `CREATE TABLE ${name} (id INT) WITH (connector = 'webhook', into = 'rw', spool = 'fallback')`,
    );
  }
  await standIn.leave();
  for (let id = 0; id < 200; id++)
    for (const name of ['plain', 'keyed'])
      await until(async () => (await first.post(`dev/public/${name}`, `{"id": ${id}}`)).status === 202);
  standIn.fault = ({ word }) => {
    if (word === 'insert') first.child.kill('SIGKILL');
    return null;
  };
  await standIn.listen();
  await first.ended;
  standIn.fault = () => null;
  await startHeadgate(t, { env, dataDir });
  const there = new Client(dsn);
  await there.connect();
  onEnd(t, 'client', () => there.end());
  const rows = async (name: string): Promise<readonly number[]> => {
    const { rows: found } = await there.query<{ n: string; ids: string }>(
      `SELECT count(*) AS n, count(DISTINCT id) AS ids FROM ${name}`,
    );
    return [Number(found[0]?.n), Number(found[0]?.ids)];
  };
  await until(async () => (await rows('plain'))[1] === 200 && (await rows('keyed'))[1] === 200);
  assert.deepEqual(await rows('keyed'), [200, 200]);
  const [all = 0] = await rows('plain');
  t.diagnostic(`${all - 200} of 200 are there twice`);
  // One group at most.
  assert.ok(all >= 200 && all <= 400);
});
