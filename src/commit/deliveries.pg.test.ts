/** Deliveries on a real PostgreSQL: each is stored once, whatever fails in its group and whoever else stores it. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { codes, committer, webhookRoom, untilACommitWaits } from '../../test/support/commit-room.ts';
import { onEnd } from '../../test/support/cleanup.ts';
import { Spy } from '../../test/support/postgres.ts';
import { rowsOf } from '../../test/support/rows.ts';
import { migrate, readMigrations } from '../catalog/migrate.ts';
import { limits } from '../config/limits.ts';
import type { Limits } from '../config/limits.ts';
import { CommitPools } from './commit-pools.ts';
import { SpoolCommit } from './hand-over.ts';
import type { Rows } from '../types/rows.ts';
import type { Shape } from '../types/shape.ts';
import type { Target } from '../types/target.ts';

const dedupe = { parts: [], headers: new Set<string>(), windowS: 3_600, shown: '' };
const idOf = (name: string) => Buffer.from(name.padEnd(16, '.')).toString('hex');

/** A request that is the delivery `name`. */
const sent = (target: Target, name: string, ...documents: string[]): Rows => ({
  ...rowsOf(target, ...documents),
  delivery: idOf(name),
});

/** The same with what it holds: a request with this id and other documents is another one. */
const whole = (target: Target, name: string, ...documents: string[]): Rows => ({
  ...sent(target, name, ...documents),
  content: createHash('md5').update(documents.join()).digest('hex'),
});

async function room(t: TestContext, bounds: Partial<Limits> = {}) {
  const made = await webhookRoom(t, bounds);
  await migrate(made.client, readMigrations());
  const once = (target: Target): Target => ({ ...target, dedupe, hasLocks: true });
  return {
    ...made,
    documents: async (name: string) => once(await made.targetOf(name)),
    columns: async (name: string, onTypeError: Shape['onTypeError'] = 'reject') =>
      once(await made.tableOf(name, { onTypeError })),
    known: async () => {
      const { rows } = await made.client.query<{ n: number }>(
        'select count(*)::int as n from headgate.delivery',
      );
      return rows[0]?.n;
    },
  };
}

suite('a table with the option dedupe stores each delivery once', () => {
  test('a repeated delivery is answered as if stored: later, in one group, and as a batch', async (t) => {
    const { client, documents, send, spy, known } = await room(t);
    await client.query('create table d (data jsonb)');
    const target = await documents('d');
    const told = spy.next('deliveries.repeated');
    assert.deepEqual(
      codes(await send([sent(target, 'a', '1', '2'), sent(target, 'b', '3'), sent(target, 'a', '1', '2')])),
      [2, 1, 2],
    );
    assert.equal((await told).deliveries, 1);
    assert.deepEqual(
      codes(await send([sent(target, 'b', '3'), sent(target, 'c', '4'), sent(target, 'a', '1', '2')])),
      [1, 1, 2],
    );
    assert.deepEqual(codes(await send([sent(target, 'a', '1', '2')])), [2]);
    // Rows that nobody has given an id.
    assert.deepEqual(codes(await send([rowsOf(target, '5'), rowsOf(target, '5')])), [1, 1]);
    const { rows } = await client.query<{ data: number }>('select data from d order by data');
    assert.deepEqual(
      rows.map(({ data }) => data),
      [1, 2, 3, 4, 5, 5],
    );
    assert.equal(await known(), 3);
  });

  test('a refused delivery leaves no delivery id, alone or in a group, and its repetition is attempted anew', async (t) => {
    const { client, columns, send, known } = await room(t);
    await client.query('create table r (id int check (id > 0), word text)');
    const target = await columns('r');
    const members = [
      sent(target, 'good', '{"id":1}'),
      sent(target, 'low', '{"id":-1}'),
      sent(target, 'word', '{"id":"x"}'),
      sent(target, 'low', '{"id":-1}'),
      sent(target, 'good', '{"id":1}'),
      sent(target, 'late', '{"id":2}'),
    ];
    const refused = ['aborted row_refused', 'aborted payload_undecodable'] as const;
    assert.deepEqual(codes(await send(members)), [1, refused[0], refused[1], refused[0], 1, 1]);
    assert.equal(await known(), 2);
    assert.deepEqual(codes(await send([sent(target, 'low', '{"id":-1}')])), [refused[0]]);
    // What was at fault is put right: the same delivery is stored.
    assert.deepEqual(
      codes(await send([sent(target, 'low', '{"id":3}'), sent(target, 'late', '{"id":-5}')])),
      [1, 1],
    );
    const { rows } = await client.query<{ id: number }>('select id from r order by 1');
    assert.deepEqual(
      rows.map(({ id }) => id),
      [1, 2, 3],
    );
  });

  test('a value of the wrong type is still stored as NULL beside a repeated delivery in its group', async (t) => {
    const { client, columns, send } = await room(t);
    await client.query('create table n (id int, at date)');
    const target = await columns('n', 'null');
    await send([sent(target, 'a', '{"id":1}')]);
    const outcomes = await send([sent(target, 'a', '{"id":1}'), sent(target, 'b', '{"id":2,"at":"no day"}')]);
    assert.deepEqual(codes(outcomes), [1, 1]);
    const { rows } = await client.query('select * from n order by id');
    assert.deepEqual(rows, [
      { id: 1, at: null },
      { id: 2, at: null },
    ]);
  });

  test('one delivery at two Headgates is stored once, and the second waits for the first', async (t) => {
    const { client, database, documents, send, known } = await room(t);
    await client.query('create table w (data jsonb)');
    const target = await documents('w');
    const other = committer(t, database.engine, new Spy());
    for (const [end, rows] of [
      ['commit', 1],
      ['rollback', 2],
    ] as const) {
      const holder = await database.connect();
      await holder.query('begin');
      await holder.query('select headgate.claim_deliveries($1, $2, 3600)', [target.oid, [idOf(end)]]);
      await holder.query(`insert into w values ('"${end}"')`);
      const waiting = other([sent(target, end, `"${end}"`)]);
      await untilACommitWaits(client);
      await holder.query(end);
      assert.deepEqual(codes(await waiting), [1]);
      const { rows: stored } = await client.query('select from w');
      assert.equal(stored.length, rows, end);
    }
    // Many at once, in another order each, beside rows that are refused: each is tried alone then, and nobody waits in a circle.
    for (let round = 0; round < 10; round++) {
      const names = Array.from({ length: 40 }, (_, i) => `m${round}-${i}`);
      const group = (order: readonly string[]) => [
        ...order.map((name) => sent(target, name, `"${name}"`)),
        sent(target, 'bad', '"\\u0000"'),
      ];
      const ends = await Promise.all([send(group(names)), other(group(names.toReversed()))]);
      for (const outcomes of ends)
        assert.deepEqual(
          codes(outcomes).slice(0, 40),
          names.map(() => 1),
        );
    }
    const { rows } = await client.query<{ n: number }>(
      `select count(*)::int as n from w where data #>> '{}' like 'm%'`,
    );
    assert.equal(rows[0]?.n, 400);
    assert.equal(await known(), 402);
  });

  test('a delivery id older than the window of dedupe counts as new, and old ids are deleted in bounded parts', async (t) => {
    const { client, documents, send, known } = await room(t);
    await client.query('create table o (data jsonb)');
    const target = await documents('o');
    await send([sent(target, 'a', '1'), sent(target, 'b', '2'), sent(target, 'c', '3')]);
    await client.query(
      `update headgate.delivery set stored_at = now() - interval '61 minutes' where id <> $1`,
      [idOf('c')],
    );
    assert.deepEqual(codes(await send([sent(target, 'a', '1'), sent(target, 'c', '3')])), [1, 1]);
    const { rows } = await client.query('select from o');
    assert.equal(rows.length, 4);
    // Of no webhook table: all of them may go, two in one statement.
    const forget = async () => {
      const { rows: went } = await client.query<{ n: string }>(
        "select headgate.forget_old('headgate.delivery', 'stored_at', 'dedupe', 2) as n",
      );
      return Number(went[0]?.n);
    };
    assert.deepEqual([await forget(), await forget(), await forget()], [2, 1, 0]);
    assert.equal(await known(), 0);
  });

  test('a delivery from the spool is stored once, and an earlier delivery of its id is skipped', async (t) => {
    const { client, database, documents, send } = await room(t);
    await client.query('create table h (data jsonb)');
    const target = await documents('h');
    await send([sent(target, 'a', '1')]);
    const pools = new CommitPools(database.engine, limits);
    onEnd(t, 'pools', () => pools.close());
    const over = new SpoolCommit({ pools, limits, observe: () => undefined, clock: () => performance.now() });
    const hand = (first: bigint, last: bigint, ...members: Rows[]) => {
      const passage = { spool: '0123456789abcdef0123456789abcdef', first, last };
      return over.handOver({ target, members, rows: members.length, bytes: 1 }, passage);
    };
    assert.deepEqual(await hand(1n, 2n, sent(target, 'a', '1'), sent(target, 'b', '2')), {
      kind: 'committed',
    });
    assert.deepEqual(await hand(3n, 3n, sent(target, 'b', '2')), { kind: 'committed' });
    assert.deepEqual(await hand(3n, 3n, sent(target, 'b', '2')), { kind: 'moved' });
    assert.deepEqual(codes(await send([sent(target, 'b', '2')])), [1]);
    const { rows } = await client.query<{ data: number }>('select data from h order by data');
    assert.deepEqual(
      rows.map(({ data }) => data),
      [1, 2],
    );
  });

  test('a delivery id with another body gets delivery_differs, in the group of the first body and after it', async (t) => {
    const { client, columns, send, spy, known } = await room(t);
    await client.query('create table p (id int check (id > 0), word text)');
    const target = await columns('p');
    const row = (name: string, id: number, word: string) => whole(target, name, JSON.stringify({ id, word }));
    const differs = 'aborted delivery_differs';
    const told = spy.next('deliveries.differ');
    assert.deepEqual(
      codes(
        await send([
          row('a', 1, 'x'),
          row('a', 2, 'y'),
          row('a', 1, 'x'),
          row('b', 3, 'z'),
          row('a', 4, 'w'),
        ]),
      ),
      [1, differs, 1, 1, differs],
    );
    assert.equal((await told).deliveries, 2);
    assert.deepEqual(codes(await send([row('a', 2, 'y')])), [differs]);
    assert.deepEqual(codes(await send([row('a', 1, 'x'), row('b', 9, 'z'), row('c', 5, 'v')])), [
      1,
      differs,
      1,
    ]);
    // Beside a row that is refused each is tried alone; the second has the id if the first one is refused.
    assert.deepEqual(
      codes(
        await send([
          row('d', -1, 'x'),
          row('d', 6, 'y'),
          row('a', 7, 'y'),
          row('a', 1, 'x'),
          row('d', 8, 'z'),
        ]),
      ),
      ['aborted row_refused', 1, differs, 1, differs],
    );
    const { rows } = await client.query<{ id: number }>('select id from p order by id');
    assert.deepEqual(
      rows.map(({ id }) => id),
      [1, 3, 5, 6],
    );
    assert.equal(await known(), 4);
    // Without content an id is enough, as it was for what an earlier version has stored.
    assert.deepEqual(codes(await send([sent(target, 'a', '{"id":9}')])), [1]);
    await client.query('update headgate.delivery set body = null');
    assert.deepEqual(codes(await send([row('a', 9, 'x')])), [1]);
  });

  test('a repeated delivery is answered as the first one even if its group is divided, with and without Citus', async (t) => {
    const { client, columns, send } = await room(t);
    for (const distributedByCitus of [false, true]) {
      const name = distributedByCitus ? 'ci' : 'pg';
      await client.query(`create table ${name} (id int check (id > 0), word text)`);
      const made = await columns(name);
      const target = { ...made, shape: { ...made.shape, distributedByCitus } };
      const row = (id: number, word = '') =>
        whole(target, `${name}${Math.abs(id)}`, JSON.stringify({ id, word }));
      const old = Array.from({ length: 20 }, (_, i) => row(i + 1));
      await send(old);
      const fresh = Array.from({ length: 20 }, (_, i) => row(i + 21));
      const mixed = old.flatMap((it, i) => [it, fresh[i] ?? it]);
      const outcomes = codes(await send([...mixed, row(-41), row(1, 'other'), ...old]));
      assert.deepEqual(outcomes, [
        ...mixed.map(() => 1),
        'aborted row_refused',
        'aborted delivery_differs',
        ...old.map(() => 1),
      ]);
      const { rows } = await client.query<{ n: number }>(`select count(*)::int as n from ${name}`);
      assert.equal(rows[0]?.n, 40);
    }
  });

  test('a delivery_differs refusal breaks its chain, and no later request of the chain is stored', async (t) => {
    const { client, documents, send } = await room(t);
    await client.query('create table ch (data jsonb)');
    const target = await documents('ch');
    await send([whole(target, 'a', '1')]);
    const chain = { broken: false };
    const linked = (name: string, document: string) => ({ ...whole(target, name, document), chain });
    assert.deepEqual(
      codes(await send([linked('b', '2'), linked('a', '3'), linked('c', '4'), whole(target, 'd', '5')])),
      [1, 'aborted delivery_differs', 'aborted chain_broken', 1],
    );
    assert.equal(chain.broken, true);
    const { rows } = await client.query<{ data: number }>('select data from ch order by data');
    assert.deepEqual(
      rows.map(({ data }) => data),
      [1, 2, 5],
    );
  });

  test('two Headgates with two bodies of one delivery id store one, and the other gets delivery_differs', async (t) => {
    const { client, database, documents, send } = await room(t);
    await client.query('create table tw (data jsonb)');
    const target = await documents('tw');
    const other = committer(t, database.engine, new Spy());
    const holder = await database.connect();
    await holder.query('begin');
    const [first] = [whole(target, 'a', '1')];
    await holder.query('select headgate.claim_deliveries($1, $2, 3600, $3)', [
      target.oid,
      [first.delivery],
      [first.content],
    ]);
    const waiting = Promise.all([send([whole(target, 'a', '2')]), other([whole(target, 'a', '1')])]);
    await untilACommitWaits(client);
    await holder.query('commit');
    assert.deepEqual((await waiting).map(codes), [['aborted delivery_differs'], [1]]);
    for (let round = 0; round < 20; round++) {
      const ends = await Promise.all([
        send([whole(target, `r${round}`, '1')]),
        other([whole(target, `r${round}`, '2')]),
      ]);
      assert.deepEqual(
        ends.flatMap(codes).toSorted((a, b) => String(a).localeCompare(String(b))),
        [1, 'aborted delivery_differs'],
      );
    }
    const { rows } = await client.query<{ n: number }>('select count(*)::int as n from tw');
    assert.equal(rows[0]?.n, 20);
  });

  test("a spooled request with another delivery's id is refused alone, and the position passes it only once it is kept", async (t) => {
    const { client, database, documents, send } = await room(t);
    await client.query('create table hd (data jsonb)');
    const target = await documents('hd');
    await send([whole(target, 'a', '1')]);
    const pools = new CommitPools(database.engine, limits);
    onEnd(t, 'pools', () => pools.close());
    const over = new SpoolCommit({ pools, limits, observe: () => undefined, clock: () => performance.now() });
    const hand = async (first: bigint, last: bigint, ...members: Rows[]) => {
      const passage = { spool: '0123456789abcdef0123456789abcde0', first, last };
      const end = await over.handOver({ target, members, rows: members.length, bytes: 1 }, passage);
      return 'refusal' in end ? `${end.kind} ${end.refusal.code}` : end.kind;
    };
    assert.match(
      await hand(1n, 3n, whole(target, 'a', '1'), whole(target, 'b', '2'), whole(target, 'a', '3')),
      /^refused/,
    );
    // Two with one id in the same group, neither of which is known.
    assert.match(await hand(1n, 2n, whole(target, 'c', '4'), whole(target, 'c', '5')), /^refused/);
    const { rows: none } = await client.query('select from hd');
    assert.equal(none.length, 1);
    assert.equal(await hand(1n, 2n, whole(target, 'a', '1'), whole(target, 'b', '2')), 'committed');
    assert.equal(await hand(3n, 3n, whole(target, 'a', '3')), 'refused delivery_differs');
    const { rows } = await client.query<{ position: string }>('select position from headgate.spool_position');
    assert.equal(rows[0]?.position, '2');
  });

  test('the table of delivery ids is accessible to Headgate only', async (t) => {
    const { client } = await room(t);
    const role = `stranger_${process.pid}`;
    await client.query(`create role ${role}`);
    try {
      const tried = async (sql: string) =>
        client.query(`set role ${role}; ${sql}`).then(
          () => 'done',
          (error: { code: string }) => error.code,
        );
      for (const sql of [
        'select from headgate.delivery',
        `insert into headgate.delivery values (1, gen_random_uuid())`,
        `select headgate.claim_deliveries(1, '{}', 1)`,
        "select headgate.forget_old('headgate.delivery', 'stored_at', 'dedupe', 1)",
      ])
        assert.equal(await tried(sql), '42501', sql);
    } finally {
      await client.query(`reset role; drop role ${role}`);
    }
  });
});
