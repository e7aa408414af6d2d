/** A table that is rewritten while a page of it is on its way: none of its rows is left out. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { testDatabase } from '../../test/support/postgres.ts';
import { encodersOf } from './row-text.ts';
import type { BorrowedConnection } from './sql-sessions.ts';
import { builtinTypes } from './sql-types.ts';
import { wholly } from './stream-position.ts';
import { allColumns, byName, Pager, tableNow } from './stream-read.ts';
import { TableReader } from './stream-table.ts';

test('a stream reader told of a rewrite during a page of the old file goes on in the new file', async (t) => {
  const database = await testDatabase(t);
  const client = await database.connect();
  const borrowed: BorrowedConnection = {
    client,
    encoders: (fields) => Promise.resolve(encodersOf(fields, (oid) => builtinTypes.get(oid)) ?? []),
  };
  // Rows that are gone make the others lie further behind than after the rewrite.
  await client.query('create table t (id int, words text)');
  await client.query(`insert into t select -1, repeat('x', 100) from generate_series(1, 5000) as n`);
  await client.query('delete from t');
  const before = await tableNow(borrowed, byName('t'));
  const reader = new TableReader(before, wholly(before.oid, before.file, before.ended), new Pager());
  await client.query(`insert into t select n, repeat('x', 100) from generate_series(1, 5000) as n`);
  const seen = new Set<number>();
  let isRewritten = false;
  for (let looks = 0; looks < 3; looks++)
    for await (const { rows, take } of reader.look(borrowed, allColumns, false)) {
      for (const row of rows) seen.add((JSON.parse(row) as { id: number }).id);
      if (!isRewritten) {
        assert(seen.size < 5000, 'more than a page');
        await client.query('vacuum full t');
        reader.renew(await tableNow(borrowed, byName('t')));
        isRewritten = true;
      }
      take();
    }
  assert.equal(seen.size, 5000);
});
