import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Client } from 'pg';
import { codes, untilACommitWaits, webhookRoom } from '../../test/support/commit-room.ts';
import { rowsOf } from '../../test/support/rows.ts';
import { runOurs } from '../../test/support/webhook-tables.ts';
import { limits } from '../config/limits.ts';
import type { Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import { isShareable } from './shared-transaction.ts';

const create = (name: string) => `CREATE TABLE ${name} (data JSONB) WITH (connector = 'webhook')`;

/** How many rows a table holds. */
const count = async (client: Client, table: string) =>
  (await client.query<{ n: number }>(`select count(*)::int as n from ${table}`)).rows[0]?.n;

suite('a few rows are stored by one prepared INSERT as safely as by COPY', () => {
  test('a few rows are stored and refused as the same rows among many', async (t) => {
    const { client, targetOf, send } = await webhookRoom(t);
    // One runs code, and the other runs none.
    for (const table of ['same', 'inert']) await runOurs(client, create(table));
    await client.query(`
      alter table inert add constraint has_n check ((data->'n') is not null);
      alter table same add constraint has_n check ((data->'n') is not null);
      create function deny() returns trigger language plpgsql as $$ begin
        if new.data->>'bad' = 'late' then raise exception 'no %', new.data; end if; return null; end $$;
      create constraint trigger deny after insert on same deferrable initially deferred for each row execute function deny();
      create function skip() returns trigger language plpgsql as $$ begin
        if new.data->>'bad' = 'skip' then return null; end if; return new; end $$;
      create trigger skip before insert on same for each row execute function skip()`);
    const documents = [
      '{"n":1}',
      ' {"n": 1.10, "n": 2.50} ',
      '{"m":1}',
      '{"n":1,"bad":"late"}',
      '{"n":1,"bad":"skip"}',
      '{"n":',
      '{"n":"\\u0000"}',
      '"x"',
    ];
    for (const [table, more] of [
      ['same', []],
      ['inert', ['{"n": 1, "bad": "late"}', '{"n": 1, "bad": "skip"}']],
    ] as const) {
      const target = await targetOf(table);
      assert.equal(target.code.inert, table === 'inert');
      const good = rowsOf(target, '{"n":0}');
      // The most that are few, and one more.
      for (const document of documents) {
        const [alone] = await send([rowsOf(target, document)]);
        for (const others of [1, 11, 12]) {
          const [among] = await send([rowsOf(target, document), ...Array<Rows>(others).fill(good)]);
          assert.deepEqual(alone, among, document);
        }
      }
      const { rows } = await client.query<{ text: string }>(
        `select data::text as text from ${table} where data <> '{"n":0}' order by ctid`,
      );
      assert.deepEqual(
        rows.map((row) => row.text),
        ['{"n": 1}', '{"n": 2.50}', ...more].flatMap((text) => Array<string>(4).fill(text)),
      );
    }
  });

  test('a few rows are stored without rewrite rules, as by COPY', async (t) => {
    const { client, targetOf, send } = await webhookRoom(t);
    await runOurs(client, create('ruled'));
    await client.query(
      'create table other (data jsonb); create rule also as on insert to ruled do also insert into other values (new.data)',
    );
    const target = await targetOf('ruled');
    assert.deepEqual(codes(await send([rowsOf(target, '1')])), [1]);
    assert.deepEqual([await count(client, 'ruled'), await count(client, 'other')], [1, 0]);
    await client.query('drop rule also on ruled');
    assert.deepEqual(codes(await send([rowsOf(target, '1')])), [1]);
    assert.deepEqual([await count(client, 'ruled'), await count(client, 'other')], [2, 0]);
  });

  test('a rewrite rule added to a table stores nothing elsewhere, by INSERT, by COPY or in typed rows', async (t) => {
    const { client, targetOf, tableOf, send } = await webhookRoom(t);
    await runOurs(client, create('ruled'));
    await runOurs(client, `create table typed (n int) with (connector = 'webhook')`);
    await client.query('create table other (data text)');
    const [ruled, typed] = [await targetOf('ruled'), await tableOf('typed')];
    const many = Array.from({ length: 20 }, () => '1');
    const groups = [[rowsOf(ruled, '1')], [rowsOf(ruled, ...many)], [rowsOf(typed, '{"n":1}')]];
    for (const group of groups) assert.deepEqual(codes(await send(group)), [group[0]?.count]);
    for (const kind of ['instead nothing', `also insert into other values ('1')`]) {
      for (const table of ['ruled', 'typed'])
        await client.query(`create rule r as on insert to ${table} do ${kind}`);
      for (const group of groups) assert.deepEqual(codes(await send(group)), ['aborted table_changed'], kind);
      for (const table of ['ruled', 'typed']) await client.query(`drop rule r on ${table}`);
    }
    assert.deepEqual(
      [await count(client, 'ruled'), await count(client, 'typed'), await count(client, 'other')],
      [21, 1, 0],
    );
  });

  test('rows of a table distributed by Citus are stored without the statements that Citus refuses', async (t) => {
    const { client, targetOf, send } = await webhookRoom(t);
    await runOurs(client, create('spread'));
    const target = await targetOf('spread');
    const spread = { ...target, shape: { ...target.shape, distributedByCitus: true } };
    // This server has nothing of Citus: what begins the INSERT fails as Citus lets it fail.
    await client.query(`create or replace function headgate.stays(relation_name text, relation oid, mark text, owner oid) returns boolean
      language plpgsql immutable as $$ begin raise exception using errcode = '0A000'; end $$`);
    const many = Array.from({ length: 20 }, () => '1');
    for (const documents of [['1'], many, many])
      assert.deepEqual(codes(await send([rowsOf(spread, ...documents)])), [documents.length]);
    assert.equal(await count(client, 'spread'), 41);
    const shares = ({ code, ...of }: Target) => {
      const known: Target = { ...of, code: { ...code, functionsIn: 'headgate' } };
      const members = [{ ...rowsOf(known, '1'), ackTimeoutMs: 1 }];
      return isShareable({ target: known, members, rows: 1, bytes: 1 }, limits);
    };
    assert.deepEqual([shares(target), shares(spread)], [true, false]);
  });

  test('a few rows are stored despite changes of their table that leave its columns alone', async (t) => {
    const { client, targetOf, send } = await webhookRoom(t);
    await runOurs(client, create('kept'));
    const target = await targetOf('kept');
    const one = async () => codes(await send([rowsOf(target, '1')]));
    assert.deepEqual(await one(), [1]);
    for (const change of [
      'create index on kept (data)',
      'truncate kept',
      'cluster kept using kept_data_idx',
      'vacuum full kept',
      `alter table kept set (fillfactor = 50)`,
    ]) {
      await client.query(change);
      assert.deepEqual(await one(), [1], change);
    }
    await client.query('alter table kept add column more int');
    assert.deepEqual(await one(), ['aborted table_changed']);
    await client.query('alter table kept drop column more');
    assert.deepEqual(await one(), ['aborted table_changed']);
    const again = await targetOf('kept');
    await client.query('create index on kept ((data->>0))');
    assert.deepEqual(
      codes(await send([rowsOf(again, '1')])),
      ['aborted table_changed'],
      'an expression is code',
    );
  });

  test('an INSERT of a few rows that waited for an ALTER TABLE sees the change and runs none of its code', async (t) => {
    const { client, database, targetOf, send } = await webhookRoom(t);
    await client.query(`create sequence ran;
      create function run() returns text language plpgsql as $$ begin return nextval('public.ran'); end $$;
      create function evil() returns text language plpgsql immutable as $$ begin return public.run(); end $$;
      create function fire() returns trigger language plpgsql as $$ begin perform public.run(); return new; end $$`);
    const other = await database.connect();
    const changes = [
      `alter table waits add more text default public.evil()`,
      'create trigger fires before insert on waits for each row execute function fire()',
      `alter table waits add check (public.evil() <> '')`,
      'create index on waits ((public.evil()))',
      'alter table waits rename to gone; create table waits (data jsonb)',
    ];
    for (const change of changes) {
      await client.query('drop table if exists waits, gone');
      await runOurs(client, create('waits'));
      const target = await targetOf('waits');
      // Its statement is there, and planned.
      for (let i = 0; i < 2; i++) assert.deepEqual(codes(await send([rowsOf(target, '1')])), [1]);
      await other.query(`begin; ${change}; select setval('ran', 1, false)`);
      const sent = send([rowsOf(target, '2', '3'), rowsOf(target, '4')]);
      await untilACommitWaits(client);
      await other.query('commit');
      assert.deepEqual(codes(await sent), Array(2).fill('aborted table_changed'), change);
      const { rows } = await client.query('select is_called from ran');
      assert.deepEqual(rows, [{ is_called: false }], change);
    }
  });
});
