import assert from 'node:assert/strict';
import { test } from 'node:test';
import { prepareDifferential, runDifferential } from '../../test/support/json-differential.ts';
import { testDatabase } from '../../test/support/postgres.ts';

void test('the JSON scanner accepts exactly what jsonb accepts of 1,000,000 generated and broken documents', async (t) => {
  const client = await (await testDatabase(t)).connect();
  await prepareDifferential(client);
  const seed = Math.floor(Math.random() * 2 ** 30);
  const result = await runDifferential(client, 1_000_000, seed);
  t.diagnostic(`seed ${seed}: ${result.accepted} accepted, ${result.refused} refused`);
  assert.deepEqual(result.mismatches, []);
});
