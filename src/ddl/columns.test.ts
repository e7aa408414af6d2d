import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ColumnList, parseColumns } from './columns.ts';
import { Cursor } from './cursor.ts';
import { splitStatements } from './statements.ts';

function parse(text: string): ColumnList {
  const [statement] = splitStatements(text, true);
  assert.ok(statement);
  return parseColumns(new Cursor(statement, { text, encoding: 'UTF8', standardConformingStrings: true }));
}

test('reads names, types and what they are called in PostgreSQL', () => {
  const text =
    '(a STRING, "B c" string[] CHECK (a = 1, 2), c numeric(10,2) NOT NULL, d pg_catalog.jsonb, e other.jsonb)';
  const { columns, end } = parse(text);
  assert.deepEqual(
    columns.map(({ name, type }) => [name, type]),
    [
      ['a', 'string'],
      ['B c', 'string[]'],
      ['c', 'numeric'],
      ['d', 'jsonb'],
      ['e', 'other.jsonb'],
    ],
  );
  assert.deepEqual(
    columns.flatMap(({ renames }) => renames.map(({ start, to }) => [start, to])),
    [
      [text.indexOf('STRING'), 'text'],
      [text.indexOf('string'), 'text'],
    ],
  );
  assert.equal(end, text.length);
});

test('tells constraints from columns', () => {
  const text =
    "(exclude jsonb, EXCLUDE USING hash (a WITH =), CHECK (b <> 'primary key'), PRIMARY KEY (exclude))";
  const list = parse(text);
  assert.deepEqual(
    list.columns.map(({ name }) => name),
    ['exclude'],
  );
  assert.equal(list.primaryKeyAt, text.indexOf('PRIMARY'));
});
