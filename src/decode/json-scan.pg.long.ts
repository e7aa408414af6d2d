import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Client } from 'pg';
import { prepareDifferential, runDifferential } from '../../test/support/json-differential.ts';
import { startPostgres } from '../../test/support/decode-postgres.ts';

void test('accepts exactly what jsonb accepts, of 1,000,000 generated and broken documents', async (t) => {
  const postgres = await startPostgres();
  const client = new Client(postgres.config);
  t.after(async () => {
    await client.end();
    await postgres.close();
  });
  await client.connect();
  await prepareDifferential(client);
  const seed = Math.floor(Math.random() * 2 ** 30);
  const result = await runDifferential(client, 1_000_000, seed);
  t.diagnostic(`seed ${seed}: ${result.accepted} accepted, ${result.refused} refused`);
  assert.deepEqual(result.mismatches, []);
});
