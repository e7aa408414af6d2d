/** What becomes of rows when the connection, the wait for a standby or the engine itself ends at the worst moment. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { Client } from 'pg';
import { onEnd } from '../../test/support/cleanup.ts';
import { codes, webhookRoom, committer, describeTable } from '../../test/support/commit-room.ts';
import { FaultyProxy } from '../../test/support/faulty-proxy.ts';
import { Spy } from '../../test/support/postgres.ts';
import { rowsOf, targetOf as madeTarget } from '../../test/support/rows.ts';
import { startServer } from '../../test/support/server.ts';
import { within } from '../../test/support/within.ts';
import { runOurs } from '../../test/support/webhook-tables.ts';
import { toShape } from '../relations/shape.ts';
import type { Outcome } from '../types/rows.ts';
import type { Target } from '../types/target.ts';

interface Seen {
  readonly settled: readonly string[];
  readonly outcomes: readonly Outcome[];
  readonly stored: readonly number[];
}

/** Sends row after row, each with the connection reset one message later than before, until one comes through. */
async function cutEverywhere(
  t: TestContext,
  side: 'client' | 'server',
  table: string,
  make: string,
): Promise<Seen> {
  const room = await webhookRoom(t);
  if (make.includes('webhook')) await runOurs(room.client, make);
  else await room.client.query(make);
  const target: Target = make.includes('webhook') ? await room.targetOf(table) : await room.tableOf(table);
  const proxy = await FaultyProxy.open(room.database.engine.endpoint());
  onEnd(t, 'proxy', () => proxy.close());
  const spy = new Spy();
  const send = committer(
    t,
    {
      ...room.database.engine,
      clientConfig: (database: string) => ({
        ...room.database.engine.clientConfig(database),
        host: '127.0.0.1',
        port: proxy.port,
      }),
    },
    spy,
  );
  assert.deepEqual(codes(await send([rowsOf(target, '{"id":-1}')])), [1]);
  const outcomes: Outcome[] = [];
  for (let id = 0; proxy.cuts === id; id++) {
    proxy.cutAfter(side, id);
    const [outcome] = await send([rowsOf(target, `{"id":${id}}`)]);
    assert(outcome !== undefined);
    outcomes.push(outcome);
  }
  const ids = make.includes('webhook') ? `(data ->> 'id')::int` : 'id';
  const { rows } = await room.client.query<{ id: number }>(`select ${ids} as id from ${table}`);
  return {
    outcomes,
    stored: rows.map((row) => row.id),
    settled: spy.seen.flatMap((o) => (o.kind === 'group.settled' ? [o.fate] : [])),
  };
}

const ways: readonly (readonly [name: string, sql: string])[] = [
  ['document', `CREATE TABLE document (data JSONB) WITH (connector = 'webhook')`],
  ['row', 'create table row (id int)'],
  ['keyed', 'create table keyed (id int primary key)'],
];

suite('a commit whose reply is lost is answered by what is stored', () => {
  for (const [table, sql] of ways) {
    for (const side of ['server', 'client'] as const) {
      test(`a row of the table ${table} is stored as answered after a reset at each message of the ${side}`, async (t) => {
        const { outcomes, stored, settled } = await cutEverywhere(t, side, table, sql);
        assert(outcomes.length > 3, `${outcomes.length} messages`);
        outcomes.forEach((outcome, id) => {
          const copies = stored.filter((it) => it === id).length;
          if (outcome.kind === 'committed') assert.equal(copies, 1, `${id} is told to be stored`);
          else if (outcome.kind === 'aborted') assert.equal(copies, 0, `${id} is told not to be stored`);
          else assert(copies <= 1, `${id} is not known`);
        });
        assert.equal(outcomes.at(-1)?.kind, 'committed', 'the one that was not cut');
        // The answers that were lost behind the commit are found out about, not guessed.
        if (side === 'server') assert(settled.includes('committed'), settled.join());
        else assert(outcomes.slice(0, -1).every(({ kind }) => kind !== 'committed' || settled.length > 0));
      });
    }
  }

  test('the fate of a transaction lost in a crash of PostgreSQL stays unknown after its recovery', async (t) => {
    const { client, connect, target, send, spy } = await ownServer(t);
    const holder = await connect();
    await holder.query('begin; lock table t');
    const sent = send([rowsOf(target, '{"id":1}')]);
    process.kill(await waiting(client, 'relation'), 'SIGKILL');
    assert.deepEqual(codes(await sent), ['unknown commit_unknown']);
    assert(!spy.seen.some((o) => o.kind === 'group.committed'));
    // A server in the middle of its recovery does not hear that it shall stop.
    await within(20_000, async () => void (await connect()));
  });

  test('a commit without a free server connection gets a transient refusal, and is stored once there is one', async (t) => {
    const { connect, target, send } = await ownServer(t, [
      'max_connections=4',
      'superuser_reserved_connections=0',
      'max_wal_senders=0',
    ]);
    const others: Client[] = [];
    await assert.rejects(
      async () => {
        for (;;) others.push(await connect());
      },
      { code: '53300' },
    );
    assert.deepEqual(codes(await send([rowsOf(target, '{"id":1}')])), ['aborted engine_unavailable']);
    await Promise.all(others.map((it) => it.end()));
    await within(10_000, async () => assert.deepEqual(codes(await send([rowsOf(target, '{"id":2}')])), [1]));
  });

  test("a role's connection limit bounds the commit pool: groups wait, and one log line reports it", async (t) => {
    const { client, target, spy, send, engine } = await ownServer(t);
    await client.query('create role few login connection limit 2; grant all on t to few');
    const few = committer(
      t,
      { clientConfig: (database) => ({ ...engine.clientConfig(database), user: 'few' }) },
      spy,
    );
    const rows = Array.from({ length: 60 }, (_, id) => rowsOf(target, `{"id":${id}}`));
    const outcomes = await Promise.all(rows.map((it) => few([it])));
    assert.deepEqual(new Set(codes(outcomes.flat())), new Set([1]));
    assert.equal((await client.query('select distinct id from t')).rowCount, 60);
    const said = spy.seen.filter(({ kind }) => kind === 'commit.connections_limited');
    assert.equal(said.length, 1);
    // None at all, and one as soon as somebody leaves.
    await client.query('create role single login connection limit 1; grant all on t to single');
    const other = new Client({ ...engine.clientConfig('postgres'), user: 'single' });
    await other.connect();
    const late = committer(
      t,
      { clientConfig: (database) => ({ ...engine.clientConfig(database), user: 'single' }) },
      spy,
    );
    const limited = spy.next('commit.connections_limited');
    const waits = late([rowsOf(target, '{"id":60}')]);
    assert.equal((await limited).connections, 0);
    await other.end();
    assert.deepEqual(codes(await waits), [1]);
    assert.deepEqual(codes(await send([rowsOf(target, '{"id":61}')])), [1]);
  });

  test('a commit whose wait for the synchronous standby is cancelled is answered commit_unknown', async (t) => {
    const { client, target, send, spy } = await ownServer(t, ['synchronous_standby_names=nobody']);
    const sent = send([rowsOf(target, '{"id":1}')]);
    const ended = { yet: false };
    void sent.then(() => (ended.yet = true));
    // The first cancelled wait is the commit's; those that follow are of the question whether the standby has it now.
    let cancelled = 0;
    while (!ended.yet) {
      const { rows } = await client.query<{ done: boolean }>(
        `select pg_cancel_backend(pid) as done from pg_stat_activity where wait_event = 'SyncRep'`,
      );
      cancelled += rows.length;
    }
    assert.deepEqual(codes(await sent), ['unknown commit_unknown']);
    assert(cancelled >= 2, `${cancelled} waits`);
    const { rows } = await client.query('select id from t');
    assert.deepEqual(rows, [{ id: 1 }], 'this server has it, and that is not enough');
    assert(!spy.seen.some((o) => o.kind === 'group.committed'));
  });

  test('a commit is answered as stored if the synchronous standby catches up in time', async (t) => {
    const { client, target, send, spy } = await ownServer(t);
    const standbys = async (names: string) => {
      await client.query(`alter system set synchronous_standby_names = '${names}'`);
      await client.query('select pg_reload_conf()');
    };
    await standbys('nobody');
    // The server's own processes read it in their own time.
    for (let waits = false; !waits;) waits = await commitWaits(client);
    const sent = send([{ ...rowsOf(target, '{"id":1}'), ackTimeoutMs: 20_000 }]);
    const pid = await waiting(client, 'SyncRep');
    await client.query('select pg_terminate_backend($1)', [pid]);
    // The wait of the question, after that of the commit has ended.
    await waiting(client, 'SyncRep', pid);
    await standbys('');
    assert.deepEqual(codes(await sent), [1]);
    assert(spy.seen.some((o) => o.kind === 'group.settled' && o.fate === 'committed'));
  });
});

/** A server of the test's own with a table `t (id int)`, and a client that waits for no standby. */
async function ownServer(t: TestContext, settings: readonly string[] = []) {
  const server = await startServer(undefined, settings);
  onEnd(t, 'server', () => server.close());
  const config = { host: server.socketDir, user: 'root', database: 'postgres' };
  const connect = async () => {
    const client = new Client({ ...config, options: '-c synchronous_commit=local' });
    client.on('error', () => undefined);
    onEnd(t, 'client', () => client.end().catch(() => undefined));
    await client.connect();
    return client;
  };
  const client = await connect();
  await client.query('create table t (id int)');
  const row = await describeTable(client, 't');
  assert(row !== null);
  const shape = toShape(row, { writeMode: null, document: null, includes: [], onTypeError: 'reject' });
  assert(typeof shape !== 'string');
  const target = madeTarget({ database: 'postgres', table: 't', oid: row.relation, shape });
  const spy = new Spy();
  const engine = { clientConfig: (database: string) => ({ ...config, database }) };
  return { client, connect, target, spy, engine, send: committer(t, engine, spy) };
}

/** Whether a commit waits for a standby; it is given up after that. */
async function commitWaits(client: Client): Promise<boolean> {
  const own = new Client({ host: client.host, user: 'root', database: 'postgres' });
  own.on('error', () => undefined);
  await own.connect();
  const state = { ended: false };
  const ended = own.query(`select pg_logical_emit_message(true, '', ''), pg_backend_pid()`).then(
    () => void (state.ended = true),
    () => void (state.ended = true),
  );
  let waited = false;
  while (!state.ended) {
    const { rowCount } = await client.query(
      `select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'`,
    );
    waited ||= (rowCount ?? 0) > 0;
  }
  await ended;
  await own.end();
  return waited;
}

/** The pid of a commit that waits for this; not `butNot`. */
async function waiting(client: Client, event: string, butNot = 0): Promise<number> {
  for (;;) {
    const { rows } = await client.query<{ pid: number }>(
      `select pid from pg_stat_activity where wait_event = $1 and pid <> $2 and application_name = 'headgate commit'`,
      [event, butNot],
    );
    if (rows[0] !== undefined) return rows[0].pid;
  }
}
