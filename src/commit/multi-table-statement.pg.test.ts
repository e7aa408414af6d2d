/** Groups of several tables in one transaction, on a real PostgreSQL: a group that fails costs the others nothing. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { onEnd } from '../../test/support/cleanup.ts';
import { codes, untilACommitWaits, webhookRoom, committer } from '../../test/support/commit-room.ts';
import { FaultyProxy } from '../../test/support/faulty-proxy.ts';
import { Spy } from '../../test/support/postgres.ts';
import { isLong, sampleOf, sampleSeed, times } from '../../test/support/sample.ts';
import { rowsOf } from '../../test/support/rows.ts';
import { runOurs } from '../../test/support/webhook-tables.ts';
import type { Group, Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import { limits } from '../config/limits.ts';
import { CommitPools } from './commit-pools.ts';
import { Commit } from './commit.ts';
import { staysSql } from './plan-lock.ts';
import { PreparedStatements } from './prepared-statements.ts';

const names = ['t0', 't1', 't2', 't3', 't4'] as const;
/** One at a time, so that all but the first of a moment go together; on a machine of any speed. */
const bounds = { sharedTransactionsMax: 1, sharedQuickMs: 60_000 };

async function room(t: TestContext) {
  const { client, database, targetOf: describe, tableOf, send } = await webhookRoom(t, bounds);
  // As the catalog has it.
  const targetOf = async (table: string): Promise<Target> => {
    const target = await describe(table);
    return { ...target, code: { ...target.code, functionsIn: 'headgate' } };
  };
  for (const name of names)
    await runOurs(client, `CREATE TABLE ${name} (data JSONB) WITH (connector = 'webhook')`);
  const targets: Target[] = [];
  for (const name of names) targets.push(await targetOf(name));
  /** A row for each table, at one moment. */
  const sendAll = (document: string, by = send) =>
    Promise.all(targets.map(async (target) => codes(await by([rowsOf(target, document)]))[0]));
  /** How many transactions the rows of this document are of, and in how many tables it is. */
  const found = async (document: string) => {
    const all = names
      .map((name) => `select xmin::text as x from ${name} where data = $1`)
      .join(' union all ');
    const { rows } = await client.query<{ n: number; transactions: number }>(
      `select count(*)::int as n, count(distinct x)::int as transactions from (${all}) as f`,
      [document],
    );
    return rows[0];
  };
  return { client, database, targets, targetOf, tableOf, send, sendAll, found };
}

function groupOf(members: readonly Rows[]): Group {
  const [first] = members;
  assert(first !== undefined);
  return { target: first.target, members, rows: first.count, bytes: first.bytes };
}

const allStored = Array(names.length).fill(1);

suite('groups of several tables share one transaction', () => {
  test('groups of several tables that arrive together are stored in one transaction, in order and unchanged', async (t) => {
    const { client, targets, send, sendAll, found } = await room(t);
    assert.deepEqual(await sendAll('{"n":1}'), allStored);
    assert.deepEqual(await found('{"n":1}'), { n: 5, transactions: 1 });
    const [t0, t1, t2] = targets;
    assert(t0 !== undefined && t1 !== undefined && t2 !== undefined);
    const many = ['{"a":1,"a":2}', ' [1.10, "\\u00e9"] ', 'null', '"x"'];
    await Promise.all([
      send([rowsOf(t0, '0')]),
      send([rowsOf(t1, ...many.slice(0, 3)), rowsOf(t1, ...many.slice(3))]),
      send([rowsOf(t2, '{}')]),
    ]);
    const { rows } = await client.query<{ data: string }>(
      `select data::text as data from t1 where data <> '{"n":1}' order by ctid`,
    );
    assert.deepEqual(
      rows.map(({ data }) => data),
      ['{"a": 2}', '[1.10, "é"]', 'null', '"x"'],
    );
  });

  test('groups whose shared transaction is followed by an error of Headgate itself are neither refused nor stored twice', async (t) => {
    const { database, targets, sendAll, found } = await room(t);
    const pools = new CommitPools(database.engine, limits);
    onEnd(t, 'pools', () => pools.close());
    const spy = new Spy();
    let isBroken = true;
    const commit = new Commit({
      pools,
      limits: { ...limits, ...bounds },
      observe: (said) => {
        spy.observe(said);
        if (said.kind !== 'group.committed' || !isBroken) return;
        isBroken = false;
        throw new Error('a bug');
      },
      clock: () => performance.now(),
    });
    const send = (members: readonly Rows[]) => commit.commit(groupOf(members));
    assert.deepEqual(await sendAll('1', send), Array(names.length).fill('unknown internal'));
    assert.deepEqual(await found('1'), { n: 5, transactions: 1 });
    const unknown = spy.seen.flatMap((said) => (said.kind === 'group.unknown' ? [said] : []));
    assert.deepEqual(
      unknown.map(({ table }) => table),
      targets,
    );
    assert.match(unknown[0]?.reason ?? '', /a bug/);
    assert.deepEqual(await sendAll('2', send), allStored);
  });

  test('a group for a locked table leaves the shared transaction, and the groups of other tables do not wait', async (t) => {
    const { database, targets, send } = await room(t);
    const other = await database.connect();
    await other.query('begin; lock table t2 in share mode');
    const [t0, t1, t2, t3] = targets;
    assert(t0 !== undefined && t1 !== undefined && t2 !== undefined && t3 !== undefined);
    const held = [t0, t2].map((target) => send([rowsOf(target, '1')]));
    const others = [t1, t3].map((target) => send([rowsOf(target, '1')]));
    for (const sent of others) assert.deepEqual(codes(await sent), [1]);
    await other.query('commit');
    for (const sent of held) assert.deepEqual(codes(await sent), [1]);
  });

  test("a row that waits for another session's unique key leaves the shared transaction, and the others do not wait", async (t) => {
    const { client, database, targets, targetOf, send } = await room(t);
    await client.query(`create unique index on t2 ((data->>'id'))`);
    const other = await database.connect();
    await other.query(`begin; insert into t2 values ('{"id":1}')`);
    const unique = await targetOf('t2');
    const [t0, t1] = targets;
    assert(t0 !== undefined && t1 !== undefined);
    const sent = [t0, unique, t1].map((target) => send([rowsOf(target, '{"id":1}')]));
    assert.deepEqual(codes((await sent[2]) ?? []), [1]);
    await other.query('rollback');
    assert.deepEqual(codes((await sent[1]) ?? []), [1]);
  });

  test('tables with slow checks stop sharing a transaction', async (t) => {
    const { client, targetOf, send, found } = await room(t);
    for (const name of names)
      await client.query(`alter table ${name} add check (factorial((data->>'n')::int) > 0)`);
    const slow: Target[] = [];
    for (const name of names) slow.push(await targetOf(name));
    const sendAll = (document: string) =>
      Promise.all(slow.map(async (target) => codes(await send([rowsOf(target, document)]))[0]));
    assert.deepEqual(await sendAll('{"n": 1}'), allStored);
    assert.deepEqual(await found('{"n": 1}'), { n: 5, transactions: 1 });
    // Each takes longer than all of a shared transaction may.
    assert.deepEqual(await sendAll('{"n": 9000}'), allStored);
    assert.deepEqual(await found('{"n": 9000}'), { n: 5, transactions: 5 });
  });

  const changes = {
    dropped: 'drop table t2',
    'another of its name': 'alter table t2 rename to gone; create table t2 (data jsonb)',
    'a column more': 'alter table t2 add more int',
    'a trigger': `create function boom() returns trigger language plpgsql as $$ begin
        perform pg_catalog.set_config('search_path', 'evil', false); return new; end $$;
      create trigger boom before insert on t2 for each row execute function boom()`,
    'a rule': 'create rule nothing as on insert to t2 do instead nothing',
    policies: 'alter table t2 enable row level security',
    'another owner': `do $$ begin create role headgate_together; exception when duplicate_object then end $$;
      alter table t2 owner to headgate_together`,
    'a check': `alter table t2 add check ((data->'n') is not null)`,
    'an index that runs code': `create function f(jsonb) returns text language sql immutable as $$ select '' $$;
      create index on t2 (f(data))`,
    'a schema that is called otherwise': 'alter schema public rename to was_public; create schema public',
  };
  test('a replaced table in a shared transaction does not affect other tables', async (t) => {
    const { client, targets, targetOf, found, send } = await room(t);
    for (const [what, sql] of Object.entries(changes)) {
      await client.query('drop table if exists t2, gone cascade');
      await runOurs(client, `CREATE TABLE t2 (data JSONB) WITH (connector = 'webhook')`);
      const changed = await targetOf('t2');
      const all = targets.map((target) => (target.table === 't2' ? changed : target));
      // Its statement is there, and planned.
      for (const target of [all, all]) await Promise.all(target.map((it) => send([rowsOf(it, '{"n":0}')])));
      await client.query(sql);
      const sent = await Promise.all(
        all.map(async (target) => codes(await send([rowsOf(target, JSON.stringify({ what }))]))[0]),
      );
      if (what.startsWith('a schema')) assert.deepEqual(sent, Array(5).fill('aborted table_changed'), what);
      else {
        assert.deepEqual(sent, [1, 1, 'aborted table_changed', 1, 1], what);
        if (what !== 'dropped') assert.equal((await found(JSON.stringify({ what })))?.n, 4, what);
      }
    }
    await client.query('drop schema was_public cascade; drop role if exists headgate_together');
  });

  test('a default added to a table is not evaluated in a shared transaction before the table is checked', async (t) => {
    const { client, targets, tableOf, send } = await room(t);
    await runOurs(client, `CREATE TABLE typed (n INT, data JSONB) WITH (connector = 'webhook')`);
    const described = await tableOf('typed');
    const typed = { ...described, code: { ...described.code, functionsIn: 'headgate' as const } };
    // PostgreSQL evaluates it when it plans, and what a sequence has given stays given when the transaction fails.
    await client.query(`create sequence ran;
      create function run() returns text language plpgsql as $$ begin return nextval('public.ran'); end $$;
      create function evil() returns text language plpgsql immutable as $$ begin return public.run(); end $$`);
    const sendAll = () =>
      Promise.all([...targets, typed].map(async (it) => codes(await send([rowsOf(it, '{"n":0}')]))[0]));
    for (let i = 0; i < 2; i++) assert.deepEqual(await sendAll(), Array(6).fill(1));
    for (const table of ['t2', 'typed'])
      await client.query(`alter table ${table} add more text default evil(); select setval('ran', 1, false)`);
    const changed = 'aborted table_changed';
    assert.deepEqual(await sendAll(), [1, 1, changed, 1, 1, changed]);
    const { rows } = await client.query('select is_called from ran');
    assert.deepEqual(rows, [{ is_called: false }]);
  });

  test('a statement of a shared transaction that waited for an ALTER TABLE sees the change', async (t) => {
    const { client, database, targets } = await room(t);
    const [t0] = targets;
    assert(t0 !== undefined);
    const sender = await database.connect();
    await sender.query(`set plan_cache_mode = force_generic_plan; set application_name = 'headgate commit'`);
    await sender.query(`prepare store (jsonb) as insert into t0 select $1 where ${staysSql(t0)}`);
    await sender.query(`execute store ('1')`);
    const other = await database.connect();
    await other.query(`begin; ${changes['a trigger'].replaceAll('t2', 't0')}`);
    const stored = assert.rejects(sender.query(`execute store ('2')`), { code: 'HG001' });
    await untilACommitWaits(client);
    await other.query('commit');
    await stored;
  });

  test('a refused row in a shared transaction gives only its own sender a refusal', async (t) => {
    const { client, targets, targetOf, send, found } = await room(t);
    await client.query(`alter table t2 add check ((data->'n') is not null)`);
    const checked = await targetOf('t2');
    const all = targets.map((target) => (target.oid === checked.oid ? checked : target));
    const sent = all.map((target) => send([rowsOf(target, '{"m":1}')]));
    assert.deepEqual((await Promise.all(sent)).flatMap(codes), [1, 1, 'aborted row_refused', 1, 1]);
    assert.equal((await found('{"m":1}'))?.n, 4);
  });

  test('typed tables share a transaction, and a value of the wrong type costs only its own sender a refusal', async (t) => {
    const { client, tableOf, targets, send } = await room(t);
    await runOurs(
      client,
      `CREATE TABLE typed (id BIGINT, note TEXT DEFAULT 'none') WITH (connector = 'webhook')`,
    );
    const made = await tableOf('typed');
    const typed: Target = { ...made, code: { ...made.code, functionsIn: 'headgate' } };
    const [first] = targets;
    assert(first !== undefined);
    const both = (document: string) =>
      Promise.all([first, ...targets, typed].map(async (it) => codes(await send([rowsOf(it, document)]))[0]));
    assert.deepEqual(await both('{"id":1}'), Array(7).fill(1));
    const { rows } = await client.query(
      `select typed.id::int, note, typed.xmin = t3.xmin as together from typed cross join t3`,
    );
    assert.deepEqual(rows, [{ id: 1, note: 'none', together: true }]);
    assert.deepEqual(await both('{"id":"x"}'), [...Array(6).fill(1), 'aborted payload_undecodable']);
    const { rows: counted } = await client.query(`select count(*)::int as n from t3`);
    assert.deepEqual(counted, [{ n: 2 }]);
  });

  test("groups of more tables than a connection's prepared statements share a transaction as well", async (t) => {
    const { client, targets, database } = await room(t);
    const pools = new CommitPools(database.engine, limits);
    onEnd(t, 'pools', () => pools.close());
    const full = new PreparedStatements(2);
    Object.assign(pools, { statementsForMany: () => full });
    const commit = new Commit({
      pools,
      limits: { ...limits, ...bounds },
      observe: new Spy().observe,
      clock: () => performance.now(),
    });
    for (let n = 0; n < 3; n++)
      await Promise.all(targets.map((target) => commit.commit(groupOf([rowsOf(target, String(n))]))));
    assert.equal(full.size, 2);
    const { rows } = await client.query(
      `select count(*)::int as n, count(distinct t1.xmin::text)::int as x from t1
       join t2 on t2.xmin = t1.xmin join t3 on t3.xmin = t1.xmin join t4 on t4.xmin = t1.xmin`,
    );
    assert.deepEqual(rows, [{ n: 3, x: 3 }]);
  });

  for (const side of ['server', 'client'] as const) {
    test(`groups in a shared transaction are stored as answered after a reset at each message of the ${side}`, async (t) => {
      const { client, database, sendAll } = await room(t);
      const proxy = await FaultyProxy.open(database.engine.endpoint());
      onEnd(t, 'proxy', () => proxy.close());
      const spy = new Spy();
      const endpoint = { host: '127.0.0.1', port: proxy.port };
      const clientConfig = (name: string) => ({ ...database.engine.clientConfig(name), ...endpoint });
      const send = committer(t, { ...database.engine, clientConfig }, spy, bounds);
      assert.deepEqual(await sendAll('-1', send), allStored);
      let told: (string | number | undefined)[] = [];
      const every = times(3, 1);
      const [first = 0] = sampleOf([0, 1, 2], 1);
      t.diagnostic(sampleSeed);
      let id = 0;
      for (; proxy.cuts === id; id++) {
        proxy.cutAfter(side, isLong ? id : first + every * id);
        told = await sendAll(String(id), send);
        for (const [i, name] of names.entries()) {
          const { rows } = await client.query<{ n: number }>(
            `select count(*)::int as n from ${name} where data = '${id}'`,
          );
          const [stored = 0, said] = [rows[0]?.n, told[i]];
          if (said === 1) assert.equal(stored, 1, `${name}, ${id} is told to be stored`);
          else if (String(said).startsWith('aborted'))
            assert.equal(stored, 0, `${name}, ${id} is told not to be`);
          else assert(stored <= 1, `${name}, ${id} is not known`);
        }
      }
      assert(id * every > 6, `${id} messages`);
      assert.deepEqual(told, allStored, 'the one that was not cut');
      if (side === 'server')
        assert(spy.seen.some((it) => it.kind === 'group.settled' && it.fate === 'committed'));
    });
  }
});
