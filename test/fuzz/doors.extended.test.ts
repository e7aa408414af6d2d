import { test } from 'node:test';
import { fuzzDoors } from '../support/fuzz-doors.ts';
import { seededRandom } from '../support/random.ts';

test('random malformed inputs to each port raise no internal error', async (t) => {
  const { random, seed } = seededRandom();
  t.diagnostic(`seed ${seed}`);
  await fuzzDoors(t, 50, random);
});
