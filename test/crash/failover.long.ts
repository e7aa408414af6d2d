import assert from 'node:assert/strict';
import { realpathSync } from 'node:fs';
import { dirname } from 'node:path';
import { test } from 'node:test';
import { failovers } from '../support/failovers.ts';
import { seededRandom } from '../support/random.ts';
import { requireTool } from '../support/tools.ts';

test('no request answered 200 is lost in 30 failovers under load from a primary to its synchronous standby', async (t) => {
  const program = requireTool(t, 'initdb');
  if (program === null) return;
  const { random, seed } = seededRandom();
  const { tally, backMs, afterMs } = await failovers(t, dirname(realpathSync(program)), 30, random);
  const slowest = [backMs, afterMs].map((times) => Math.round(Math.max(...times)));
  t.diagnostic(
    `seed ${seed}: ${tally.sent} sent, ${tally.committed} committed, ${tally.refused} refused, slowest first 200 ${slowest[0]} ms after the order to take over, ${slowest[1]} ms after it was done`,
  );
  assert.deepEqual({ lost: tally.lost, surplus: tally.surplus }, { lost: [], surplus: [] }, `seed ${seed}`);
});
