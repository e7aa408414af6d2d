import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { Client } from 'pg';
import { onEnd } from '../support/cleanup.ts';
import { request } from '../support/gateway.ts';
import { sharedHeadgate, startHeadgate, spawnHeadgate, temporaryFolder } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { until } from '../support/until.ts';
import { within } from '../support/within.ts';

const sql = (headgate: Headgate, text: string, query = '') =>
  request(`${headgate.gatewayUrl}/v1/sql${query}`, { method: 'POST', body: text });
const events = (headgate: Headgate, query: string, body: string) =>
  request(`${headgate.gatewayUrl}/v1/events?${query}`, { method: 'POST', body });

async function rows(headgate: Headgate, text: string, query = ''): Promise<unknown> {
  const answer = await sql(headgate, text, query);
  assert.equal(answer.status, 200, `${text}: ${answer.text}`);
  return answer.json.rows;
}

const whoami = `select current_user::text as me, session_user::text as session,
  rolsuper or rolcreaterole or rolcreatedb or rolreplication or rolbypassrls as more
  from pg_roles where rolname = current_user`;

/** Everything by which a statement could reach a file, a program, a socket, or the engine's settings. */
const attacks = (file: string, socket: string): readonly string[] => [
  `copy (select 1) to program 'id'`,
  `create temp table t (x text); copy t from program 'cat ${file}'`,
  `create temp table t (x text); copy t from '${file}'`,
  `copy (select 1) to '${file}.stolen'`,
  `select pg_read_file('${file}')`,
  `select pg_read_binary_file('${file}')`,
  `select pg_ls_dir('/')`,
  `select pg_stat_file('${file}')`,
  `select lo_import('${file}')`,
  `select lo_export(lo_from_bytea(0, 'x'), '${file}.stolen')`,
  `create extension plpython3u`,
  `create extension plperlu`,
  `create extension pltclu`,
  `create extension file_fdw`,
  `create extension adminpack`,
  `create schema headgate`,
  `create database mine`,
  `create extension dblink`,
  `create extension postgres_fdw`,
  `create extension pageinspect`,
  `create extension pg_surgery`,
  `create function f() returns int language c as 'libc.so.6', 'system'`,
  `create function f() returns int language internal as 'pg_read_file'`,
  `load 'dblink'`,
  `create foreign data wrapper w`,
  `create subscription s connection 'host=${socket} user=root dbname=dev' publication p`,
  `alter system set wal_level = 'logical'`,
  `alter database dev set search_path = evil`,
  `alter database dev owner to current_user`,
  `drop database dev`,
  `drop schema public cascade`,
  `alter schema public rename to private`,
  `create event trigger e on ddl_command_end execute function headgate_gateway.on_schema()`,
  `alter event trigger headgate_gateway disable`,
  `select headgate_gateway.admit('headgate'::regnamespace)`,
  `create or replace function headgate_functions.confirm(relation_name text, relation oid, mark text, owner oid) returns void
     language sql as ''`,
  `create function headgate_functions.mine() returns int language sql as 'select 1'`,
  // What others would call by a name alone, if it were on their search_path.
  `create schema root`,
  `create schema "Root"; alter schema "Root" rename to root`,
  `create table headgate_functions.mine (n int)`,
  `drop function headgate_functions.stays(text, oid, text, oid)`,
  `select rolpassword from pg_authid`,
  `select * from headgate.secret`,
  `update headgate.secret set sealed = '' returning sealed`,
  `set role root`,
  `set session authorization root`,
  `reset role; set role pg_execute_server_program`,
  `grant root to current_user`,
  `grant pg_read_server_files to current_user`,
  `create role mine superuser`,
  `create role mine login`,
  `alter role current_user superuser`,
  `alter role current_user createrole`,
  `alter role current_user valid until 'infinity'`,
  `alter role root password 'x'`,
  `alter default privileges for role root grant all on tables to public`,
  `select pg_terminate_backend(pid) from pg_stat_activity where usename = 'root'`,
  `select pg_promote()`,
  `select pg_create_logical_replication_slot('s', 'test_decoding')`,
  `set log_statement = 'all'`,
  `set session_replication_role = replica`,
  `set session_preload_libraries = 'x'`,
];

/** In a schema that somebody else owns. */
function planted(schema: string): readonly string[] {
  const made = [
    ['function', `f(varchar) returns text language sql as 'select $1'`, 'f(varchar)'],
    ['procedure', `p(int) language sql as 'select 1'`, 'p(int)'],
    ['aggregate', `a(text) (sfunc = textcat, stype = text)`, 'a(text)'],
    ['operator', `= (leftarg = text, rightarg = text, function = texteq)`, '= (text, text)'],
    ['domain', `d as varchar check (value <> 'a')`, 'd'],
    ['type', `r as range (subtype = text)`, 'r'],
    ['type', `e as enum ('a')`, 'e'],
  ] as const;
  return [
    ...made.map(([of, text]) => `create ${of} ${schema}.${text}`),
    ...made.map(
      ([of, text, name]) =>
        `create schema own; create ${of} own.${text}; alter ${of} own.${name} set schema ${schema}`,
    ),
    `create schema own; create function own.f() returns int language sql as 'select 1'; alter routine own.f() set schema ${schema}`,
    `create schema own; create type own.r as range (subtype = text, multirange_type_name = ${schema}.m)`,
    `create schema own; create type own.r as range (subtype = text); alter type own.r_multirange set schema ${schema}`,
    `create schema own; create domain own.d as int; alter type own.d set schema ${schema}`,
    `create schema own; create function own.g(varchar, text) returns boolean language sql as 'select true';
     create operator own.=== (leftarg = varchar, rightarg = text, function = own.g, commutator = operator(${schema}.=))`,
  ];
}

const shared = sharedHeadgate();

suite('the role of the events gateway on the embedded engine has restricted rights', () => {
  test("the gateway's role is no superuser and reaches no file, no program and no key", async (t) => {
    const headgate = await shared();
    const masterKey = (await readFile(join(headgate.dataDir, 'master.key'), 'utf8')).trim();
    assert.deepEqual(await rows(headgate, whoami), [
      { me: 'headgate_gateway', session: 'headgate_gateway', more: false },
    ]);
    const root = await headgate.client(t);
    await root.query('create schema their; grant create, usage on schema their to headgate_gateway');
    const memberships = `select roleid::regrole::text from pg_auth_members
      where member = current_user::regrole`;
    assert.deepEqual(await rows(headgate, memberships), []);
    const socket = join(headgate.dataDir, 'pg', 'run');
    for (const attack of attacks(join(headgate.dataDir, 'master.key'), socket)) {
      const { status, text } = await sql(headgate, attack);
      assert.equal(status, 400, `${attack}: ${text}`);
      assert(!text.includes(masterKey), attack);
    }
    for (const attack of [...planted('public'), ...planted('their')]) {
      const { json } = await sql(headgate, attack);
      assert.deepEqual(
        [json.code, String(json['error']).includes('in schemas of its own only')],
        ['42501', true],
        `${attack}: ${JSON.stringify(json)}`,
      );
    }
    // The extensions that anybody may make where they may create: none opens a file or a connection.
    const trusted = `select name from pg_available_extension_versions where trusted order by name`;
    const names = ((await rows(headgate, trusted)) as { name: string }[]).map(({ name }) => name);
    assert.deepEqual([...new Set(names)], trustedExtensions);
  });

  test("the gateway's role writes tables of root but cannot change them, and owns the tables it creates", async (t) => {
    const headgate = await shared();
    const root = await headgate.client(t);
    await root.query(
      `create table public.orders (id serial primary key, n int);
       create schema "App 1" create table items (id bigint generated always as identity, n int);
       create table "App 1".later (id serial primary key, n int)`,
    );
    assert.equal((await events(headgate, 'name=orders', '{"n":1}')).text, '{"rows":1}');
    assert.equal(
      (await events(headgate, 'name=orders&on_conflict=update', '{"id":1,"n":2}')).text,
      '{"rows":1}',
    );
    const name = encodeURIComponent('"App 1".later');
    assert.equal((await events(headgate, `name=${name}`, '{"n":1}\n{"n":2}')).text, '{"rows":2}');
    await rows(headgate, `insert into "App 1".items (n) values (1)`);
    await rows(headgate, `update "App 1".items set n = 2; delete from "App 1".items where n = 3`);
    assert.deepEqual(await rows(headgate, 'select n from orders'), [{ n: 2 }]);
    for (const refused of ['drop table orders', 'alter table orders add x int', 'truncate orders']) {
      const { status, json } = await sql(headgate, refused);
      assert.deepEqual([status, json.code], [400, '42501'], refused);
      assert.match(String(json['hint']), /runs SQL as the role headgate_gateway: use the SQL port/);
    }
    await rows(headgate, 'create table ours (n int); create schema theirs; create table theirs.t (n int)');
    await rows(
      headgate,
      `create function theirs.twice(int) returns int language sql as 'select $1 * 2'; create domain theirs.positive as int check (value > 0);
       create type theirs.mood as enum ('sad', 'ok'); create type pair as (a int, b theirs.mood)`,
    );
    // A superuser restores what dumps have.
    await root.query(
      `create function public.restored() returns int language sql as 'select 1'; alter function public.restored() owner to headgate_gateway`,
    );
    assert.deepEqual(await rows(headgate, 'select theirs.twice(4::theirs.positive) as n'), [{ n: 8 }]);
    await root.query(
      'alter table ours add x int; insert into theirs.t values (1); drop schema theirs cascade',
    );
  });

  test('the gateway role has no rights in schema headgate, in a database of any version', async (t) => {
    const headgate = await shared();
    const root = await headgate.client(t);
    await root.query('create database late');
    await root.query('create database copied template late');
    for (const database of ['dev', 'late', 'copied']) {
      const query = `?database=${database}`;
      const there = await headgate.client(t, database);
      await there.query('create table before_use (n int)');
      await rows(headgate, 'insert into before_use values (1); create table mine (n int)', query);
      // The catalog of Headgate is made here, as root, after the gateway was let in.
      await there.query(`create table hook (data jsonb) with (connector = 'webhook')`);
      const { rows: granted } = await there.query<{ name: string }>(
        `select c.oid::regclass::text as name from pg_class c, aclexplode(c.relacl) a
         where c.relnamespace = 'headgate'::regnamespace and a.grantee = 'headgate_gateway'::regrole`,
      );
      assert.deepEqual(granted, [], database);
      const secrets = await sql(headgate, 'select sealed from headgate.secret', query);
      assert.equal(secrets.json.code, '42501', database);
      await there.end();
    }
    // Where Headgate itself works.
    assert.equal((await sql(headgate, 'create table t (n int)', '?database=postgres')).json.code, '42501');
    // The gateway lets go of a database that root drops or makes anew.
    await root.query('drop database late');
    assert.equal((await sql(headgate, 'select 1', '?database=late')).json.code, 'database_unknown');
    await root.query('create database late');
    await rows(headgate, 'create table mine (n int)', '?database=late');
    const made = await events(headgate, 'database=late&name=mine', '{"n":1}');
    assert.equal(made.text, '{"rows":1}');
  });

  test("the gateway refuses a database in which a stranger owns a schema with a name of Headgate's", async (t) => {
    const headgate = await shared();
    const root = await headgate.client(t);
    await root.query('create role mallory login');
    for (const schema of ['headgate_gateway', 'headgate_functions']) {
      await root.query('create database taken_over');
      const there = await headgate.client(t, 'taken_over');
      await there.query(`create schema ${schema} authorization mallory; set role mallory;
        create function ${schema}.on_schema() returns event_trigger language plpgsql as $$ begin end $$;
        create function ${schema}.stays(text, oid, text, oid) returns boolean language sql as 'select true'; reset role`);
      const answer = await sql(headgate, 'select 1', '?database=taken_over');
      assert.deepEqual([answer.status, answer.json.code], [403, 'database_closed'], answer.text);
      assert.match(answer.text, new RegExp(schema));
      const { rows: triggers } = await there.query(
        `select from pg_event_trigger where evtname = 'headgate_gateway'`,
      );
      assert.equal(triggers.length, 0);
      await there.query(`drop schema ${schema} cascade`);
      assert.deepEqual(await rows(headgate, 'select 1 as one', '?database=taken_over'), [{ one: 1 }]);
      const { rows: owners } = await there.query(
        `select distinct p.proowner::regrole::text as owner from pg_proc p
         where p.pronamespace::regnamespace::text in ('headgate_gateway', 'headgate_functions')`,
      );
      assert.deepEqual(owners, [{ owner: 'root' }]);
      await there.end();
      await root.query('drop database taken_over');
    }
  });

  test('tables created while the gateway role is granted access are accessible, too', async (t) => {
    const headgate = await shared();
    const root = await headgate.client(t);
    await root.query('create database busy');
    const [making, longer, other] = await Promise.all([
      headgate.client(t, 'busy'),
      headgate.client(t, 'busy'),
      headgate.client(t, 'busy'),
    ]);
    await making.query(
      `begin; create table orders (id serial, n int); create schema shop; create table shop.items (n int)`,
    );
    await longer.query('begin; create table longer (n int)');
    await other.query('begin; create table given_up (n int)');
    // The first request of all: it waits a second for those who have begun before.
    const first = rows(headgate, 'select 1 as one', '?database=busy');
    await within(10_000, async () => {
      const { rows: triggers } = await root.query(
        `select from pg_stat_activity where application_name = 'headgate gateway role' and datname = 'busy'`,
      );
      assert.equal(triggers.length, 1);
    });
    await other.query('rollback');
    await making.query('commit');
    assert.deepEqual(await first, [{ one: 1 }]);
    for (const name of ['orders', 'shop.items'])
      assert.equal((await events(headgate, `database=busy&name=${name}`, '{"n":1}')).text, '{"rows":1}');
    // Behind that second the role is let into what they have made within the time for which it is remembered.
    await longer.query('commit; create table revoked (n int); revoke all on revoked from headgate_gateway');
    await within(20_000, async () => {
      const { text } = await events(headgate, 'database=busy&name=longer', '{"n":1}');
      assert.equal(text, '{"rows":1}');
    });
    const revoked = await events(headgate, 'database=busy&name=revoked', '{"n":1}');
    assert.equal(revoked.json.code, 'relation_not_writable');
  });

  test('the gateway serves a database restored without comments, and rights revoked there stay revoked', async (t) => {
    const headgate = await shared();
    const root = await headgate.client(t);
    await root.query('create database restored');
    const there = await headgate.client(t, 'restored');
    await there.query(`create schema headgate_gateway;
      create function headgate_gateway.on_schema() returns event_trigger language plpgsql as $$ begin end $$;
      create event trigger headgate_gateway on ddl_command_end execute function headgate_gateway.on_schema()`);
    // As pg_dump puts them back: a table from which all was revoked has no privileges of its own, and default ones come last.
    await there.query(`create table payroll (n int);
      alter default privileges in schema public grant select, insert, update, delete on tables to headgate_gateway;
      create table orders (n int)`);
    assert.deepEqual(await rows(headgate, 'select 1 as one', '?database=restored'), [{ one: 1 }]);
    assert.equal((await sql(headgate, 'select from payroll', '?database=restored')).json.code, '42501');
    assert.equal((await events(headgate, 'database=restored&name=orders', '{"n":1}')).text, '{"rows":1}');
  });

  test('rights revoked from the gateway role stay revoked, its password is useless, and HEADGATE_EVENTS_ROLE names another', async (t) => {
    const dataDir = await temporaryFolder(t);
    const env = { HEADGATE_SQL_PASSWORD: 'of-root' };
    const first = await startHeadgate(t, { dataDir, env });
    const client = async (headgate: Headgate, user: string, password: string) => {
      const { host, port } = headgate.ports.sql;
      const it = new Client({ host, port, user, password, database: 'dev' });
      it.on('error', () => {});
      onEnd(t, 'client', () => it.end());
      await it.connect();
      return it;
    };
    const root = await client(first, 'root', 'of-root');
    await root.query('create table payroll (n int); revoke all on payroll from headgate_gateway');
    await rows(first, `alter role current_user password 'stolen'`);
    await assert.rejects(client(first, 'headgate_gateway', 'stolen'), { code: '28P01' });
    await root.end();
    await first.signal('SIGTERM');
    const again = await startHeadgate(t, { dataDir, env });
    assert.equal((await sql(again, 'select from payroll')).json.code, '42501');
    const later = await client(again, 'root', 'of-root');
    await later.query(
      `create role clerk login; create table t (n int); grant insert on t to clerk; create role guest`,
    );
    await later.end();
    await again.signal('SIGTERM');

    // Another role, which is named by the setting.
    const asClerk = await startHeadgate(t, { dataDir, env: { HEADGATE_EVENTS_ROLE: 'clerk' } });
    assert.equal((await events(asClerk, 'name=t', '{"n":1}')).text, '{"rows":1}');
    assert.equal((await sql(asClerk, 'select * from t')).json.code, '42501');
    await asClerk.signal('SIGTERM');
    for (const [role, words] of [
      ['nobody', /HEADGATE_EVENTS_ROLE=nobody: there is no such role/],
      ['guest', /HEADGATE_EVENTS_ROLE=guest: the role cannot log in/],
    ] as const) {
      const headgate = await spawnHeadgate(t, { dataDir, env: { HEADGATE_EVENTS_ROLE: role } });
      assert.equal((await headgate.ended).code, 1);
      assert.match(headgate.stderr, words);
    }
  });

  test('webhook tables created through the gateway accept webhooks', async () => {
    const headgate = await shared();
    await rows(
      headgate,
      `create secret k with (backend = 'meta') as 'abc';
       create table taken (data jsonb) with (connector = 'webhook')
         validate secret k as secure_compare(headers->>'x', k)`,
    );
    assert.equal((await headgate.post('dev/public/taken', '{"a":1}', { x: 'abc' })).text, '{"rows":1}');
    assert.equal((await headgate.post('dev/public/taken', '{"a":1}', { x: 'abd' })).status, 401);
    assert.deepEqual(await rows(headgate, 'select data from taken'), [{ data: { a: 1 } }]);
  });

  test('a request to the gateway for an unknown or closed database gets 404 or 403 and no log line', async (t) => {
    const headgate = await shared();
    const ended = /due to administrator command/g;
    const said = () => headgate.stderr.split('\n').filter((line) => line.includes('engine.said'));
    /** Resolves when what the engine has said has come. */
    const heard = async () => {
      const before = said().join('\n').match(ended)?.length ?? 0;
      const client = await headgate.client(t);
      await client.query('select pg_terminate_backend(pg_backend_pid())').catch(() => undefined);
      await until(() => (said().join('\n').match(ended)?.length ?? 0) > before);
      return said().length;
    };
    const before = await heard();
    const root = await headgate.client(t);
    await root.query('create database shut');
    await root.query('revoke connect on database shut from public');
    await root.query('create database closed allow_connections false');
    const cases = [
      ['%00', 404, 'database_unknown'],
      ['a%00b', 404, 'database_unknown'],
      ['nope', 404, 'database_unknown'],
      ['template0', 403, 'database_closed'],
      // A session in it would keep everybody from making databases.
      ['template1', 403, 'database_closed'],
      ['closed', 403, 'database_closed'],
      ['shut', 403, 'database_closed'],
    ] as const;
    await root.query('create table of_dev (n int)');
    for (const [database, status, code] of cases) {
      for (const answer of [
        await sql(headgate, 'select 1', `?database=${database}`),
        await events(headgate, `name=of_dev&database=${database}`, '{"n":1}'),
      ]) {
        assert.deepEqual([answer.status, answer.json.code], [status, code], `${database}: ${answer.text}`);
      }
    }
    assert.equal(await heard(), before + 1, headgate.stderr);
  });
});

const trustedExtensions = [
  'bool_plperl',
  'btree_gin',
  'btree_gist',
  'citext',
  'cube',
  'dict_int',
  'fuzzystrmatch',
  'hstore',
  'intarray',
  'isn',
  'jsonb_plperl',
  'lo',
  'ltree',
  'pg_trgm',
  'pgcrypto',
  'plperl',
  'plpgsql',
  'pltcl',
  'seg',
  'tablefunc',
  'tcn',
  'tsm_system_rows',
  'tsm_system_time',
  'unaccent',
  'uuid-ossp',
];
