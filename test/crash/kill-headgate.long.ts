import assert from 'node:assert/strict';
import { test } from 'node:test';
import { killCycles } from '../support/kill-cycles.ts';
import { seededRandom } from '../support/random.ts';

test('a Headgate killed 300 times under load loses no request answered 200 and stores none twice', async (t) => {
  const { random, seed } = seededRandom();
  const tally = await killCycles(t, 300, random);
  t.diagnostic(
    `seed ${seed}: ${tally.sent} sent, ${tally.committed} committed, ${tally.unanswered} unanswered`,
  );
  assert.deepEqual({ lost: tally.lost, surplus: tally.surplus }, { lost: [], surplus: [] }, `seed ${seed}`);
});
