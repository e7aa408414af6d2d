/** How soon a changed key takes effect if the change did not come through Headgate's own SQL port. */
import assert from 'node:assert/strict';
import type { Client } from 'pg';
import type { Headgate } from './headgate.ts';
import { within } from './within.ts';

/** `secret` gets the value of secret `next`; a request with `old` was accepted before. In ms. */
export async function revokedAfterMs(
  headgate: Headgate,
  direct: Client,
  path: string,
  secret = 's',
): Promise<number> {
  const post = async (x: string) => (await headgate.post(path, '{}', { x })).status;
  assert.equal(await post('old'), 200);
  const { rows } = await direct.query<{ sealed: string; seal_id: string }>(
    `SELECT sealed, seal_id FROM headgate.secret WHERE name = 'next'`,
  );
  await direct.query('UPDATE headgate.secret SET sealed = $1, seal_id = $2 WHERE name = $3', [
    rows[0]?.sealed,
    rows[0]?.seal_id,
    secret,
  ]);
  const changed = performance.now();
  await within(10_000, async () => assert.notEqual(await post('old'), 200));
  return performance.now() - changed;
}
