/** `headgate move`, and docs/deploy/moving-to-external.md around it, while a sender goes on. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Client } from 'pg';
import { onEnd } from '../support/cleanup.ts';
import { commandsOf } from '../support/docs.ts';
import { request } from '../support/gateway.ts';
import { startHeadgate, temporaryFolder } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { Ledger } from '../support/ledger.ts';
import { run } from '../support/run.ts';
import { breath, sampledTests, sampleOf } from '../support/sample.ts';
import { debianBin, embeddedBin, startServer } from '../support/server.ts';
import { spoolOpened } from '../support/spool-opened.ts';
import { within } from '../support/within.ts';
import { WsClient } from '../support/ws-client.ts';
import { until } from '../support/until.ts';

const cli = fileURLToPath(new URL('../../src/app/cli.js', import.meta.url));
const page = 'docs/deploy/moving-to-external.md';
const secret = 'moved along';

/** An empty database of another server, of another version where there is one. */
async function elsewhere(t: TestContext) {
  const server = await startServer(existsSync(join(debianBin, 'postgres')) ? debianBin : embeddedBin);
  onEnd(t, 'server', () => server.close());
  const admin = new Client({ host: server.socketDir, user: 'root', database: 'postgres' });
  await admin.connect();
  await admin.query('create database dev');
  await admin.query('create role reader');
  await admin.end();
  const client = new Client({ host: server.socketDir, user: 'root', database: 'dev' });
  client.on('error', () => {});
  await client.connect();
  onEnd(t, 'client there', () => client.end());
  return { url: `postgresql://root@/dev?host=${encodeURIComponent(server.socketDir)}`, client };
}

const move = (dataDir: string, url: string, ...args: string[]) =>
  run(process.execPath, [cli, 'move', `--data-dir=${dataDir}`, '--to', url, ...args]);

async function keyOf(dataDir: string): Promise<string> {
  return (await readFile(join(dataDir, 'master.key'), 'utf8')).trim();
}

const everyKind = `
  CREATE SCHEMA shop;
  CREATE ROLE reader;
  CREATE ROLE nobody_there;
  CREATE TYPE shop.colour AS ENUM ('red', 'light "green"', 'blue');
  CREATE TYPE shop.place AS (street text, number int, colour shop.colour);
  CREATE DOMAIN shop.positive AS numeric(12,2) DEFAULT 1 NOT NULL CONSTRAINT above_zero CHECK (value > 0);
  CREATE FUNCTION shop.twice(n bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS 'SELECT n * 2';
  CREATE FUNCTION shop.noted() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.note := coalesce(NEW.note, 'noted'); RETURN NEW; END $$;
  CREATE SEQUENCE shop.numbers AS int START 100 INCREMENT 5 CYCLE;
  CREATE TABLE shop."Odd name" (
    id bigint GENERATED ALWAYS AS IDENTITY (START WITH 10) PRIMARY KEY,
    "when" timestamptz DEFAULT '2026-01-01 00:00:00Z',
    serial_no serial,
    number int DEFAULT nextval('shop.numbers'),
    colour shop.colour NOT NULL, home shop.place, price shop.positive, tags text[] DEFAULT '{a,b}',
    twice bigint GENERATED ALWAYS AS (shop.twice(length(note))) STORED,
    raw bytea, spans interval, note text COLLATE "C", CONSTRAINT short CHECK (length(note) < 50), UNIQUE (colour, note))
    WITH (connector = 'webhook') VALIDATE AS secure_compare(headers->>'signature', 'a literal key');
  ALTER TABLE shop."Odd name" SET (fillfactor = 80);
  CREATE TABLE shop.lines (odd bigint REFERENCES shop."Odd name" ON DELETE CASCADE, n int, PRIMARY KEY (odd, n));
  CREATE UNIQUE INDEX by_note ON shop."Odd name" (lower(note)) WHERE note <> 'x';
  CREATE TRIGGER noted BEFORE INSERT ON shop."Odd name" FOR EACH ROW EXECUTE FUNCTION shop.noted();
  CREATE VIEW shop.reds AS SELECT id, note FROM shop."Odd name" WHERE colour = 'red';
  COMMENT ON TABLE shop."Odd name" IS 'it''s odd';
  COMMENT ON COLUMN shop."Odd name"."when" IS 'a moment';
  GRANT SELECT ON shop."Odd name" TO reader;
  GRANT UPDATE (note) ON shop."Odd name" TO reader;
  GRANT SELECT ON shop.reds TO nobody_there;
  GRANT USAGE ON SCHEMA shop TO reader;
  CREATE SECRET gh WITH (backend = 'meta') AS '${secret}';
  CREATE TABLE keyed (data JSONB, id text GENERATED ALWAYS AS (data->>'id') STORED PRIMARY KEY)
    INCLUDE TIMESTAMP AS arrived
    WITH (connector = 'webhook', on_type_error = 'null') VALIDATE SECRET gh USING github;
  CREATE TABLE deliveries (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET gh USING github;
  CREATE TABLE newest (id INT PRIMARY KEY, seen BIGINT) WITH (connector = 'webhook', version = 'seen', version_window = '30 days');
  CREATE TABLE compared (data JSONB) WITH (connector = 'webhook', dedupe = '$.id', reconcile = 'stripe', every = '1 hour', reconcile_secret = gh);
  INSERT INTO headgate.reconciling (relation, log, mark, since, looked_at, read_to, next_at)
    VALUES ('compared'::regclass, 'stripe', headgate.mark_of_owner('compared'::regclass), '2026-01-01 00:00:00Z', '2026-01-01 02:00:00Z', '2026-01-01 01:30:00Z',
      'infinity') ON CONFLICT (relation) DO UPDATE
      SET (mark, since, looked_at, read_to, next_at) = (excluded.mark, excluded.since, excluded.looked_at, excluded.read_to, excluded.next_at);
  INSERT INTO headgate.announced (relation, delivery, id, log_id, announced_at, next_at)
    VALUES ('compared'::regclass, gen_random_uuid(), 'evt_1', 'evt_1', '2026-01-01 00:30:00Z', 'infinity');
  INSERT INTO headgate.past_window VALUES ('compared'::regclass, '2026-01-01 00:00:00Z', '2026-01-01 01:00:00Z', 7, 2);
  INSERT INTO shop."Odd name" (colour, home, price, raw, spans, note) VALUES
    ('light "green"', ROW('Main \\ St', 7, 'blue'), 12.50, '\\x00ff', '1 day 02:03:04.5', 'first'),
    ('red', NULL, 3, NULL, NULL, E'tab\\t\\\\N');
  INSERT INTO shop.lines VALUES (10, 1), (11, 2);
  SELECT nextval('shop.numbers');
  INSERT INTO keyed (data) SELECT jsonb_build_object('id', n) FROM generate_series(1, 500) n`;

/** What is to be the same on both sides, as PostgreSQL itself tells it. */
const facts = [
  `SELECT * FROM shop."Odd name" ORDER BY id`,
  'SELECT * FROM shop.lines ORDER BY 1, 2',
  'SELECT * FROM keyed ORDER BY id',
  'SELECT * FROM shop.reds ORDER BY 1',
  'SELECT last_value, is_called FROM shop.numbers',
  `SELECT last_value, is_called FROM shop."Odd name_id_seq"`,
  `SELECT last_value, is_called FROM shop."Odd name_serial_no_seq"`,
  `SELECT attname, format_type(atttypid, atttypmod), attnotnull, attidentity, attgenerated, pg_get_expr(d.adbin, d.adrelid)
   FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = attrelid AND d.adnum = attnum
   WHERE attrelid IN ('shop."Odd name"'::regclass, 'shop.lines'::regclass, 'keyed'::regclass) AND attnum > 0 ORDER BY attrelid::regclass::text, attnum`,
  `SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE contype <> 'n' AND connamespace IN ('shop'::regnamespace, 'public'::regnamespace) ORDER BY 1`,
  `SELECT indexrelid::regclass, pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = 'shop."Odd name"'::regclass ORDER BY 1`,
  `SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal AND tgrelid = 'shop."Odd name"'::regclass`,
  `SELECT obj_description('shop."Odd name"'::regclass), col_description('shop."Odd name"'::regclass, 2)`,
  `SELECT has_table_privilege('reader', 'shop."Odd name"', 'SELECT'), has_column_privilege('reader', 'shop."Odd name"', 'note', 'UPDATE'),
     has_table_privilege('reader', 'shop."Odd name"', 'INSERT'), has_schema_privilege('reader', 'shop', 'USAGE')`,
  `SELECT reloptions FROM pg_class WHERE oid = 'shop."Odd name"'::regclass`,
  `SELECT schema_name, name, backend FROM headgate.secret ORDER BY 1, 2`,
  `SELECT relation::text, payload, options, expression FROM headgate.webhook_table ORDER BY 1`,
  `SELECT t.name, t.hash, t.origins, t.rate, k.relation::text FROM headgate.token t JOIN headgate.token_table k ON k.token_id = t.id ORDER BY 1`,
  'SELECT id, table_name, status, code, reason, body FROM headgate.rejected_requests ORDER BY id',
  'SELECT * FROM newest ORDER BY id',
  'SELECT relation::text, key, version, deleted_at FROM headgate.tombstone ORDER BY 1, 2',
  `SELECT table_name, log, window_from, announced, came, fetched, missing, missing_ids, state, read_to, looked_at FROM headgate.gaps ORDER BY 1, 3`,
  `SELECT r.relation::text, s.name FROM headgate.webhook_reconcile r JOIN headgate.secret s ON s.id = r.secret_id`,
];

const typed = (client: Client, sql: string) => client.query({ text: sql, rowMode: 'array' });

suite('headgate move moves a database', () => {
  test(
    'headgate move carries every kind of table, right, comment, secret and refused request',
    { timeout: 180_000 },
    async (t) => {
      const there = await elsewhere(t);
      const dataDir = await temporaryFolder(t);
      // Nobody is asked for a log.
      const alone = { HEADGATE_RECONCILE_APIS: 'none' };
      const old = await startHeadgate(t, { dataDir, env: alone });
      const client = await old.client(t);
      await client.query(everyKind);
      const socket = await WsClient.open(`ws://127.0.0.1:${old.ports.listen.port}/ingest/dev/public/newest`);
      socket.send(1, [
        { op: 'upsert', data: { id: 1, seen: 5 } },
        { op: 'delete', data: { id: 2, seen: 9 } },
      ]);
      await socket.acked(1);
      void socket.kill();
      const tokenOf = async (words: string) =>
        (await client.query<{ Token: string }>(`CREATE TOKEN ${words}`)).rows[0]?.Token ?? '';
      const token = await tokenOf(
        `moved FOR INSERT ON keyed WITH (origins = 'https://a.example', rate = '9/s')`,
      );
      await client.query('GRANT INSERT ON keyed TO nobody_there; SET ROLE nobody_there');
      const lost = await tokenOf('lost FOR INSERT ON keyed');
      await client.query('RESET ROLE');
      assert.equal((await old.post('dev/public/deliveries', '{"forged":1}')).status, 401);
      await within(5_000, async () =>
        assert.equal((await client.query('SELECT FROM headgate.rejected_requests')).rowCount, 1),
      );
      const before = [];
      for (const sql of facts) before.push((await typed(client, sql)).rows);
      const moved = await move(dataDir, there.url);
      assert.equal(moved.code, 0, moved.stderr);
      assert.match(moved.stderr, /not moved: rights on shop\.reds, because there is no role nobody_there/);
      assert.equal(moved.stdout.includes(secret), false);
      for (const [index, sql] of facts.entries())
        assert.deepEqual((await typed(there.client, sql)).rows, before[index], sql);
      assert.deepEqual((await there.client.query("SELECT to_regnamespace('headgate_move') AS n")).rows, [
        { n: null },
      ]);

      // The source answers 503 and nothing else; the new side takes the same requests with the same key.
      await within(10_000, async () =>
        assert.equal(
          (await old.post('dev/shop/Odd%20name', '{"colour":"red"}', { signature: 'a literal key' })).status,
          503,
        ),
      );
      const env = { ...alone, HEADGATE_DATABASE_URL: there.url, HEADGATE_MASTER_KEY: await keyOf(dataDir) };
      const taker = await startHeadgate(t, { env });
      for (const [body, answer] of [
        ['{"id":1,"seen":4}', '{"rows":0,"stale":1}'],
        ['{"id":2,"seen":8}', '{"rows":0,"stale":1}'],
        ['{"id":2,"seen":10}', '{"rows":1}'],
      ] as const)
        assert.equal((await taker.post('dev/public/newest', body)).text, answer, body);
      const post = async (signature: string) => {
        const body = '{"colour":"blue","note":"new","price":2}';
        const { status, text } = await taker.post('dev/shop/Odd%20name', body, { signature });
        return `${status} ${text}`;
      };
      assert.equal(await post('a literal key'), '200 {"rows":1}');
      assert.match(await post('another'), /^401 /);
      const { rows } = await there.client.query(
        `SELECT id::int, twice::int, number FROM shop."Odd name" WHERE note = 'new'`,
      );
      assert.deepEqual(rows, [{ id: 12, twice: 6, number: 115 }]);
      const keyed = await run(process.execPath, [
        cli,
        'send',
        'github',
        '--url',
        `${taker.webhookUrl}/dev/public/deliveries`,
        '--secret',
        secret,
      ]);
      assert.equal(keyed.stdout, 'HTTP 200\n');
      // A token goes on with its role, and does not become anybody else's.
      const insert = (bearer: string) =>
        request(`${taker.gatewayUrl}/v1/events?name=keyed`, {
          method: 'POST',
          body: '{"data":{"id":"by token"}}',
          headers: { authorization: `Bearer ${bearer}` },
        });
      assert.deepEqual([(await insert(token)).status, (await insert(lost)).status], [200, 401]);
      // The secret is the new owner's to change.
      const owner = await taker.client(t);
      await owner.query(`ALTER SECRET gh AS 'changed'`);
    },
  );

  test(
    'after headgate move the source keeps no request on its disk, and the target gets what was there',
    { timeout: 180_000 },
    async (t) => {
      const there = await elsewhere(t);
      const dataDir = await temporaryFolder(t);
      const before = await startHeadgate(t, { dataDir });
      const client = await before.client(t);
      // So that oids there are others.
      await client.query(`CREATE TABLE first (data JSONB) WITH (connector = 'webhook');
        CREATE TABLE kept (data JSONB) WITH (connector = 'webhook', spool = 'fallback', spool_status = '200');
        CREATE TABLE other (data JSONB) WITH (connector = 'webhook', spool = 'fallback')`);
      const stored = ({ headers }: { headers: Headers }) => headers.get('headgate-stored');
      await spoolOpened(dataDir, 'dev');
      await client.query('BEGIN; LOCK TABLE kept, other IN EXCLUSIVE MODE');
      for (const table of ['kept', 'other', 'kept'])
        assert.equal(stored(await before.post(`dev/public/${table}`, `{"to":"${table}"}`)), 'spool');
      await before.signal('SIGKILL');
      const moved = await move(dataDir, there.url);
      assert.equal(moved.code, 0, moved.stderr);
      assert.match(moved.stderr, /: 3 requests are only in .*spool: /);

      const old = await startHeadgate(t, { dataDir });
      await within(10_000, async () => {
        const { status, headers } = await old.post('dev/public/kept', '{"to":"nobody"}');
        assert.deepEqual([status, stored({ headers })], [503, null]);
      });
      await old.signal('SIGTERM');
      assert.match(old.stderr, /"requests":3,"folder":"[^"]*","kind":"spool\.waiting"/);

      const env = { HEADGATE_DATABASE_URL: there.url, HEADGATE_MASTER_KEY: await keyOf(dataDir) };
      const folder = join(dataDir, 'spool');
      const settings = ['--data-dir', await temporaryFolder(t)];
      const drained = await run(process.execPath, [cli, 'spool', 'drain', folder, ...settings], {
        env: { ...process.env, ...env },
      });
      assert.equal(drained.code, 0, drained.stderr);
      const rows = async () =>
        (
          await there.client.query<{ to: string }>(
            `SELECT data ->> 'to' AS to FROM public.kept UNION ALL SELECT 'in ' || (data ->> 'to') FROM public.other ORDER BY 1`,
          )
        ).rows.map(({ to }) => to);
      assert.deepEqual(await rows(), ['in other', 'kept', 'kept']);
    },
  );

  const some = sampledTests(2, 3);

  some(
    'headgate move stops a table with code at the source and goes on in a session of its owner at the target',
    async (t) => {
      const there = await elsewhere(t);
      await there.client.query('CREATE ROLE app');
      const dataDir = await temporaryFolder(t);
      const old = await startHeadgate(t, { dataDir });
      await (await old.client(t)).query('CREATE ROLE app LOGIN; CREATE SCHEMA app AUTHORIZATION app');
      await (
        await old.clientAs(t, 'app')
      ).query(`CREATE TABLE app.plain (data JSONB) WITH (connector = 'webhook');
      CREATE TABLE app.coded (id INT, who NAME DEFAULT current_user, session NAME DEFAULT session_user) WITH (connector = 'webhook', dedupe = '$.id')`);
      const stored: number[] = [];
      let refused = 0;
      const over = new AbortController();
      const sending = (async () => {
        for (let id = 0; !over.signal.aborted; id++) {
          const { status } = await old.post('dev/app/coded', `{"id":${id}}`);
          if (status === 200) stored.push(id);
          else refused += 1;
          await breath();
        }
      })();
      await until(() => stored.length > 20);
      // An id of a table that is gone, whose oid another table may have there.
      const source = await old.client(t);
      await source.query(
        `INSERT INTO headgate.delivery (relation, id) VALUES (987654321::oid::regclass, gen_random_uuid())`,
      );
      const moved = await move(dataDir, there.url);
      assert.equal(moved.code, 0, moved.stderr);
      assert.doesNotMatch(moved.stderr, /headgate_/);
      // Each waits for two seconds.
      await until(() => refused > 2);
      over.abort();
      await sending;
      const ids = `SELECT relation::text, id, stored_at, body FROM headgate.delivery WHERE claimed_by IS NOT NULL ORDER BY id`;
      const { rows: known } = await (await old.client(t)).query(ids);
      assert.ok(known.length >= stored.length);
      assert.deepEqual((await there.client.query(ids)).rows, known);
      assert.equal((await there.client.query('SELECT FROM headgate.delivery')).rowCount, known.length);
      const { rows } = await there.client.query<{ id: number }>('SELECT id FROM app.coded');
      const found = new Set(rows.map(({ id }) => id));
      assert.deepEqual(
        stored.filter((id) => !found.has(id)),
        [],
      );
      const env = { HEADGATE_DATABASE_URL: there.url, HEADGATE_MASTER_KEY: await keyOf(dataDir) };
      const taker = await startHeadgate(t, { env });
      assert.equal((await taker.post('dev/app/coded', '{"id":-1}')).status, 200);
      assert.equal((await taker.post('dev/app/plain', '{}')).status, 200);
      const { rows: last } = await there.client.query(
        `SELECT who, starts_with(session, format('headgate_as_%s_', 'app'::regrole::oid)) AS own FROM app.coded WHERE id = -1`,
      );
      assert.deepEqual(last, [{ who: 'app', own: true }]);
      // Deliveries that came before the move, and while it copied, are known there.
      for (const id of [stored[0], stored.at(-1)])
        assert.equal((await taker.post('dev/app/coded', `{"id":${id}}`)).status, 200);
      const { rows: copies } = await there.client.query(
        'SELECT id FROM app.coded GROUP BY id HAVING count(*) > 1',
      );
      assert.deepEqual(copies, []);
    },
  );

  test('headgate move under load loses no answered request', { timeout: 180_000 }, async (t) => {
    const there = await elsewhere(t);
    const dataDir = await temporaryFolder(t);
    const old = await startHeadgate(t, { dataDir });
    const client = await old.client(t);
    await client.query(`
      CREATE SECRET gh WITH (backend = 'meta') AS '${secret}';
      CREATE TABLE deliveries (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET gh USING github`);
    const ledger = new Ledger(secret);
    onEnd(t, 'ledger', () => ledger.close());
    let receiver: Headgate = old;
    const sending = ledger.run(() => `${receiver.webhookUrl}/dev/public/deliveries`, 4);
    const more = async (n: number) => {
      const enough = ledger.committed + n;
      await until(() => ledger.committed >= enough);
    };
    await more(200);
    const env = {
      PATH: `${join(cli, '..')}:${process.env['PATH'] ?? ''}`,
      DATA_DIR: dataDir,
      NEW: there.url,
    };
    const program = `headgate() { '${process.execPath}' '${cli}' "$@"; }\n`;
    const ran = await run('sh', ['-euc', `${program}${await commandsOf(page, 'move')}`], { env });
    assert.equal(ran.code, 0, ran.stderr);
    assert.match(await commandsOf(page, 'start'), /HEADGATE_MASTER_KEY=.*HEADGATE_DATABASE_URL="\$NEW"/);
    receiver = await startHeadgate(t, {
      env: { HEADGATE_DATABASE_URL: there.url, HEADGATE_MASTER_KEY: await keyOf(dataDir) },
    });
    await more(100);
    ledger.stop();
    await sending;
    const { lost } = await ledger.tally(await receiver.client(t), 'deliveries');
    // Whoever came while neither side took anything read 503, and nothing else.
    assert.deepEqual({ lost, odd: ledger.odd }, { lost: [], odd: [] });
  });

  some(
    'headgate move carries rows as they are at its end when they change or go while it copies',
    async (t) => {
      const there = await elsewhere(t);
      const dataDir = await temporaryFolder(t);
      const old = await startHeadgate(t, { dataDir });
      const client = await old.client(t);
      await client.query(`
      CREATE TABLE up (id int PRIMARY KEY, v text, "Mixed Key" int GENERATED ALWAYS AS (id * 2) STORED) WITH (connector = 'webhook');
      CREATE TABLE down (id int, v text) WITH (connector = 'webhook');
      CREATE TABLE gen (data JSONB, id text GENERATED ALWAYS AS (data->>'id') STORED PRIMARY KEY) WITH (connector = 'webhook');
      CREATE TABLE zz_last (n int UNIQUE) WITH (connector = 'webhook');
      INSERT INTO up SELECT n, 'old' FROM generate_series(1, 1000) n;
      INSERT INTO down SELECT n, 'old' FROM generate_series(1, 1000) n;
      INSERT INTO gen (data) SELECT jsonb_build_object('id', n, 'v', 'old') FROM generate_series(1, 1000) n;
      INSERT INTO zz_last SELECT generate_series(1, 10)`);
      // It stands between the first copies and the last one: somebody holds the last table there.
      const child = spawn(process.execPath, [cli, 'move', `--data-dir=${dataDir}`, '--to', there.url]);
      let said = '';
      const ended = new Promise<number | null>((resolve) => child.once('close', resolve));
      child.stderr.setEncoding('utf8').on('data', (text: string) => (said += text));
      const holder = new Client({ host: there.client.host, user: 'root', database: 'dev' });
      await holder.connect();
      const copied = new Promise<void>((resolve, reject) => {
        child.stdout.setEncoding('utf8').on('data', (text: string) => {
          said += text;
          if (text.includes('tables are created'))
            void holder.query('BEGIN; LOCK TABLE public.zz_last IN SHARE MODE').then(undefined, reject);
          if (['down', 'gen', 'up'].every((name) => said.includes(`public.${name}:`))) resolve();
        });
      });
      await Promise.race([copied, ended.then(() => assert.fail(said))]);
      await client.query(`
      UPDATE up SET v = 'new' WHERE id <= 10; DELETE FROM up WHERE id = 1000; INSERT INTO up VALUES (2000, 'late');
      UPDATE down SET v = 'new' WHERE id <= 10; DELETE FROM down WHERE id = 1000;
      UPDATE gen SET data = data || '{"v":"new"}' WHERE id = '7'`);
      await holder.query('COMMIT');
      await holder.end();
      assert.equal(await ended, 0, said);
      const again = await old.client(t);
      for (const table of ['up', 'down', 'gen', 'zz_last']) {
        const sql = `SELECT t.* FROM ${table} t ORDER BY 1, 2`;
        assert.deepEqual(
          (await typed(there.client, sql.replace(', 2', ''))).rows,
          (await typed(again, sql.replace(', 2', ''))).rows,
          table,
        );
      }
    },
  );

  some('headgate move interrupted after any step goes on and ends in the same state', async (t) => {
    const there = await elsewhere(t);
    const dataDir = await temporaryFolder(t);
    const old = await startHeadgate(t, { dataDir });
    const client = await old.client(t);
    await client.query(everyKind);
    const before = [];
    for (const sql of facts) before.push((await typed(client, sql)).rows);
    const steps = [/tables are created/, /public\.keyed: /, /^indexes$/m, /accepts no more writes/];
    for (const step of sampleOf(steps, 1)) {
      const child = spawn(process.execPath, [cli, 'move', `--data-dir=${dataDir}`, '--to', there.url]);
      let said = '';
      child.stdout.setEncoding('utf8').on('data', (text: string) => {
        said += text;
        if (step.test(said)) child.kill('SIGKILL');
      });
      await new Promise((resolve) => child.once('close', resolve));
      // What it said last may be done before it ends: then the next one goes on behind that.
      assert.ok(step.test(said) || /accepts no more writes/.test(said), said);
    }
    const last = await move(dataDir, there.url);
    assert.equal(last.code, 0, last.stderr);
    assert.match(last.stdout, /an interrupted move continues/);
    for (const [index, sql] of facts.entries())
      assert.deepEqual((await typed(there.client, sql)).rows, before[index], sql);
  });

  test(
    'headgate move reports what it does not carry and what the target lacks before it changes anything',
    { timeout: 180_000 },
    async (t) => {
      const there = await elsewhere(t);
      const dataDir = await temporaryFolder(t);
      const old = await startHeadgate(t, { dataDir });
      const client = await old.client(t);
      await client.query(`
        CREATE ROLE reader;
        CREATE SCHEMA shop;
        CREATE TABLE shop.t (data JSONB) WITH (connector = 'webhook');
        CREATE TABLE t (data JSONB) WITH (connector = 'webhook');
        CREATE MATERIALIZED VIEW kept AS SELECT count(*) FROM t;
        CREATE TYPE floats AS RANGE (subtype = float8);
        CREATE TABLE hidden (a int); ALTER TABLE hidden ENABLE ROW LEVEL SECURITY;
        CREATE TABLE owned (n int);
        ALTER TABLE owned OWNER TO reader;
        INSERT INTO owned VALUES (1)`);
      const refused = await move(dataDir, there.url);
      assert.equal(refused.code, 1);
      assert.equal(
        refused.stderr,
        `headgate: not moved: materialized view public.kept
headgate: not moved: range type public.floats
headgate: not moved: row security of table public.hidden
headgate: nothing was changed: move these by hand, and run it again with --leave-out
`,
      );
      const { rows: made } = await there.client.query(
        "SELECT to_regnamespace('headgate') AS n, to_regnamespace('shop') AS m",
      );
      assert.deepEqual(made, [{ n: null, m: null }]);
      assert.equal((await old.post('dev/public/t', '{}')).status, 200);

      await there.client.query('CREATE TABLE t (other int)');
      const taken = await move(dataDir, there.url, '--leave-out');
      assert.equal(taken.code, 1);
      assert.match(
        taken.stderr,
        /^headgate: nothing was changed, because of the target:\n(?:headgate: .*\n)*headgate: public\.t exists there already: /m,
      );
      assert.equal((await old.post('dev/public/t', '{}')).status, 200);
      await there.client.query('DROP TABLE t');
      const { host, port } = old.ports.sql;
      const itself = await move(dataDir, `postgresql://root@${host}:${port}/dev`, '--leave-out');
      assert.match(itself.stderr, /--to names the source itself/);

      const { url } = there;
      const nobody = await move(dataDir, url.replace('root@', 'nobody_there@'), '--leave-out');
      assert.match(
        nobody.stderr,
        /^headgate: the server of --to cannot be used: .*role "nobody_there" does not exist/m,
      );
      await there.client.query('CREATE ROLE mover LOGIN; REVOKE CREATE ON SCHEMA public FROM PUBLIC');
      const asMover = url.replace('root@', 'mover@');
      const without = await move(dataDir, asMover, '--leave-out');
      assert.equal(without.code, 1);
      assert.match(without.stderr, /^headgate: nothing was changed, because of the target:$/m);
      const grants = [...without.stderr.matchAll(/run (GRANT .*)$/gm)].map(([, grant = '']) => grant);
      assert.deepEqual(grants, [
        'GRANT CREATE ON DATABASE "dev" TO "mover"',
        'GRANT USAGE, CREATE ON SCHEMA "public" TO "mover"',
        'GRANT "reader" TO "mover"',
        'GRANT CREATE ON SCHEMA "public" TO "reader"',
      ]);
      assert.deepEqual((await there.client.query("SELECT to_regnamespace('shop') AS n")).rows, [{ n: null }]);
      assert.equal((await old.post('dev/shop/t', '{}')).status, 200);
      for (const grant of grants) await there.client.query(grant);
      const moved = await move(dataDir, asMover, '--leave-out');
      assert.equal(moved.code, 0, moved.stderr);
      const { rows } = await there.client.query(
        `SELECT (SELECT count(*)::int FROM t) AS t, (SELECT count(*)::int FROM shop.t) AS n, tableowner FROM pg_tables WHERE tablename = 'owned'`,
      );
      assert.deepEqual(rows, [{ t: 2, n: 1, tableowner: 'reader' }]);
    },
  );
});
