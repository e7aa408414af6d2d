import assert from 'node:assert/strict';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { test } from 'node:test';
import { temporaryFolder } from '../support/headgate.ts';
import { MortalServer } from '../support/mortal-server.ts';
import { SpoolStage } from '../support/spool-stage.ts';
import { sampleOf } from '../support/sample.ts';
import { within } from '../support/within.ts';

const mebibyte = 1024 * 1024;
const large = JSON.stringify({ large: 'x'.repeat(128 * 1024) });
const greedy = ['g1', 'g2', 'g3', 'g4', 'g5'];

for (const listeners of sampleOf(['1', '2'], 1))
  test(`a role with five spooling tables does not take the spool from another role (listener processes: ${listeners})`, async (t) => {
    const server = await MortalServer.start(t);
    const stage = new SpoolStage(t, server, await temporaryFolder(t));
    const env = { HEADGATE_LISTENERS: listeners };
    await stage.startHeadgate(env);
    const made = [...greedy, 'other'].map(
      (name) =>
        `CREATE TABLE ${name} (data JSONB) WITH (connector = 'webhook', spool = 'fallback');
        ALTER TABLE ${name} OWNER TO ${name === 'other' ? 'other_role' : 'greedy_role'};`,
    );
    await stage.sql(`CREATE ROLE greedy_role; CREATE ROLE other_role; ${made.join('\n')}`);
    await within(10_000, async () => {
      await delay(10);
      assert(statSync(join(stage.folder, 'postgres', 'tables.sealed')).size > 4_000);
      for (const name of [...greedy, 'other']) assert.equal((await stage.post(name, '{}')).status, 200);
    });
    /** Returns how many were kept until the spool was full for this table. */
    const fill = async (table: string) => {
      for (let kept = 0; ; kept++) {
        const { status, text } = await stage.post(table, large);
        if (status === 202) continue;
        const { code } = JSON.parse(text) as { code: string };
        // The server's end is learnt by the statement that was under way.
        if (code === 'commit_unknown' && kept === 0) continue;
        // A table of which nothing is kept yet does not begin to spool.
        assert(status === 503 && (code === 'spool_full' || code === 'engine_unavailable'), text);
        return kept;
      }
    };
    await stage.killServer();
    let taken = 0;
    for (const table of greedy) taken += await fill(table);
    const all = (16 * mebibyte) / large.length;
    assert(taken > 0.7 * all && taken < 0.85 * all, `${taken} of ${all}`);
    const before = (await stage.post('other', large)).status;
    // The owners are known after a start without the database, too.
    await stage.killHeadgate();
    await stage.startHeadgate(env);
    assert.deepEqual([before, await fill('g5'), (await stage.post('other', large)).status], [202, 0, 202]);
    await server.start();
    await stage.untilDirect('other', large);
    assert.deepEqual(await stage.ask('select count(*)::int as n from other'), [{ n: 4 }]);
  });
