import assert from 'node:assert/strict';
import { test } from 'node:test';
import { seededRandom } from '../support/random.ts';
import { spoolCycles } from '../support/spool-cycles.ts';

test('engine and Headgate die in a random order: what was answered 200 or 202 is stored exactly once', async (t) => {
  const { random, seed } = seededRandom();
  const tally = await spoolCycles(t, 6, random);
  t.diagnostic(
    `seed ${seed}: ${tally.sent} sent, ${tally.committed} answered 200, ${tally.kept} 202, ${tally.refused} refused, ${tally.unanswered} unanswered; ${tally.engineKills} kills of the engine, ${tally.headgateKills} of Headgate, ${tally.holds} holds`,
  );
  assert.deepEqual({ lost: tally.lost, surplus: tally.surplus }, { lost: [], surplus: [] }, `seed ${seed}`);
  assert(tally.committed > 0);
});
