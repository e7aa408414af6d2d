import assert from 'node:assert/strict';
import { test } from 'node:test';
import { distanceMax, parsePosition, writtenBetween } from './position.ts';

test('rows between two read positions are found by transaction age, across 32-bit wraparound', () => {
  const from = 2n ** 32n * 3n - 5n;
  assert.equal(
    writtenBetween(from, from + 10n),
    "pg_catalog.age(t.xmin) <= pg_catalog.age('4294967291'::pg_catalog.xid) AND pg_catalog.age(t.xmin) > pg_catalog.age('5'::pg_catalog.xid)",
  );
  assert.match(writtenBetween(from + 5n, from + 10n), /<= pg_catalog\.age\('3'/);
});

test('rows since a read position beyond 32 bits are all earlier rows', () => {
  const all = "pg_catalog.age(t.xmin) NOT BETWEEN 0 AND pg_catalog.age('7'::pg_catalog.xid)";
  const until = 2n ** 32n + 7n;
  assert.equal(writtenBetween(null, until), all);
  assert.equal(writtenBetween(until - distanceMax - 1n, until), all);
});

test('a read position is parsed from a whole number only', () => {
  assert.equal(parsePosition(' 12\n'), 12n);
  for (const text of ['', '-1', '1.5', 'x', "1' OR true"]) assert.equal(parsePosition(text), null);
});
