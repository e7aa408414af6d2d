import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { migrate, readMigrations } from '../catalog/migrate.ts';
import { codes, commitRoom, committer, messages } from '../../test/support/commit-room.ts';
import { rowsOf } from '../../test/support/rows.ts';
import type { Chain, Rows } from '../types/rows.ts';
import { roundTrip } from './round-trip.ts';
import { TableStatements } from './table-statements.ts';
import { ValueSearch } from './value-at-fault.ts';

const json = (value: unknown) => JSON.stringify(value);
const decode = 'failed to decode webhook JSON payload';

suite("PostgreSQL's refusal of a row concerns its own request alone", () => {
  test('one bad request in a group is refused alone, with row, column and reason', async (t) => {
    const { client, tableOf, send } = await commitRoom(t);
    await client.query(`
      create domain even as int constraint is_even check (value % 2 = 0);
      create table t (id int primary key, amount int, tags text[], half even, at timestamptz, "no ""t" int not null default 1,
        constraint small check (amount < 100))`);
    const target = await tableOf('t');
    const good = (id: number) => rowsOf(target, json({ id, amount: 1, tags: ['a'], half: 2 }));
    const bad: [Rows, string][] = [
      [
        rowsOf(target, '{"id":901,"amount":"abc"}'),
        `${decode}: column "amount": invalid input syntax for type integer: "abc" [0]`,
      ],
      [
        rowsOf(target, '{"id":902}', '{"id":903,"at":"yesterdayish"}', '{"id":"x"}'),
        `${decode}: column "at": invalid input syntax for type timestamp with time zone: "yesterdayish" [1]`,
      ],
      [rowsOf(target, '{"id":904,"tags":{"a":1}}'), `${decode}: column "tags": expected JSON array [0]`],
      [
        rowsOf(target, '{"id":905,"half":3}'),
        `${decode}: column "half": value for domain even violates check constraint "is_even" [0]`,
      ],
      [rowsOf(target, '{"id":906,"amount":100}'), 'the row violates the constraint small [0]'],
      [
        rowsOf(target, ...[1, 2, 3, 500, 4].map((amount) => json({ id: 906 + amount, amount }))),
        'the row violates the constraint small [3]',
      ],
      [rowsOf(target, '{"amount":1}'), `${decode}: column "id" must not be null [0]`],
      [rowsOf(target, '{"id":907}', '{"id":908,"no \\"t":null}'), 'column "no "t" must not be null [1]'],
      [
        rowsOf(target, '{"id":99999999999}'),
        `${decode}: column "id": value "99999999999" is out of range for type integer [0]`,
      ],
    ];
    const members = bad.flatMap(([rows], i) => [good(2 * i), rows, good(2 * i + 1)]);
    const outcomes = await send(members);
    assert.deepEqual(
      messages(outcomes),
      bad.flatMap(([, message]) => ['committed', message, 'committed']),
    );
    const { rows } = await client.query<{ id: number }>('select id from t order by id');
    assert.deepEqual(
      rows.map((row) => row.id),
      Array.from({ length: 2 * bad.length }, (_, i) => i),
    );
    for (const [member, message] of bad) assert.deepEqual(messages(await send([member])), [message], 'alone');
  });

  test('the row at fault is named even if little time is left when it is found', async (t) => {
    const { client, database, spy, tableOf } = await commitRoom(t);
    await client.query('create table t (id int, amount int check (amount < 100))');
    const target = await tableOf('t');
    const ackTimeoutMs = 2 ** 31 - 1;
    let left: number | null = null;
    const clientConfig = (name: string) => {
      left ??= ackTimeoutMs;
      return database.engine.clientConfig(name);
    };
    // From the first connection on, half of the time that was left is over with each look at the clock.
    const clock = () => (left === null ? 0 : ackTimeoutMs - (left /= 2));
    const hurried = committer(t, { ...database.engine, clientConfig }, spy, {}, clock);
    const rows = rowsOf(target, json({ id: 1, amount: 1 }), json({ id: 2, amount: 500 }));
    assert.deepEqual(messages(await hurried([{ ...rows, ackTimeoutMs }])), [
      'the row violates the constraint t_amount_check [1]',
    ]);
  });

  test('exactly the bad rows of a group of one hundred are refused, by type or by constraint', async (t) => {
    const { client, tableOf, send } = await commitRoom(t);
    await client.query('create table t (id int primary key, amount int check (amount < 100))');
    const target = await tableOf('t');
    for (const amount of ['"x"', '500']) {
      for (const step of [100, 10, 1]) {
        await client.query('truncate t');
        const member = (id: number) =>
          rowsOf(target, `{"id":${id},"amount":${id % step === 0 ? amount : 1}}`);
        const outcomes = await send(Array.from({ length: 100 }, (_, id) => member(id)));
        assert.deepEqual(
          outcomes.map((o) => o.kind),
          Array.from({ length: 100 }, (_, id) => (id % step === 0 ? 'aborted' : 'committed')),
        );
        assert.equal((await client.query('select from t')).rowCount, 100 - 100 / step);
      }
    }
  });

  test('rows that reference earlier rows of their group are stored although another row is refused', async (t) => {
    const { client, tableOf, send } = await commitRoom(t);
    await client.query('create table tree (id int primary key, up int references tree)');
    const target = await tableOf('tree', { writeMode: 'insert' });
    const members = Array.from({ length: 40 }, (_, id) =>
      rowsOf(target, json({ id, up: id === 0 ? null : id - 1 })),
    );
    members.splice(20, 0, rowsOf(target, '{"id":"x"}'));
    const outcomes = await send(members);
    assert.equal(outcomes.filter((o) => o.kind === 'committed').length, 40);
    assert.equal(outcomes[20]?.kind, 'aborted');
  });

  test('the first of two rows with the same unique value in a group is stored, and the other is refused', async (t) => {
    const { client, tableOf, send } = await commitRoom(t);
    await client.query(
      'create table t (id int, code text constraint one_code unique deferrable initially deferred)',
    );
    const target = await tableOf('t');
    const row = (id: number, code: string) => rowsOf(target, json({ id, code }));
    assert.deepEqual(messages(await send([row(1, 'a'), row(2, 'b'), row(3, 'a'), row(4, 'c')])), [
      'committed',
      'committed',
      'the row violates the constraint one_code [0]',
      'committed',
    ]);
    assert.deepEqual(
      messages(await send([rowsOf(target, ...['x', 'y', 'z', 'y'].map((code) => json({ code })))])),
      ['the row violates the constraint one_code [3]'],
    );
  });

  test('a value that its type refuses with a SQLSTATE of its own costs only its own sender a refusal', async (t) => {
    const { client, tableOf, send } = await commitRoom(t);
    await client.query(`
      create table t (id int, q tsquery, r regclass, f regproc);
      create table b (id int);
      create function broken() returns trigger language plpgsql as $$ begin perform from nosuch; return new; end $$;
      create trigger broken before insert on b for each row execute function broken()`);
    const target = await tableOf('t');
    const outcomes = await send(
      ['{"q":"a & b"}', '{"q":"a b"}', '{"r":"nosuch"}', '{"r":"pg_class"}', '{"f":"x.y"}', '{"id":1}'].map(
        (text) => rowsOf(target, text),
      ),
    );
    assert.deepEqual(messages(outcomes), [
      'committed',
      `${decode}: column "q": the value does not fit [0]`,
      `${decode}: column "r": the value does not fit [0]`,
      'committed',
      `${decode}: column "f": the value does not fit [0]`,
      'committed',
    ]);
    const broken = await tableOf('b');
    const refused = await send([rowsOf(broken, '{"id":1}'), rowsOf(broken, '{"id":2}')]);
    assert.deepEqual(codes(refused), ['aborted row_refused', 'aborted row_refused']);
  });

  test("a trigger's error message is shown to the table's owner only", async (t) => {
    const { client, tableOf, send } = await commitRoom(t);
    await client.query(`
      create table t (id int, v text);
      create function no() returns trigger language plpgsql as $$ begin
        if new.v = 'raise' then raise exception 'secret %', (select count(*) from t); end if;
        if new.v = 'data' then raise exception 'secret' using errcode = '22023'; end if;
        if new.v = 'skip' then return null; end if; return new; end $$;
      create trigger no before insert on t for each row execute function no()`);
    const target = await tableOf('t');
    const outcomes = await send(['raise', 'ok', 'data', 'skip'].map((v) => rowsOf(target, json({ v }))));
    assert.deepEqual(codes(outcomes), ['aborted row_refused', 1, 'aborted row_refused', 1]);
    assert(
      !JSON.stringify(outcomes, (key, value: unknown) => (key === 'engineError' ? null : value)).includes(
        'secret',
      ),
    );
  });

  test("on_type_error = 'null' stores NULL for a value of the wrong type, counts it, and refuses other faults", async (t) => {
    const { client, spy, tableOf, send } = await commitRoom(t);
    await client.query('create table t (id int not null, n int, at date default now(), "w ""x" numeric)');
    const target = await tableOf('t', { onTypeError: 'null' });
    const told = spy.next('values.nulled');
    const outcomes = await send([
      rowsOf(target, '{"id":1,"n":"x", "at":"never" } ', '{"id":2,"n":5}'),
      rowsOf(target, '{"id":3,"w \\"x":[1]}'),
      rowsOf(target, '{"id":"y"}'),
      rowsOf(
        target,
        ...Array.from({ length: 100 }, (_, i) => json({ id: 100 + i, n: i % 2 === 0 ? i : `${i}.5` })),
      ),
    ]);
    assert.deepEqual(messages(outcomes), [
      'committed',
      'committed',
      'column "id" must not be null [0]',
      'committed',
    ]);
    assert.equal((await told).values, 54);
    const { rows } = await client.query(
      'select id, n, at is null as at, "w ""x" as w from t where id < 10 order by id',
    );
    assert.deepEqual(rows, [
      { id: 1, n: null, at: true, w: null },
      { id: 2, n: 5, at: false, w: null },
      { id: 3, n: null, at: false, w: null },
    ]);
    assert.equal((await client.query('select from t where id >= 100 and n is null')).rowCount, 50);
  });

  test('values of the wrong type of many requests are found in the round trips of one', async (t) => {
    const { client, tableOf } = await commitRoom(t);
    await client.query('create table t (id int, n int)');
    const target = await tableOf('t');
    let trips = 0;
    const search = new ValueSearch(
      (asked, counts) => {
        trips += 1;
        return roundTrip(client, asked, counts, 5_000);
      },
      new TableStatements(target),
      { role: 'root', path: 'public', commit: 'on', apart: false },
      512,
    );
    const members = Array.from({ length: 20 }, (_, id) => rowsOf(target, json({ id, n: `x${id}` })));
    const found = await Promise.all(members.map((rows) => search.first(rows)));
    assert.deepEqual(
      found.map((it) => [it?.column?.name, it?.failed.message]),
      members.map((_, id) => ['n', `invalid input syntax for type integer: "x${id}"`]),
    );
    assert.equal(trips, 1);
  });

  test('rows of a chain take effect in order, and no row after a refused one is stored', async (t) => {
    const { client, tableOf, send } = await commitRoom(t);
    await client.query('create table t (id int primary key, v text)');
    const target = await tableOf('t');
    const chain: Chain = { broken: false };
    const chained = (id: number | string, v: string): Rows => ({ ...rowsOf(target, json({ id, v })), chain });
    const members = Array.from({ length: 60 }, (_, i) => [
      chained(i % 7, `chain ${i}`),
      rowsOf(target, json({ id: 1000 + i })),
    ]);
    members.splice(30, 0, [chained('x', 'bad')]);
    const outcomes = await send(members.flat());
    const kinds = outcomes
      .filter((_, i) => members.flat()[i]?.chain === chain)
      .map((o) => (o.kind === 'committed' ? 'committed' : o.refusal.code));
    assert.deepEqual(kinds, [
      ...Array.from({ length: 30 }, () => 'committed'),
      'payload_undecodable',
      ...Array.from({ length: 30 }, () => 'chain_broken'),
    ]);
    assert.equal(chain.broken, true);
    const { rows } = await client.query('select id, v from t where id < 1000 order by id');
    assert.deepEqual(
      rows,
      [28, 29, 23, 24, 25, 26, 27].map((i, id) => ({ id, v: `chain ${i}` })),
    );
    assert.equal((await client.query('select from t where id >= 1000')).rowCount, 60);
    assert.deepEqual(codes(await send([chained(1, 'late')])), ['aborted chain_broken']);
  });

  test('a primary key changed since the catalog was read gives table_changed, not a refusal of the row', async (t) => {
    const { client, tableOf, targetOf, send } = await commitRoom(t);
    await client.query('create table t (id int not null); create table d (data jsonb not null)');
    const target = await tableOf('t');
    await client.query('create unique index one on t (id)');
    assert.deepEqual(codes(await send([rowsOf(target, '{"id":1}')])), [1]);
    assert.deepEqual(messages(await send([rowsOf(target, '{"id":1}')])), [
      'the row violates the constraint one [0]',
    ]);
    await client.query('alter table t add primary key using index one');
    assert.deepEqual(codes(await send([rowsOf(target, '{"id":1}')])), ['aborted table_changed']);
    const upsert = await tableOf('t');
    assert.deepEqual(codes(await send([rowsOf(upsert, '{"id":1}')])), [1]);
    await client.query('alter table t drop constraint one');
    assert.deepEqual(codes(await send([rowsOf(upsert, '{"id":1}')])), ['aborted table_changed']);
    assert((await targetOf('d')).oid > 0);
  });

  test('two committers with the same keys in any order store all rows without a deadlock error', async (t) => {
    const { client, database, spy, tableOf, send } = await commitRoom(t);
    const other = committer(t, database.engine, spy);
    await client.query('create table t (id int primary key, v int)');
    await migrate(client, readMigrations());
    const target = { ...(await tableOf('t')), hasLocks: true };
    const outcomes: string[] = [];
    const storm = async (sender: typeof send, seed: number) => {
      for (let round = 0; round < 60; round++) {
        const ids = Array.from({ length: 40 }, (_, i) => (i * (seed + 2 * round + 1) * 7919) % 101);
        const rows = rowsOf(target, ...ids.map((id) => json({ id, v: round })));
        const deletes = Uint8Array.from(ids, (id) => (round % 3 === 0 && id % 5 === 0 ? 1 : 0));
        const ended = await sender([
          { ...rows, deletes: round % 3 === 0 ? deletes : null, ackTimeoutMs: 20_000 },
        ]);
        outcomes.push(...codes(ended).map(String));
      }
    };
    await Promise.all([storm(send, 1), storm(other, 2), storm(send, 3)]);
    assert.deepEqual([...new Set(outcomes)], ['40']);
  });
});
