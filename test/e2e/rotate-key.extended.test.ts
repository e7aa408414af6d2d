/** `headgate secrets rotate-key`, a wrong master key, and bytes that changed: who is answered what, and what the log says. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { createHmac, randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { onEnd } from '../support/cleanup.ts';
import { startHeadgate, temporaryFolder } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { breath, sampledTests } from '../support/sample.ts';
import { debianBin, startServer } from '../support/server.ts';
import { within } from '../support/within.ts';

const cli = fileURLToPath(new URL('../../src/app/cli.js', import.meta.url));
const canary = 'canary-4711-canary';
const check = `secure_compare(headers->>'x-sig', encode(hmac(s, data, 'sha256'), 'hex'))`;
const sign = (body: string, key = canary) => createHmac('sha256', key).update(body).digest('hex');

class Rotation {
  readonly child: ChildProcess;
  readonly ended: Promise<number | null>;
  output = '';

  constructor(t: TestContext, dataDir: string, env: Record<string, string> = {}) {
    this.child = spawn(process.execPath, [cli, 'secrets', 'rotate-key', `--data-dir=${dataDir}`], {
      env: { PATH: process.env['PATH'], HOME: process.env['HOME'], ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.child.stdout?.setEncoding('utf8').on('data', (text: string) => (this.output += text));
    this.child.stderr?.setEncoding('utf8').on('data', (text: string) => (this.output += text));
    this.ended = new Promise((resolve) => this.child.once('close', resolve));
    onEnd(t, 'rotation', async () => {
      if (this.child.exitCode === null && this.child.signalCode === null) this.child.kill('SIGKILL');
      await this.ended;
    });
  }
}

/** A row for each key that something is sealed with. */
const keysUsed = `select substr(decode(sealed, 'base64'), 1, 5)::text as id from headgate.secret
  union select substr(decode(sealed_expression, 'base64'), 1, 5)::text from headgate.webhook_table
  where sealed_expression is not null`;

const keysIn = async (path: string) => (await readFile(path, 'utf8')).trim().split('\n');

async function makeTables(headgate: Headgate, t: TestContext): Promise<void> {
  const client = await headgate.client(t);
  await client.query('CREATE DATABASE other');
  for (const database of ['dev', 'other']) {
    const own = database === 'dev' ? client : await headgate.client(t, database);
    await own.query(`CREATE SECRET s WITH (backend = 'meta') AS '${canary}';
      CREATE TABLE bound (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET s AS ${check};
      CREATE TABLE literal (data JSONB) WITH (connector = 'webhook')
        VALIDATE AS secure_compare(headers->>'x-sig', encode(hmac('${canary}', data, 'sha256'), 'hex'));
      CREATE TABLE open (data JSONB) WITH (connector = 'webhook') ANSWER STATUS 202`);
  }
}

async function answers(headgate: Headgate, key = canary): Promise<Record<string, number>> {
  const found: Record<string, number> = {};
  for (const path of ['dev/public/bound', 'dev/public/literal', 'dev/public/open', 'other/public/bound'])
    found[path] = (await headgate.post(path, '{}', { 'x-sig': sign('{}', key) })).status;
  return found;
}

const allServed = {
  'dev/public/bound': 200,
  'dev/public/literal': 200,
  // As its ANSWER has it, which is sealed too.
  'dev/public/open': 202,
  'other/public/bound': 200,
};

suite('headgate secrets rotate-key replaces the master key', () => {
  test('secrets rotate-key under load refuses no request, and leaves values sealed with the new key only', async (t) => {
    const dataDir = await temporaryFolder(t);
    const headgate = await startHeadgate(t, { dataDir });
    await makeTables(headgate, t);
    const path = join(dataDir, 'master.key');
    const [old] = await keysIn(path);
    const stop = new AbortController();
    const seen = new Set<string>();
    const load = (async () => {
      while (!stop.signal.aborted) {
        for (const answer of Object.entries(await answers(headgate))) seen.add(answer.join(' '));
        await breath();
      }
    })();
    // A secret that is sealed and not committed: the rotation waits for it.
    const client = await headgate.client(t);
    await client.query(`BEGIN; CREATE SECRET later WITH (backend = 'meta') AS '${canary}'`);
    const killed = new Rotation(t, dataDir);
    await within(20_000, async () => {
      const { rows } = await (
        await headgate.client(t)
      ).query(`select from pg_locks where mode = 'ShareRowExclusiveLock' and not granted`);
      assert.equal(rows.length, 1);
    });
    killed.child.kill('SIGKILL');
    await killed.ended;
    const both = await keysIn(path);
    assert.equal(both.length, 2);
    assert.equal(both[1], old, 'the old key is kept until nothing needs it');
    await client.query('COMMIT');
    const rotation = new Rotation(t, dataDir);
    assert.equal(await rotation.ended, 0, rotation.output);
    assert.match(rotation.output, /the rotation continues/);
    assert(!rotation.output.includes(canary));
    for (const key of both) assert(!rotation.output.includes(key));
    const [now, ...more] = await keysIn(path);
    assert.deepEqual([now, more], [both[0], []]);
    const names = await readdir(dataDir);
    const retired = names.filter((name) => /^master\.key\.[0-9a-f]{8}\.old$/.test(name));
    assert.deepEqual(await keysIn(join(dataDir, retired[0] ?? '')), [old]);
    stop.abort();
    await load;
    assert.deepEqual(
      [...seen].toSorted(),
      Object.entries(allServed)
        .map((it) => it.join(' '))
        .toSorted(),
    );
    await client.query(`CREATE SECRET afterwards WITH (backend = 'meta') AS '${canary}'`);
    assert.equal((await client.query(keysUsed)).rows.length, 1, 'all of them are of one key');
    assert.equal((await headgate.signal('SIGTERM')).code, 0);
    // Nothing runs: the engine is started for it.
    const alone = new Rotation(t, dataDir);
    assert.equal(await alone.ended, 0, alone.output);
    assert.match(alone.output, /database "dev": \d+ sealed with the new key\ndatabase "other": /);
    const again = await startHeadgate(t, { dataDir });
    assert.deepEqual(await answers(again), allServed);
  });

  test('secrets rotate-key refuses where there is no second key, and reads HEADGATE_MASTER_KEY', async (t) => {
    const dataDir = await temporaryFolder(t);
    const none = new Rotation(t, join(dataDir, 'none'));
    assert.equal(await none.ended, 1);
    assert.match(none.output, /^headgate: there is no Headgate database in /);
    const [old, next] = [randomBytes(32).toString('base64'), randomBytes(32).toString('base64')];
    const first = await startHeadgate(t, { dataDir, env: { HEADGATE_MASTER_KEY: old } });
    await makeTables(first, t);
    const one = new Rotation(t, dataDir, { HEADGATE_MASTER_KEY: old });
    assert.equal(await one.ended, 1);
    assert.match(one.output, /HEADGATE_MASTER_KEY holds one key/);
    await first.signal('SIGTERM');
    const both = { HEADGATE_MASTER_KEY: `${next},${old}` };
    const second = await startHeadgate(t, { dataDir, env: both });
    assert.deepEqual(await answers(second), allServed);
    const rotation = new Rotation(t, dataDir, both);
    assert.equal(await rotation.ended, 0, rotation.output);
    assert.deepEqual(await answers(second), allServed);
    for (const database of ['dev', 'other']) {
      const { rows } = await (await second.client(t, database)).query(keysUsed);
      assert.equal(rows.length, 1, `${database}: nothing needs the old key`);
    }
  });
});

const some = sampledTests(1, 2);

some('secrets rotate-key keeps both keys while one database is read-only', async (t) => {
  if (!existsSync(debianBin)) return t.skip('PostgreSQL 15 is not installed');
  const server = await startServer(debianBin);
  onEnd(t, 'server', () => server.close());
  const dataDir = await temporaryFolder(t);
  const env = {
    HEADGATE_DATABASE_URL: `postgresql://root@/postgres?host=${encodeURIComponent(server.socketDir)}`,
  };
  const headgate = await startHeadgate(t, { dataDir, env });
  const client = await headgate.client(t, 'postgres');
  await client.query('CREATE DATABASE other');
  await client.query(`CREATE SECRET s WITH (backend = 'meta') AS '${canary}'`);
  const other = await headgate.client(t, 'other');
  await other.query(`CREATE SECRET s WITH (backend = 'meta') AS '${canary}'`);
  // Read-only, as a standby is.
  await client.query('ALTER DATABASE other SET default_transaction_read_only = on');
  const path = join(dataDir, 'master.key');
  const [old] = await keysIn(path);
  const first = new Rotation(t, dataDir, env);
  assert.equal(await first.ended, 1, first.output);
  assert.match(first.output, /database "postgres": 1 sealed with the new key/);
  assert.match(first.output, /database "other": .*read-only.*\n.*both keys stay in use/);
  assert.deepEqual((await keysIn(path))[1], old);
  await client.query('ALTER DATABASE other RESET default_transaction_read_only');
  const second = new Rotation(t, dataDir, env);
  assert.equal(await second.ended, 0, second.output);
  assert.equal((await keysIn(path)).length, 1);
});

some("secrets rotate-key runs no code of a database's owner", async (t) => {
  const dataDir = await temporaryFolder(t);
  const headgate = await startHeadgate(t, { dataDir });
  const root = await headgate.client(t);
  await root.query(`CREATE SECRET s WITH (backend = 'meta') AS '${canary}'`);
  await root.query('CREATE ROLE alice LOGIN CREATEDB');
  const alice = await headgate.clientAs(t, 'alice');
  for (const name of ['squatted', 'served']) await alice.query(`CREATE DATABASE ${name}`);
  const gain = `BEGIN IF current_user <> 'alice' THEN EXECUTE 'ALTER ROLE alice SUPERUSER'; END IF; RETURN 'x'; END`;
  const squatted = await headgate.clientAs(t, 'alice', 'squatted');
  await squatted.query(`CREATE SCHEMA headgate; CREATE FUNCTION public.gain() RETURNS text LANGUAGE plpgsql AS $$ ${gain} $$;
    CREATE TABLE headgate.secret (id uuid, name text, seal_id uuid, sealed text);
    CREATE TABLE headgate.webhook_answer (seal_id uuid, relation regclass, sealed text);
    CREATE TABLE headgate.webhook_table (relation regclass, seal_id uuid, sealed_expression text);
    CREATE VIEW headgate.key_check AS SELECT gen_random_uuid() AS seal_id, public.gain() AS sealed`);
  const served = await headgate.clientAs(t, 'alice', 'served');
  await served.query(`CREATE SECRET s WITH (backend = 'meta') AS '${canary}'; CREATE SCHEMA evil;
    CREATE FUNCTION evil.gain(a text, b text) RETURNS text LANGUAGE plpgsql AS $$ ${gain} $$;
    CREATE FUNCTION evil.same(a smallint, b integer) RETURNS boolean LANGUAGE plpgsql AS
      $$ BEGIN PERFORM evil.gain('', ''); RETURN pg_catalog.int24eq(a, b); END $$;
    CREATE FUNCTION evil.same(a text, b text) RETURNS boolean LANGUAGE plpgsql AS
      $$ BEGIN PERFORM evil.gain('', ''); RETURN pg_catalog.texteq(a, b); END $$;
    CREATE OPERATOR evil.= (LEFTARG = smallint, RIGHTARG = integer, FUNCTION = evil.same);
    CREATE OPERATOR evil.= (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.same);
    CREATE TABLE t (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET s AS ${check};
    ALTER DATABASE served SET search_path = evil, pg_catalog, public`);
  const rotation = new Rotation(t, dataDir);
  assert.equal(await rotation.ended, 0, rotation.output);
  assert.match(rotation.output, /database "squatted" is skipped: the schema headgate, of role "alice"/);
  assert.match(rotation.output, /database "served": \d+ sealed with the new key/);
  assert.equal((await keysIn(join(dataDir, 'master.key'))).length, 1);
  const { rows } = await root.query(`SELECT rolsuper FROM pg_roles WHERE rolname = 'alice'`);
  assert.deepEqual(rows, [{ rolsuper: false }]);
});

suite('a secret that does not open disables its table only', () => {
  const unusable = (headgate: Headgate) =>
    headgate.stderr.split('\n').filter((line) => line.includes('catalog.table_unusable'));

  test('a secret with a flipped bit gives 503 for its table only, until ALTER SECRET', async (t) => {
    const headgate = await startHeadgate(t, { args: ['--log-level=debug'] });
    const client = await headgate.client(t);
    await makeTables(headgate, t);
    await client.query(`CREATE SECRET "other\nkey" WITH (backend = 'meta') AS '${canary}';
      CREATE TABLE second (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET "other\nkey" AS
        secure_compare(headers->>'x-sig', encode(hmac("other\nkey", data, 'sha256'), 'hex'))`);
    const second = async () =>
      (await headgate.post('dev/public/second', '{}', { 'x-sig': sign('{}') })).status;
    assert.equal(await second(), 200);
    await client.query(`update headgate.secret set sealed =
      encode(set_byte(decode(sealed, 'base64'), 30, get_byte(decode(sealed, 'base64'), 30) # 1), 'base64')
      where name = E'other\\nkey'`);
    await within(2_000, async () => assert.equal(await second(), 503));
    assert.deepEqual(await answers(headgate), allServed);
    for (let i = 0; i < 5; i++) assert.equal(await second(), 503);
    const [line, ...more] = unusable(headgate);
    assert.deepEqual(more, []);
    const said = JSON.parse(line ?? '') as { table: string; reason: string; level: string };
    assert.equal(said.table, 'dev.public.second');
    assert.equal(said.level, 'error');
    assert.match(said.reason, /^secret other\nkey: the sealed text does not open: /);
    await client.query(`ALTER SECRET "other\nkey" AS '${canary}'`);
    await within(2_000, async () => assert.equal(await second(), 200));
    assert(!headgate.stderr.includes(canary));
  });
});
