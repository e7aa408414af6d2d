import assert from 'node:assert/strict';
import { test } from 'node:test';
import { namesOf } from './messages.ts';

test('a session is in the database that the engine takes, however it was named', () => {
  const names = (parameters: Record<string, string>) => namesOf(new Map(Object.entries(parameters)));
  assert.deepEqual(names({ user: 'a', database: 'b' }), { user: 'a', database: 'b' });
  assert.deepEqual(names({ user: 'a' }), { user: 'a', database: 'a' });
  assert.deepEqual(names({ user: 'a', database: '' }), { user: 'a', database: 'a' });
  const [long, cut] = ['l'.repeat(70), 'l'.repeat(63)];
  assert.deepEqual(names({ user: long, database: `${cut}x` }), { user: cut, database: cut });
});
