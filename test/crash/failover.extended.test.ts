import assert from 'node:assert/strict';
import { realpathSync } from 'node:fs';
import { dirname } from 'node:path';
import { test } from 'node:test';
import { failovers } from '../support/failovers.ts';
import { seededRandom } from '../support/random.ts';
import { times } from '../support/sample.ts';
import { requireTool } from '../support/tools.ts';

test('no request answered 200 is lost in failovers under load from a primary to its synchronous standby', async (t) => {
  // pg_basebackup stands beside it; in PATH there may be only a wrapper of that one.
  const program = requireTool(t, 'initdb');
  if (program === null) return;
  const { random, seed } = seededRandom();
  const rounds = times(2, 3);
  const { tally, backMs } = await failovers(t, dirname(realpathSync(program)), rounds, random);
  t.diagnostic(
    `seed ${seed}: ${tally.sent} sent, ${tally.committed} committed, ${tally.refused} refused, first 200 after ${backMs.map(Math.round).join(', ')} ms`,
  );
  assert.deepEqual({ lost: tally.lost, surplus: tally.surplus }, { lost: [], surplus: [] }, `seed ${seed}`);
  assert(tally.committed >= 260 * rounds);
});
