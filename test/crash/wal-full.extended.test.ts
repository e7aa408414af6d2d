/** No room for the engine's log: PostgreSQL panics, and cannot recover either until there is room again. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startHeadgate } from '../support/headgate.ts';
import { smallDisk } from '../support/small-disk.ts';
import { within } from '../support/within.ts';

test('a full disk of the write-ahead log gives 503 until there is room, and no row answered 200 is lost', async (t) => {
  const { dataDir, fill } = await smallDisk(t);
  if (fill === null) return t.skip('no disk of its own can be filled here');
  // The copy that other tests begin with has a log whose files take no room before they are written.
  const headgate = await startHeadgate(t, { dataDir, fromNothing: true });
  const client = await headgate.client(t);
  await client.query(`CREATE TABLE t (data JSONB) WITH (connector = 'webhook')`);
  const answers = new Map<number, number>();
  const post = async () => {
    const id = answers.size;
    answers.set(id, 0);
    const { status, headers } = await headgate.post('dev/public/t', `{"id":${id}}`);
    answers.set(id, status);
    assert(status === 200 || (status === 503 && headers.get('retry-after') !== null), `${status}`);
    return status;
  };
  for (let i = 0; i < 20; i++) assert.equal(await post(), 200);
  const free = await fill();
  // Each ends a file of the log, and the next one has no room.
  await assert.rejects(async () => {
    for (;;) await client.query(`select pg_logical_emit_message(true, '', ''), pg_switch_wal()`);
  });
  await within(20_000, async () => assert.match(headgate.stderr, /PANIC: .{1,200}No space left on device/));
  await within(20_000, async () => assert.equal(await post(), 503));
  const readyTimes = () => headgate.stderr.split('"engine.ready"').length - 1;
  const before = readyTimes();
  await free();
  await within(20_000, async () => assert(readyTimes() > before, headgate.stderr));
  await within(20_000, async () => assert.equal(await post(), 200));
  // The SQL port opens again when Headgate has looked at the engine itself, which may be a moment after the first commit.
  const again = await within(20_000, () => headgate.client(t));
  const { rows } = await again.query<{ id: number; copies: number }>(
    `select (data ->> 'id')::int as id, count(*)::int as copies from t group by 1`,
  );
  const stored = new Map(rows.map(({ id, copies }) => [id, copies]));
  for (const [id, status] of answers)
    assert((stored.get(id) ?? 0) <= 1 && (status !== 200 || stored.has(id)), `${id}: ${status}`);
});
