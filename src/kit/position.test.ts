import assert from 'node:assert/strict';
import { test } from 'node:test';
import { distanceMax, endedBelow, endedSince, hasEnded, parsePosition, writtenBetween } from './position.ts';

test('rows between two read positions are found by transaction age, across 32-bit wraparound', () => {
  const from = 2n ** 32n * 3n - 5n;
  assert.equal(
    writtenBetween(from, from + 10n),
    "pg_catalog.age(t.xmin) <= pg_catalog.age('4294967291'::pg_catalog.xid) AND pg_catalog.age(t.xmin) > pg_catalog.age('5'::pg_catalog.xid)",
  );
  assert.match(writtenBetween(from + 5n, from + 10n), /<= pg_catalog\.age\('3'/);
});

test('a read position too far behind for 32-bit transaction ages finds all rows', () => {
  const all = "pg_catalog.age(t.xmin) NOT BETWEEN 0 AND pg_catalog.age('7'::pg_catalog.xid)";
  const until = 2n ** 32n + 7n;
  assert.equal(writtenBetween(null, until), all);
  assert.equal(writtenBetween(until - distanceMax - 1n, until), all);
});

test('a read position is parsed from a whole number only', () => {
  assert.equal(parsePosition(' 12\n'), 12n);
  for (const text of ['', '-1', '1.5', 'x', "1' OR true"]) assert.equal(parsePosition(text), null);
});

test('a read position finds rows of transactions that have ended since, and excludes those of open ones', () => {
  const [from, until] = [endedBelow(100n, [90n, 95n]), endedBelow(200n, [90n, 150n])];
  assert.equal(
    endedSince(from, until),
    `(${writtenBetween(100n, 200n)} OR t.xmin = ANY ('{95}'::pg_catalog.xid[])) AND t.xmin <> ALL ('{150}'::pg_catalog.xid[])`,
  );
  assert.equal(
    endedSince(null, until),
    `${writtenBetween(null, 200n)} AND t.xmin <> ALL ('{90,150}'::pg_catalog.xid[])`,
  );
});

test('a read position names the oldest of many open transactions, and counts none of the others as ended', () => {
  const open = Array.from({ length: 100 }, (_, n) => BigInt(1_000 + 10 * n));
  const ended = endedBelow(5_000n, open);
  assert.deepEqual([ended.xid, ended.open.length], [1_320n, 32]);
  assert.ok(open.every((it) => !hasEnded(ended, it)));
  assert.ok(hasEnded(ended, 1_319n));
});
