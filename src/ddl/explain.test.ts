import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fromBytes, testRooms, toBytes } from '../../test/support/ddl-rooms.ts';
import type { SqlSession } from '../types/sql.ts';
import { createRewriter } from './rewrite.ts';

const session: SqlSession = {
  database: 'dev',
  user: 'root',
  standardConformingStrings: true,
  clientEncoding: 'UTF8',
};

async function prepared(sql: string, deps = testRooms()) {
  const result = createRewriter(deps)(toBytes(sql), session);
  assert(result?.kind === 'deferred', sql);
  return { ...(await result.prepare()), calls: deps.calls };
}

test('EXPLAIN VALIDATE becomes one SELECT whose dollar quotes are safe from its own text', async () => {
  const { sql, tags, calls } = await prepared(
    `EXPLAIN VALIDATE Public."T" WITH (headers = '{"X-A": " é ", "b": ["1", "2"]}', body = '{}', now = 12.5, url = '/x?y', method = 'PUT',)`,
  );
  assert.equal(
    sql,
    'SELECT * FROM headgate.explain_validate(pg_catalog.to_regclass($hg$"public"."T"$hg$), $hg$public.T$hg$, ' +
      `$hg1$${JSON.stringify({
        1: [
          ['refused', "it's 5 ☃"],
          ['a', '$hg$'],
        ],
      }).replace('☃', '\\u2603')}$hg1$::pg_catalog.jsonb)`,
  );
  assert.deepEqual(tags, ['EXPLAIN']);
  const request = {
    rawHeaders: ['X-A', toBytes('é'), 'b', '1', 'b', '2'],
    body: '{}',
    method: 'PUT',
    url: '/x?y',
    now: '12.5',
    notKept: [],
  };
  assert.deepEqual(calls, ['ensure dev', `explain public.T ${JSON.stringify(request)}`]);
});

test('EXPLAIN VALIDATE is rewritten in its place among other statements', async () => {
  const { sql, tags, calls } = await prepared("SELECT 1; explain validate t ; FLUSH; SELECT '☃'");
  assert.match(
    fromBytes(sql),
    /^SELECT 1;SELECT \* FROM headgate.explain_validate\(.*\);CALL headgate.flush\(\); SELECT '☃'$/,
  );
  assert.deepEqual(tags, [null, 'EXPLAIN', 'FLUSH']);
  assert.deepEqual(
    calls.map((call) => call.split(' ')[0]),
    ['ensure', 'explain'],
  );
});

test('EXPLAIN of other statements is left to PostgreSQL', () => {
  for (const sql of ['EXPLAIN SELECT validate FROM t', 'EXPLAIN (ANALYZE) SELECT secret FROM s', 'explain']) {
    assert.equal(createRewriter(testRooms())(sql, session), null, sql);
  }
});

test('EXPLAIN VALIDATE reports errors at their position', () => {
  const cases: readonly (readonly [string, string, string])[] = [
    ['EXPLAIN VALIDATE', '', '42601'],
    ['EXPLAIN VALIDATE t x', 'x', '42601'],
    ['EXPLAIN VALIDATE t WITH ()) ', ')) ', '42601'],
    [`EXPLAIN VALIDATE t WITH (header = '')`, 'header', '22023'],
    [`EXPLAIN VALIDATE t WITH (body = '', body = '')`, "body = '')", '42601'],
    [`EXPLAIN VALIDATE t WITH (headers = '{')`, "'{'", '22P02'],
    [`EXPLAIN VALIDATE t WITH (headers = 'null')`, "'null'", '22P02'],
    [`EXPLAIN VALIDATE t WITH (headers = '{"a": {}}')`, "'{", '22P02'],
    [`EXPLAIN VALIDATE t WITH (body_base64 = 'abcde')`, "'abcde'", '22P02'],
    [`EXPLAIN VALIDATE t WITH (body_base64 = 'YQ', body = 'a')`, 'body_base64', '22023'],
    [`EXPLAIN VALIDATE t WITH (now = $1)`, '$1', '42P02'],
  ];
  for (const [sql, where, sqlstate] of cases) {
    const result = createRewriter(testRooms())(sql, session);
    assert(result?.kind === 'error', sql);
    assert.equal(result.error.sqlstate, sqlstate, sql);
    const at = where === '' ? sql.length : where === ')) ' ? sql.indexOf('))') + 1 : sql.indexOf(where);
    assert.equal(result.error.position, at + 1, sql);
  }
});
