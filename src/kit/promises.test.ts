import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deferred, within } from './promises.ts';

test('a timeout passes on an early result or failure, and leaves no timer behind', async () => {
  const timers = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
  const before = timers();
  assert.equal(await within(60_000, Promise.resolve('done'), 'late'), 'done');
  await assert.rejects(within(60_000, Promise.reject(new Error('broken')), 'late'), /broken/);
  assert.equal(timers(), before);
});

test('a timeout reports late work and ignores its later failure', async () => {
  const { promise, reject } = deferred<string>();
  assert.equal(await within(1, promise, 'late'), 'late');
  reject(new Error('later'));
  await new Promise(setImmediate);
});
