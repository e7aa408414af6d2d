/** Several listener processes: rates that they keep together, settings that are refused, and the catalog of each. */
import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { onSomeEngine } from '../support/doors.ts';
import { spawnHeadgate, startHeadgate } from '../support/headgate.ts';
import { listenerProcesses, postAlone } from '../support/listeners.ts';
import { onEnd } from '../support/cleanup.ts';
import { sampleOf } from '../support/sample.ts';
import { within } from '../support/within.ts';

const two = { HEADGATE_LISTENERS: '2' };
const each = <T>(n: number, run: (i: number) => Promise<T>) =>
  Promise.all(Array.from({ length: n }, (_, i) => run(i)));

async function keepsRate(
  t: TestContext,
  rate: 'HEADGATE_ADDRESS_RATE' | 'HEADGATE_TABLE_RATE',
): Promise<void> {
  const headgate = await startHeadgate(t, { env: { ...two, [rate]: '10/h' } });
  await (await headgate.client(t)).query(`CREATE TABLE t (data JSONB) WITH (connector = 'webhook')`);
  const url = `${headgate.webhookUrl}/dev/public/t`;
  const all: number[] = [];
  await within(2_000, async () => {
    const answers = await each(8, () => postAlone(url, '{}', {}));
    all.push(...answers);
    assert.deepEqual(new Set(answers), new Set([429]));
  });
  const passed = all.filter((status) => status === 200).length;
  // Each lets pass what it may until it hears of the other.
  assert.ok(passed >= 10 && passed <= 20, String(passed));
}

suite('two listener processes keep rates and settings', () => {
  for (const rate of sampleOf(['HEADGATE_ADDRESS_RATE', 'HEADGATE_TABLE_RATE'] as const, 1))
    test(`${rate} is kept by both listener processes together`, (t) => keepsRate(t, rate));

  test('a port in use is reported in one line, and no listener process is left behind', async (t) => {
    const taken = createServer();
    await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
    onEnd(t, 'port', () => void taken.close());
    const { port } = taken.address() as AddressInfo;
    const headgate = await spawnHeadgate(t, { args: ['--listeners=2', `--listen-port=${port}`] });
    assert.equal((await headgate.ended).code, 1);
    assert.match(headgate.stderr, /headgate: 127\.0\.0\.1:\d+ is in use/);
    assert.doesNotMatch(headgate.stderr, /\n {4}at |listener\.lost/);
    assert.deepEqual(listenerProcesses(headgate.child.pid ?? 0), []);
  });
});

onSomeEngine(
  'several listener processes follow the catalog together',
  async (t, { client, database, headgate }) => {
    const post = (path: string, key: string) =>
      postAlone(`${headgate.webhookUrl}/${path}`, '{"a":1}', { authorization: key });
    const all = async (path: string, key: string, status: number) =>
      assert.deepEqual(new Set(await each(8, () => post(path, key))), new Set([status]));

    await t.test(
      'a new table counts at once in all listener processes, a changed secret within a second',
      async () => {
        await client.query(`CREATE SECRET k WITH (backend = 'meta') AS 'one'`);
        await client.query(`CREATE TABLE keyed (data JSONB) WITH (connector = 'webhook')
        VALIDATE SECRET k AS secure_compare(headers->>'authorization', k)`);
        const path = `${database}/public/keyed`;
        await all(path, 'one', 200);
        await client.query(`ALTER SECRET k AS 'two'`);
        await within(1_000, () => all(path, 'one', 401));
        await all(path, 'two', 200);
        await client.query('DROP TABLE keyed');
        await within(1_000, () => all(path, 'two', 404));
      },
    );

    await t.test('listener processes together count the requests of a table', async () => {
      await client.query(`CREATE SECRET g WITH (backend = 'meta') AS 'key'`);
      await client.query(
        `CREATE TABLE counted (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET g USING github`,
      );
      await client.query(`CREATE TABLE anybodys (data JSONB) WITH (connector = 'webhook')`);
      await all(`${database}/public/counted`, '', 401);
      await all(`${database}/public/anybodys`, '', 200);
      await within(30_000, async () => {
        const { rows } = await client.query<Record<string, unknown>>('SHOW ENDPOINTS');
        const shown = rows.map((row) => [
          row['Name'],
          row['Sender'],
          row['Check'],
          row['Stored'],
          row['Unauthorized'],
        ]);
        assert.deepEqual(shown, [
          ['anybodys', null, 'none', '8', '0'],
          ['counted', 'github', 'signature', '0', '8'],
        ]);
        assert.equal(rows[0]?.['URL'], `${headgate.webhookUrl}/${database}/public/anybodys`);
        assert(Date.now() - Number(rows[0]['Last Request']) < 60_000);
      });
      await client.query('DROP TABLE counted, anybodys');
    });

    await t.test(
      'a database that several listener processes serve can be dropped and recreated at once',
      async (t) => {
        for (let round = 0; round < 2; round++) {
          await client.query('CREATE DATABASE other');
          const other = await headgate.client(t, 'other');
          await other.query(`CREATE TABLE t (data JSONB) WITH (connector = 'webhook')`);
          await all('other/public/t', '', 200);
          assert.equal((await other.query('select from t')).rowCount, 8);
          await other.end();
          await client.query('DROP DATABASE other');
        }
      },
    );
  },
  two,
);
