/**
 * What `headgate export --format parquet` writes, as PyArrow and DuckDB read it, beside the same rows as NDJSON. `npm run test:parquet`
 * puts them where HEADGATE_PARQUET_PYTHON is.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { temporaryFolder } from '../support/headgate.ts';
import { typesRows, typesTable } from '../support/parquet-sample.ts';
import { testDatabase } from '../support/postgres.ts';
import { run } from '../support/run.ts';

const { HEADGATE_PARQUET_PYTHON: python, ...env } = process.env;
assert(python !== undefined, 'HEADGATE_PARQUET_PYTHON is not set');
const script = fileURLToPath(new URL('../../../test/parquet/readers.py', import.meta.url));
const cli = fileURLToPath(new URL('../../src/app/cli.js', import.meta.url));

test("PyArrow and DuckDB read the same values from headgate export's Parquet as from NDJSON", async (t) => {
  const database = await testDatabase(t);
  const client = await database.connect();
  await client.query(`ALTER DATABASE ${database.name} SET timezone = 'UTC'`);
  await client.query(typesTable);
  await client.query(typesRows);
  await client.query(`CREATE TABLE empty (LIKE types)`);
  await client.query(
    `CREATE TABLE many AS SELECT n AS big, 'row ' || n % 7 AS name, jsonb_build_object('n', n) AS doc FROM generate_series(1, 250000) n`,
  );
  const folder = await temporaryFolder(t);
  let types: unknown;
  for (const table of ['types', 'empty', 'many']) {
    const files = ['parquet', 'ndjson'].map((format) => join(folder, `${table}.${format}`));
    for (const file of files) {
      const args = ['--dsn', database.connectionString, '--format', file.split('.').at(-1) ?? ''];
      const made = await run(process.execPath, [cli, 'export', table, ...args, '--output', file], { env });
      assert.equal(made.code, 0, made.stderr);
    }
    const read = await run(python, [script, ...files]);
    assert.equal(read.code, 0, `${read.stdout}${read.stderr}`);
    if (table === 'types') types = JSON.parse(read.stdout.trim().split('\n').at(-1) ?? '');
  }
  t.diagnostic(JSON.stringify(types));
  const { pyarrow, duckdb } = types as Record<string, Record<string, string>>;
  const some = ['big', 'price', 'wei', 'any_number', 'at', 'local_at', 'day', 'doc', 'id', 'prices'] as const;
  assert.deepEqual(
    some.map((name) => duckdb?.[name]),
    [
      'BIGINT',
      'DECIMAL(9,2)',
      'DECIMAL(38,0)',
      'VARCHAR',
      'TIMESTAMP WITH TIME ZONE',
      'TIMESTAMP',
      'DATE',
      'JSON',
      'UUID',
      'DECIMAL(9,2)[]',
    ],
  );
  assert.deepEqual(
    [pyarrow?.['wei'], pyarrow?.['at'], pyarrow?.['local_at']],
    ['decimal128(38, 0)', 'timestamp[us, tz=UTC]', 'timestamp[us]'],
  );
});
