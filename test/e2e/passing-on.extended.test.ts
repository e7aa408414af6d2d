/** docs/passing-on.md, command by command: a trigger that tells, a subscription of an older PostgreSQL, a reader of changes. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { Client } from 'pg';
import type { ClientConfig } from 'pg';
import { onEnd } from '../support/cleanup.ts';
import { commandsOf } from '../support/docs.ts';
import { spawnHeadgate, startHeadgate, temporaryFolder } from '../support/headgate.ts';
import { run } from '../support/run.ts';
import { debianBin, startServer } from '../support/server.ts';
import { skipFor } from '../support/tools.ts';
import { within } from '../support/within.ts';

const page = 'docs/passing-on.md';

test('rows pass on to LISTEN, to a subscription and to pg_recvlogical', async (t) => {
  if (!existsSync(join(debianBin, 'pg_recvlogical'))) return skipFor(t, 'PostgreSQL 15');
  const folder = await temporaryFolder(t);
  const dataDir = join(folder, 'data');
  const [flag = ''] = /--\S+/.exec(await commandsOf(page, 'logical')) ?? [];
  let headgate = await startHeadgate(t, { dataDir, args: [flag] });
  const port = headgate.ports.sql.port;
  const again = async (signal: NodeJS.Signals): Promise<number> => {
    const began = Date.now();
    await headgate.signal(signal);
    const tookMs = Date.now() - began;
    headgate = await startHeadgate(t, { dataDir, args: [flag, `--sql-port=${port}`] });
    return tookMs;
  };
  let sent = 0;
  const post = async (count: number): Promise<void> => {
    for (const end = sent + count; sent < end;)
      assert.equal((await headgate.post('dev/public/deliveries', `{"n":${++sent}}`)).status, 200);
  };
  const client = await headgate.client(t);
  await client.query("CREATE TABLE deliveries (data JSONB) WITH (connector = 'webhook')");
  await post(5);

  await t.test('the documented LISTEN example announces a new row', async () => {
    await client.query(await commandsOf(page, 'notify'));
    const told = new Promise<string | undefined>((resolve) =>
      client.on('notification', (it) => resolve(it.payload)),
    );
    await client.query('LISTEN new_rows');
    await post(1);
    assert.equal(await told, 'deliveries');
    await client.query('DROP TRIGGER tell_of_rows ON deliveries');
  });

  const other = await startServer(debianBin, ['wal_retrieve_retry_interval=100', 'restart_after_crash=on']);
  onEnd(t, 'the other server', () => other.close());
  let subscriber = new Client();
  const connect = async (): Promise<void> => {
    subscriber = new Client({ host: other.socketDir, user: 'root', database: 'postgres' });
    subscriber.on('error', () => undefined);
    await subscriber.connect();
  };
  await connect();
  onEnd(t, 'subscriber', () => subscriber.end());
  const arrived = () =>
    within(30_000, async () => {
      const { rows } = await subscriber.query<{ n: string }>("SELECT data->>'n' AS n FROM deliveries");
      const found = rows.map(({ n }) => Number(n)).toSorted((a, b) => a - b);
      assert.deepEqual(
        found,
        Array.from({ length: sent }, (_, i) => i + 1),
      );
    });

  await t.test(
    'a PostgreSQL subscription through the SQL port gets each row once across a stop and a kill of Headgate',
    async () => {
      await client.query(await commandsOf(page, 'publish'));
      const commands = (await commandsOf(page, 'subscribe')).replace('port=4567', `port=${port}`);
      // One by one, as psql sends them: no slot is made in a transaction.
      for (const command of commands.split(/(?<=;)\n/)) await subscriber.query(command);
      await arrived();
      await post(20);
      await arrived();
      assert.ok((await again('SIGTERM')) < 5_000, 'a stop waits for nobody who follows');
      await post(20);
      await arrived();
      // What was committed while it was away, and what a kill cut off.
      await subscriber.query('ALTER SUBSCRIPTION deliveries DISABLE');
      await post(20);
      await again('SIGKILL');
      await subscriber.query('ALTER SUBSCRIPTION deliveries ENABLE');
      await post(20);
      await arrived();
    },
  );

  await t.test(
    'a PostgreSQL subscription gets updates and deletions while either side is killed',
    async (step) => {
      const owner = await headgate.client(step);
      await owner.query("CREATE TABLE orders (id INT PRIMARY KEY, n INT) WITH (connector = 'webhook')");
      await owner.query('GRANT SELECT ON orders TO follower; ALTER PUBLICATION deliveries ADD TABLE orders');
      await subscriber.query('CREATE TABLE orders (id INT PRIMARY KEY, n INT)');
      await subscriber.query('ALTER SUBSCRIPTION deliveries REFRESH PUBLICATION');
      const change = async (from: number): Promise<void> => {
        for (let n = from; n < from + 40; n++) {
          assert.equal((await headgate.post('dev/public/orders', `{"id":${n % 17},"n":${n}}`)).status, 200);
          if (n % 5 === 0)
            await (await headgate.client(step)).query(`DELETE FROM orders WHERE id = ${n % 13}`);
        }
      };
      const same = async () => {
        const rows = 'SELECT * FROM orders ORDER BY id';
        // One connection for all looks: the subscription needs a place, too.
        const stored = await (await headgate.client(step)).query(rows);
        await within(30_000, async () => assert.deepEqual((await subscriber.query(rows)).rows, stored.rows));
      };
      await change(0);
      await same();
      // Whoever applies what arrives is killed: its server starts anew, and asks for what it has not committed.
      const { rows } = await subscriber.query<{ pid: number }>(
        "SELECT pid FROM pg_stat_activity WHERE backend_type = 'logical replication worker'",
      );
      const [worker] = rows;
      assert.ok(worker !== undefined);
      process.kill(worker.pid, 'SIGKILL');
      await change(40);
      await within(30_000, connect);
      await same();
      await again('SIGKILL');
      await change(80);
      await same();
    },
  );

  await t.test(
    'a role without REPLICATION cannot follow changes, and one with it cannot copy the server',
    async () => {
      const owner = await headgate.client(t);
      await owner.query('CREATE ROLE stranger LOGIN');
      const follow = async (user: string, replication = 'database'): Promise<Client> => {
        const client = new Client({
          host: '127.0.0.1',
          port,
          user,
          database: 'dev',
          replication,
        } as ClientConfig);
        client.on('error', () => undefined);
        await client.connect();
        onEnd(t, user, () => client.end());
        return client;
      };
      await assert.rejects(follow('stranger'), { code: '42501' });
      for (const replication of ['database', 'true']) {
        const follower = await follow('follower', replication);
        for (const sql of [
          "BASE_BACKUP (LABEL 'x', MANIFEST 'no')",
          'START_REPLICATION 0/1000000',
          'START_REPLICATION SLOT deliveries PHYSICAL 0/1000000',
          'CREATE_REPLICATION_SLOT theirs LOGICAL test_decoding',
          'CREATE_REPLICATION_SLOT theirs PHYSICAL',
        ])
          await assert.rejects(follower.query(sql), { code: '42501', message: /only superusers may/ }, sql);
        assert.equal((await follower.query('IDENTIFY_SYSTEM')).rows.length, 1);
        await assert.rejects(follower.query(`BASE_BACKUP${' '.repeat(17 * 2 ** 20)}`), /too large/);
      }
      const backup = ['-h', '127.0.0.1', '-p', `${port}`, '-U', 'follower', '-D', join(folder, 'backup')];
      const { code, stderr } = await run(join(debianBin, 'pg_receivewal'), [...backup, '--no-loop']);
      assert.notEqual(code, 0, stderr);
      // As functions too, where the page's statement has been run.
      const plain = await headgate.clientAs(t, 'follower');
      await owner.query(await commandsOf(page, 'functions'));
      for (const call of [
        "pg_create_logical_replication_slot('theirs', 'test_decoding')",
        "pg_create_physical_replication_slot('theirs')",
        "pg_copy_logical_replication_slot('deliveries', 'theirs', false, 'test_decoding')",
      ])
        await assert.rejects(plain.query(`SELECT ${call}`), { code: '42501' }, call);
      await assert.rejects(plain.query('SELECT * FROM headgate.secret'), { code: '42501' });
      await assert.rejects(plain.query('INSERT INTO deliveries VALUES (NULL)'), { code: '42501' });
      await subscriber.query('DROP SUBSCRIPTION deliveries');
      const { rows } = await owner.query('SELECT slot_name FROM pg_replication_slots');
      assert.deepEqual(rows, []);
    },
  );

  await t.test(
    'pg_recvlogical reads changes up to a position, and a slot in use requires wal_level = logical',
    async () => {
      const owner = await headgate.client(t);
      const [make = '', read = ''] = (await commandsOf(page, 'changes')).split(/\n(?=pg_recvlogical)/);
      const file = join(folder, 'changes');
      const env = { PATH: `${debianBin}:${process.env['PATH']}`, SQL_PORT: String(port), FILE: file };
      const shell = async (command: string, more: Record<string, string> = {}): Promise<void> => {
        const ran = await run('sh', ['-euc', command], { env: { ...env, ...more } });
        assert.equal(ran.code, 0, ran.stderr);
      };
      await shell(make);
      await post(3);
      const { rows } = await owner.query<{ at: string }>('SELECT pg_current_wal_flush_lsn()::text AS at');
      await post(1);
      await shell(read, { END: rows[0]?.at ?? '' });
      const changes = (await readFile(file)).toString('latin1');
      assert.deepEqual(
        [...changes.matchAll(/\{"n": (\d+)\}/g)].map(([, n]) => Number(n)),
        [sent - 3, sent - 2, sent - 1],
      );
      await headgate.signal('SIGTERM');
      const without = await spawnHeadgate(t, { dataDir });
      assert.equal((await without.ended).code, 1);
      assert.match(without.stderr, /slot "changes" exists, but "?wal_level"? < "?logical/);
    },
  );
});
