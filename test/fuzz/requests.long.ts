import { test } from 'node:test';
import { fuzzRequests } from '../support/fuzz-requests.ts';
import { seededRandom } from '../support/random.ts';

/** HEADGATE_FUZZ_MILLIONS: how many. */
const millions = Number(process.env['HEADGATE_FUZZ_MILLIONS'] ?? 5);

test(`the recogniser of plain requests reads ${millions} million fuzzed requests as Node's parser does`, (t) => {
  const { random, seed } = seededRandom();
  t.diagnostic(`seed ${seed}`);
  for (let done = 1; done <= millions; done++)
    t.diagnostic(`${done} million, of the last ${fuzzRequests(1_000_000, random)} accepted`);
});
