import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deferred } from './promises.ts';
import type { Deferred } from './promises.ts';
import { SharedRuns } from './shared-runs.ts';

test('concurrent callers of a shared job share runs, and each sees a run begun after its call', async () => {
  const runs: Deferred<void>[] = [];
  const began: (() => void)[] = [];
  const shared = new SharedRuns(
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
  const first = shared.run();
  await firstBegun;
  assert.equal(runs.length, 1);
  const secondBegun = nextBegin();
  const late = [shared.run(), shared.run(), shared.run()];
  const current = shared.current();
  assert.equal(runs.length, 1, 'the next run waits for this one');
  runs[0]?.reject(new Error('engine away'));
  await assert.rejects(first, /engine away/);
  await current;
  await secondBegun;
  assert.equal(runs.length, 2);
  runs[1]?.resolve();
  await Promise.all(late);
  assert.equal(runs.length, 2);
});

test('patient callers of a shared job wait for a pause between runs, or join a run of others', async () => {
  let now = 1_000;
  let runs = 0;
  const shared = new SharedRuns(
    () => {
      runs += 1;
      return Promise.resolve();
    },
    () => now,
  );
  await shared.run();
  await shared.run(3_600_000);
  assert.equal(runs, 2, 'a run that others asked for is not waited behind');
  now += 1;
  const patient = shared.run(3_600_000);
  await shared.run();
  await patient;
  assert.equal(runs, 3);
  now += 3_600_000;
  await shared.run(3_600_000);
  assert.equal(runs, 4);
});
