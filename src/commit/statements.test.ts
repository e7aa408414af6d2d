import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { rowsOf, targetOf } from '../../test/support/rows.ts';
import type { Column, Shape } from '../types/shape.ts';
import type { Rows } from '../types/rows.ts';
import { withNulls, probeStatement } from './value-at-fault.ts';
import { PreparedStatements, toStatement } from './prepared-statements.ts';
import { toRuns } from './row-runs.ts';
import { removeStatement, storeStatement } from './statements.ts';
import { executeMessages } from './wire-message.ts';

const column = (name: string, type: string, fallback: string | null = null): Column => ({
  name,
  type,
  baseType: 0,
  fallback,
});
const key = (name: string, generated: string | null = null) => ({ name, generated });
const target = (shape: Partial<Shape>) => targetOf({ table: 'T "x"', shape });

test('the statement of a plain insert reads the rows and nothing else', () => {
  const columns = [column('id', 'bigint'), column('a"b', 'public."my type"')];
  assert.equal(
    storeStatement(target({ writeMode: 'insert', columns })),
    'insert into "public"."T ""x""" ("id", "a""b") select "id", "a""b" from pg_catalog.json_to_recordset($1) as r("id" bigint, "a""b" public."my type")' +
      ` where (pg_catalog.oideq('"public"."T ""x"""'::pg_catalog.regclass, '1') or 'elsewhere'::pg_catalog.text::pg_catalog.bool)`,
  );
  assert.equal(removeStatement(target({ writeMode: 'insert', columns })), null);
  assert.match(storeStatement(target({ writeMode: 'ignore', columns })), / on conflict do nothing$/);
  assert.equal(
    probeStatement(target({ writeMode: 'insert', columns }), columns.slice(1)),
    'select pg_catalog.count(*) from pg_catalog.json_to_recordset($1) as r("a""b" public."my type")',
  );
});

test('the statement of an upsert takes the last row of each key, in key order, and replaces the given columns', () => {
  const columns = [
    column('id', 'int'),
    column('v', 'text'),
    column('headgate_ord', 'text'),
    column('w', 'int', '3'),
  ];
  const sql = storeStatement(target({ writeMode: 'upsert', columns, key: [key('w'), key('id')] }), [
    'headgate_ord',
  ]);
  assert.match(
    sql,
    /^insert into "public"."T ""x""" \("id", "v", "headgate_ord", "w"\) select distinct on \("w", "id"\) /,
  );
  assert.match(
    sql,
    / order by "w", "id", "headgate_ord_" desc on conflict \("w", "id"\) do update set "v" = excluded."v"$/,
  );
  assert.match(
    sql,
    /coalesce\("w", case when \("headgate_doc" operator\(pg_catalog.->\) 'w'::pg_catalog\.text\) is null then \(3\) end\) as "w"/,
  );
  const keysOnly = storeStatement(
    target({ writeMode: 'upsert', columns: columns.slice(0, 1), key: [key('id')] }),
  );
  assert.match(keysOnly, /on conflict \("id"\) do nothing$/);
});

test('an upsert statement computes a generated key, and has no conflict clause for a key that PostgreSQL fills', () => {
  const columns = [column('email', 'text')];
  const shape = { writeMode: 'upsert', columns, key: [key('lower', 'lower(email)')] } as const;
  assert.match(
    storeStatement(target(shape)),
    /select f\.\*, \(lower\(email\)\) as "lower" from \(select "email", "headgate_ord" from/,
  );
  assert.match(
    removeStatement(target(shape)) ?? '',
    /on \("lower"\).* t\."lower" operator\(pg_catalog\.=\) i\."lower"$/,
  );
  const identity = target({ writeMode: 'upsert', columns, key: [key('id')] });
  assert.doesNotMatch(storeStatement(identity), /conflict/);
  assert.equal(removeStatement(identity), null);
});

test('the runs of a group hold every row once and in order, each with one set of kept columns', () => {
  const row = fc.record({
    size: fc.integer({ min: 1, max: 60 }),
    removed: fc.boolean(),
    kept: fc.constantFrom([], [], ['a'], ['b', 'c']),
  });
  const member = fc.array(row, { minLength: 1, maxLength: 8 });
  const bounds = fc.record({
    rowsMax: fc.integer({ min: 1, max: 12 }),
    bytesMax: fc.integer({ min: 1, max: 200 }),
  });
  fc.assert(
    fc.property(fc.array(member, { maxLength: 6 }), bounds, (given, { rowsMax, bytesMax }) => {
      let next = 0;
      const expected: { text: string; removed: boolean; kept: readonly string[] }[] = [];
      const members = given.map((rows): Rows => {
        const texts = rows.map(({ size }) => String(next++).padStart(size, ' '));
        rows.forEach(({ removed, kept }, i) => expected.push({ text: texts[i] ?? '', removed, kept }));
        const keeps = new Map(rows.flatMap(({ kept }, i) => (kept.length > 0 ? [[i, kept] as const] : [])));
        return {
          ...rowsOf(target({}), ...texts),
          deletes: rows.some((r) => r.removed) ? Uint8Array.from(rows, (r) => (r.removed ? 1 : 0)) : null,
          keeps: keeps.size > 0 ? keeps : null,
        };
      });
      const runs = toRuns(members, { rowsMax, bytesMax });
      const found = runs.flatMap((run) => {
        const texts = run.parts.flatMap(({ documents, from, to }) =>
          Array.from({ length: to - from }, (_, i) =>
            documents.bytes.toString(
              'utf8',
              documents.spans?.[2 * (from + i)],
              documents.spans?.[2 * (from + i) + 1],
            ),
          ),
        );
        assert.equal(run.rows, texts.length);
        assert(run.rows > 0 && run.rows <= rowsMax);
        assert(run.rows === 1 || texts.join('').length <= bytesMax);
        assert.equal(run.deletes?.length ?? run.rows, run.rows);
        return texts.map((text, i) => ({ text, removed: run.deletes?.[i] === 1, kept: run.kept }));
      });
      assert.deepEqual(found, expected);
    }),
  );
});

test('the parameter of a group is one JSON array of the announced length, and large documents are not copied', () => {
  const size = fc.constantFrom(2, 3, 40, 32 * 1024, 32 * 1024 + 1, 100_000);
  const document = size.map((n) => JSON.stringify('x'.repeat(n - 2)));
  fc.assert(
    fc.property(
      fc.array(fc.array(fc.tuple(document, fc.boolean()), { minLength: 1, maxLength: 4 }), { maxLength: 4 }),
      (groups) => {
        const value = groups.map((documents) => ({
          documents: rowsOf(target({}), ...documents.map(([text]) => text)).documents,
          from: 0,
          to: documents.length,
          without: Uint8Array.from(documents, ([, left]) => (left ? 1 : 0)),
        }));
        const bytes = Buffer.concat(
          executeMessages('s', [
            { format: 0, value },
            { format: 1, value: Buffer.from('ab') },
          ]),
        );
        const end = 1 + bytes.readInt32BE(1);
        // Portal, statement, two formats, and the number of values stand before the first length.
        const at = 5 + 1 + 2 + 2 + 4 + 2;
        const length = bytes.readInt32BE(at);
        assert.deepEqual(
          JSON.parse(bytes.toString('utf8', at + 4, at + 4 + length)),
          groups.flat().flatMap(([text, left]) => (left ? [] : [JSON.parse(text)])),
        );
        assert.equal(bytes.readInt32BE(at + 4 + length), 2);
        assert.equal(end, at + 4 + length + 4 + 2 + 2);
        assert.equal(bytes.toString('latin1', end, end + 1), 'E');
      },
    ),
  );
});

test("replacing a document's values by NULL leaves its other bytes unchanged", () => {
  const rows = rowsOf(target({}), '{}', ' { } ', '{"a":{"b":1}} ', '{"a":1}', '{"x\\"":2}');
  const at = (row: number, name: string) => ({ row, column: { name } });
  const { documents, count } = withNulls(rows, [
    at(0, 'a'),
    at(1, 'a'),
    at(2, 'a'),
    at(2, 'é"'),
    at(4, 'x"'),
  ]);
  const texts = Array.from({ length: count }, (_, i) =>
    documents.bytes.toString('utf8', documents.spans?.[2 * i], documents.spans?.[2 * i + 1]),
  );
  assert.deepEqual(texts, [
    '{"a":null}',
    ' { "a":null} ',
    '{"a":{"b":1},"a":null,"é\\"":null} ',
    '{"a":1}',
    '{"x\\"":2,"x\\"":null}',
  ]);
});

test('prepared statements of a connection are bounded in number, and prepared again after a failure', () => {
  const prepared = new PreparedStatements();
  const names = (messages: readonly Buffer[]) =>
    messages.map((m) => `${m.toString('latin1', 0, 1)}${/headgate_(\w{4})/.exec(m.toString('latin1'))?.[1]}`);
  const many = Array.from({ length: 200 }, (_, i) => toStatement(`select ${i}`, []));
  const [first, second] = [many[0] ?? assert.fail(), many[1] ?? assert.fail()];
  const word = first.name.slice(9, 13);
  assert.deepEqual(names(prepared.prepare([first, first])), [`C${word}`, `P${word}`]);
  assert.deepEqual(names(prepared.prepare([first])), [`C${word}`, `P${word}`], 'it may not have been');
  prepared.succeeded();
  assert.deepEqual(prepared.prepare([first]), []);
  prepared.prepare([second]);
  assert.deepEqual(
    names(prepared.prepare([first])),
    [`C${second.name.slice(9, 13)}`],
    'a doubtful one is closed',
  );
  for (const statement of many.slice(1)) {
    prepared.prepare([statement, first]);
    prepared.succeeded();
  }
  assert(prepared.size <= 128, String(prepared.size));
  assert.equal(prepared.isForgetful, false);
  prepared.forgotten();
  assert.equal(prepared.isForgetful, true, 'a connection that has lost one is not relied on again');
});
