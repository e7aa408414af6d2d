import assert from 'node:assert/strict';
import { test } from 'node:test';
import { remembered, rememberedOf } from './memoize.ts';

test('memoize by text computes each value once while texts are few, short and valid', () => {
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

test('memoize by object computes once per object, not per equal value', () => {
  let made = 0;
  const of = rememberedOf(({ name }: { name: string }) => `${name} ${++made}`);
  const [one, other] = [{ name: 'a' }, { name: 'a' }];
  assert.deepEqual([of(one), of(other), of(one), of(other)], ['a 1', 'a 2', 'a 1', 'a 2']);
});
