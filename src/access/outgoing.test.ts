import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { createResolver } from './outgoing.ts';

test('the resolver looks up host names that do not answer one at a time, and delays no name that answered before', async () => {
  const asked: string[] = [];
  const dead = new Map<string, (error: Error) => void>();
  const resolve = createResolver((host) => {
    asked.push(host);
    return host.startsWith('dead')
      ? new Promise((_, reject) => dead.set(host, reject))
      : Promise.resolve(['192.0.2.1']);
  }, 10_000);
  assert.deepEqual(await resolve('live'), ['192.0.2.1']);
  const failed = [resolve('dead1'), resolve('dead2'), resolve('dead1')];
  const later = resolve('new');
  await turn();
  // One that was quick before waits for nobody.
  assert.deepEqual(await resolve('live'), ['192.0.2.1']);
  assert.deepEqual(asked, ['live', 'dead1', 'live']);
  dead.get('dead1')?.(new Error('EAI_AGAIN'));
  await assert.rejects(Promise.all([failed[0], failed[2]]), /EAI_AGAIN/);
  await turn();
  dead.get('dead2')?.(new Error('EAI_AGAIN'));
  await assert.rejects(failed[1] ?? Promise.resolve(), /EAI_AGAIN/);
  assert.deepEqual(await later, ['192.0.2.1']);
  assert.deepEqual(asked, ['live', 'dead1', 'live', 'dead2', 'new']);
});

test('the resolver no longer looks up a host name beside others once its lookup was slow', async () => {
  const ends: (() => void)[] = [];
  let isSlow = false;
  const resolve = createResolver(
    () => (isSlow ? new Promise((done) => ends.push(() => done([]))) : Promise.resolve([])),
    0.001,
  );
  await resolve('a');
  isSlow = true;
  const [first, second] = [resolve('a'), resolve('b')];
  await turn();
  assert.equal(ends.length, 1);
  ends[0]?.();
  await first;
  await turn();
  ends[1]?.();
  await second;
});
