import assert from 'node:assert/strict';
import { test } from 'node:test';
import { atOnce, inTurns, Turns } from './turns.ts';

function* slices(count: number, done: string[], name: string): Generator<void, string> {
  for (let i = 0; i < count; i++) {
    done.push(name);
    if (i + 1 < count) yield;
  }
  return name;
}

test('one slice of all that wait in each turn, and nothing waits that is one slice', async () => {
  const turns: (() => void)[] = [];
  const pace = new Turns((run) => turns.push(run));
  const done: string[] = [];
  assert.equal(inTurns(slices(1, done, 'small'), pace), 'small');
  const large = [inTurns(slices(3, done, 'a'), pace), inTurns(slices(3, done, 'b'), pace)];
  assert.deepEqual(done, ['small', 'a', 'b']);
  for (let turn = 1; turn <= 4; turn++) {
    assert.equal(turns.length, 1);
    turns.shift()?.();
    await Promise.resolve();
    await Promise.resolve();
    assert.equal(done.length, 3 + turn);
  }
  assert.deepEqual(await Promise.all(large), ['a', 'b']);
  assert.equal(turns.length, 0);
  assert.equal(atOnce(slices(5, done, 'c')), 'c');
});

test('what fails in a later slice fails the whole', async () => {
  function* failing(): Generator<void, never> {
    yield;
    throw new Error('late');
  }
  await assert.rejects(async () => inTurns(failing(), new Turns(setImmediate)), /late/);
});
