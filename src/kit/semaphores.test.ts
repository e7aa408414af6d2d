import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deferred } from './promises.ts';
import { Semaphores } from './semaphore.ts';

test('semaphores make work wait for work of its own key only, and forget unused keys', async () => {
  const semaphores = new Semaphores<string>(1);
  const first = await semaphores.turn('a');
  const order: string[] = [];
  const second = semaphores.turn('a').then((done) => {
    order.push('a');
    return done;
  });
  const other = await semaphores.turn('b');
  order.push('b');
  assert.equal(semaphores.size, 2);
  first();
  first();
  const done = await second;
  assert.deepEqual(order, ['b', 'a']);
  other();
  assert.equal(semaphores.size, 1);
  done();
  assert.equal(semaphores.size, 0);
  await assert.rejects(
    semaphores.run('a', 1_000, () => Promise.reject(new Error('no'))),
    /no/,
  );
  assert.equal(semaphores.size, 0);
});

test('semaphores count stuck work for a moment only', async () => {
  const semaphores = new Semaphores<null>(1);
  const stuck = deferred<undefined>();
  const first = semaphores.run(null, 1, () => stuck.promise);
  assert.equal(await semaphores.run(null, 1_000, () => Promise.resolve(7)), 7);
  stuck.resolve(undefined);
  await first;
  assert.equal(semaphores.size, 0);
});
