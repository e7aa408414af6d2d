import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deferred } from './deferred.ts';
import { within } from './timeout.ts';

test('what ends in time is given, and fails as it fails; no timer is left that would hold the process', async () => {
  const timers = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
  const before = timers();
  assert.equal(await within(60_000, Promise.resolve('done'), 'late'), 'done');
  await assert.rejects(within(60_000, Promise.reject(new Error('broken')), 'late'), /broken/);
  assert.equal(timers(), before);
});

test('what does not is late, and may fail unheard', async () => {
  const { promise, reject } = deferred<string>();
  assert.equal(await within(1, promise, 'late'), 'late');
  reject(new Error('later'));
  await new Promise(setImmediate);
});
