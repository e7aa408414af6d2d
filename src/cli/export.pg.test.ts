import assert from 'node:assert/strict';
import { readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { asyncBufferFromFile, parquetMetadataAsync, parquetReadObjects } from 'hyparquet';
import { temporaryFolder } from '../../test/support/headgate.ts';
import { typesRows, typesTable } from '../../test/support/parquet-sample.ts';
import { testDatabase } from '../../test/support/postgres.ts';
import { limits } from '../config/limits.ts';
import { exportCommand } from './export.ts';
import type { ExportOptions } from './export.ts';

const stage = async (t: TestContext) => {
  const database = await testDatabase(t);
  const client = await database.connect();
  const folder = await temporaryFolder(t);
  const ending = new AbortController();
  const notes: string[] = [];
  const pieces: Buffer[] = [];
  const standard = new Writable({
    write: (piece: Buffer, _, done) => {
      pieces.push(piece);
      done();
    },
  });
  const io = {
    print: () => {},
    note: (text: string) => void notes.push(text),
    terminal: false,
    read: async () => Buffer.alloc(0),
    clock: Date.now,
    elapsed: () => performance.now(),
    random: () => Buffer.alloc(0),
    signal: ending.signal,
  };
  const where = { dsn: database.connectionString, url: null };
  const exported = (name: string, options: Partial<ExportOptions> = {}, output: Writable = standard) =>
    exportCommand(where, name, { format: 'parquet', ...options }, output, io);
  return { client, folder, name: database.name, ending, notes, pieces, exported };
};

/** As exactly as JavaScript can have them. */
const parsers = {
  timestampFromMicroseconds: (micros: bigint) => micros,
  dateFromDays: (days: number) => days,
  jsonFromBytes: (bytes: Uint8Array) => Buffer.from(bytes).toString(),
};

/** The reader has decimals as numbers that it has computed (`npm run test:parquet` has others). */
const cents = (value: unknown) => (value === null ? null : Math.round(Number(value) * 100));

async function readParquet(path: string): Promise<Record<string, unknown>[]> {
  return parquetReadObjects({ file: await asyncBufferFromFile(path), parsers, utf8: false });
}

suite('headgate export writes Parquet', { timeout: 120_000 }, () => {
  test('headgate export writes every type unchanged to Parquet, and NULL as NULL', async (t) => {
    const { client, folder, name, exported } = await stage(t);
    await client.query(typesTable);
    await client.query(typesRows);
    // Not what the file is read with.
    for (const setting of [
      `timezone = 'Asia/Tokyo'`,
      `datestyle = 'German'`,
      `bytea_output = 'escape'`,
      `extra_float_digits = -10`,
    ])
      await client.query(`ALTER DATABASE ${name} SET ${setting}`);
    const output = join(folder, 'types.parquet');
    assert.equal(await exported('types', { output }), 0);
    const [first, second, third, ...others] = await readParquet(output);
    assert(first !== undefined);
    const { price, amount, wei, prices, doc, said, docs, ...rest } = first;
    assert.deepEqual(
      [cents(price), cents(amount), (prices as unknown[]).map(cents)],
      [123_456_789, 12_345_678_901_212, [10, null]],
    );
    assert.equal(wei, Number('12345678901234567890123456789012345678'));
    assert.deepEqual(
      [doc, said, docs],
      ['{"n": 12345678901234567890.10, "t": "é\u2028"}', '{"b":1,  "a":1e400}', ['{"n": 1.10}']],
    );
    const uuid = '0189e7c6-7d2a-7cc3-98c4-dc0c0c07398f';
    const at = BigInt(Date.UTC(2026, 0, 31, 10, 34, 56)) * 1000n + 123_456n;
    assert.deepEqual(rest, {
      yes: true,
      small: -32_768,
      middle: 2_147_483_647,
      big: 9_223_372_036_854_775_807n,
      single: Math.fround(1.1),
      double: 0.1,
      any_number: '12345678901234567890.123456789012345678901234567890',
      thousands: '12000',
      at,
      local_at: -1n,
      day: Date.UTC(2026, 1, 28) / 86_400_000,
      hour: '23:59:59.5',
      body: new Uint8Array([0, 255, 16]),
      id: uuid,
      name: 'line\nü😀',
      short: 'ab  ',
      place: '10.0.0.0/8',
      'odd "name.é': 'x',
      bigs: [1n, null, -9_223_372_036_854_775_808n],
      names: ['a,b', '"q"', null, 'NULL', ''],
      moments: [at, null],
      ids: [uuid],
      bodies: [new Uint8Array([0, 255])],
    });
    assert.deepEqual(
      [second?.['single'], second?.['double'], second?.['any_number'], second?.['big'], second?.['wei']],
      [
        Number.NaN,
        -Infinity,
        'NaN',
        -9_223_372_036_854_775_808n,
        Number('-12345678901234567890123456789012345678'),
      ],
    );
    assert.deepEqual([second?.['names'], second?.['bodies'], second?.['name']], [[], [], '']);
    assert.deepEqual([...new Set(Object.values(third ?? {}).map((value) => value ?? null))], [null]);
    assert.deepEqual(others, []);
  });

  test('headgate export writes every timestamp and date that PostgreSQL can hold to Parquet', async (t) => {
    const { client, folder, exported } = await stage(t);
    await client.query(`CREATE TABLE moments AS SELECT at, at::timestamp AS local_at, at::date AS day FROM unnest(ARRAY[
      '4713-01-01 00:00 BC', '0001-12-31 23:59:59.999999 BC', '0001-01-01 00:00', '1600-02-29 01:00', '1900-02-28 23:00', '2000-02-29 00:00',
      '9999-12-31 00:00', '12026-02-03 04:05:06.7', '294246-12-31 23:59:59.999999']::timestamp[]) at`);
    await client.query(`ALTER TABLE moments ALTER at TYPE timestamptz USING at AT TIME ZONE 'UTC'`);
    const output = join(folder, 'moments.parquet');
    assert.equal(await exported('moments', { output }), 0);
    const { rows } = await client.query<{ at: string; day: string }>(
      `SELECT (extract(epoch FROM at) * 1000000)::bigint::text AS at, (day - date '1970-01-01')::text AS day FROM moments`,
    );
    assert.deepEqual(
      await readParquet(output),
      rows.map(({ at, day }) => ({ at: BigInt(at), local_at: BigInt(at), day: Number(day) })),
    );
  });

  test('headgate export to Parquet names a value that its type cannot hold, and leaves no file', async (t) => {
    const { client, folder, exported, pieces } = await stage(t);
    const output = join(folder, 'refused.parquet');
    for (const [type, value, reason] of [
      [
        'timestamptz',
        'infinity',
        /^column x contains infinity, which Parquet's timestamp cannot represent: export a view/,
      ],
      ['timestamp', '294276-01-01 00:00', /contains 294276-01-01 00:00:00, which Parquet's timestamp/],
      ['date', '-infinity', /contains -infinity, which Parquet's date/],
      ['numeric(9,2)', 'NaN', /contains NaN, which Parquet's decimal/],
      ['int[]', '{{1},{2}}', /contains \{\{1\},\{2\}\}, which Parquet's list/],
      ['timestamptz[]', '{infinity}', /contains \{infinity\}, which Parquet's list/],
    ] as const) {
      await client.query(`DROP TABLE IF EXISTS refused; CREATE TABLE refused (x ${type})`);
      await client.query(`INSERT INTO refused SELECT $1::${type}`, [value]);
      await assert.rejects(exported('refused', { output }), { message: reason });
      await assert.rejects(exported('refused'), { message: reason });
    }
    await client.query('CREATE TABLE nothing ()');
    await assert.rejects(exported('nothing', { output }), /no columns/);
    assert.deepEqual(await readdir(folder), []);
    assert.doesNotMatch(Buffer.concat(pieces).subarray(4).toString('latin1'), /PAR1/);
  });

  test('headgate export divides many rows into Parquet row groups, and standard output equals the file', async (t) => {
    const { client, folder, exported, pieces, notes } = await stage(t);
    const many = limits.parquetGroupRowsMax + 1_000;
    await client.query(
      `CREATE TABLE many AS SELECT n, 'row ' || n % 7 AS name FROM generate_series(1, ${many}) n`,
    );
    const output = join(folder, 'many.parquet');
    const state = join(folder, 'position');
    assert.equal(await exported('many', { output, state }), 0);
    const { num_rows: count, row_groups: groups } = await parquetMetadataAsync(
      await asyncBufferFromFile(output),
    );
    assert.deepEqual([count, groups.length], [BigInt(many), 2]);
    const rows = await readParquet(output);
    assert.deepEqual(
      rows.map(({ n }) => n),
      Array.from({ length: many }, (_, i) => i + 1),
    );
    // What is new is nothing, and then one row.
    await assert.rejects(exported('many', { output, state }), {
      message: `nothing can be appended to ${output}, which is parquet: name another --output`,
    });
    assert.equal((await readParquet(output)).length, many, 'what was exported is still there');
    const later = join(folder, 'later.parquet');
    assert.equal(await exported('many', { output: later, state }), 0);
    assert.deepEqual(await readParquet(later), []);
    await client.query(`INSERT INTO many VALUES (-1, 'new')`);
    assert.equal(await exported('many', { state }), 0);
    assert.match(notes.at(-1) ?? '', /^1 rows; position \d+\n$/);
    const file = Buffer.concat(pieces);
    const buffer = file.buffer.slice(file.byteOffset, file.byteOffset + file.length) as ArrayBuffer;
    assert.deepEqual(await parquetReadObjects({ file: buffer }), [{ n: -1, name: 'new' }]);
    assert.deepEqual(await readdir(folder), ['later.parquet', 'many.parquet', 'position']);
  });

  test('a Parquet export cut at any byte is unreadable, and an interrupted headgate export leaves its files unchanged', async (t) => {
    const { client, folder, exported, ending } = await stage(t);
    await client.query(`CREATE TABLE cut AS SELECT n FROM generate_series(1, 1000) n`);
    const output = join(folder, 'cut.parquet');
    const state = join(folder, 'position');
    const never = new Writable({ write: (_piece, _, done) => done(new Error('gone')) });
    await assert.rejects(exported('cut', {}, never), /the rows cannot be written: gone/);
    await assert.rejects(
      exported('cut', { output: join(folder, 'no', 'folder') }),
      /cannot be written: ENOENT/,
    );
    await assert.rejects(
      exported('cut', {}, Object.assign(never, { isTTY: true })),
      /not shown on a terminal/,
    );
    assert.equal(await exported('cut', { output }), 0);
    const whole = await readFile(output);
    for (let length = 0; length < whole.length; length += 1 + Math.floor(whole.length / 97)) {
      const buffer = new Uint8Array(whole.subarray(0, length)).buffer;
      await assert.rejects(parquetReadObjects({ file: buffer }), `cut off at ${length}`);
    }
    const { mtimeMs } = await stat(output);
    ending.abort();
    assert.equal(await exported('cut', { output, state }), 130);
    assert.equal((await stat(output)).mtimeMs, mtimeMs);
    assert.deepEqual(await readdir(folder), ['cut.parquet']);
  });
});

test('headgate export escapes control characters on a terminal and writes them unchanged to a file', async (t) => {
  const { client, pieces, exported } = await stage(t);
  const hostile = 'a\u001b[31m\u009b2J\u202eb\nc';
  await client.query('CREATE TABLE t (x text)');
  await client.query('INSERT INTO t VALUES ($1)', [hostile]);
  for (const [format, shown] of [
    ['ndjson', '{"x":"a\\u001b[31m\\u009b2J\\u202eb\\nc"}\n'],
    ['csv', 'x\n"a\\u{1b}[31m\\u{9b}2J\\u{202e}b\nc"\n'],
  ] as const) {
    const screen: string[] = [];
    const terminal = new Writable({
      write: (piece: Buffer, _, done) => {
        screen.push(piece.toString());
        done();
      },
    });
    await exported('t', { format }, Object.assign(terminal, { isTTY: true }));
    assert.equal(screen.join(''), shown);
    pieces.length = 0;
    await exported('t', { format });
    const written = Buffer.concat(pieces).toString();
    assert.equal(written.includes('\u009b2J\u202eb'), true);
  }
});

test('headgate export with --state and --output appends, and the file equals one export of all rows', async (t) => {
  const { client, folder, exported } = await stage(t);
  const state = join(folder, 'position');
  for (const format of ['ndjson', 'csv']) {
    await client.query(
      `DROP TABLE IF EXISTS t; CREATE TABLE t (n int, "x, y" text); INSERT INTO t VALUES (1, 'a'), (2, NULL)`,
    );
    await rm(state, { force: true });
    const output = join(folder, `o.${format}`);
    const at = { format, state, output };
    const whole = async () => {
      const one = join(folder, 'one');
      assert.equal(await exported('t', { format, output: one }), 0);
      return readFile(one, 'utf8');
    };
    await exported('t', at);
    assert.equal(await readFile(output, 'utf8'), await whole());
    await exported('t', at);
    assert.equal(await readFile(output, 'utf8'), await whole(), 'nothing new');
    await client.query(`INSERT INTO t VALUES (3, '"')`);
    await exported('t', at);
    await exported('t', at);
    const three = await readFile(output, 'utf8');
    assert.equal(three, await whole());
    // PostgreSQL's own word for it.
    const { rows } = await client.query<{ line: string }>('SELECT row_to_json(t)::text AS line FROM t');
    if (format === 'ndjson') assert.equal(three, rows.map(({ line }) => `${line}\n`).join(''));
    if (format === 'csv') {
      await client.query('ALTER TABLE t ADD more int');
      await assert.rejects(exported('t', at), /other columns than the file/);
      await writeFile(output, 'cut o');
    } else await writeFile(output, three.slice(0, -1));
    await assert.rejects(exported('t', at), /does not end with a whole line/);
    // Taken away to be processed: the next export has what is new, in a whole file.
    await rm(output);
    await client.query(`INSERT INTO t VALUES (4, '')`);
    await exported('t', at);
    const head = format === 'csv' ? 'n,"x, y",more\n4,"",\n' : '{"n":4,"x, y":""}\n';
    assert.equal(await readFile(output, 'utf8'), head);
  }
});
