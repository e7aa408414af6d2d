import { test } from 'node:test';
import { seededRandom } from '../support/random.ts';
import { sampleOf } from '../support/sample.ts';
import { assertExactlyOnce, spoolCycles, told } from '../support/spool-cycles.ts';

for (const listeners of sampleOf([1, 2], 1))
  test(`engine and Headgate (listener processes: ${listeners}) die in a random order: what was answered 200 or 202 is stored exactly once, in order`, async (t) => {
    const { random, seed } = seededRandom();
    const rounds = 3;
    const tally = await spoolCycles(t, { rounds, random, listeners });
    t.diagnostic(told(tally, seed));
    assertExactlyOnce(tally, seed);
  });
