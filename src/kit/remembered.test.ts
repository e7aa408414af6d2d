import assert from 'node:assert/strict';
import { test } from 'node:test';
import { remembered } from './remembered.ts';

test('each text is made something of once, as long as they are few, short and good', () => {
  const asked: string[] = [];
  const of = remembered((text) => {
    asked.push(text.slice(0, 3));
    if (text === 'bad') throw new Error('bad');
    return { text };
  }, 2);
  assert.equal(of('a'), of('a'));
  assert.throws(() => of('bad'));
  assert.throws(() => of('bad'));
  assert.notEqual(of('x'.repeat(513)), of('x'.repeat(513)));
  assert.equal(of('b'), of('b'));
  of('c');
  of('a');
  assert.deepEqual(asked, ['a', 'bad', 'bad', 'xxx', 'xxx', 'b', 'c', 'a']);
});
