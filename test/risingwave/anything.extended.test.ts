/** Documents at random into columns of every type: each is stored or refused with its line, whatever it holds. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { openRisingWave } from './support.ts';
import { anyCharacter } from '../support/characters.ts';
import { times } from '../support/sample.ts';

const types = [
  'BIGINT',
  'SMALLINT',
  'NUMERIC',
  'REAL',
  'BOOLEAN',
  'VARCHAR',
  'DATE',
  'TIMESTAMPTZ',
  'INTERVAL',
  'BYTEA',
  'JSONB',
  'RW_INT256',
  'VARCHAR[]',
  'JSONB[]',
  'INT[][]',
  'STRUCT<a STRUCT<x VARCHAR[]>, b JSONB>[]',
  'MAP(INT, STRUCT<a VARCHAR>)',
  'STRUCT<m MAP(VARCHAR, VARCHAR), n VARCHAR>',
  'MAP(VARCHAR, VARCHAR)[]',
];
const words = [
  'x',
  "it's",
  'a,b',
  '{}',
  '[1]',
  '2024-01-01',
  '1 day',
  '\\x00',
  '\\',
  '"',
  "');drop table x;--",
  'NULL',
  '☃',
];
const leaf = fc.oneof(
  fc.constantFrom(null, true, 0, -1, 1.5, 12_345_678_901, 1e300, ...words),
  fc.string({ unit: anyCharacter, maxLength: 6 }),
  fc.integer(),
);
const key = fc.constantFrom('a', 'b', 'x', 'm', 'n', ',', '"q"', '1');
const value = fc.letrec<{ any: unknown }>((tie) => ({
  any: fc.oneof(
    { depthSize: 'small' },
    leaf,
    fc.array(tie('any'), { maxLength: 3 }),
    fc.dictionary(key, tie('any'), { maxKeys: 3 }),
  ),
})).any;
const column = fc.integer({ min: 0, max: types.length - 1 }).map((i) => `c${i}`);
const document = fc.dictionary(column, value, { minKeys: 1, maxKeys: 2 });

test('a refused event into RisingWave names its line, and on_error=skip leaves out that line', async (t) => {
  const { gateway, table } = await openRisingWave(t);
  const name = table();
  const made = await gateway.sql(
    `CREATE TABLE ${name} (${types.map((type, i) => `c${i} ${type}`).join(', ')})`,
  );
  assert.equal(made.status, 200, made.text);
  const sends = fc.asyncProperty(fc.array(document, { minLength: 1, maxLength: 3 }), async (documents) => {
    const body = documents.map((it) => JSON.stringify(it)).join('\n');
    const whole = await gateway.events(`name=${name}`, body);
    const skipping = await gateway.events(`name=${name}&on_error=skip`, body);
    const told = `${body}\n${whole.text}\n${skipping.text}`;
    const stored = skipping.json['rows'] as number;
    assert.equal(skipping.status, 200, told);
    if (whole.status === 200) return assert.equal(stored, documents.length, told);
    const { skipped = [] } = skipping.json as { skipped?: { line: number }[] };
    assert.equal(whole.status, 422, told);
    assert.ok(
      skipped.some(({ line }) => line === whole.json['line']),
      told,
    );
    assert.equal(stored + skipped.length, documents.length, told);
  });
  await fc.assert(sends, { numRuns: times(40, 150) });
});
