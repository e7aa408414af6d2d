/** Code of an owner that keeps its transaction for as long as it likes holds up the owner's tables alone, and leaves nothing behind. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { messages } from '../../test/support/commit-room.ts';
import { beginning, room } from '../../test/support/owners-room.ts';
import { rowsOf } from '../../test/support/rows.ts';
import { embeddedBin } from '../../test/support/server.ts';
import type { TestServer } from '../../test/support/server.ts';
import { until } from '../../test/support/until.ts';
import type { Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';

/** Neither a timeout nor a cancellation ends it. */
const stubborn = `CREATE FUNCTION mal.stay() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    LOOP BEGIN PERFORM pg_sleep(1000); EXCEPTION WHEN query_canceled THEN NULL; END; END LOOP; END $$;
  CREATE TRIGGER stay BEFORE INSERT ON mal.t FOR EACH ROW EXECUTE FUNCTION mal.stay()`;

for (const role of ['root', 'hg'])
  suite(`endless code of an owner delays only that owner's tables, with Headgate as ${role}`, () => {
    let begun: TestServer;
    before(async () => {
      begun = await beginning(embeddedBin, role);
    });
    after(() => begun.close());

    test('rows with keys do not wait for endless code of another owner, which is terminated', async (t) => {
      const { root, own, writer, send, tableOf, made } = await room(t, begun, embeddedBin, role);
      await made('id INT PRIMARY KEY, v TEXT', stubborn);
      const hers = { ...(await tableOf('mal.t')), hasLocks: true };
      // One that has the same lock as hers would have, if hers had one of all.
      let free: Awaited<ReturnType<typeof tableOf>> | null = null;
      await root.query(`CREATE SCHEMA mine AUTHORIZATION ${role}; GRANT USAGE ON SCHEMA mine TO ${writer}`);
      for (let i = 0; free === null; i++) {
        assert.ok(i < 200);
        // The large object takes one oid, so that those of the tables take every remainder.
        await own.query(`SELECT lo_create(0); CREATE TABLE mine.t${i} (id INT PRIMARY KEY, v TEXT);
          GRANT ALL ON mine.t${i} TO ${writer}`);
        const target = await tableOf(`mine.t${i}`);
        if (target.oid % 32 === hers.oid % 32) free = { ...target, hasLocks: true };
      }
      assert.deepEqual([hers.code.as, free.code.as], ['owner', 'writer']);
      // More than one statement: it runs alone.
      const both: Rows = { ...rowsOf(hers, '{"id":1,"v":"a"}', '{"id":2}'), deletes: Uint8Array.of(0, 1) };
      const stuck = send([both]);
      const staying = `SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND application_name = 'headgate commit'`;
      await until(async () => ((await root.query(staying)).rowCount ?? 0) > 0);
      const began = performance.now();
      assert.deepEqual(messages(await send([rowsOf(free, '{"id":1,"v":"a"}')])), ['committed']);
      assert.ok(performance.now() - began < 1_500, 'it did not wait until hers was given up');
      const [outcome] = await stuck;
      assert.notEqual(outcome?.kind, 'committed');
      await until(async () => (await root.query(staying)).rowCount === 0);
      assert.equal((await root.query('SELECT FROM mal.t')).rowCount, 0);
    });

    test('the first rows of eight tables with code of one owner are stored at once', async (t) => {
      const { owner, writer, send, tableOf, made } = await room(t, begun, embeddedBin, role);
      const names = Array.from({ length: 8 }, (_, i) => `mal.t${i}`);
      await made(
        'id INT',
        names.map((it) => `CREATE TABLE ${it} (id INT CHECK (mal.pure('x') IS NOT NULL))`).join(';'),
      );
      for (const it of names) await owner.query(`GRANT INSERT, SELECT ON ${it} TO ${writer}`);
      const targets: Target[] = [];
      for (const it of names) targets.push(await tableOf(it));
      assert.ok(targets.every(({ code }) => code.as === 'owner'));
      const outcomes = await Promise.all(targets.map((it) => send([rowsOf(it, '{"id":1}')])));
      assert.deepEqual(new Set(outcomes.flatMap(messages)), new Set(['committed']));
    });
  });
