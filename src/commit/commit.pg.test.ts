import assert from 'node:assert/strict';
import { connect, createServer } from 'node:net';
import type { AddressInfo, Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import type { Client } from 'pg';
import { onEnd } from '../../test/support/cleanup.ts';
import { codes, webhookRoom, untilACommitWaits } from '../../test/support/commit-room.ts';
import { rowsOf } from '../../test/support/rows.ts';
import { runOurs } from '../../test/support/webhook-tables.ts';
import { within } from '../../test/support/within.ts';
import type { Endpoint } from '../engine/engine.ts';
import { limits } from '../config/limits.ts';
import { CommitPools } from './commit-pools.ts';
import { Commit } from './commit.ts';
import { SpoolCommit } from './hand-over.ts';

const stored = async (client: Client, table: string) =>
  (await client.query<{ text: string }>(`select data::text as text from "${table}" order by ctid`)).rows.map(
    (r) => r.text,
  );
const create = (name: string, column = 'data JSONB') =>
  `CREATE TABLE "${name}" (${column}) WITH (connector = 'webhook')`;

suite('a commit stores a group of documents', () => {
  test('a connection of a group that cannot begin is not lost', async (t) => {
    const { client, database, targetOf } = await webhookRoom(t);
    await runOurs(client, create('t'));
    const target = await targetOf('t');
    const bounds = { ...limits, commitConnectionsMax: 1 };
    const pools = new CommitPools(database.engine, bounds);
    onEnd(t, 'pools', () => pools.close());
    const commit = new Commit({
      pools,
      limits: bounds,
      observe: () => undefined,
      clock: () => performance.now(),
    });
    const batch = { spool: '0'.repeat(32), first: 1n, last: 1n };
    const spool = new SpoolCommit({
      pools,
      limits: bounds,
      observe: () => undefined,
      clock: () => performance.now(),
    });
    const member = rowsOf(target, '1');
    const group = { target, members: [member], rows: 1, bytes: member.bytes };
    const isShared = t.mock.method(pools, 'isShared', () => {
      throw new Error('a bug');
    });
    assert.deepEqual(codes(await commit.commit(group)), ['unknown internal']);
    await assert.rejects(spool.handOver(group, batch), /a bug/);
    isShared.mock.restore();
    assert.deepEqual(codes(await commit.commit(group)), [1]);
  });

  test('a group is stored in one transaction, with names that need quoting and documents of any size', async (t) => {
    const { client, targetOf, send } = await webhookRoom(t);
    const name = `o"r'd\\ers ä`;
    await runOurs(client, create(name.replaceAll('"', '""')));
    const target = await targetOf(name);
    const large = JSON.stringify('x'.repeat(1_000_000));
    const outcomes = await send([
      rowsOf(target, '1', '{"a":2}'),
      rowsOf(target, large),
      rowsOf(target, ' [3] '),
    ]);
    assert.deepEqual(codes(outcomes), [2, 1, 1]);
    const found = await client.query<{ xmins: string; n: string }>(
      `select count(distinct xmin::text) as xmins, count(*) as n from "${name.replaceAll('"', '""')}"`,
    );
    assert.deepEqual(found.rows, [{ xmins: '1', n: '4' }]);
  });

  test('a row refused by jsonb or a constraint is refused alone at any place of its group', async (t) => {
    const { client, targetOf, send } = await webhookRoom(t);
    await runOurs(
      client,
      create('checked', `data JSONB NOT NULL CONSTRAINT has_n CHECK ((data->'n') is not null)`),
    );
    const target = await targetOf('checked');
    const members = [
      rowsOf(target, '{"n":1}'),
      rowsOf(target, '{"n":2}', '{"n":"\\u0000"}'),
      rowsOf(target, '{"m":3}'),
      rowsOf(target, '{"n":4}'),
      rowsOf(target, '{"n":'),
      rowsOf(target, Buffer.from([0x22, 0xff, 0x22])),
      rowsOf(target, '{"n":5}'),
      rowsOf(target, `{"n":${'['.repeat(20_000)}${']'.repeat(20_000)}}`),
    ];
    const outcomes = await send(members);
    assert.deepEqual(codes(outcomes), [
      1,
      'aborted body_not_json',
      'aborted row_refused',
      1,
      'aborted body_not_json',
      'aborted body_not_json',
      1,
      'aborted body_not_json',
    ]);
    const refused = outcomes[2];
    assert(refused?.kind === 'aborted');
    assert.equal(refused.refusal.message, 'the row violates the constraint has_n');
    assert.deepEqual(await stored(client, 'checked'), ['{"n": 1}', '{"n": 4}', '{"n": 5}']);
  });

  test('a deferred constraint that fails at COMMIT refuses its own row alone', async (t) => {
    const { client, targetOf, send } = await webhookRoom(t);
    await runOurs(client, create('late'));
    await client.query(`
      create function deny() returns trigger language plpgsql as $$ begin
        if new.data->>'bad' = 'yes' then raise exception 'secret of %', new.data; end if; return null; end $$;
      create constraint trigger deny after insert on late deferrable initially deferred for each row execute function deny()`);
    const target = await targetOf('late');
    const outcomes = await send(
      ['{"i":1}', '{"bad":"yes"}', '{"i":2}'].map((document) => rowsOf(target, document)),
    );
    assert.deepEqual(codes(outcomes), [1, 'aborted row_refused', 1]);
    const told = JSON.stringify(outcomes, (key, value: unknown) => (key === 'engineError' ? null : value));
    assert(!told.includes('secret of'), 'texts of triggers are for owners, not for senders');
    assert.deepEqual(await stored(client, 'late'), ['{"i": 1}', '{"i": 2}']);
  });

  test('no row is stored in another table of the same name, a view, or a column of another type', async (t) => {
    const { client, targetOf, send } = await webhookRoom(t);
    await runOurs(client, create('moving'));
    const target = await targetOf('moving');
    const attempt = async () => codes(await send([rowsOf(target, '{"stale":true}')]));
    assert.deepEqual(await attempt(), [1]);
    await client.query('alter table moving rename to moved; create table moving (data jsonb)');
    assert.deepEqual(await attempt(), ['aborted table_changed']);
    assert.deepEqual(await stored(client, 'moving'), []);
    await client.query(
      'drop table moving; alter table moved rename to moving; alter table moving alter column data type text',
    );
    assert.deepEqual(await attempt(), ['aborted table_changed']);
    assert.equal((await stored(client, 'moving')).length, 1);
    await client.query('drop table moving');
    assert.deepEqual(await attempt(), ['aborted table_changed']);
    await runOurs(client, create('moving'));
    assert.deepEqual(await attempt(), ['aborted table_changed'], 'a webhook table again, but another one');
    assert.deepEqual(await stored(client, 'moving'), []);
  });

  test('rows for a locked table are aborted at the deadline, and rows of other tables do not wait for them', async (t) => {
    const { client, database, targetOf, send } = await webhookRoom(t, { commitStatementTimeoutMs: 1_000 });
    await runOurs(client, create('locked'));
    await runOurs(client, create('free'));
    const [locked, free] = [await targetOf('locked'), await targetOf('free')];
    const holder = await database.connect();
    await holder.query('begin; lock table locked');
    const waiting = send([rowsOf(locked, '1')]);
    assert.deepEqual(codes(await send([rowsOf(free, '1')])), [1]);
    assert.deepEqual(codes(await waiting), ['aborted deadline']);
    await holder.query('rollback');
    assert.deepEqual(await stored(client, 'locked'), []);
    assert.deepEqual(codes(await send([rowsOf(locked, '2')])), [1]);
  });

  test('a group whose session is terminated before COMMIT is aborted, and the next group has another session', async (t) => {
    const { client, database, spy, targetOf, send } = await webhookRoom(t);
    await runOurs(client, create('killed'));
    const target = await targetOf('killed');
    const holder = await database.connect();
    await holder.query('begin; lock table killed');
    const lost = send([rowsOf(target, '1')]);
    const told = spy.next('group.settled');
    await untilACommitWaits(client);
    await client.query(
      `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'headgate commit' and datname = current_database()`,
    );
    assert.deepEqual(codes(await lost), ['aborted engine_unavailable']);
    assert.equal((await told).fate, 'aborted');
    await holder.query('rollback');
    assert.deepEqual(codes(await send([rowsOf(target, '2')])), [1]);
    assert.deepEqual(await stored(client, 'killed'), ['2']);
  });

  test('a connection reset during COMMIT makes the outcome unknown and affects no other group', async (t) => {
    const { client, database, targetOf } = await webhookRoom(t);
    await runOurs(client, create('reset'));
    const target = await targetOf('reset');
    const proxy = await openResettingProxy(t, database.engine.endpoint());
    const engine = {
      ...database.engine,
      clientConfig: (name: string) => ({
        ...database.engine.clientConfig(name),
        host: '127.0.0.1',
        port: proxy.port,
      }),
    };
    const pools = new CommitPools(engine, limits);
    onEnd(t, 'proxied pools', () => pools.close());
    const commit = new Commit({ pools, limits, observe: () => {}, clock: () => performance.now() });
    const send = (...documents: string[]) => {
      const members = documents.map((document) => rowsOf(target, document));
      return commit.commit({ target, members, rows: members.length, bytes: 0 });
    };
    assert.deepEqual(codes(await send('1')), [1]);
    const holder = await database.connect();
    await holder.query('begin; lock table reset');
    const sent = send(...Array<string>(20).fill('2'));
    await untilACommitWaits(client);
    proxy.reset();
    assert.deepEqual(codes(await sent), Array(20).fill('unknown commit_unknown'));
    // A few tell their number before they wait: the engine is asked until it gives up the wait itself.
    const few = send('4', '4');
    await proxy.passed('xid ');
    proxy.reset();
    for (const code of codes(await few))
      assert.match(String(code), /^aborted (?:engine_unavailable|deadline)$/);
    await holder.query('rollback');
    assert.deepEqual(codes(await send('5')), [1]);
    assert.deepEqual(
      (await stored(client, 'reset')).filter((document) => document === '4'),
      [],
    );
  });

  test('a commit at an engine without reply is unknown at the deadline', async (t) => {
    const { client, targetOf, send } = await webhookRoom(t);
    await runOurs(client, create('silent'));
    await client.query(`
      create function nap() returns trigger language plpgsql as $$ begin perform pg_sleep(1.5); return new; end $$;
      create trigger nap before insert on silent for each row execute function nap()`);
    const target = await targetOf('silent');
    const started = performance.now();
    const rows = { ...rowsOf(target, '1'), ackTimeoutMs: 300 };
    assert.deepEqual(codes(await send([rows])), ['unknown commit_unknown']);
    assert(performance.now() - started < 1_200);
  });

  test('a commit to an unreachable database gets a transient refusal', async (t) => {
    const { client, spy, targetOf, send } = await webhookRoom(t);
    await runOurs(client, create('t'));
    const target = { ...(await targetOf('t')), database: 'hg_test_nowhere' };
    assert.deepEqual(codes(await send([rowsOf(target, '1')])), ['aborted engine_unavailable']);
    assert(spy.seen.some((o) => o.kind === 'group.aborted'));
  });

  test('a commit waits for the disk unless the table has webhook.wait_for_persistence = false', async (t) => {
    const { client, database, targetOf, send } = await webhookRoom(t);
    await runOurs(client, create('waits'));
    // Also where the database is configured not to wait.
    await client.query(`
      alter database ${database.name} set synchronous_commit = off;
      create table seen (setting text);
      create function note() returns trigger language plpgsql as
        $$ begin insert into seen values (current_setting('synchronous_commit')); return new; end $$;
      create trigger note before insert on waits for each row execute function note()`);
    const target = await targetOf('waits');
    assert.deepEqual(codes(await send([rowsOf({ ...target, waitsForDisk: false }, '1')])), [1]);
    assert.deepEqual(codes(await send([rowsOf(target, '1')])), [1]);
    const { rows } = await client.query<{ setting: string }>('select setting from seen');
    assert.deepEqual(
      rows.map((r) => r.setting),
      ['off', 'on'],
    );
  });
});

/** Passes everything on until it resets all connections. `passed` waits for what the engine says on those since. */
async function openResettingProxy(t: TestContext, to: Endpoint) {
  const sockets = new Set<Socket>();
  let said = '';
  const server = createServer((socket) => {
    const upstream = to.kind === 'unix' ? connect(to.path) : connect(to.port, to.host);
    sockets.add(socket);
    for (const end of [socket, upstream]) end.on('error', () => {});
    socket.pipe(upstream).pipe(socket);
    upstream.on('data', (bytes: Buffer) => (said += bytes.toString('latin1')));
    socket.on('close', () => upstream.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onEnd(t, 'proxy', () => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return {
    port: (server.address() as AddressInfo).port,
    passed: (text: string) => within(10_000, async () => assert(said.includes(text), said)),
    reset: () => {
      for (const socket of sockets) socket.resetAndDestroy();
      sockets.clear();
      said = '';
    },
  };
}
