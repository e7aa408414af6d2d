import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { backoffMs } from './backoff.ts';

test('backoff doubles up to the maximum, with up to half as jitter', () => {
  assert.deepEqual(
    [1, 2, 3, 8, 1_000].map((attempt) => backoffMs(attempt, 50, 5_000, () => 0)),
    [50, 100, 200, 5_000, 5_000],
  );
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 10_000 }),
      fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
      (attempt, random) => {
        const pause = backoffMs(attempt, 50, 5_000, () => random);
        assert.ok(pause >= 25 && pause <= 5_000);
      },
    ),
  );
});
