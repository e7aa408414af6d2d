/** Two Headgates on one PostgreSQL behind nginx, restarted one after the other while senders go on. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { Client } from 'pg';
import { asked } from '../support/asked.ts';
import { onEnd } from '../support/cleanup.ts';
import { startHeadgate } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { Ledger } from '../support/ledger.ts';
import { testDatabase } from '../support/postgres.ts';
import { startNginx } from '../support/proxy.ts';
import { times } from '../support/sample.ts';
import { requireTool } from '../support/tools.ts';
import { until } from '../support/until.ts';

const secret = 'rolling';
const rounds = times(1, 4);

/** What this Headgate itself has answered 200. */
async function committedBy(headgate: Headgate): Promise<number> {
  const metrics = (await asked(`${headgate.adminUrl}/metrics`)).text;
  return Number(/^headgate_requests_total\{[^}]*committed[^}]*\} (\d+)$/m.exec(metrics)?.[1] ?? 0);
}

/** What nginx says beside that nobody listens at one of the two, which is how it is meant to be. */
function unusual(log: string): string[] {
  const usual = /connect\(\) failed \(111|upstream server temporarily disabled/;
  return log.split('\n').filter((line) => !usual.test(line));
}

test('two Headgates behind nginx fail, lose and double no request while they are restarted under load', async (t) => {
  const program = requireTool(t, 'nginx');
  if (program === null) return;
  const database = await testDatabase(t);
  const env = {
    HEADGATE_DATABASE_URL: database.connectionString,
    HEADGATE_MASTER_KEY: randomBytes(32).toString('base64'),
  };
  const headgates = await Promise.all([startHeadgate(t, { env }), startHeadgate(t, { env })]);
  const ports = headgates.map((headgate) => headgate.ports.listen.port);
  const proxy = await startNginx(t, program, ports);

  const { user = '', password } = database.clientConfig;
  const door = {
    host: '127.0.0.1',
    port: headgates[0]?.ports.sql.port ?? 0,
    database: database.name,
    user,
  };
  const owner = new Client({ ...door, ...(password === undefined ? {} : { password }) });
  await owner.connect();
  // No key: a request that anybody repeats would be a second row.
  await owner.query(`
    CREATE SECRET s WITH (backend = 'meta') AS '${secret}';
    CREATE TABLE kept (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET s AS secure_compare(
      headers->>'x-hub-signature-256', 'sha256=' || encode(hmac(s, data, 'sha256'), 'hex'))`);
  await owner.end();

  const ledger = new Ledger(secret, proxy.tls);
  onEnd(t, 'ledger', () => ledger.close());
  const url = `https://127.0.0.1:${proxy.port}/webhook/${database.name}/public/kept`;
  const sending = ledger.run(() => url, 24);
  const more = async (n: number) => {
    const enough = ledger.committed + n;
    await until(() => ledger.committed >= enough);
  };
  await more(500);
  for (let round = 0; round < rounds; round++) {
    for (const [i, port] of ports.entries()) {
      assert.deepEqual(await headgates[i]?.signal('SIGTERM'), { code: 0, signal: null });
      await more(200);
      const again = await startHeadgate(t, { env, args: [`--listen-port=${port}`] });
      headgates[i] = again;
      // The other one goes only when nginx has found this one again, which takes it `fail_timeout`.
      await until(async () => (await committedBy(again)) > 0);
      await more(200);
    }
  }
  ledger.stop();
  await sending;
  const client = await database.connect();
  const tally = await ledger.tally(client, 'kept');
  const { sent, committed, ...wrong } = tally;
  assert.deepEqual(
    wrong,
    { kept: 0, refused: 0, unanswered: 0, lost: [], surplus: [] },
    [...ledger.oddities, ...unusual(await proxy.log())].join('\n'),
  );
  assert.equal(committed, sent);
  const { rows } = await client.query<{ n: number }>('select count(*)::int as n from kept');
  assert.equal(rows[0]?.n, sent);
  t.diagnostic(`${sent} requests over ${2 * rounds} restarts`);
});
