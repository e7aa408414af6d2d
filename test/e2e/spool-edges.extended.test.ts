/** A spool beside things that go wrong around it: disks, keys, strangers, restarts. One server, one folder after the other. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createHmac } from 'node:crypto';
import {
  chmodSync,
  chownSync,
  closeSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { onEnd } from '../support/cleanup.ts';
import { spawnHeadgate, startHeadgate, temporaryFolder } from '../support/headgate.ts';
import { Ledger } from '../support/ledger.ts';
import { MortalServer } from '../support/mortal-server.ts';
import { sampleOf, sampleSeed, times } from '../support/sample.ts';
import { SpoolStage } from '../support/spool-stage.ts';
import { findTool, skipFor } from '../support/tools.ts';
import { within } from '../support/within.ts';

const secret = 'edges';
const body = (id: number) => JSON.stringify({ id });
const source = fileURLToPath(new URL('../../../test/support/failing-sync.c', import.meta.url));

/** Where the last record of a segment ends; its last 64 bytes are its header again. */
function lengthOf(path: string): number {
  const bytes = readFileSync(path).subarray(0, -64);
  return bytes.findLastIndex((byte) => byte !== 0) + 1;
}

test('a spool survives faults of the database, its tables and its disk', async (t) => {
  const server = await MortalServer.start(t);
  const stage = new SpoolStage(t, server, await temporaryFolder(t));
  await stage.startHeadgate();
  await stage.sql(`
    CREATE SECRET s WITH (backend = 'meta') AS '${secret}';
    CREATE TABLE kept (data JSONB) WITH (connector = 'webhook', spool = 'fallback', spool_status = '200');
    ${['restart', 'kill']
      .map(
        (
          how,
        ) => `CREATE TABLE once_${how} (data JSONB) WITH (connector = 'webhook', spool = 'fallback', dedupe = '$.id')
      VALIDATE SECRET s AS secure_compare(headers->>'x-hub-signature-256', 'sha256=' || encode(hmac(s, data, 'sha256'), 'hex'))`,
      )
      .join(';')}`);
  const written = (folder = stage.folder) =>
    within(10_000, async () => {
      await delay(10);
      assert(readFileSync(join(folder, 'postgres', 'tables.sealed')).length > 1_500);
    });
  await written();

  await t.test('SHOW CREATE TABLE prints the option spool', async () => {
    const [shown] = await stage.sql<Record<string, string>>('SHOW CREATE TABLE kept');
    const text = Object.values(shown ?? {}).join('\n');
    assert.match(text, /spool = 'fallback'/);
    assert.match(text, /spool_status = '200'/);
  });

  for (const how of sampleOf(['restart', 'kill'] as const, 1))
    await t.test(
      `a ${how} of the database loses and refuses no request of a table with spool and dedupe`,
      async () => {
        const ledger = new Ledger(secret);
        onEnd(t, 'ledger', () => ledger.close());
        const load = ledger.run(() => `${stage.headgate.webhookUrl}/postgres/public/once_${how}`, 8);
        for (let round = 0; round < times(3, 5); round++) {
          const before = ledger.committed;
          await within(30_000, async () => {
            await delay(5);
            assert(ledger.committed >= before + 50);
          });
          await server[how]();
          await server.start();
        }
        ledger.stop();
        await load;
        await within(30_000, async () => {
          await delay(20);
          assert.deepEqual(await stage.sql('SHOW SPOOL'), []);
        });
        const { lost, surplus, refused, unanswered } = await ledger.tally(
          await server.connect(t),
          `once_${how}`,
        );
        assert.deepEqual(
          { lost, surplus, refused, unanswered },
          { lost: [], surplus: [], refused: 0, unanswered: 0 },
          ledger.oddities.join('\n'),
        );
      },
    );

  await t.test('requests spooled under an old master key survive its rotation', async () => {
    await stage.killServer();
    for (const id of [1, 2, 3]) assert.equal((await stage.post('kept', body(id))).status, 200);
    await stage.killHeadgate();
    await server.start();
    const keyFile = join(stage.dataDir, 'master.key');
    const keys = () => readFileSync(keyFile, 'utf8').trim().split('\n').length;
    const first = await stage.command('secrets', 'rotate-key');
    assert.match(`${first.stdout}${first.stderr}`, /both keys stay in use/);
    assert.equal(keys(), 2);
    await stage.startHeadgate();
    await stage.untilDirect('kept', body(4));
    assert.deepEqual(await stage.ids('kept'), [1, 2, 3, 4]);
    await within(10_000, async () => {
      const second = await stage.command('secrets', 'rotate-key');
      assert.equal(second.code, 0, second.stderr);
    });
    assert.equal(keys(), 1);
  });

  await t.test('the spool of a table is hidden from roles that do not own it', async () => {
    const owner = await server.connect(t);
    await owner.query(`create role stranger login; create role mine login;
      create table theirs (data jsonb); alter table theirs owner to mine`);
    await stage.sql(`CREATE TABLE lone (data JSONB) WITH (connector = 'webhook', spool = 'fallback')`);
    await within(10_000, async () => assert.equal((await stage.post('lone', body(0))).status, 200));
    await owner.query('alter table lone owner to mine; revoke insert on lone from public');
    await stage.killServer();
    assert.equal((await stage.post('lone', body(1))).status, 202);
    await stage.killHeadgate();
    await server.start();
    const holder = await server.connect(t);
    await holder.query('begin; lock table lone in share mode');
    await stage.startHeadgate();
    const shownTo = async (role: string) => {
      const client = await stage.headgate.clientAs(t, role, 'postgres');
      const { rows } = await client.query<Record<string, string>>('SHOW SPOOL');
      return rows.map((row) => row['Table']);
    };
    await within(10_000, async () => assert.deepEqual(await shownTo('mine'), ['public.lone']));
    assert.deepEqual(await shownTo('stranger'), []);
    await holder.query('rollback');
    await stage.untilDirect('lone', body(2));
  });

  await t.test(
    'spooled requests wait while their owner lacks the right to insert, and arrive when it is granted',
    async () => {
      const owner = await server.connect(t);
      await owner.query(`
      create function nothing() returns trigger language plpgsql as $$ begin return new; end $$;
      create trigger nothing before insert on lone for each row execute function nothing()`);
      await within(10_000, async () => assert.equal((await stage.post('lone', body(3))).status, 200));
      await owner.end();
      await stage.killServer();
      assert.equal((await stage.post('lone', body(4))).status, 202);
      await stage.killHeadgate();
      await server.start();
      // Its rows are stored with its owner's rights, because it runs code.
      await stage.ask('revoke insert on lone from mine');
      await stage.startHeadgate();
      await within(15_000, async () => {
        await delay(20);
        const [shown] = await stage.sql<Record<string, string | null>>('SHOW SPOOL');
        assert.deepEqual([shown?.['Table'], shown?.['State']], ['public.lone', 'spooling']);
        assert.notEqual(shown?.['Reason'] ?? null, null);
      });
      assert.deepEqual(await stage.ids('lone'), [0, 1, 2, 3]);
      await stage.ask('grant insert on lone to mine');
      await stage.untilDirect('lone', body(5));
      assert.deepEqual(await stage.ids('lone'), [0, 1, 2, 3, 4, 5]);
    },
  );

  /** Of what does not depend on each other: two in each run. */
  const tried = sampleOf([0, 1, 2, 3], 2);
  let place = 0;
  const some = async (name: string, run: (step: TestContext) => Promise<void>): Promise<void> => {
    if (tried.includes(place++)) await t.test(name, run);
  };
  t.diagnostic(sampleSeed);
  await some(
    'spooled requests arrive in a table that was altered and moved, and those that no longer fit are kept',
    async () => {
      await stage.sql(
        `CREATE TABLE shaped (id INT, v TEXT, gone TEXT) WITH (connector = 'webhook', spool = 'fallback')`,
      );
      const shaped = (id: number) => JSON.stringify({ id, v: 'v', gone: 'gone' });
      await within(10_000, async () => assert.equal((await stage.post('shaped', shaped(0))).status, 200));
      await stage.killServer();
      assert.equal((await stage.post('shaped', shaped(1))).status, 202);
      assert.equal((await stage.post('shaped', '{"gone":"gone"}')).status, 202);
      assert.equal((await stage.post('shaped', shaped(2))).status, 202);
      await stage.killHeadgate();
      await server.start();
      await stage.ask(`
      alter table shaped drop column gone; alter table shaped rename column v to w;
      create schema moved; alter table shaped set schema moved`);
      await stage.startHeadgate();
      await within(15_000, async () => {
        await delay(20);
        assert.deepEqual(await stage.ask('select id, w from moved.shaped order by id'), [
          { id: 0, w: 'v' },
          { id: 1, w: null },
          { id: 2, w: null },
        ]);
      });
      // Nothing of it is a column any more.
      const refused = await stage.ask<{ body: Buffer; table: string }>(
        `select body, relation::regclass::text as table from headgate.rejected_requests where door = 'spool'`,
      );
      assert.deepEqual(
        refused.map(({ body: bytes, table }) => [bytes.toString(), table]),
        [['{"gone":"gone"}', 'moved.shaped']],
      );
    },
  );

  await some(
    'a Headgate cut off from the database trusts a revoked secret for HEADGATE_SPOOL_TRUST only',
    async () => {
      const trustS = 6;
      const link = await temporaryFolder(t);
      const socket = '.s.PGSQL.5432';
      symlinkSync(join(server.folder, socket), join(link, socket));
      const databaseUrl = `postgresql://root@/postgres?host=${link}`;
      await stage.killHeadgate();
      const second = await startHeadgate(t, {
        dataDir: await temporaryFolder(t),
        env: {
          HEADGATE_DATABASE_URL: server.databaseUrl,
          HEADGATE_MASTER_KEY_FILE: join(stage.dataDir, 'master.key'),
        },
      });
      await stage.startHeadgate({ HEADGATE_DATABASE_URL: databaseUrl, HEADGATE_SPOOL_TRUST: String(trustS) });
      const delivery = (id: number, key: string) => {
        const text = body(id);
        const signature = createHmac('sha256', key).update(text).digest('hex');
        return stage.post('once_kill', text, { 'x-hub-signature-256': `sha256=${signature}` });
      };
      const first = 1_000_000;
      await within(10_000, async () => assert.equal((await delivery(first, secret)).status, 200));
      rmSync(join(link, socket));
      const beside = await server.connect(t);
      await beside.query(`select pg_terminate_backend(pid) from pg_stat_activity
      where pid <> pg_backend_pid() and backend_type = 'client backend'`);
      await within(10_000, async () => assert.equal((await delivery(first + 1, secret)).status, 202));
      // Its own connections were closed as well: until it has new ones it refuses clients.
      const client = await within(10_000, async () => second.client(t, 'postgres'));
      await within(10_000, async () => client.query(`ALTER SECRET s AS 'another'`));
      assert.equal((await delivery(first + 2, 'another')).status, 401);
      await within(3 * trustS * 1_000, async () => {
        await delay(100);
        assert.equal((await delivery(first + 3, secret)).status, 503);
      });
      symlinkSync(join(server.folder, socket), join(link, socket));
      await within(20_000, async () => assert.equal((await delivery(first + 4, 'another')).status, 200));
      assert.equal((await delivery(first + 5, secret)).status, 401);
      const ids = (await stage.ids('once_kill')).filter((id) => id >= first);
      assert.deepEqual(
        [ids.includes(first + 1), ids.includes(first + 2), ids.includes(first + 4)],
        [true, false, true],
      );
      await second.signal('SIGTERM');
    },
  );

  await t.test('HEADGATE_SPOOL_DIR refuses a folder that others may write to and one in use', async () => {
    const open = await temporaryFolder(t);
    // Of somebody else, or of ours and open to everybody.
    if (process.getuid?.() === 0) chownSync(open, 65_534, 65_534);
    else chmodSync(open, 0o777);
    const env = { HEADGATE_DATABASE_URL: server.databaseUrl, HEADGATE_SPOOL: 'fallback' };
    const refused = async (dir: string) => {
      const second = await spawnHeadgate(t, {
        dataDir: await temporaryFolder(t),
        env: { ...env, HEADGATE_SPOOL_DIR: dir },
      });
      const { code } = await second.ended;
      assert.notEqual(code, 0);
      return second.stderr;
    };
    assert.match(await refused(open), /users other than Headgate's may write to the directory/);
    assert.match(await refused(stage.folder), /another Headgate uses the folder/);
  });

  await t.test('spooled requests damaged on disk are quarantined, and do not prolong spooling', async () => {
    await stage.killServer();
    for (const id of [16, 17]) assert.equal((await stage.post('kept', body(id))).status, 200);
    const segment = [...stage.files()].find((path) => path.endsWith('.seg') && lengthOf(path) > 0);
    assert(segment !== undefined);
    const bytes = readFileSync(segment);
    const at = lengthOf(segment);
    const last = openSync(segment, 'r+');
    writeSync(last, Buffer.from([(bytes[at - 9] ?? 0) ^ 1]), 0, 1, at - 9);
    closeSync(last);
    await server.start();
    await stage.untilDirect('kept', body(18));
    const there = (await stage.ids('kept')).filter((id) => id >= 16 && id <= 18);
    assert.deepEqual(there, [16, 18]);
    assert.match(stage.headgate.stderr, /"kind":"spool.damaged"/);
    assert([...stage.files()].some((path) => path.includes('quarantine')));
  });

  await some('foreign files in the spool folder are left alone, and links are not followed', async () => {
    await stage.killServer();
    assert.equal((await stage.post('kept', body(10))).status, 200);
    await stage.killHeadgate();
    const outside = await temporaryFolder(t);
    writeFileSync(join(outside, 'secret.seg'), 'not ours');
    const database = join(stage.folder, 'postgres');
    const spool = join(database, 'ff'.repeat(16));
    mkdirSync(spool);
    symlinkSync(join(outside, 'secret.seg'), join(spool, '00000000000000000001.seg'));
    symlinkSync(outside, join(stage.folder, 'linked'));
    writeFileSync(join(stage.folder, 'notes.txt'), 'hello');
    mkdirSync(join(database, '00'.repeat(16)));
    await server.start();
    await stage.startHeadgate();
    await within(15_000, async () => {
      await delay(20);
      assert((await stage.ids('kept')).includes(10));
    });
    assert.equal(readFileSync(join(outside, 'secret.seg'), 'utf8'), 'not ours');
  });

  await some(
    'a spool whose disk fails refuses the request it was writing and does not sync that file again',
    async (it) => {
      const cc = findTool('cc');
      if (cc === null) return skipFor(it, 'cc');
      const folder = await temporaryFolder(t);
      const [library, control] = [join(folder, 'failing.so'), join(folder, 'control')];
      assert.equal(spawnSync(cc, ['-shared', '-fPIC', '-o', library, source, '-ldl']).status, 0);
      const fail = (name: string) => writeFileSync(control, `${name}\n`);
      const calls = () => readFileSync(control, 'utf8').trim().split('\n').slice(1);
      fail('nothing');
      await stage.killHeadgate();
      const env = {
        LD_PRELOAD: library,
        HEADGATE_TEST_FAIL: control,
        HEADGATE_SPOOL_DIR: join(folder, 'spool'),
      };
      await stage.startHeadgate(env);
      await written(join(folder, 'spool'));
      await stage.killServer();
      assert.equal((await stage.post('kept', body(20))).status, 200);
      const segment = [...stage.files(join(folder, 'spool'))].find((path) => path.endsWith('01.seg'));
      assert(segment !== undefined);
      fail(segment);
      const refused = await stage.post('kept', body(21));
      assert.deepEqual([refused.status, JSON.parse(refused.text).code], [503, 'overloaded']);
      assert.equal((await stage.post('kept', body(22))).status, 200);
      assert.deepEqual(calls(), [segment]);
      // Once more within a minute: it is off.
      fail('.seg');
      const unknown = await stage.post('kept', body(23));
      assert.deepEqual([unknown.status, JSON.parse(unknown.text).code], [503, 'commit_unknown']);
      fail('nothing');
      const off = await stage.post('kept', body(24));
      assert.deepEqual([off.status, JSON.parse(off.text).code], [503, 'engine_unavailable']);
      await stage.killHeadgate();
      await server.start();
      await stage.startHeadgate({ HEADGATE_SPOOL_DIR: join(folder, 'spool') });
      await stage.untilDirect('kept', body(25));
      const ids = (await stage.ids('kept')).filter((id) => id >= 20 && id !== 23);
      assert.deepEqual(ids, [20, 22, 25]);
    },
  );
});
