import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deferred } from './promises.ts';
import { Semaphore } from './semaphore.ts';

test('a semaphore admits in order up to its bound, skips waiters that left, and ignores a second release', () => {
  const slots = new Semaphore(2);
  const begun: number[] = [];
  const give = Array.from({ length: 6 }, (_, i) => slots.take(() => void begun.push(i)));
  assert.deepEqual(begun, [0, 1]);
  give[3]?.();
  give[1]?.();
  give[1]?.();
  assert.deepEqual(begun, [0, 1, 2]);
  give[0]?.();
  assert.deepEqual(begun, [0, 1, 2, 4]);
  give[2]?.();
  give[4]?.();
  give[5]?.();
  slots.take(() => void begun.push(6));
  slots.take(() => void begun.push(7));
  slots.take(() => void begun.push(8));
  assert.deepEqual(begun, [0, 1, 2, 4, 5, 6, 7]);
});

test('a semaphore passes on work behind failing and stuck work', async () => {
  const slots = new Semaphore(1);
  const works = Array.from({ length: 4 }, () => deferred<number>());
  const begun: number[] = [];
  const run = (i: number, heldMsMax: number) =>
    slots.run(heldMsMax, () => {
      begun.push(i);
      return works[i]?.promise ?? assert.fail();
    });
  const first = run(0, 60_000);
  const failing = run(1, 60_000);
  const stuck = run(2, 1);
  const last = run(3, 60_000);
  await new Promise(setImmediate);
  assert.deepEqual(begun, [0]);
  works[0]?.resolve(10);
  assert.equal(await first, 10);
  works[1]?.reject(new Error('it failed'));
  await assert.rejects(failing, /it failed/);
  works[3]?.resolve(13);
  assert.equal(await last, 13);
  assert.deepEqual(begun, [0, 1, 2, 3]);
  works[2]?.resolve(12);
  assert.equal(await stuck, 12);
  assert.equal(await slots.run(60_000, () => Promise.resolve(14)), 14);
});
