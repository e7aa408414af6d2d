import assert from 'node:assert/strict';
import { performance } from 'node:perf_hooks';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { onEnd } from '../../test/support/cleanup.ts';
import { webhookRoom } from '../../test/support/commit-room.ts';
import { seededRandom } from '../../test/support/random.ts';
import { runOurs } from '../../test/support/webhook-tables.ts';
import { listen, open } from '../../test/support/ws-listener.ts';
import { WsSender } from '../../test/support/ws-client.ts';
import { Lanes } from '../batch/lanes.ts';
import { CommitPools } from '../commit/commit-pools.ts';
import { Commit } from '../commit/commit.ts';
import { limits } from '../config/limits.ts';

async function room(t: TestContext) {
  const { database, client, spy, targetOf } = await webhookRoom(t);
  const clock = () => performance.now();
  const pools = new CommitPools(database.engine, limits);
  onEnd(t, 'pools', () => pools.close());
  const commit = new Commit({ pools, limits, observe: spy.observe, clock });
  const lanes = new Lanes(commit, { limits, clock });
  onEnd(t, 'lanes', () => lanes.close());
  await runOurs(
    client,
    `CREATE TABLE t (data JSONB CONSTRAINT no_minus CHECK (data->>'n' NOT LIKE '-%')) WITH (connector = 'webhook')`,
  );
  const target = await targetOf('t');
  const server = await listen(t, {
    find: () => target,
    admit: (it) => lanes.admit(it),
    submit: (rows) => lanes.submit(rows),
  });
  return { client, server };
}

const insert = (data: unknown) => ({ op: 'insert', data }) as const;

suite('WebSocket batches are stored on a real PostgreSQL', () => {
  test('an acknowledged WebSocket batch is stored as a whole, and a refused one names the item at fault', async (t) => {
    const { client, server } = await room(t);
    const ws = await open(t, server);
    ws.send(1, [insert({ n: '1', big: '12345678901234567890' }), insert({ n: '2' })]);
    ws.send(2, []);
    ws.send(3, [insert({ n: '3' })]);
    await ws.acked(3);
    ws.send(4, [insert({ n: '4' }), insert({ n: '-1' })]);
    ws.send(5, [insert({ n: '5' })]);
    const { code, fatal, acks } = await ws.ended;
    assert.deepEqual([code, acks], [1008, ['1', '2', '3']]);
    assert.match(fatal ?? '', /^dml_batch_id 4( item 2)?: the row violates the constraint no_minus$/);
    const { rows } = await client.query<{ n: string }>(`select data->>'n' as n from t order by ctid`);
    const stored = rows.map(({ n }) => n);
    assert.deepEqual(stored, ['1', '2', '3']);
  });

  test('WebSocket senders that are disconnected and return lose no batch and keep their order', async (t) => {
    const { client, server } = await room(t);
    const url = `ws://127.0.0.1:${server.port}/ingest/dev/public/t`;
    const { seed, random } = seededRandom();
    t.diagnostic(`seed ${seed}`);
    const senders = Array.from({ length: 4 }, () => new WsSender(() => url));
    for (const sender of senders) onEnd(t, 'sender', () => sender.stop());
    const batches = 300;
    for (let i = 0; i < batches; i++) {
      for (const [from, sender] of senders.entries()) {
        sender.send(Array.from({ length: 1 + (i % 5) }, (_, k) => insert({ n: `${i}`, from, k })));
        if (random() < 0.02) sender.kill();
      }
      if (i % 10 === 0) await new Promise(setImmediate);
    }
    await Promise.all(senders.map((sender) => sender.drained()));
    assert.deepEqual(
      senders.flatMap(({ fatals }) => fatals),
      [],
    );
    for (const from of senders.keys()) {
      const { rows } = await client.query<{ n: number; k: number }>(
        `select (data->>'n')::int as n, (data->>'k')::int as k from t where (data->>'from')::int = $1 order by ctid`,
        [from],
      );
      // Whole batches; each begins where the one before it ended, or again with one that was not acknowledged.
      let last = -1;
      for (let at = 0; at < rows.length;) {
        const n = rows[at]?.n ?? -1;
        assert.ok(n <= last + 1, `${n} after ${last}`);
        const size = 1 + (n % 5);
        assert.deepEqual(
          rows.slice(at, at + size).map((row) => [row.n, row.k]),
          Array.from({ length: size }, (_, k) => [n, k]),
        );
        last = n;
        at += size;
      }
      assert.equal(last, batches - 1);
      assert.equal(new Set(rows.map(({ n }) => n)).size, batches);
    }
  });
});
