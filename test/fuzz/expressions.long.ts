import { test } from 'node:test';
import { fuzzExpressions } from '../support/fuzz-expressions.ts';
import { seededRandom } from '../support/random.ts';

test('500,000 random malformed VALIDATE expressions raise no internal error', async (t) => {
  const { random, seed } = seededRandom();
  t.diagnostic(`seed ${seed}`);
  t.diagnostic(JSON.stringify(await fuzzExpressions(500_000, random)));
});
