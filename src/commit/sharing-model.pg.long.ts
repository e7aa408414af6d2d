import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runSharingModel } from '../../test/support/sharing-model.ts';

for (const kills of [false, true]) {
  void test(`answers for 5,000 tables at one time match the stored rows${kills ? ', also when connections end' : ''}`, async (t) => {
    const run = await runSharingModel(t, { tables: 5_000, requests: 200_000, senders: 256, kills });
    t.diagnostic(JSON.stringify({ ...run, wrong: run.wrong.length }));
    assert.deepEqual(run.wrong.slice(0, 10), []);
  });
}
