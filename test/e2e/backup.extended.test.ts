/** docs/deploy/backups.md, command by command. */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { commandsOf } from '../support/docs.ts';
import { sharedHeadgate, startHeadgate, temporaryFolder } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { Ledger } from '../support/ledger.ts';
import { onEnd } from '../support/cleanup.ts';
import { root } from '../support/package.ts';
import { run } from '../support/run.ts';
import { requireTool } from '../support/tools.ts';
import { until } from '../support/until.ts';

const page = 'docs/deploy/backups.md';
const secret = 'backed up';
const table = `
  CREATE SECRET gh WITH (backend = 'meta') AS '${secret}';
  CREATE TABLE deliveries (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET gh USING github`;

async function shell(commands: string, env: Record<string, string>): Promise<string> {
  const ran = await run('sh', ['-euc', commands], { cwd: root, env: { PATH: process.env['PATH'], ...env } });
  assert.equal(ran.code, 0, `${commands}\n${ran.stdout}${ran.stderr}`);
  return ran.stdout;
}

function sender(t: TestContext) {
  const ledger = new Ledger(secret);
  onEnd(t, 'ledger', () => ledger.close());
  const send = async (to: Headgate, enough: number) => {
    const sending = ledger.run(() => `${to.webhookUrl}/dev/public/deliveries`, 8);
    await until(() => ledger.committed >= enough);
    return { sending, stop: () => (ledger.stop(), sending) };
  };
  return { ledger, send };
}

async function storedIds(t: TestContext, headgate: Headgate): Promise<string[]> {
  const client = await headgate.client(t);
  const { rows } = await client.query<{ id: string }>(`select data->>'id' as id from deliveries`);
  return rows.map(({ id }) => id);
}

const shared = sharedHeadgate();

suite('backups restore all rows answered before them', () => {
  test('a copy of the data directory after a clean stop serves with all rows, tables and secrets', async (t) => {
    const folder = await temporaryFolder(t);
    const env = { DATA_DIR: join(folder, 'data'), BACKUP: join(folder, 'backup') };
    const first = await startHeadgate(t, { dataDir: env.DATA_DIR });
    await (await first.client(t)).query(table);
    const { ledger, send } = sender(t);
    await (await send(first, 100)).stop();
    await first.signal('SIGTERM');
    await shell(await commandsOf(page, 'cold'), env);
    const second = await startHeadgate(t, { dataDir: env.BACKUP });
    assert.equal((await storedIds(t, second)).length, ledger.committed);
    await (await send(second, ledger.committed + 10)).stop();
  });

  test('a hot backup under load starts and has every row that was answered before it began', async (t) => {
    if (requireTool(t, 'psql') === null) return;
    const folder = await temporaryFolder(t);
    const first = await startHeadgate(t, { dataDir: join(folder, 'data') });
    await (await first.client(t)).query(table);
    const { ledger, send } = sender(t);
    const { stop } = await send(first, 200);
    const before = (await storedIds(t, first)).length;
    const env = {
      DATA_DIR: first.dataDir,
      BACKUP: join(folder, 'backup'),
      SQL_PORT: String(first.ports.sql.port),
    };
    await shell(await commandsOf(page, 'hot'), env);
    const during = ledger.committed;
    assert(during > before, 'senders went on');
    // What is overwritten afterwards, the log included, is of no concern to the copy.
    await (await first.client(t)).query('checkpoint');
    await stop();
    const { lost, refused } = await ledger.tally(await first.client(t), 'deliveries');
    assert.deepEqual({ lost, refused }, { lost: [], refused: 0 });
    const slots = await (await first.client(t)).query('select slot_name from pg_replication_slots');
    assert.deepEqual(slots.rows, []);

    const [putKey = ''] = (await commandsOf(page, 'restore')).split('\n');
    await shell(putKey, { ...env, MASTER_KEY: join(first.dataDir, 'master.key') });
    const second = await startHeadgate(t, { dataDir: env.BACKUP });
    const restored = await storedIds(t, second);
    assert.equal(new Set(restored).size, restored.length);
    assert(restored.length >= before && restored.length <= ledger.committed, `${restored.length}`);
    t.diagnostic(`${before} rows before the copy, ${restored.length} in it, ${during} when it was done`);
    await (await send(second, ledger.committed + 10)).stop();
  });

  test('hot-backup.sh refuses an existing folder and an unreachable server, and leaves nothing behind', async (t) => {
    if (requireTool(t, 'psql') === null) return;
    const folder = await temporaryFolder(t);
    await writeFile(join(folder, 'kept'), '');
    const headgate = await shared();
    const script = join(root, 'deploy/backup/hot-backup.sh');
    const nowhere = await run('sh', [script, headgate.dataDir, join(folder, 'new'), 'host=127.0.0.1 port=1']);
    assert.notEqual(nowhere.code, 0);
    const there = await run('sh', [script, headgate.dataDir, folder]);
    assert.notEqual(there.code, 0);
    assert.deepEqual((await run('ls', [folder])).stdout, 'kept\n');
  });

  test('a table is exported and restored by \\copy', async (t) => {
    if (requireTool(t, 'psql') === null) return;
    const folder = await temporaryFolder(t);
    const headgate = await shared();
    const client = await headgate.client(t);
    await client.query(table);
    const { ledger, send } = sender(t);
    await (await send(headgate, 50)).stop();
    const env = { SQL_PORT: String(headgate.ports.sql.port), FILE: join(folder, 'deliveries') };
    const out = await commandsOf(page, 'copy');
    await shell(out, env);
    await client.query('create table again (data jsonb)');
    await shell(out.replace('deliveries to', 'again from'), env);
    const { rows } = await client.query<{ n: number }>(
      'select count(*)::int as n from again join deliveries using (data)',
    );
    assert.equal(rows[0]?.n, ledger.committed);
    assert((await readFile(env.FILE, 'utf8')).split('\n').length > 50);
  });
});
