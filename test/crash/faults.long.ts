import assert from 'node:assert/strict';
import { test } from 'node:test';
import { describe, engineFaults, networkFaults } from '../support/faults.ts';
import type { FaultRun } from '../support/faults.ts';
import { smallDisk } from '../support/small-disk.ts';

/** Longest time to the first 200 after the fault, in ms. */
const bounds: Readonly<Record<string, number>> = {
  'backend killed': 2_000,
  'server killed': 5_000,
  'engine stopped and continued': 1_000,
  'disk full, and room again': 10_000,
};

function judge({ tally: { lost, surplus }, odd, recoveredMs }: FaultRun): void {
  assert.deepEqual({ lost, surplus, odd }, { lost: [], surplus: [], odd: [] });
  for (const [kind, times] of recoveredMs)
    for (const ms of times) assert(ms <= (bounds[kind] ?? 5_000), `${kind}: ${ms} ms`);
}

test('no request answered 200 is lost or stored twice in 20 rounds of killed and stopped engines and full disks', async (t) => {
  const disk = await smallDisk(t);
  const run = await engineFaults(t, 20, disk.dataDir, disk.fill);
  t.diagnostic(describe(run));
  judge(run);
});

test('no request answered 200 is lost or stored twice in 10 rounds of faults of the network to PostgreSQL', async (t) => {
  const run = await networkFaults(t, 10);
  t.diagnostic(describe(run));
  judge(run);
});
