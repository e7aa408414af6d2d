import { test } from 'node:test';
import { seededRandom } from '../support/random.ts';
import { sampleOf } from '../support/sample.ts';
import { assertExactlyOnce, spoolCycles, told } from '../support/spool-cycles.ts';

for (const listeners of sampleOf([1, 2], 1))
  test(`requests answered 200 or 202 are stored once, in order, through random kills of engine and Headgate (listeners: ${listeners})`, async (t) => {
    const { random, seed } = seededRandom();
    const rounds = 3;
    const tally = await spoolCycles(t, { rounds, random, listeners });
    t.diagnostic(told(tally, seed));
    assertExactlyOnce(tally, seed);
  });
