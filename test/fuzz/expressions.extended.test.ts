import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fuzzExpressions } from '../support/fuzz-expressions.ts';
import { seededRandom } from '../support/random.ts';

test('3,000 random malformed VALIDATE expressions raise no internal error', async (t) => {
  const { random, seed } = seededRandom();
  t.diagnostic(`seed ${seed}`);
  const { taken, refused } = await fuzzExpressions(3_000, random);
  t.diagnostic(JSON.stringify({ taken, refused }));
  assert.ok(taken > 0 && refused > 0);
});
