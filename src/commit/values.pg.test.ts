/** Rows of a table that Citus distributes are sent as values: they are the rows that the query would have stored. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { webhookRoom } from '../../test/support/commit-room.ts';
import { migrate, readMigrations } from '../catalog/migrate.ts';
import { storeStatement, storeValuesStatement } from './statements.ts';

const columns = `id bigint primary key, n numeric default 7, tags text[], at place, bytes bytea, moment timestamptz, doc jsonb, raw json,
  ok bool, "Ä ""q"" %" text, pause interval, letter char(3), price cents, stamp timestamp default '2026-01-02', note text default 'it''s \\'`;
const documents = [
  `{"id":1,"n":12345678901234567890.000000000000000001,"tags":["a",null,"ü, %L","\\\\"],"at":{"x":1.10,"label":"h'e)re"},"bytes":"\\\\x00ff"}`,
  `{"id":2,"moment":"2026-02-03T04:05:06.123456+02:00","doc":{"b":[1.50],"a":"%s $1 \\\\u0041 '"},"raw":{"b": 1.50,  "b":2},"ok":true}`,
  `{"id":3,"Ä \\"q\\" %":"it's \\\\ '' $1 %L\\n","pause":"1 day 02:00","letter":"ab","price":5,"note":null,"n":null}`,
  `{"id":2,"n":2}`,
  `{"id":4,"doc":null,"raw":null,"tags":[],"Ä \\"q\\" %":""}`,
];

suite('rows sent as values to Citus are stored as by the query', () => {
  test('rows sent as values are stored, replaced and kept as by the query, in small and large numbers', async (t) => {
    const { client, tableOf } = await webhookRoom(t);
    await migrate(client, readMigrations());
    await client.query(`create domain cents as bigint check (value >= 0); create type place as (x numeric, label text);
      create table a (${columns}); create table b (${columns})`);
    const [a, b] = [await tableOf('a'), await tableOf('b')];
    const many = Array.from({ length: 1_001 }, (_, i) => `{"id":${i + 3},"note":"again"}`);
    for (const mode of ['upsert', 'ignore'] as const)
      for (const kept of [[], ['n', 'note']])
        for (const rows of [documents, documents.toReversed(), many]) {
          const of = (it: typeof a) => ({ ...it, shape: { ...it.shape, writeMode: mode } });
          const values = [`[${rows.join(',')}]`, 'public'];
          await client.query(storeStatement(of(a), kept), values);
          await client.query(storeValuesStatement(of(b), kept), values);
          const { rows: different } = await client.query(
            '(select to_jsonb(a), a.raw::text from a except all select to_jsonb(b), b.raw::text from b) union all ' +
              '(select to_jsonb(b), b.raw::text from b except all select to_jsonb(a), a.raw::text from a)',
          );
          assert.deepEqual(different, [], `${mode} ${kept.join()} ${rows.length}`);
        }
  });

  test('a row sent as values with a value of the wrong type is refused as by the query', async (t) => {
    const { client, tableOf } = await webhookRoom(t);
    await migrate(client, readMigrations());
    await client.query(`create domain cents as bigint check (value >= 0);
      create table c (id int primary key, price cents, word varchar(3) check (word <> 'no'))`);
    const target = await tableOf('c');
    const codeOf = async (statement: string, rows: string) => {
      try {
        await client.query(statement, [rows, 'public']);
        return '';
      } catch (error) {
        return (error as { code: string }).code;
      }
    };
    const bad = ['"x"', '1,"price":-1', '1,"word":"long"', '1,"word":"no"', 'null', '99999999999'];
    for (const it of bad) {
      const rows = `[{"id":${it}}]`;
      const expected = await codeOf(storeStatement(target), rows);
      assert.match(expected, /^2[23]/, it);
      assert.equal(await codeOf(storeValuesStatement(target), rows), expected, it);
    }
  });
});
