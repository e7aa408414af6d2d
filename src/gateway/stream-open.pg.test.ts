/** A stream beside transactions that stay open: none delays it, and no row is left out or read twice, whatever they do later. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Client } from 'pg';
import { testDatabase } from '../../test/support/postgres.ts';
import { times } from '../../test/support/sample.ts';
import { encodersOf } from './row-text.ts';
import type { BorrowedConnection } from './sql-sessions.ts';
import { builtinTypes } from './sql-types.ts';
import { parsePlace, printPlace, wholly } from './stream-position.ts';
import type { StreamPosition } from './stream-position.ts';
import { allColumns, byName, Pager, tableNow } from './stream-read.ts';
import { TableReader } from './stream-table.ts';

const lent = (client: Client): BorrowedConnection => ({
  client,
  encoders: (fields) => Promise.resolve(encodersOf(fields, (oid) => builtinTypes.get(oid)) ?? []),
});

/** Reads a table's numbers; `resumes`: each look by another reader, which knows the place as a text. */
class Reading {
  readonly seen: number[] = [];
  looks = 0;
  #reader: TableReader;
  readonly #resumes: boolean;
  readonly #borrowed: BorrowedConnection;

  private constructor(borrowed: BorrowedConnection, reader: TableReader, resumes: boolean) {
    this.#borrowed = borrowed;
    this.#reader = reader;
    this.#resumes = resumes;
  }

  static async of(client: Client, table: string, resumes = false): Promise<Reading> {
    const borrowed = lent(client);
    const now = await tableNow(borrowed, byName(table));
    const reader = new TableReader(now, wholly(now.oid, now.file, now.ended), new Pager());
    return new Reading(borrowed, reader, resumes);
  }

  async look(): Promise<readonly number[]> {
    this.looks += 1;
    if (this.#resumes) {
      const place = parsePlace(printPlace(this.#reader.place)) as StreamPosition;
      this.#reader = new TableReader(await tableNow(this.#borrowed, byName('t')), place, new Pager());
    }
    for await (const { rows, take } of this.#reader.look(this.#borrowed, allColumns, this.#resumes)) {
      for (const row of rows) this.seen.push((JSON.parse(row) as { n: number }).n);
      take();
    }
    return this.seen;
  }
}

test('a locked row, a subtransaction and an open insert delay no other row of a stream, and arrive after COMMIT', async (t) => {
  const database = await testDatabase(t);
  const client = await database.connect();
  await client.query('create table t (n int); create table other (n int)');
  await client.query('insert into t values (-1), (-2); insert into other values (-1)');
  const [held, written, sub] = await Promise.all([1, 2, 3].map(() => database.connect()));
  await held?.query('begin; select n from t where n = -1 for update');
  await written?.query('begin; insert into t values (101)');
  await sub?.query(
    'begin; savepoint a; insert into other values (1); release a; savepoint b; select n from t where n = -2 for update',
  );
  const [here, there] = [await Reading.of(client, 't'), await Reading.of(client, 'other')];
  await client.query('insert into t values (1); insert into other values (2)');
  assert.deepEqual([await here.look(), await there.look()], [[1], [2]]);
  // Rows of numbers that a position has passed.
  await held?.query('insert into t values (102); commit');
  await sub?.query('insert into t values (103); release b; insert into t values (104); commit');
  await client.query('insert into t values (2)');
  assert.deepEqual(
    (await here.look()).toSorted((a, b) => a - b),
    [1, 2, 102, 103, 104],
  );
  assert.deepEqual(await there.look(), [2, 1]);
  await written?.query('commit');
  assert.deepEqual((await here.look()).slice(5), [101]);
});

test('a stream finds rows that a transaction appended long ago as soon as it commits', async (t) => {
  const database = await testDatabase(t);
  const client = await database.connect();
  await client.query('create table t (n int, filler text)');
  const reading = await Reading.of(client, 't');
  const late = await database.connect();
  await late.query(`begin; insert into t values (0, 'late')`);
  // Each look has other transactions to tell, and the file grows by more than what is often read.
  for (let n = 1; n <= 200; n++) {
    await client.query(`insert into t select ${n}, repeat('x', 1000) from generate_series(1, 40)`);
    await reading.look();
  }
  assert.equal(reading.seen.length, 8_000);
  await late.query('commit');
  assert.equal((await reading.look()).at(-1), 0);
});

test('a stream with more open transactions than its position names delays rows and omits none', async (t) => {
  const database = await testDatabase(t);
  const client = await database.connect();
  await client.query('create table t (n int)');
  const many = await database.connect();
  const reading = await Reading.of(client, 't');
  const savepoints = Array.from({ length: 100 }, (_, n) => `savepoint s${n}; insert into t values (${n});`);
  await many.query(`begin; ${savepoints.join(' ')}`);
  await client.query('insert into t values (1000)');
  assert.deepEqual(await reading.look(), []);
  await many.query('commit');
  assert.equal((await reading.look()).length, 101);
  assert.equal(new Set(reading.seen).size, 101);
});

test('a stream reads each committed row once, whatever transactions do during the reading', async (t) => {
  const database = await testDatabase(t);
  const client = await database.connect();
  await client.query(`create table t (n int); create table other (n int);
    insert into t select -i from generate_series(1, 100) i; delete from t where n < -50`);
  const readers = [
    await Reading.of(await database.connect(), 't'),
    await Reading.of(await database.connect(), 't', true),
  ];
  let next = 1;
  const committed = new Set<number>();
  const running = new Set([1, 2, 3, 4, 5, 6]);
  const write = async (session: Client, one: number): Promise<void> => {
    while (readers.some(({ looks }) => looks < times(60, 1_000))) {
      const stack: number[][] = [[]];
      await session.query('begin');
      for (let step = Math.floor(Math.random() * 12); step > 0; step--) {
        const dice = Math.random();
        const top = stack.at(-1) ?? [];
        if (dice < 0.3) {
          const n = next++;
          top.push(n);
          await session.query(`insert into t values (${n})`);
        } else if (dice < 0.4) await session.query('insert into other values (0)');
        else if (dice < 0.5) {
          const row = -1 - Math.floor(Math.random() * 50);
          await session.query(`select n from t where n = ${row} for update skip locked`);
        } else if (dice < 0.8) {
          await session.query(`savepoint s${stack.length}`);
          stack.push([]);
        } else if (stack.length > 1) {
          const isKept = Math.random() < 0.7;
          stack.pop();
          if (isKept) stack.at(-1)?.push(...top);
          const name = `s${stack.length}`;
          await session.query(isKept ? `release ${name}` : `rollback to ${name}; release ${name}`);
        }
      }
      const isKept = Math.random() < 0.8;
      await session.query(isKept ? 'commit' : 'rollback');
      if (isKept) for (const n of stack.flat()) committed.add(n);
    }
    running.delete(one);
  };
  const read = async (reader: Reading): Promise<void> => {
    while (running.size > 0) await reader.look();
    // Rows in space that was reused are found in pieces.
    for (const end = performance.now() + 60_000; reader.seen.length < committed.size;) {
      await reader.look();
      if (performance.now() > end) break;
    }
  };
  const writes = [...running].map(async (one) => write(await database.connect(), one));
  await Promise.all([...writes, ...readers.map(read)]);
  assert.ok(committed.size > 100);
  const all = [...committed].toSorted((a, b) => a - b);
  for (const { seen } of readers)
    assert.deepEqual(
      seen.toSorted((a, b) => a - b),
      all,
    );
});
