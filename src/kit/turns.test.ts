import assert from 'node:assert/strict';
import { test } from 'node:test';
import { atOnce, Turns } from './turns.ts';

function* slices(count: number, done: string[], name: string): Generator<void, string> {
  for (let i = 0; i < count; i++) {
    done.push(name);
    if (i + 1 < count) yield;
  }
  return name;
}

test('one slice in each turn, the smallest first, and nothing waits that is one slice', async () => {
  const turns: (() => void)[] = [];
  const pace = new Turns((run) => turns.push(run));
  const done: string[] = [];
  assert.equal(pace.run(1, slices(1, done, 'one')), 'one');
  const all = [
    pace.run(9, slices(3, done, 'large')),
    pace.run(5, slices(3, done, 'small')),
    pace.run(5, slices(2, done, 'small too')),
  ];
  while (turns.length > 0) {
    const before = done.length;
    turns.shift()?.();
    assert.equal(done.length, before + 1);
    assert(turns.length <= 1);
  }
  assert.deepEqual(done.slice(4), ['small', 'small', 'small too', 'large', 'large']);
  assert.deepEqual(await Promise.all(all.map(async (it) => it)), ['large', 'small', 'small too']);
  assert.equal(atOnce(slices(5, done, 'c')), 'c');
});

test('what fails in a later slice fails the whole, and nothing else', async () => {
  function* failing(): Generator<void, never> {
    yield;
    throw new Error('late');
  }
  const pace = new Turns(setImmediate);
  const other = pace.run(2, slices(3, [], 'other'));
  await assert.rejects(async () => pace.run(1, failing()), /late/);
  assert.equal(await other, 'other');
});
