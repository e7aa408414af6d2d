import assert from 'node:assert/strict';
import { test } from 'node:test';
import { remembered, rememberedOf } from './memoize.ts';

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

test('each object is made something of once, whatever else is equal to it', () => {
  let made = 0;
  const of = rememberedOf(({ name }: { name: string }) => `${name} ${++made}`);
  const [one, other] = [{ name: 'a' }, { name: 'a' }];
  assert.deepEqual([of(one), of(other), of(one), of(other)], ['a 1', 'a 2', 'a 1', 'a 2']);
});
