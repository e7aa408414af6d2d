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

test('no request answered 200 is lost or stored twice when the engine is killed, stopped or out of disk space', async (t) => {
  const disk = await smallDisk(t);
  judge(t, await engineFaults(t, 1, disk.dataDir, disk.fill));
});

test('no request answered 200 is lost or stored twice when connections to PostgreSQL are reset, stalled and cut', async (t) => {
  judge(t, await networkFaults(t, 1));
});
