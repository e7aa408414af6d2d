import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CountedBackoff } from './counted-backoff.ts';

test('CountedBackoff attempts seldom after failures and always after successes', () => {
  const never = new CountedBackoff();
  let tried = 0;
  for (let i = 0; i < 100_000; i++)
    if (never.next()) {
      tried++;
      never.failed();
    }
  assert(tried > 20 && tried < 40, `${tried}`);
  const fine = new CountedBackoff();
  for (let i = 0; i < 10; i++) {
    assert.equal(fine.next(), true);
    fine.passed();
  }
  // After a failure it is back soon.
  fine.failed();
  let waited = 0;
  while (!fine.next()) waited++;
  assert.equal(waited, 16);
});
