import { test } from 'node:test';
import { fuzzDoors } from '../support/fuzz-doors.ts';
import { seededRandom } from '../support/random.ts';

test('200 inputs made bad at random, to each door', async (t) => {
  const { random, seed } = seededRandom();
  t.diagnostic(`seed ${seed}`);
  await fuzzDoors(t, 200, random);
});
