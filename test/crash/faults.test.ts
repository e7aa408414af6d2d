import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { describe, engineFaults, networkFaults, recoveredMsMax } from '../support/faults.ts';
import type { FaultRun } from '../support/faults.ts';
import { sampledTests } from '../support/sample.ts';
import { smallDisk } from '../support/small-disk.ts';

function judge(t: TestContext, run: FaultRun): void {
  t.diagnostic(describe(run));
  const { lost, surplus } = run.tally;
  assert.deepEqual({ lost, surplus, odd: run.odd }, { lost: [], surplus: [], odd: [] });
  for (const [kind, times] of run.recoveredMs)
    for (const ms of times) assert(ms < recoveredMsMax, `${kind}: ${ms} ms`);
}

const test = sampledTests(1, 2);

test('processes of the engine killed and stopped, its disk full: no 200 is lost, no row is there twice', async (t) => {
  const disk = await smallDisk(t);
  judge(t, await engineFaults(t, 1, disk.dataDir, disk.fill));
});

test('a network that resets, stalls and tears: no 200 is lost, no row is there twice', async (t) => {
  judge(t, await networkFaults(t, 1));
});
