import assert from 'node:assert/strict';
import { readSync, writeSync } from 'node:fs';
import type { Socket } from 'node:net';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { onEnd } from '../../../test/support/cleanup.ts';
import { SharedPermits, PermitEnds, permitsOf } from './shared-permits.ts';

const fdOf = (end: Socket) => (end as unknown as { readonly _handle: { readonly fd: number } })._handle.fd;

/** One process, and what another one does with its own file descriptors of the same ends. */
async function beside(t: TestContext, count: number) {
  const pair = await PermitEnds.open(count);
  onEnd(t, 'pair', () => pair.close());
  const [takes, gives] = [fdOf(pair.ends[0]), fdOf(pair.ends[1])];
  const permits = new SharedPermits(count, { takes, gives });
  onEnd(t, 'permits', () => permits.close());
  // What was read when it was opened has gone back.
  await new Promise(setImmediate);
  return {
    permits,
    give: (more: number) => void writeSync(gives, '.'.repeat(more)),
    takeAll: () => {
      try {
        return readSync(takes, Buffer.alloc(64));
      } catch {
        return 0;
      }
    },
  };
}

test('a permit that nobody has is taken at once, and is there again when it is given back', async (t) => {
  const { permits, takeAll } = await beside(t, 1);
  const give = permits.take();
  assert.ok(typeof give === 'function');
  assert.equal(takeAll(), 0);
  give();
  assert.equal(takeAll(), 1);
});

test('a permit that another process has is waited for; meanwhile others go without', async (t) => {
  const { permits, give, takeAll } = await beside(t, 1);
  assert.equal(takeAll(), 1);
  const waits = permits.take();
  assert.ok(waits instanceof Promise);
  assert.equal(permits.take(), null);
  give(1);
  (await waits)();
  assert.equal(takeAll(), 1);
});

test('a permit that does not come back is not waited for, and made anew', async (t) => {
  const { permits, takeAll } = await beside(t, 1);
  assert.equal(takeAll(), 1);
  const give = await permits.take();
  assert.ok(give !== null);
  assert.equal(takeAll(), 0);
  give();
  assert.ok(typeof permits.take() === 'function');
});

test('permits that are too many are dropped', async (t) => {
  const { permits, give, takeAll } = await beside(t, 2);
  give(5);
  const first = permits.take();
  const second = permits.take();
  assert.ok(typeof first === 'function' && typeof second === 'function');
  assert.equal(takeAll(), 0);
  for (const done of [first, second]) done();
  assert.equal(takeAll(), 2);
});

test('processes wait for each other only where there are fewer than two cores for each', () => {
  const of = (processes: number, cores: number) => permitsOf(processes, cores);
  assert.deepEqual([of(2, 2), of(2, 1), of(2, 2.5), of(4, 4), of(3, 4)], [1, 1, 1, 2, 2]);
  assert.deepEqual([of(2, 4), of(4, 8), of(1, 2)], [null, null, null]);
});
