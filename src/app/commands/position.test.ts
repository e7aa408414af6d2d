import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parsePosition, writtenBetween } from './position.ts';

test('distances are counted across the end of 32 bits', () => {
  const from = 2n ** 32n * 3n - 5n;
  assert.equal(
    writtenBetween(from, from + 10n),
    'mod(t.xmin::text::bigint - 4294967291 + 4294967296, 4294967296) < 10',
  );
});

test('a position is a whole number', () => {
  assert.equal(parsePosition(' 12\n'), 12n);
  for (const text of ['', '-1', '1.5', 'x', "1' OR true"]) assert.equal(parsePosition(text), null);
});
