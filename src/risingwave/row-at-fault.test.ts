import assert from 'node:assert/strict';
import { test } from 'node:test';
import { rowsOf, targetOf } from '../../test/support/rows.ts';
import type { RwColumn } from './relations.ts';
import { RowSearch } from './row-at-fault.ts';
import type { Probe } from './row-at-fault.ts';
import { parseType } from './types.ts';

const type = parseType('integer');
assert.ok(type !== null);
const columns: readonly RwColumn[] = [{ name: 'n', type, nullable: true, hasDefault: false }];
const rows = rowsOf(targetOf(), '{"n":1}', '{"n":"x"}', '{"n":3}');
const places = [0, 1, 2].map((row) => ({ rows, row }));
const found = async (probe: Probe) =>
  (await new RowSearch(probe, columns).bad(places, 'all'))?.map(({ row }) => row) ?? null;

test('the row that RisingWave refuses is found among others, and none while it fails for every row', async () => {
  assert.deepEqual(
    await found(async (sql) => (sql.includes("'x'") ? 'db error: not an integer' : null)),
    [1],
  );
  assert.deepEqual(await found(async () => null), []);
  // It refuses even NULLs: its own failure must not be told as that of a sender.
  assert.equal(await found(async () => 'db error: the cluster is recovering'), null);
  assert.equal(await found(async () => undefined), null);
});
