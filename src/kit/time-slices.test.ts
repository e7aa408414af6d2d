import assert from 'node:assert/strict';
import { test } from 'node:test';
import { atOnce, LongWork } from './time-slices.ts';

/** Long work whose clock, turns and rests are moved by hand. */
function controlled() {
  const turns: (() => void)[] = [];
  const rests: { run: () => void; ms: number }[] = [];
  const at = { now: 0 };
  const work = new LongWork(
    () => at.now,
    (run) => void turns.push(run),
    (run, ms) => void rests.push({ run, ms }),
  );
  return { work, turns, rests, at };
}

const settled = () => new Promise(setImmediate);

function* slices(count: number, done: string[], name: string): Generator<void, string> {
  for (let i = 0; i < count; i++) {
    done.push(name);
    if (i + 1 < count) yield;
  }
  return name;
}

test('indivisible long work runs one at a time, in order, each followed by a pause of its length', async () => {
  const { work, turns, rests, at } = controlled();
  const done: number[] = [];
  const works = [20, 1, 2_000, 1].map(async (ms, i) => {
    await work.turn(1_000);
    at.now += ms;
    done.push(i);
  });
  await settled();
  assert.deepEqual(done, [0]);
  turns.shift()?.();
  await settled();
  assert.deepEqual(done, [0], 'it rests');
  assert.equal(rests[0]?.ms, 20);
  rests.shift()?.run();
  await settled();
  assert.deepEqual(done, [0, 1]);
  turns.shift()?.();
  await settled();
  assert.deepEqual(done, [0, 1, 2], 'what was short needs no rest');
  turns.shift()?.();
  assert.equal(rests[0]?.ms, 500, 'no rest is longer');
  rests.shift()?.run();
  await Promise.all(works);
  turns.shift()?.();
  assert.deepEqual([turns, rests], [[], []]);
  // Nobody waits: at once.
  await work.turn(1);
});

test('time slices run one in each turn, the smallest work first, and work of one slice runs at once', async () => {
  const { work, turns } = controlled();
  const done: string[] = [];
  assert.equal(work.slices(1, slices(1, done, 'one')), 'one');
  const all = [
    work.slices(9, slices(3, done, 'large')),
    work.slices(5, slices(3, done, 'small')),
    work.slices(5, slices(2, done, 'small too')),
  ];
  while (turns.length > 0) {
    const before = done.length;
    turns.shift()?.();
    assert(done.length <= before + 1);
    assert(turns.length <= 1);
  }
  assert.deepEqual(done.slice(4), ['small', 'small', 'small too', 'large', 'large']);
  assert.deepEqual(await Promise.all(all.map(async (it) => it)), ['large', 'small', 'small too']);
  assert.equal(atOnce(slices(5, done, 'c')), 'c');
});

test('time slices wait for indivisible work and its pause', async () => {
  const { work, turns, rests, at } = controlled();
  const done: string[] = [];
  const whole = work.turn(5_000).then(() => {
    at.now += 30;
    done.push('whole');
  });
  const sliced = work.slices(10, slices(2, done, 'slice'));
  await settled();
  turns.shift()?.();
  assert.deepEqual(done, ['slice', 'whole'], 'its first slice came with the request');
  rests.shift()?.run();
  assert.deepEqual(done, ['slice', 'whole', 'slice']);
  await Promise.all([whole, sliced]);
});

test('large work in time slices finishes despite a steady flow of small work', async () => {
  const { work, turns } = controlled();
  const done: string[] = [];
  const first = work.slices(10, slices(2, done, 'small'));
  const large = work.slices(1_000, slices(2, done, 'large'));
  const more: unknown[] = [];
  let came = 0;
  for (; came < 1_000 && done.filter((name) => name === 'large').length < 2; came++) {
    more.push(work.slices(10, slices(2, done, 'small')));
    turns.shift()?.();
  }
  assert(came > 50 && came < 200, `done when as much was served as it has itself: behind ${came} small ones`);
  while (turns.length > 0) turns.shift()?.();
  await Promise.all([first, large, ...more]);
});

test('work that fails in a later time slice fails alone', async () => {
  function* failing(): Generator<void, never> {
    yield;
    throw new Error('late');
  }
  const { work, turns } = controlled();
  const other = work.slices(2, slices(2, [], 'other'));
  const fails = assert.rejects(async () => work.slices(1, failing()), /late/);
  while (turns.length > 0) turns.shift()?.();
  await fails;
  assert.equal(await other, 'other');
});
