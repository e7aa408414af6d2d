/**
 * PostgreSQL 18's own tools at a Headgate that serves, as docs/deploy/backups.md has them. `npm run test:dumps` puts them where
 * HEADGATE_DUMPS_BIN is.
 */
import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { commandsOf } from '../support/docs.ts';
import { startHeadgate, temporaryFolder } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { Ledger } from '../support/ledger.ts';
import { run } from '../support/run.ts';
import { until } from '../support/until.ts';

const { HEADGATE_DUMPS_BIN: bin, PATH } = process.env;
assert(bin !== undefined, 'HEADGATE_DUMPS_BIN is not set');
const page = 'docs/deploy/backups.md';
const secret = 'backed up';

/** Rows come while the commands run; gives what had been answered 200 before. */
async function whileServing(t: TestContext, headgate: Headgate, block: string, env: Record<string, string>) {
  const ledger = new Ledger(secret);
  t.after(() => ledger.close());
  const sending = ledger.run(() => `${headgate.webhookUrl}/dev/public/deliveries`, 8);
  await until(() => ledger.committed >= 200);
  const before = ledger.committed;
  await shell(block, env);
  assert(ledger.committed > before, 'senders went on');
  ledger.stop();
  await sending;
  const { lost, refused } = await ledger.tally(await headgate.client(t), 'deliveries');
  assert.deepEqual({ lost, refused }, { lost: [], refused: 0 });
  return before;
}

async function shell(block: string, env: Record<string, string>): Promise<void> {
  const commands = await commandsOf(page, block);
  const ran = await run('sh', ['-euc', commands], { env: { PATH: `${bin}:${PATH}`, ...env } });
  assert.equal(ran.code, 0, `${commands}\n${ran.stdout}${ran.stderr}`);
}

/** How many rows a restored table has; and it takes signed ones again. */
async function rowsOf(t: TestContext, headgate: Headgate, database: string): Promise<number> {
  const client = await headgate.client(t, database);
  const { rows } = await client.query<{ n: number }>('SELECT count(*)::int AS n FROM deliveries');
  const ledger = new Ledger(secret);
  t.after(() => ledger.close());
  const sending = ledger.run(() => `${headgate.webhookUrl}/${database}/public/deliveries`, 2);
  await until(() => ledger.committed >= 10);
  ledger.stop();
  await sending;
  const forged = await headgate.post(`${database}/public/deliveries`, '{}');
  assert.equal(forged.status, 401);
  return rows[0]?.n ?? 0;
}

test('pg_dump, pg_restore and pg_basebackup of version 18', async (t) => {
  const folder = await temporaryFolder(t);
  const headgate = await startHeadgate(t, { dataDir: join(folder, 'data') });
  await (
    await headgate.client(t)
  ).query(`CREATE SECRET gh WITH (backend = 'meta') AS '${secret}';
    CREATE TABLE deliveries (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET gh USING github`);
  const env = {
    DATA_DIR: headgate.dataDir,
    BACKUP: join(folder, 'backup'),
    DUMP: join(folder, 'headgate.dump'),
    SQL_PORT: String(headgate.ports.sql.port),
  };

  await t.test('a dump through the SQL port, restored into another database, is served there', async () => {
    const before = await whileServing(t, headgate, 'dump', env);
    await shell('undump', env);
    assert((await rowsOf(t, headgate, 'again')) >= before);
  });

  await t.test('a base backup is a data directory, and Headgate starts from it', async () => {
    await mkdir(env.BACKUP);
    const before = await whileServing(t, headgate, 'base', env);
    const second = await startHeadgate(t, { dataDir: env.BACKUP });
    assert((await rowsOf(t, second, 'dev')) >= before);
  });
});
