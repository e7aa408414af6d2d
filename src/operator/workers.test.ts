import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deferred } from '../kit/promises.ts';
import type { Deferred } from '../kit/promises.ts';
import { Workers } from './workers.ts';

/** Work that ends when the test says so. */
function controlled(atOnce: number) {
  const running = new Map<string, Deferred<number | null>>();
  const begun: string[] = [];
  const twice = deferred<void>();
  const workers = new Workers(
    (key) => {
      assert(!running.has(key), `${key} runs already`);
      const work = deferred<number | null>();
      running.set(key, work);
      begun.push(key);
      if (begun.length === 2) twice.resolve();
      return work.promise;
    },
    { operatorReconcilesMax: atOnce },
  );
  const end = async (key: string, laterMs: number | null) => {
    running.get(key)?.resolve(laterMs);
    running.delete(key);
    // One turn, in which the next one begins.
    await new Promise(setImmediate);
  };
  return { workers, begun, end, twice: twice.promise };
}

test('operator workers run a key once at a time, and once more if it is added meanwhile', async () => {
  const { workers, begun, end } = controlled(2);
  for (const key of ['a', 'a', 'a', 'b']) workers.add(key);
  assert.deepEqual(begun, ['a', 'b']);
  workers.add('a');
  workers.add('a');
  await end('a', null);
  assert.deepEqual(begun, ['a', 'b', 'a']);
  await end('a', null);
  await end('b', null);
  assert.deepEqual(begun, ['a', 'b', 'a']);
  await workers.close();
});

test('operator workers run a bounded number of keys in the order of adding, and a waiting rerun blocks no other key', async () => {
  const { workers, begun, end } = controlled(2);
  for (const key of ['a', 'b', 'a', 'c', 'd']) workers.add(key);
  assert.deepEqual(begun, ['a', 'b']);
  await end('b', null);
  assert.deepEqual(begun, ['a', 'b', 'c']);
  await end('a', null);
  assert.deepEqual(begun, ['a', 'b', 'c', 'a']);
  await end('a', null);
  assert.deepEqual(begun, ['a', 'b', 'c', 'a', 'd']);
  await end('c', null);
  await end('d', null);
  await workers.close();
});

test('operator workers run delayed work, and closing waits for running work and drops the rest', async () => {
  const { workers, begun, end, twice } = controlled(1);
  workers.add('a');
  await end('a', 1);
  await twice;
  workers.add('b');
  await Promise.all([workers.close(), end('a', 1)]);
  workers.add('c');
  assert.deepEqual(begun, ['a', 'a']);
});
