/** What an owner holds in a transaction that he leaves open keeps nothing of other tables from being written. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { observers } from '../observe/context.ts';
import { connect, makeTable, openRejects, refused } from '../../test/support/rejected.ts';
import { startServer } from '../../test/support/server.ts';
import type { TestServer } from '../../test/support/server.ts';
import { within } from '../../test/support/within.ts';

suite('rows locked by an owner delay no rejected requests of other tables', () => {
  let server: TestServer;
  before(async () => void (server = await startServer()));
  after(() => server.close());

  test('rejected requests and ignored keys of other tables are written while an owner drops or locks a table', async (t) => {
    const client = await connect(t, server);
    const [held, free] = [await makeTable(client, 'held'), await makeTable(client, 'free')];
    const { rejects, settled, counted, spy } = openRejects(t, server, {
      rowsMax: 20,
      limits: { ignoredKeysFlushMs: 0, rejectedHeartbeatMs: 100 },
    });
    rejects.serve('postgres');
    const keys = (target: typeof held) =>
      observers(rejects.readers)({ kind: 'keys.ignored', table: target, documents: 1, keys: ['x'] });
    const counts = async (table: string) => {
      const { rows } = await client.query<{ refused: number; ignored: number }>(
        `SELECT (SELECT count(*)::int FROM headgate.rejected_requests WHERE table_name = $1) AS refused,
          (SELECT coalesce(sum(documents), 0)::int FROM headgate.ignored_keys WHERE relation = $1::regclass) AS ignored`,
        [table],
      );
      return rows[0];
    };
    for (const target of [held, free]) {
      keys(target);
      rejects.keep(refused(target));
    }
    await settled(2);
    await within(5_000, async () => assert.deepEqual(await counts('free'), { refused: 1, ignored: 1 }));

    const owner = await connect(t, server);
    await owner.query(`BEGIN; SELECT headgate.forget_ignored_keys('held');
      SELECT headgate.forget_rejected(id) FROM headgate.rejected_requests WHERE table_name = 'held'`);
    for (const target of [held, free]) keys(target);
    for (let i = 0; i < 30; i++) rejects.keep(refused(free));
    await settled(32);
    // Also what has to go: the newest stay, beside the one of `held`, which is not touched.
    await within(5_000, async () => assert.deepEqual(await counts('free'), { refused: 19, ignored: 2 }));
    await owner.query('ROLLBACK');

    await owner.query('BEGIN; DROP TABLE held');
    for (const target of [held, free]) {
      keys(target);
      rejects.keep(refused(target));
      rejects.asked({
        target,
        askedAtMs: Date.now(),
        method: 'GET',
        remoteAddress: '',
        place: null,
        status: 200,
        outcome: 'answered',
      });
    }
    await settled(34);
    await within(5_000, async () => {
      assert.deepEqual((await counts('free'))?.ignored, 3);
      const { rows } = await client.query('SELECT table_name FROM headgate.handshake_log');
      assert.deepEqual(rows, [{ table_name: 'free' }]);
    });
    assert.equal(counted('stored'), 33);
    assert.deepEqual(
      spy.seen.filter(({ kind }) => kind === 'rejected.unwritable'),
      [],
    );
    await owner.query('ROLLBACK');
  });
});
