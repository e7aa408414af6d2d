import { test } from 'node:test';
import { fuzzRequests } from '../support/fuzz-requests.ts';
import { seededRandom } from '../support/random.ts';

/** HEADGATE_FUZZ_MILLIONS: how many. */
const millions = Number(process.env['HEADGATE_FUZZ_MILLIONS'] ?? 5);

test(`${millions} million requests, generated and mutated: what is accepted Node's parser reads in the same way`, (t) => {
  const { random, seed } = seededRandom();
  t.diagnostic(`seed ${seed}`);
  for (let done = 1; done <= millions; done++)
    t.diagnostic(`${done} million, of the last ${fuzzRequests(1_000_000, random)} accepted`);
});
