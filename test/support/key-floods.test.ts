import assert from 'node:assert/strict';
import { test } from 'node:test';
import { colliding, slowToSort } from './key-floods.ts';
import { testDatabase } from './postgres.ts';
import { seededRandom } from './random.ts';

test('generated test keys with one hash collide in PostgreSQL', async (t) => {
  const { random, seed } = seededRandom();
  const keys = colliding(100, random);
  const client = await (await testDatabase(t)).connect();
  const { rows } = await client.query(
    `select count(distinct key)::int as keys, count(distinct hashtext(key))::int as hashes from unnest($1::text[]) as key`,
    [keys],
  );
  assert.deepEqual(rows, [{ keys: 100, hashes: 1 }], `seed ${seed}`);
});

test('generated test keys that are slow to sort are all different', () => {
  const keys = slowToSort(10_000);
  assert.equal(new Set(keys).size, 10_000);
});
