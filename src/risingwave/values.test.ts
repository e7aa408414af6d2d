import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { parseDefinition } from './relations.ts';
import { causeOf } from './row-at-fault.ts';
import { parseType, printType } from './types.ts';
import { expression, ValueError } from './values.ts';
import { anyCharacter } from '../../test/support/characters.ts';

const said = (type: string, raw: string, typed = false): string => {
  const parsed = parseType(type);
  assert.ok(parsed !== null, type);
  return expression(parsed, raw, typed);
};

test('RisingWave types are read as RisingWave prints them, and printed as it reads them', () => {
  const texts = [
    'integer',
    'double precision[]',
    'timestamp with time zone',
    'vector(3)',
    'map(character varying,struct<a integer>)',
    'struct<a integer, "B c" struct<"x""y" map(bigint,jsonb[])>[]>[][]',
  ];
  for (const text of texts) {
    const type = parseType(text);
    assert.ok(type !== null, text);
    assert.deepEqual(parseType(printType(type)), type);
  }
  for (const text of [
    '',
    'record',
    'struct<>',
    'struct<a>',
    'map(integer)',
    'integer]',
    'struct<a integer',
    'a; drop table x',
    `${'struct<a '.repeat(99)}integer${'>'.repeat(99)}`,
  ])
    assert.equal(parseType(text), null, text);
});

test('RisingWave values become SQL expressions of their type', () => {
  const cases: readonly (readonly [string, string, string])[] = [
    ['integer', '1', "'1'"],
    ['numeric', '1.50', "'1.50'"],
    ['character varying', String.raw`"it's \"\u00e9\\"`, String.raw`'it''s "é\'`],
    ['character varying', '{"a": 1.0}', `'{"a": 1.0}'`],
    ['jsonb', '{"a": "it\'s"}', `'{"a": "it''s"}'`],
    ['integer[]', '[1, null, 3]', `'{"1",NULL,"3"}'`],
    ['integer[]', '[]', `'{}'`],
    ['integer[]', '"{1,2}"', `'{1,2}'`],
    ['jsonb[]', '[{"a": "b"}]', String.raw`'{"{\"a\": \"b\"}"}'`],
    ['struct<a integer, b character varying>', '{"b": "x,y", "c": 1}', "ROW(NULL,'x,y')"],
    [
      'struct<a integer>[]',
      '[{"a": 1}, null]',
      `ARRAY[ROW('1')::struct<"a" integer>,NULL::struct<"a" integer>]`,
    ],
    // An array of nothing but NULL has no type of its own.
    [
      'map(character varying,integer)[]',
      '[null,{"k":1}]',
      `ARRAY[NULL::map(character varying,integer),map_from_key_values('{"k"}'::character varying[],'{"1"}'::integer[])]`,
    ],
    [
      'map(character varying,integer)',
      '{"k": 1}',
      `map_from_key_values('{"k"}'::character varying[],'{"1"}'::integer[])`,
    ],
    ['vector(2)', '[1,2]', "'[1,2]'"],
  ];
  for (const [type, raw, sql] of cases) assert.equal(said(type, raw), sql, type);
  assert.equal(said('integer', '1', true), "'1'::integer");
  const misfits = [
    ['integer', '{}'],
    ['integer', '[]'],
    ['struct<a integer>', '1'],
    ['integer[]', '1'],
    ['map(integer,integer)', '[]'],
    ['character varying', String.raw`"\u0000"`],
  ] as const;
  for (const [type, raw] of misfits) assert.throws(() => said(type, raw), ValueError, type);
});

test('a RisingWave numeric is refused exactly if it exceeds 96 bits or 28 decimal places', () => {
  const max = 2n ** 96n - 1n;
  fc.assert(
    fc.property(
      fc.bigInt({ min: 0n, max: max * 4n }),
      fc.integer({ min: 1, max: 34 }),
      fc.integer({ min: 0, max: 5 }),
      (mantissa, scale, zeros) => {
        const digits = String(mantissa).padStart(scale + 1, '0');
        const text = `${digits.slice(0, -scale)}.${digits.slice(-scale)}${'0'.repeat(zeros)}`;
        let [m, s] = [mantissa, scale];
        for (; s > 0 && m % 10n === 0n; s--) m /= 10n;
        const fits = s === 0 || (s <= 28 && m <= max);
        if (fits) assert.equal(said('numeric', text), `'${text}'`);
        else assert.throws(() => said('numeric', text), ValueError);
      },
    ),
  );
  for (const long of [`0.${'1'.repeat(500_000)}`, `0.${'0'.repeat(500_000)}1`, `"${'0'.repeat(500_000)}x"`])
    assert.throws(() => said('numeric', long), ValueError);
});

test('no text can end its RisingWave literal', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: anyCharacter }),
      fc.constantFrom('character varying', 'jsonb', 'numeric', 'bytea', 'character varying[]'),
      (text, type) => {
        const raw = JSON.stringify(text);
        let sql: string;
        try {
          sql = said(type, type.endsWith('[]') ? `[${raw}]` : raw);
        } catch (error) {
          return assert.ok(error instanceof ValueError);
        }
        assert.match(sql, /^'(?:[^']|'')*'$/u);
      },
    ),
  );
});

test('a RisingWave definition yields defaults and conflict behaviour', () => {
  const of = (sql: string) => {
    const { defaults, conflict } = parseDefinition(sql);
    return [[...defaults].join(), conflict];
  };
  assert.deepEqual(of('CREATE TABLE t (a INT, b INT DEFAULT 3)'), ['b', 'update']);
  assert.deepEqual(
    of(
      `CREATE TABLE "t(x" ("A,b" VARCHAR DEFAULT 'default, (' , s STRUCT<x INT, default_y INT>, c INT DEFAULT f(1, 2) PRIMARY KEY) ON CONFLICT DO NOTHING`,
    ),
    ['A,b,c', 'ignore'],
  );
  assert.deepEqual(of('CREATE TABLE t (a INT PRIMARY KEY) ON CONFLICT OVERWRITE'), ['', 'update']);
  assert.deepEqual(of('CREATE TABLE t (a INT PRIMARY KEY) ON CONFLICT DO UPDATE FULL'), ['', 'update']);
  assert.deepEqual(of('CREATE TABLE t (a INT PRIMARY KEY) ON CONFLICT DO UPDATE IF NOT NULL'), ['', 'other']);
  assert.deepEqual(
    of('CREATE TABLE t (a INT PRIMARY KEY, v INT) ON CONFLICT OVERWRITE WITH VERSION COLUMN (v)'),
    ['', 'other'],
  );
  assert.deepEqual(of(''), ['', 'update']);
});

test('the innermost cause of a RisingWave error is reported', () => {
  assert.equal(
    causeOf(
      'Failed to run the query\n\nCaused by these errors (recent errors listed first):\n  1: Expr error\n  2: Division by zero\n',
    ),
    'Division by zero',
  );
  assert.equal(
    causeOf('Failed to run the query\n\nCaused by:\n  Bind error: no such column\n'),
    'Bind error: no such column',
  );
  assert.equal(causeOf('something else'), 'something else');
});
