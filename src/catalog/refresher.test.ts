import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deferred } from '../kit/deferred.ts';
import type { Deferred } from '../kit/deferred.ts';
import { Refresher } from './refresher.ts';

test('many callers share runs, and each sees a run that began after its call', async () => {
  const runs: Deferred<void>[] = [];
  const began: (() => void)[] = [];
  const refresher = new Refresher(
    () => {
      const run = deferred<void>();
      runs.push(run);
      began.shift()?.();
      return run.promise;
    },
    () => 0,
  );
  const nextBegin = () => new Promise<void>((resolve) => began.push(resolve));
  const firstBegun = nextBegin();
  const first = refresher.run();
  await firstBegun;
  assert.equal(runs.length, 1);
  const secondBegun = nextBegin();
  const late = [refresher.run(), refresher.run(), refresher.run()];
  assert.equal(runs.length, 1, 'the next run waits for this one');
  runs[0]?.reject(new Error('engine away'));
  await assert.rejects(first, /engine away/);
  await secondBegun;
  assert.equal(runs.length, 2);
  runs[1]?.resolve();
  await Promise.all(late);
  assert.equal(runs.length, 2);
});
