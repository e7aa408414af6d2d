/** docs/deploy/moving-to-external.md, block by block, while a sender goes on. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { Client } from 'pg';
import { onEnd } from '../support/cleanup.ts';
import { commandsOf } from '../support/docs.ts';
import { startHeadgate, temporaryFolder } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { Ledger } from '../support/ledger.ts';
import { run } from '../support/run.ts';
import { debianBin, embeddedBin, startServer } from '../support/server.ts';
import { requireTool } from '../support/tools.ts';
import { within } from '../support/within.ts';

const page = 'docs/deploy/moving-to-external.md';
const secret = 'moved along';

test('from the embedded engine to a PostgreSQL of another version: tables, checks, secrets and rows', async (t) => {
  if (requireTool(t, 'psql') === null) return;
  const server = await startServer(existsSync(join(debianBin, 'postgres')) ? debianBin : embeddedBin);
  onEnd(t, 'server', () => server.close());
  const admin = new Client({ host: server.socketDir, user: 'root', database: 'postgres' });
  await admin.connect();
  await admin.query('create database dev');
  await admin.end();

  const dataDir = await temporaryFolder(t);
  const old = await startHeadgate(t, { dataDir });
  const client = await old.client(t);
  await client.query(`
    CREATE SCHEMA shop;
    CREATE SECRET gh WITH (backend = 'meta') AS '${secret}';
    CREATE TABLE deliveries (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET gh USING github;
    CREATE TABLE shop."Odd name" (body JSONB) WITH (connector = 'webhook')
      VALIDATE AS secure_compare(headers->>'signature', 'a literal key');
    CREATE TABLE plain (data JSONB) WITH (connector = 'webhook')`);
  const post = (to: Headgate, path: string, signature = '') =>
    to.post(path, '{"a":1}', { signature }).then(({ status }) => status);
  assert.equal(await post(old, 'dev/shop/Odd%20name', 'a literal key'), 200);

  const ledger = new Ledger(secret);
  onEnd(t, 'ledger', () => ledger.close());
  let receiver = old;
  const sending = ledger.run(() => `${receiver.webhookUrl}/dev/public/deliveries`, 4);
  const more = async (n: number) => {
    const enough = ledger.committed + n;
    while (ledger.committed < enough) await new Promise(setImmediate);
  };
  await more(100);

  const NEW = `postgresql://root@/dev?host=${encodeURIComponent(server.socketDir)}`;
  const doorOf = (to: Headgate) => `host=127.0.0.1 port=${to.ports.sql.port} user=root dbname=dev`;
  const step = async (name: string, from: Headgate) => {
    const env = { PATH: process.env['PATH'], OLD: doorOf(from), NEW };
    const ran = await run('sh', ['-euc', await commandsOf(page, name)], { env });
    assert.equal(ran.code, 0, ran.stderr);
    assert.doesNotMatch(ran.stderr, /ERROR/);
    return ran.stdout;
  };
  assert.match(await commandsOf(page, 'start'), /HEADGATE_MASTER_KEY=.*--database-url "\$NEW"/);
  const key = (await readFile(join(dataDir, 'master.key'), 'utf8')).trim();
  const taker = await startHeadgate(t, { env: { HEADGATE_DATABASE_URL: NEW, HEADGATE_MASTER_KEY: key } });
  await step('tables', old);
  await step('catalog', old);
  await within(2_000, async () =>
    assert.equal(await post(taker, 'dev/shop/Odd%20name', 'a literal key'), 200),
  );
  assert.equal(await post(taker, 'dev/shop/Odd%20name', 'another'), 401);
  assert.equal(await post(taker, 'dev/public/plain'), 200);
  assert.equal(await post(taker, 'dev/public/deliveries'), 401);
  receiver = taker;
  await more(100);
  await old.signal('SIGTERM');
  const again = await startHeadgate(t, { dataDir });
  await step('rows', again);
  await more(20);
  ledger.stop();
  await sending;
  assert.match(await step('compare', again), /^shop\."Odd name"\|2$/m);

  const owner = await taker.client(t);
  const tally = await ledger.tally(owner, 'deliveries');
  const { lost, surplus, refused } = tally;
  assert.deepEqual({ lost, surplus, refused }, { lost: [], surplus: [], refused: 0 });
  // The secret is the new owner's to change.
  await owner.query(`ALTER SECRET gh AS 'changed'`);
});
