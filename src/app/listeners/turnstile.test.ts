import assert from 'node:assert/strict';
import { readSync, writeSync } from 'node:fs';
import type { Socket } from 'node:net';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { onEnd } from '../../../test/support/cleanup.ts';
import { Turnstile, TurnstilePair, turnsOf } from './turnstile.ts';

const fdOf = (end: Socket) => (end as unknown as { readonly _handle: { readonly fd: number } })._handle.fd;

/** One process, and what another one does with its own file descriptors of the same ends. */
async function beside(t: TestContext, turns: number) {
  const pair = await TurnstilePair.open(turns);
  onEnd(t, 'pair', () => pair.close());
  const [takes, gives] = [fdOf(pair.ends[0]), fdOf(pair.ends[1])];
  const turnstile = new Turnstile(turns, { takes, gives });
  onEnd(t, 'turnstile', () => turnstile.close());
  // What was read when it was opened has gone back.
  await new Promise(setImmediate);
  return {
    turnstile,
    give: (count: number) => void writeSync(gives, '.'.repeat(count)),
    takeAll: () => {
      try {
        return readSync(takes, Buffer.alloc(64));
      } catch {
        return 0;
      }
    },
  };
}

test('a turn that nobody has is taken at once, and is there again when it is given back', async (t) => {
  const { turnstile, takeAll } = await beside(t, 1);
  const give = turnstile.take();
  assert.ok(typeof give === 'function');
  assert.equal(takeAll(), 0);
  give();
  assert.equal(takeAll(), 1);
});

test('a turn that another process has is waited for; meanwhile others go without', async (t) => {
  const { turnstile, give, takeAll } = await beside(t, 1);
  assert.equal(takeAll(), 1);
  const waits = turnstile.take();
  assert.ok(waits instanceof Promise);
  assert.equal(turnstile.take(), null);
  give(1);
  (await waits)();
  assert.equal(takeAll(), 1);
});

test('a turn that does not come back is not waited for, and made anew', async (t) => {
  const { turnstile, takeAll } = await beside(t, 1);
  assert.equal(takeAll(), 1);
  const give = await turnstile.take();
  assert.ok(give !== null);
  assert.equal(takeAll(), 0);
  give();
  assert.ok(typeof turnstile.take() === 'function');
});

test('turns that are too many are dropped', async (t) => {
  const { turnstile, give, takeAll } = await beside(t, 2);
  give(5);
  const first = turnstile.take();
  const second = turnstile.take();
  assert.ok(typeof first === 'function' && typeof second === 'function');
  assert.equal(takeAll(), 0);
  for (const done of [first, second]) done();
  assert.equal(takeAll(), 2);
});

test('processes wait for each other only where there are fewer than two cores for each', () => {
  const of = (processes: number, cores: number) => turnsOf(processes, cores);
  assert.deepEqual([of(2, 2), of(2, 1), of(2, 2.5), of(4, 4), of(3, 4)], [1, 1, 1, 2, 2]);
  assert.deepEqual([of(2, 4), of(4, 8), of(1, 2)], [null, null, null]);
});
