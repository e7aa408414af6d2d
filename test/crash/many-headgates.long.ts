/**
 * Four Headgates on one database with hundreds of tables: restarted one after the other, one of them cut off from the database, one with a clock that is ahead and one
 * with one that is behind, while tables come, change and go. What was answered 200 is there once; a key that is revoked at one of them counts at each within a second.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { Client } from 'pg';
import { asked } from '../support/asked.ts';
import { onEnd } from '../support/cleanup.ts';
import { FaultyProxy } from '../support/faulty-proxy.ts';
import { startHeadgate } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { Ledger } from '../support/ledger.ts';
import { seededRandom } from '../support/random.ts';
import { startTcpServer } from '../support/tls-server.ts';
import { until } from '../support/until.ts';

const tables = Array.from({ length: 300 }, (_, i) => `t${i}`);
const rounds = 2;
const freshMsMax = 1_000;
const secret = 'many';
const signed = `VALIDATE SECRET s AS
  secure_compare(headers->>'x-hub-signature-256', 'sha256=' || encode(hmac(s, data, 'sha256'), 'hex'))`;

/** A program whose clock is wrong by so much. */
const clock = (ms: number) => ({
  NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(
    `const Real = Date; globalThis.Date = class extends Real { constructor(...a) { super(...(a.length ? a : [Date.now()])); } static now() { return Real.now() + ${ms}; } };`,
  )}`,
});

test('four Headgates on one database lose and double no request answered 200, and a key revoked at one counts at all', async (t) => {
  const { random, seed } = seededRandom();
  const pick = <T>(of: readonly T[]): T => of[Math.floor(random() * of.length)] as T;
  const server = await startTcpServer(undefined, ['max_connections=300', 'max_locks_per_transaction=256']);
  onEnd(t, 'server', () => server.close());
  const to = { kind: 'tcp', host: '127.0.0.1', port: server.port, tls: false } as const;
  const proxy = await FaultyProxy.open(to);
  onEnd(t, 'proxy', () => proxy.close());
  const key = randomBytes(32).toString('base64');
  const envOf = (port: number, more: Readonly<Record<string, string>> = {}) => ({
    HEADGATE_DATABASE_URL: `postgresql://root@127.0.0.1:${port}/postgres?sslmode=disable`,
    HEADGATE_MASTER_KEY: key,
    ...more,
  });
  const envs = [
    envOf(server.port),
    envOf(server.port, clock(90_000)),
    envOf(server.port, clock(-90_000)),
    envOf(proxy.port),
  ];
  const headgates: Headgate[] = [];
  for (const env of envs) headgates.push(await startHeadgate(t, { env }));
  const connect = async ({ ports }: Headgate) => {
    const client = new Client({
      host: '127.0.0.1',
      port: ports.sql.port,
      user: 'root',
      database: 'postgres',
    });
    client.on('error', () => {});
    await client.connect();
    return client;
  };
  const owner = await connect(headgates[0] as Headgate);
  await owner.query(`CREATE SECRET s WITH (backend = 'meta') AS '${secret}'`);
  await owner.query(`CREATE SECRET k WITH (backend = 'meta') AS 'key 0'`);
  for (let i = 0; i < tables.length; i += 50)
    await owner.query(
      tables
        .slice(i, i + 50)
        .map((name) => `CREATE TABLE ${name} (data JSONB) WITH (connector = 'webhook') ${signed}`)
        .join('; '),
    );
  await owner.query(
    `CREATE TABLE guarded (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET k AS secure_compare(headers->>'x', k)`,
  );
  await owner.end();

  const ledger = new Ledger(secret);
  onEnd(t, 'ledger', () => ledger.close());
  const load = ledger.run(() => `${pick(headgates).webhookUrl}/postgres/public/${pick(tables)}`, 12);
  const more = async (n: number) => {
    const enough = ledger.committed + n;
    await until(() => ledger.committed >= enough);
  };
  let churned = 0;
  const over = new AbortController();
  /** Tables come, change and go at the first, which is restarted as well: what fails then is begun again. */
  const churn = (async () => {
    while (!over.signal.aborted)
      try {
        const client = await connect(headgates[0] as Headgate);
        try {
          for (; !over.signal.aborted; churned++) {
            await client.query('DROP TABLE IF EXISTS passing');
            await client.query(`CREATE TABLE passing (data JSONB) WITH (connector = 'webhook') ${signed}`);
            await client.query(`ALTER TABLE ${pick(tables)} ADD COLUMN c${churned} INT`);
            await client.query(`ALTER TABLE ${pick(tables)} SET (inspect = 'off')`);
            await more(5);
          }
        } finally {
          await client.end().catch(() => {});
        }
      } catch {
        await more(1);
      }
  })();
  const guarded = async (headgate: Headgate, x: string) =>
    (await headgate.post('postgres/public/guarded', '{}', { x })).status;
  let version = 0;
  const tookMs: number[] = [];
  /** At one of these, for each of them. */
  const revoke = async (at: readonly Headgate[]) => {
    const client = await connect(at[0] as Headgate);
    const before = `key ${version++}`;
    await client.query(`ALTER SECRET k AS 'key ${version}'`);
    const changed = performance.now();
    await client.end();
    await Promise.all(
      at.map(async (headgate) => {
        await until(async () => (await guarded(headgate, before)) !== 200);
        tookMs.push(performance.now() - changed);
        await until(async () => (await guarded(headgate, `key ${version}`)) === 200);
      }),
    );
  };
  await more(1_000);
  for (let round = 0; round < rounds; round++) {
    await revoke(headgates);
    proxy.stall();
    const others = headgates.filter((it) => it !== headgates[3]);
    await revoke(others);
    // It has not heard of that, and knows that it might not have.
    await until(async () => (await asked(`${(headgates[3] as Headgate).adminUrl}/readyz`)).status === 503);
    assert.notEqual(await guarded(headgates[3] as Headgate, `key ${version - 1}`), 200);
    await more(300);
    proxy.resume();
    await until(async () => (await guarded(headgates[3] as Headgate, `key ${version}`)) === 200);
    for (const [i, env] of envs.entries()) {
      const { ports } = headgates[i] as Headgate;
      assert.deepEqual(await headgates[i]?.signal('SIGTERM'), { code: 0, signal: null });
      headgates[i] = await startHeadgate(t, { env, args: [`--listen-port=${ports.listen.port}`] });
      await more(200);
    }
  }
  over.abort();
  await churn;
  ledger.stop();
  await load;
  const reader = new Client({ host: '127.0.0.1', port: server.port, user: 'root', database: 'postgres' });
  await reader.connect();
  const all = tables.map((name) => `SELECT data FROM ${name}`).join(' UNION ALL ');
  const tally = await ledger.tally(reader, `(${all}) AS every`);
  await reader.end();
  const median = tookMs.toSorted((a, b) => a - b)[tookMs.length >> 1] ?? Infinity;
  t.diagnostic(
    `seed ${seed}: ${tally.committed} of ${tally.sent} committed, ${tally.unanswered} unanswered; ${churned} tables came and went; ` +
      `a revoked key counted after ${median.toFixed(0)} ms, ${Math.max(...tookMs).toFixed(0)} ms at most`,
  );
  assert.deepEqual({ lost: tally.lost, surplus: tally.surplus }, { lost: [], surplus: [] }, `seed ${seed}`);
  assert.deepEqual(ledger.odd, [], ledger.oddities.join('; '));
  // The slowest of them is the machine's, which runs all of this.
  assert(median <= freshMsMax, tookMs.join(' '));
});
