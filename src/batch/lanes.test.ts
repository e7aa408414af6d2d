import assert from 'node:assert/strict';
import { test } from 'node:test';
import { allAtOnce } from './lanes.ts';

test('batched callbacks of one event-loop turn run together in order, and new ones in the next turn', () => {
  const turns: (() => void)[] = [];
  const ran: string[] = [];
  const atEnd = allAtOnce((run) => void turns.push(run));
  atEnd(() => {
    ran.push('a');
    atEnd(() => ran.push('c'));
  });
  atEnd(() => ran.push('b'));
  assert.equal(turns.length, 1);
  turns.shift()?.();
  assert.deepEqual(ran, ['a', 'b']);
  assert.equal(turns.length, 1);
  turns.shift()?.();
  assert.deepEqual(ran, ['a', 'b', 'c']);
});
