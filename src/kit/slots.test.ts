import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Slots } from './slots.ts';

test('so many at a time, in order; who leaves the queue is passed over, and giving back twice changes nothing', () => {
  const slots = new Slots(2);
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
