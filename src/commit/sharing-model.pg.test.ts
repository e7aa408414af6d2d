import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sampleOf, times } from '../../test/support/sample.ts';
import { runSharingModel } from '../../test/support/sharing-model.ts';

for (const kills of sampleOf([false, true], 1)) {
  test(`answers for 150 tables at one time match the stored rows${kills ? ', also when connections end' : ''}`, async (t) => {
    const run = await runSharingModel(t, { tables: 150, requests: times(600, 3_000), senders: 64, kills });
    t.diagnostic(JSON.stringify(run));
    assert.deepEqual(run.wrong.slice(0, 10), []);
  });
}
