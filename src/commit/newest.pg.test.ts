/**
 * The option `version` on a real PostgreSQL: whatever the order, the groups and the repetitions in which rows and deletions arrive, the table ends
 * in the state of the newest. What that is PostgreSQL says, by a query over the log of what was sent.
 */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { Client } from 'pg';
import { onEnd } from '../../test/support/cleanup.ts';
import { codes, committer } from '../../test/support/commit-room.ts';
import { Spy } from '../../test/support/postgres.ts';
import { seededRandom } from '../../test/support/random.ts';
import { rowsOf } from '../../test/support/rows.ts';
import { sampleSeed, someVersion, times } from '../../test/support/sample.ts';
import { startServer } from '../../test/support/server.ts';
import type { TestServer } from '../../test/support/server.ts';
import { until } from '../../test/support/until.ts';
import { readSnapshot } from '../../test/support/webhook-targets.ts';
import { runOurs } from '../../test/support/webhook-tables.ts';
import { tableKey } from '../catalog/database-tables.ts';
import type { Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';

interface Event {
  readonly key: number;
  readonly version: number;
  readonly deletes: boolean;
  readonly value: string;
}

const sent = (target: Target, { key, version, deletes, value }: Event): Rows => ({
  ...rowsOf(
    target,
    JSON.stringify(deletes ? { id: key, seen: version } : { id: key, seen: version, v: value }),
  ),
  ...(deletes && { deletes: Uint8Array.of(1) }),
});

/** The state of the newest: of one version the deletion, and among equal rows they are all the same. */
const wanted = `select key as id, version as seen, value as v from (
  select distinct on (key) * from log order by key, version desc, deletes desc) as last where not deletes order by key`;

function* permutations<T>(all: readonly T[]): Generator<readonly T[]> {
  if (all.length === 0) yield [];
  for (const [i, first] of all.entries())
    for (const rest of permutations(all.filter((_, place) => place !== i))) yield [first, ...rest];
}

function newestOn(bin: string): void {
  let server: TestServer;
  before(async () => {
    // Nobody else takes numbers of transactions.
    server = await startServer(bin, ['autovacuum=off']);
  });
  after(() => server.close());

  const room = async (t: TestContext) => {
    const name = `t${Math.random().toString(36).slice(2)}`;
    const config = { host: server.socketDir, user: 'root' };
    const open = async (database: string, user = 'root') => {
      const client = new Client({ ...config, database, user });
      client.on('error', () => undefined);
      await client.connect();
      onEnd(t, 'client', () => client.end());
      return client;
    };
    await (await open('postgres')).query(`create database ${name}`);
    const client = await open(name);
    const spy = new Spy();
    const headgate = () => committer(t, { clientConfig: () => ({ ...config, database: name }) }, spy);
    const targetOf = async (table: string): Promise<Target> => {
      const snapshot = await readSnapshot(client);
      const target = snapshot.tables.get(tableKey('public', table));
      assert(target !== undefined, table);
      assert.equal(snapshot.unusable.get(tableKey('public', table)), undefined);
      return { ...target, database: name };
    };
    const create = async (columns: string, options: string, name = 't') => {
      await runOurs(client, `CREATE TABLE ${name} (${columns}) WITH (connector = 'webhook', ${options})`);
      return targetOf(name);
    };
    const logged = async (events: readonly Event[]) => {
      await client.query(
        'create table if not exists log (key int, version bigint, deletes bool, value text)',
      );
      await client.query(
        'insert into log select * from unnest($1::int[], $2::bigint[], $3::bool[], $4::text[])',
        [
          events.map(({ key }) => key),
          events.map(({ version }) => version),
          events.map(({ deletes }) => deletes),
          events.map(({ value }) => value),
        ],
      );
    };
    return { client, open: (user: string) => open(name, user), spy, headgate, targetOf, create, logged };
  };
  const columns = 'id INT PRIMARY KEY, seen BIGINT, v TEXT';

  for (const way of ['plain', 'code'])
    test(`all orders of short histories of a key end in the newest version, in a ${way === 'code' ? 'table with a trigger' : 'plain table'}`, async (t) => {
      const { client, headgate, targetOf, create, logged } = await room(t);
      await create(columns, `version = 'seen'`);
      // A table with a trigger is stored in another way.
      if (way === 'code')
        await client.query(`create function f() returns trigger language plpgsql as $$ begin return new; end $$;
          create trigger f before insert or update on t for each row execute function f()`);
      const target = await targetOf('t');
      assert.equal(target.code.inert, way === 'plain');
      const send = headgate();
      const histories = [
        'u1 u2 u3 u4',
        'u1 u2 d3 u4',
        'u1 d2 u3 d4',
        'u1 d2 d2 u2',
        'd1 u1 u1 u2',
        'u1 u2 u2 d3',
      ];
      let key = 0;
      const orders = histories.flatMap((history) =>
        [...permutations(history.split(' '))].map((order) => {
          key++;
          return order.map((it): Event => ({
            key,
            version: Number(it[1]),
            deletes: it[0] === 'd',
            value: `v${it[1] ?? ''}`,
          }));
        }),
      );
      await logged(orders.flat());
      const expected = (await client.query(wanted)).rows;
      // One event after the other; two by two; all in one group.
      for (const size of [1, 2, 4]) {
        await client.query('truncate t; truncate headgate.tombstone');
        for (let at = 0; at < 4; at += size) {
          const members = orders.flatMap((order) => order.slice(at, at + size).map((it) => sent(target, it)));
          for (const outcome of await send(members)) assert.equal(outcome.kind, 'committed');
        }
        assert.deepEqual(
          (await client.query('select * from t order by id')).rows,
          expected,
          `${size} at a time`,
        );
      }
    });

  test('an older row waits for an uncommitted deletion of its key in a table with version', async (t) => {
    const { client, open, headgate, create } = await room(t);
    const target = await create(columns, `version = 'seen'`);
    const [deletes, writes, holder] = [headgate(), headgate(), await open('root')];
    const remove = sent(target, { key: 1, version: 5, deletes: true, value: '' });
    // Its tombstone waits for another one of the same key, behind its lock of the table.
    assert.deepEqual(codes(await deletes([remove])), [1]);
    await client.query('create table known as table headgate.tombstone; truncate headgate.tombstone');
    await holder.query('begin; insert into headgate.tombstone select * from known');
    const blocked = `select from pg_stat_activity where datname = current_database() and pg_blocking_pids(pid) <> '{}'`;
    const waiting = async (count: number) => (await client.query(blocked)).rowCount === count;
    const deletion = deletes([remove]);
    await until(() => waiting(1));
    const older = writes([sent(target, { key: 1, version: 4, deletes: false, value: 'v4' })]);
    await Promise.race([older, until(() => waiting(2))]);
    await holder.query('rollback');
    for (const [outcome] of await Promise.all([deletion, older])) assert.equal(outcome?.kind, 'committed');
    assert.equal((await client.query('select from t')).rowCount, 0);
  });

  test('random histories with repetitions, deletions, two Headgates and lost connections end in the newest versions', async (t) => {
    const { client, headgate, create, logged } = await room(t);
    const target = await create(columns, `version = 'seen'`);
    const { random } = seededRandom();
    const pick = (n: number) => Math.floor(random() * n);
    const events: Event[] = Array.from({ length: times(400, 10_000) }, () => {
      const version = pick(1_000);
      const deletes = pick(4) === 0;
      return { key: pick(40), version, deletes, value: `v${version}` };
    });
    await logged(events);
    const all = [...events, ...events.filter(() => pick(3) === 0)];
    let tries = 0;
    const senders = [headgate(), headgate()].flatMap((send) => [send, send]);
    await Promise.all(
      senders.map(async (send) => {
        while (all.length > 0) {
          let group = all.splice(0, 1 + pick(30)).map((it) => sent(target, it));
          if (pick(25) === 0)
            await client.query(
              `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'headgate commit' and datname = current_database()`,
            );
          for (; group.length > 0; tries++) {
            const outcomes = await send(group);
            group = group.filter((_, i) => {
              const outcome = outcomes[i];
              if (outcome?.kind === 'committed') return false;
              // Its sender sends it again: it may be there.
              assert.match(outcome?.refusal.code ?? '', /^(engine_unavailable|commit_unknown|deadline)$/);
              return true;
            });
          }
        }
      }),
    );
    t.diagnostic(`${tries} transactions`);
    assert.deepEqual(
      (await client.query('select * from t order by id')).rows,
      (await client.query(wanted)).rows,
      sampleSeed,
    );
  });

  test('the option version compares each type by its own order and refuses incomparable values', async (t) => {
    const { client, headgate, create } = await room(t);
    const send = headgate();
    // From old to new; then what is refused.
    const types: readonly (readonly [type: string, older: readonly string[], refused: readonly string[]])[] =
      [
        ['BIGINT', ['-5', '9', '10', '9223372036854775807'], ['null', '"x"', '1.5', '9223372036854775808']],
        [
          'NUMERIC',
          ['-1e300', '9', '10', '10.000000000000000000001', '1e400'],
          ['null', '"NaN"', '"Infinity"', '"-Infinity"'],
        ],
        [
          'TIMESTAMPTZ',
          [
            '"2026-01-01T01:00:00+02:00"',
            '"2026-01-01T00:00:00Z"',
            '"2026-01-01T00:00:00.5Z"',
            '"2026-01-01T00:00:00-01:00"',
            '"9999-12-31T23:59:59Z"',
          ],
          ['null', '"infinity"', '"-infinity"', '"never"', '{}'],
        ],
        ['DATE', ['"1999-12-31"', '"2026-01-01"'], ['"infinity"', '"2026-02-30"']],
        ['TEXT', ['""', '"01B"', '"01a"', '"01é"'], ['null', `"${'x'.repeat(1_025)}"`]],
        [
          'UUID',
          ['"01890a5d-ac96-774b-bcce-b302099a8057"', '"01890a5d-ac97-0000-0000-000000000000"'],
          ['"01890a5d"'],
        ],
        ['PG_LSN', ['"9/FFFFFFFF"', '"10/0"', '"10/A"'], ['"10"']],
      ];
    for (const [type, older, refused] of types) {
      const name = `of_${type.toLowerCase()}`;
      const target = await create(`id INT PRIMARY KEY, seen ${type}, n INT`, `version = 'seen'`, name);
      const row = (id: number, seen: string, n: number) =>
        rowsOf(target, `{"id":${id},"seen":${seen},"n":${n}}`);
      const remove = (id: number, seen: string): Rows => ({
        ...rowsOf(target, `{"id":${id},"seen":${seen}}`),
        deletes: Uint8Array.of(1),
      });
      let id = 0;
      for (const [i, early] of older.entries())
        for (const late of older.slice(i + 1)) {
          id++;
          assert.deepEqual(codes(await send([row(id, late, 2)])), [1]);
          const [outcome] = await send([row(id, early, 1)]);
          assert.deepEqual(outcome, { kind: 'committed', rows: 0, stale: 1 }, `${early} after ${late}`);
          assert.deepEqual(
            codes(await send([row(id, late, 3)])),
            [0],
            'of the same version: the first one stays',
          );
          assert.deepEqual(codes(await send([remove(id, early)])), [0], 'an older deletion');
          const { rows } = await client.query(`select n from ${name} where id = ${id}`);
          assert.deepEqual(rows, [{ n: 2 }], `${early} after ${late}`);
          // The other way round, and with tombstones.
          const after = [];
          for (const it of [remove(-id, early), row(-id, early, 1), row(-id, late, 2)])
            after.push(...codes(await send([it])));
          assert.deepEqual(after, [1, 0, 1]);
          assert.deepEqual(
            codes(await send([remove(id, late)])),
            [1],
            'of the same version the deletion wins',
          );
          assert.deepEqual(codes(await send([row(id, late, 2), row(id, early, 1)])), [0, 0], 'deleted');
          const left = await client.query(`select n from ${name} where id in (${id}, -${id})`);
          assert.deepEqual(left.rows, [{ n: 2 }], `${early}, ${late}`);
        }
      for (const bad of refused) {
        const outcomes = codes(await send([row(0, bad, 1), row(10_000, older[0] ?? '', 1), remove(0, bad)]));
        assert.match(String(outcomes[0]), /version_missing|payload_undecodable/, `${type} ${bad}`);
        assert.match(
          String(outcomes[2]),
          /version_missing|payload_undecodable|row_refused/,
          `${type} ${bad}`,
        );
        assert.match(String(outcomes[1]), /^[01]$/);
      }
      assert.deepEqual(codes(await send([rowsOf(target, '{"id":1,"n":1}')])), ['aborted version_missing']);
    }
  });

  test('the option version reads document paths, headers and several parts', async (t) => {
    const { client, headgate, targetOf } = await room(t);
    const send = headgate();
    const key = `id TEXT GENERATED ALWAYS AS (data->>'id') STORED PRIMARY KEY`;
    const cases = [
      [
        '$.o.at::timestamptz',
        '"2026-01-01T00:00:00Z"',
        '"2026-01-01T00:00:00.001Z"',
        '"2026-01-01T00:00:00"',
        '"2026-02-30T00:00:00Z"',
        '1',
      ],
      ['$.o.at::numeric', '9', '"10"', '"NaN"', '{}', '"1e5"'],
      ['$.o.at::text', '"B"', '"a"', '5', 'null', '[]'],
      ['$.o.at::pg_lsn', '"9/0"', '"10/0"', '"x"', '""', '7'],
      [`$.o."a't\\\\ \\"\${x}"::numeric`, '9', '10', 'null', '"x"', 'true'],
      ['$.o.list[1]."at"::numeric', '9', '10', 'null', '"x"', 'true'],
    ] as const;
    for (const [i, [place, early, late, ...refused]] of cases.entries()) {
      const name = `at_${i}`;
      await runOurs(
        client,
        `CREATE TABLE ${name} (data JSONB, ${key}) WITH (connector = 'webhook', version = '${place.replaceAll("'", "''")}')`,
      );
      const target = await targetOf(name);
      const path = target.shape.newest?.parts[0]?.path ?? [];
      const document = (at: string) => {
        const inner = path
          .toReversed()
          .reduce(
            (value, step) => (step === '1' ? `[0,${value}]` : `{${JSON.stringify(step)}:${value}}`),
            at,
          );
        return rowsOf(target, JSON.stringify({ data: 0 }).replace('0', `{"id":"k",${inner.slice(1)}`));
      };
      // What was there before, or was put there by SQL, never keeps a newer row out.
      await client.query(`insert into ${name} values ($1)`, [
        { id: 'k', o: { at: { nonsense: 1 }, list: 3 } },
      ]);
      assert.deepEqual(codes(await send([document(late)])), [1], place);
      assert.deepEqual(codes(await send([document(early)])), [0], place);
      for (const bad of refused)
        assert.match(
          String(codes(await send([document(bad)]))[0]),
          /version_missing|row_refused|body_not_json/,
          `${place} ${bad}`,
        );
      const { rows } = await client.query<{ n: number }>(
        `select count(*)::int as n from ${name} where data->'o' @> '{}' and data::text not like '%nonsense%'`,
      );
      assert.deepEqual(rows, [{ n: 1 }]);
    }
    await runOurs(
      client,
      `CREATE TABLE pairs (id INT PRIMARY KEY, at DATE, seq INT, extra JSONB, v INT) INCLUDE HEADER 'X-Seq' AS seq
       WITH (connector = 'webhook', document = '', version = 'at, header:x-seq, $.extra.n::numeric', version_equal = 'replace')`,
    );
    const target = await targetOf('pairs');
    const row = (at: string, seq: number, n: number, v: number) =>
      rowsOf(target, JSON.stringify({ id: 1, at, seq, extra: { n }, v }));
    const order = [
      ['2026-01-02', 1, 1],
      ['2026-01-01', 9, 9],
      ['2026-01-02', 0, 9],
      ['2026-01-02', 1, 0],
      ['2026-01-02', 1, 1],
      ['2026-01-02', 1, 2],
      ['2026-01-02', 2, 0],
    ] as const;
    const outcomes = [];
    for (const [v, [at, seq, n]] of order.entries())
      outcomes.push(...codes(await send([row(at, seq, n, v)])));
    assert.deepEqual(outcomes, [1, 0, 0, 0, 1, 1, 1]);
  });

  test('stale rows are counted for the request that sent them, whatever shares its group', async (t) => {
    const { headgate, create, spy } = await room(t);
    const target = await create(columns, `version = 'seen'`);
    const send = headgate();
    const of = (...rows: readonly (readonly [number, number])[]) =>
      rowsOf(target, ...rows.map(([id, seen]) => JSON.stringify({ id, seen, v: `${seen}` })));
    await send([of([1, 5], [2, 5])]);
    const told = spy.next('rows.stale');
    const outcomes = await send([
      of([1, 4], [2, 6]),
      of([1, 6]),
      of([1, 7], [3, 1], [1, 6]),
      of([3, 1], [2, 1]),
    ]);
    assert.deepEqual(outcomes, [
      // Replaced in the same transaction: nobody knows what it would have found.
      { kind: 'committed', rows: 2 },
      { kind: 'committed', rows: 1 },
      { kind: 'committed', rows: 2, stale: 1 },
      { kind: 'committed', rows: 0, stale: 2 },
    ]);
    assert.equal((await told).rows, 3);
    // Also where each goes on its own, because one of them is refused.
    const mixed = await send([of([1, 1]), rowsOf(target, '{"id":9}'), of([1, 8]), of([1, 8], [4, 1])]);
    assert.deepEqual(
      mixed.map((it) => (it.kind === 'committed' ? [it.rows, it.stale ?? 0] : it.refusal.code)),
      [[0, 1], 'version_missing', [1, 0], [1, 1]],
    );
  });

  test('a group in a table with version takes a second transaction only if the newer row is undecided', async (t) => {
    const { client, headgate, create } = await room(t);
    const target = await create('id INT PRIMARY KEY, seen BIGINT', `version = 'seen'`);
    const send = headgate();
    const row = (id: number, seen: number) => rowsOf(target, JSON.stringify({ id, seen }));
    const group = (...ids: readonly number[]) => send(ids.map((id) => row(id, 1)));
    const taken = async () => {
      const { rows } = await client.query<{ n: string }>(
        'select pg_snapshot_xmax(pg_current_snapshot()) as n',
      );
      return Number(rows[0]?.n);
    };
    /** How many transactions PostgreSQL has begun for it. */
    const cost = async (of: () => Promise<unknown>) => {
      const before = await taken();
      await of();
      return (await taken()) - before;
    };
    assert.equal(await cost(() => group(1)), 1, 'a new row');
    assert.equal(
      await cost(async () => assert.deepEqual(codes(await group(1)), [0])),
      1,
      'one that is not newer',
    );
    assert.equal(await cost(() => group(2, 3)), 1, 'several');
    assert.equal(
      await cost(async () => assert.deepEqual(codes(await group(4, 3)), [1, 0])),
      2,
      'one of several',
    );
    assert.equal(
      await cost(async () => assert.deepEqual(codes(await group(5, 3)), [1, 0])),
      1,
      'the next such group',
    );
    for (let id = 10; id < 30; id++) await group(id, -id);
    assert.equal(
      await cost(async () => assert.deepEqual(codes(await group(6, 6)), [1, 0])),
      2,
      'a key twice',
    );
    const remove = { ...row(7, 5), deletes: Uint8Array.of(1) };
    assert.deepEqual(codes(await headgate()([remove])), [1]);
    assert.equal(await cost(async () => assert.deepEqual(codes(await group(7)), [0])), 2, 'a tombstone');
    assert.equal(await cost(async () => assert.deepEqual(codes(await group(7)), [0])), 1, 'and another');
    const without = { ...rowsOf(target, '{"id":8}'), keeps: new Map([[0, ['seen']]]) };
    assert.deepEqual(codes(await send([without])), ['aborted version_missing']);
  });

  test('a tombstone is visible to the owner and readers of its table, and expires with the window of version', async (t) => {
    const { client, open, headgate, create, targetOf } = await room(t);
    const target = await create(columns, `version = 'seen', version_window = '1 day'`);
    const send = headgate();
    const remove = { ...rowsOf(target, '{"id":1,"seen":5}'), deletes: Uint8Array.of(1) };
    assert.deepEqual(codes(await send([remove])), [1]);
    await client.query(`drop role if exists reader, owner_of_t, stranger; create role stranger login; create role reader login; create role owner_of_t login;
      grant select, insert on t to reader; alter table t owner to owner_of_t; grant create, usage on schema public to owner_of_t`);
    const [owner, reader, stranger] = [
      await open('owner_of_t'),
      await open('reader'),
      await open('stranger'),
    ];
    const seen = async (who: Client) => (await who.query('select version from headgate.tombstones')).rows;
    assert.deepEqual(await seen(owner), [{ version: ['5'] }]);
    assert.deepEqual([await seen(reader), await seen(stranger)], [[], []]);
    const insert = `insert into headgate.tombstones (relation, key, version) values ('t', gen_random_uuid(), '{9}')`;
    for (const who of [reader, stranger]) {
      await assert.rejects(who.query(insert), /check option/);
      await assert.rejects(who.query('select * from headgate.tombstone'), /permission denied/);
      await assert.rejects(who.query('delete from headgate.tombstones'), /permission denied/);
      await assert.rejects(
        who.query('begin; lock table headgate.tombstones in row exclusive mode'),
        /permission denied/,
      );
      await who.query('rollback');
    }
    // A function that would tell what the view leaves out.
    await owner.query('create table seen_by_f (v text)');
    await stranger.query(`create temp table leaked (v text); create function pg_temp.leak(text[]) returns bool language plpgsql cost 0.0000001 as $$
      begin insert into leaked values ($1::text); return true; end $$`);
    await stranger.query('select count(*) from headgate.tombstones where pg_temp.leak(version)');
    assert.deepEqual((await stranger.query('select * from leaked')).rows, []);
    // With row-level security whoever is subject to it does not see them either.
    await client.query('grant insert, update on t to reader');
    assert.equal((await seen(reader)).length, 1);
    await owner.query('alter table t enable row level security; create policy p on t using (false)');
    assert.equal((await seen(reader)).length, 0);
    await owner.query('drop policy p on t; alter table t disable row level security');
    // They stay for the window, and end with the option.
    const went = async () =>
      (
        await client.query<{ n: string }>(
          "select headgate.forget_old('headgate.tombstone', 'deleted_at', 'version', 100) as n",
        )
      ).rows[0]?.n;
    assert.equal(await went(), '0');
    await client.query(`update headgate.tombstone set deleted_at = now() - interval '23 hours'`);
    assert.equal(await went(), '0');
    await client.query(`update headgate.tombstone set deleted_at = now() - interval '25 hours'`);
    assert.equal(await went(), '1');
    await client.query('alter table t owner to root');
    const again = committerOf(await targetOf('t'));
    assert.deepEqual(codes(await send([again])), [1]);
    for (const change of [
      `SET (version = 'v')`,
      `SET (version = 'off')`,
      'RESET (version)',
      `SET (version = 'seen')`,
    ]) {
      await client.query(insert);
      await runOurs(client, `ALTER TABLE t ${change}`);
      const expected = change.startsWith('RESET') ? 1 : 0;
      assert.equal((await seen(client)).length <= expected, true, change);
      await client.query('delete from headgate.tombstone');
    }
    await client.query(insert);
    await runOurs(client, `ALTER TABLE t SET (version_window = '2 days', keep = 'all')`);
    assert.equal((await seen(client)).length, 1);
    for (const it of ['vacuum (full) t', 'vacuum headgate.tombstone']) await client.query(it);
    assert.equal((await seen(client)).length, 1);
    // Whatever an owner wrote into them, nothing stays of a table that is gone.
    await client.query(`update headgate.tombstone set deleted_at = 'infinity'`);
    await client.query('drop table t');
    await client.query("select headgate.forget_old('headgate.tombstone', 'deleted_at', 'version', 100)");
    assert.equal((await client.query('select from headgate.tombstone')).rowCount, 0);

    function committerOf(now: Target): Rows {
      return rowsOf(now, '{"id":1,"seen":4,"v":"after the window"}');
    }
  });

  test('the option version is refused where it cannot work, and SHOW CREATE TABLE prints it', async (t) => {
    const { client, create } = await room(t);
    const refused: readonly (readonly [string, string, RegExp])[] = [
      ['id INT, seen INT', 'seen', /needs a primary key/],
      ['id INT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, seen INT', 'seen', /needs a primary key/],
      ['id SERIAL PRIMARY KEY, seen INT', 'seen', /needs a primary key/],
      ['id SERIAL PRIMARY KEY, data JSONB', '$.a::numeric', /needs a primary key/],
      ['id INT PRIMARY KEY, seen INT', 'nosuch', /column "nosuch" does not exist/],
      ['id INT PRIMARY KEY, seen INT', 'Seen', /column "Seen" does not exist/],
      ['id INT PRIMARY KEY, seen INT', 'id', /part of the primary key/],
      ['id INT PRIMARY KEY, seen INT', 'header:x-v', /no column is filled from the header/],
      ['id INT PRIMARY KEY, seen INT', '$.seen::numeric', /no such place/],
      ['id INT PRIMARY KEY, seen FLOAT', 'seen', /is of type double precision/],
      ['id INT PRIMARY KEY, seen JSONB, more INT', 'seen', /is of type jsonb/],
      ['id INT PRIMARY KEY, seen INT[]', 'seen', /is of type/],
      ['id FLOAT PRIMARY KEY, seen INT', 'seen', /key's column "id"/],
      ['id TEXT COLLATE folded PRIMARY KEY, seen INT', 'seen', /key's column "id"/],
      ['id INT PRIMARY KEY, a INT, seen INT GENERATED ALWAYS AS (a + 1) STORED', 'seen', /is generated/],
      ['id INT PRIMARY KEY, seen INT', '', /no place in a row/],
      ['id INT PRIMARY KEY, seen INT', 'seen,', /no place in a row/],
      ['id INT PRIMARY KEY, seen JSONB', '$.seen.a', /no place in a row/],
      ['id INT PRIMARY KEY, seen JSONB', '$.seen.a::numeric); drop table t; --', /no place in a row/],
      ['id INT PRIMARY KEY, seen JSONB', '$.seen.a::regclass', /no place in a row/],
    ];
    await client.query(
      `create collation folded (provider = icu, locale = 'und-u-ks-level2', deterministic = false)`,
    );
    for (const [columns, version, message] of refused)
      await assert.rejects(create(columns, `version = '${version}'`), message, `${columns}: ${version}`);
    await assert.rejects(
      create('id INT PRIMARY KEY, seen INT', `version = 'seen', version_equal = 'x'`),
      /not known/,
    );
    await assert.rejects(
      create('id INT PRIMARY KEY, seen INT', `version = 'seen', version_window = '1 s'`),
      /not known/,
    );
    const options = `version = '"a, b""c", $.extra."x\\"y"[0]::text', version_equal = 'replace', version_window = '30 days'`;
    await create('id INT PRIMARY KEY, "a, b""c" INT, extra JSONB', `document = '', ${options}`);
    const shown = async () =>
      (await client.query<{ 'Create Sql': string }>(`select * from headgate.show_create_table('t')`))
        .rows[0]?.['Create Sql'] ?? '';
    const first = await shown();
    assert.match(first, /version = E'"a, b""c", \$\.extra\."x\\\\"y"\[0\]::text'/);
    await client.query('drop table t');
    await runOurs(client, first);
    assert.equal(await shown(), first);
    await assert.rejects(runOurs(client, `ALTER TABLE t SET (version = 'nosuch')`), /does not exist/);
    await assert.rejects(runOurs(client, 'ALTER TABLE t RESET (version, nosuch)'), /cannot be reset/);
    await runOurs(client, 'ALTER TABLE t RESET (version, version_equal, version_window)');
    assert.doesNotMatch(await shown(), /version/);
    // A column that is gone, or has another type: no row is stored by another rule than the one that was said.
    await runOurs(client, `ALTER TABLE t SET (version = '"a, b""c"')`);
    for (const change of [
      'alter column "a, b""c" type jsonb using null',
      'drop column "a, b""c"',
      'drop constraint t_pkey',
    ]) {
      await client.query('begin');
      await client.query(`alter table t ${change}`);
      const { unusable } = await readSnapshot(client);
      assert.match(unusable.get(tableKey('public', 't')) ?? '', /version/, change);
      await client.query('rollback');
    }
  });
}

for (const [version, bin] of someVersion())
  suite(`a table with version keeps the newest rows on PostgreSQL ${version}`, () => newestOn(bin));
