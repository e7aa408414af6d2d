import assert from 'node:assert/strict';
import { test } from 'node:test';
import { onEnd } from '../../test/support/cleanup.ts';
import { testDatabase } from '../../test/support/postgres.ts';
import { limits } from '../config/limits.ts';
import { CommitPools } from './commit-pools.ts';
import { connectionOf } from './commit-connection.ts';
import { fateOf } from './transaction-status.ts';

test("a transaction's fate is not asked of a server with another incarnation", async (t) => {
  const { engine, name } = await testDatabase(t);
  const pools = new CommitPools(engine, limits);
  onEnd(t, 'pools', () => pools.close());
  const client = await pools.connect(name);
  const { rows } = await client.query<{ next: string }>(`select pg_current_xact_id()::text as next`);
  const incarnation = connectionOf(client).incarnation;
  client.release();
  const ask = async (life: string | null, number: bigint) => {
    let looks = 0;
    const clock = { leftMs: () => (looks++ < 3 ? 1_000 : 0), random: () => 0 };
    const lost = { database: name, xid: String(number), incarnation: life, waitsForDisk: true };
    return { fate: await fateOf(lost, pools, clock), looks };
  };
  const given = BigInt(rows[0]?.next ?? 0);
  assert.equal((await ask(incarnation, given)).fate, 'committed');
  // PostgreSQL answers this question with an error, and an error is otherwise a reason to ask again until time is up.
  assert.deepEqual(await ask('another life', given + 1_000_000n), { fate: null, looks: 1 });
});
