import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Closer } from './closer.ts';

test('Closer closes in reverse order, once, and every resource even if one fails', async () => {
  const closed: string[] = [];
  const closer = new Closer();
  closer.add('first', () => void closed.push('first'));
  closer.add('second', () => {
    closed.push('second');
    throw new Error('stuck');
  });
  closer.add('third', async () => void closed.push('third'));
  await assert.rejects(closer.close(), /closing second failed/);
  await assert.rejects(closer.close(), /closing second failed/);
  assert.deepEqual(closed, ['third', 'second', 'first']);
});
