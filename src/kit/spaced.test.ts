import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Spaced } from './spaced.ts';

test('one piece of work at a time, in order, each followed by a rest as long as it was', async () => {
  const turns: (() => void)[] = [];
  const rests: { run: () => void; ms: number }[] = [];
  const at = { now: 0 };
  const spaced = new Spaced({
    clock: () => at.now,
    endOfTurn: (run) => void turns.push(run),
    after: (run, ms) => void rests.push({ run, ms }),
  });
  const done: number[] = [];
  const works = [20, 1, 200, 1].map(async (ms, i) => {
    await spaced.turn();
    at.now += ms;
    done.push(i);
  });
  const settle = () => new Promise(setImmediate);
  await settle();
  assert.deepEqual(done, [0]);
  turns.shift()?.();
  await settle();
  assert.deepEqual(done, [0], 'it rests');
  assert.equal(rests[0]?.ms, 20);
  rests.shift()?.run();
  await settle();
  assert.deepEqual(done, [0, 1]);
  turns.shift()?.();
  await settle();
  assert.deepEqual(done, [0, 1, 2], 'what was short needs no rest');
  turns.shift()?.();
  assert.equal(rests[0]?.ms, 50, 'no rest is longer');
  rests.shift()?.run();
  await Promise.all(works);
  turns.shift()?.();
  assert.deepEqual([turns, rests], [[], []]);
  // Nobody waits: at once.
  await spaced.turn();
});
