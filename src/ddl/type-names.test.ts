import assert from 'node:assert/strict';
import { test } from 'node:test';
import { testRooms } from '../../test/support/ddl-rooms.ts';
import { withoutCopy } from './no-copy.ts';
import { createRewriter } from './rewrite.ts';
import type { RewriteSql } from './rewrite.ts';
import { createTypeNameRewriter } from './type-names.ts';

const session = { database: 'd', user: 'u', standardConformingStrings: true, clientEncoding: 'UTF8' };

/** What is sent in place of `sql`; the same text when nothing is rewritten. */
function sent(rewrite: RewriteSql, sql: string): string {
  const result = rewrite(sql, session);
  if (result === null) return sql;
  assert.equal(result.kind, 'rewritten');
  return result.kind === 'rewritten' ? result.sql : '';
}

const cases: readonly (readonly [string, string])[] = [
  ['CREATE TABLE t (a STRING)', 'CREATE TABLE t (a text)'],
  ['create table t(a string, b int, "string" String)', 'create table t(a text, b int, "string" text)'],
  ['CREATE TABLE IF NOT EXISTS s.t (a STRING NOT NULL)', 'CREATE TABLE IF NOT EXISTS s.t (a text NOT NULL)'],
  ['CREATE TEMP TABLE t (a STRING[], b string ARRAY)', 'CREATE TEMP TABLE t (a text[], b text ARRAY)'],
  [
    'CREATE TABLE t (string STRING, b STRING DEFAULT (1,2)::string)',
    'CREATE TABLE t (string text, b text DEFAULT (1,2)::string)',
  ],
  [
    'CREATE TABLE t (a numeric(10, 2), b STRING) WITH (fillfactor = 70)',
    'CREATE TABLE t (a numeric(10, 2), b text) WITH (fillfactor = 70)',
  ],
  ['ALTER TABLE t ADD COLUMN a STRING, ADD b STRING', 'ALTER TABLE t ADD COLUMN a text, ADD b text'],
  ['ALTER TABLE t ADD COLUMN IF NOT EXISTS a STRING', 'ALTER TABLE t ADD COLUMN IF NOT EXISTS a text'],
  ['ALTER TABLE t ALTER COLUMN a TYPE STRING', 'ALTER TABLE t ALTER COLUMN a TYPE text'],
  [
    'ALTER TABLE t ALTER a SET DATA TYPE string USING a::text',
    'ALTER TABLE t ALTER a SET DATA TYPE text USING a::text',
  ],
  ['SELECT 1;CREATE TABLE t (a STRING); SELECT 2', 'SELECT 1;CREATE TABLE t (a text); SELECT 2'],
];

const untouched = [
  'CREATE TABLE t (a "string")',
  'CREATE TABLE t (a string.kind)',
  'CREATE TABLE t (a public.string)',
  "CREATE TABLE t (a text DEFAULT 'x STRING')",
  'CREATE TABLE t (a text) -- a STRING',
  'CREATE TABLE t (string) AS SELECT 1',
  'CREATE TABLE t (a, string) AS SELECT 1, 2',
  'CREATE TABLE t (LIKE string)',
  'CREATE TABLE t (a int, CONSTRAINT string CHECK (a > 0))',
  'CREATE TABLE t (a int, CHECK (string))',
  'CREATE TABLE t PARTITION OF string FOR VALUES IN (1)',
  'CREATE TABLE t AS SELECT a string FROM b',
  'CREATE VIEW v AS SELECT string FROM t',
  'ALTER TABLE t ADD CONSTRAINT string CHECK (true)',
  'ALTER TABLE t RENAME COLUMN type TO string',
  'ALTER TABLE t DROP COLUMN string',
  'ALTER TABLE string ADD COLUMN a int',
  'SELECT string FROM t',
];

test('STRING as the type of a column is rewritten to text, on the SQL port and before any database', () => {
  for (const rewrite of [createTypeNameRewriter(), createRewriter(testRooms())]) {
    for (const [sql, expected] of cases) assert.equal(sent(rewrite, sql), expected, sql);
    for (const sql of untouched) assert.equal(sent(rewrite, sql), sql, sql);
  }
});

test('an error position behind a replaced type name points into the original text', () => {
  const sql = 'SELECT 1; CREATE TABLE t (a STRING, b NOPE)';
  const result = createTypeNameRewriter()(sql, session);
  assert(result?.kind === 'rewritten');
  assert.equal(result.originalOffset(result.sql.indexOf('NOPE')), sql.indexOf('NOPE'));
});

test('the rewriter without COPY refuses COPY with a client stream at its position, and leaves COPY on the server', () => {
  const rewrite = withoutCopy(createTypeNameRewriter());
  for (const sql of [
    'COPY t FROM STDIN',
    'copy t (a) from stdin with (format csv)',
    'COPY (SELECT 1) TO STDOUT',
  ]) {
    const result = rewrite(`SELECT 1; ${sql}`, session);
    assert(result?.kind === 'error', sql);
    assert.equal(result.error.sqlstate, '0A000');
    assert.equal(result.error.position, 11);
  }
  for (const sql of [
    "COPY t FROM '/tmp/x'",
    "SELECT 'COPY t FROM STDIN'",
    'COPY (SELECT stdin FROM t) TO PROGRAM $$x$$',
  ]) {
    assert.equal(rewrite(sql, session), null, sql);
  }
});
