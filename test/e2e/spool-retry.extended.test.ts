/** A retry that was asked for while Headgate was down, and requests of its table that are still on the disk. */
import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { test } from 'node:test';
import { temporaryFolder } from '../support/headgate.ts';
import { MortalServer } from '../support/mortal-server.ts';
import { SpoolStage } from '../support/spool-stage.ts';
import { within } from '../support/within.ts';

test('a retry at a start does not overtake requests on the disk', async (t) => {
  const stage = new SpoolStage(t, await MortalServer.start(t), await temporaryFolder(t));
  await stage.startHeadgate();
  await stage.sql(
    `CREATE TABLE latest (n INT CHECK (n <> 13)) WITH (connector = 'webhook', spool = 'fallback')`,
  );
  assert.equal((await stage.post('latest', '{"n":13}')).status, 422);
  await within(10_000, async () => {
    await delay(10);
    assert.equal((await stage.ask('select from headgate.rejected_requests')).length, 1);
  });
  // Refused requests are not waited for at the engine's disk.
  await stage.ask('checkpoint');
  await stage.killServer();
  for (let n = 14; n < 20; n++) assert.equal((await stage.post('latest', JSON.stringify({ n }))).status, 202);
  await stage.killHeadgate();
  await stage.server.start();
  await stage.ask(`create table came (n int);
    create function came() returns trigger language plpgsql as $$ begin insert into public.came values (new.n); return new; end $$;
    create trigger came before insert or update on latest for each row execute function came();
    alter table latest drop constraint latest_n_check`);
  await stage.ask('select headgate.retry_rejected(id) from headgate.rejected_requests');
  // Each takes a moment to be looked at.
  for (let i = 0; i < 2_000; i++) mkdirSync(join(stage.folder, `another${i}`), { mode: 0o700 });
  await stage.startHeadgate();
  let came: readonly number[] = [];
  await within(20_000, async () => {
    await delay(50);
    const [{ outcome } = {}] = await stage.ask<{ outcome?: string }>(
      'select retry_outcome as outcome from headgate.rejected_requests',
    );
    assert(outcome === 'spooling' || outcome === 'committed', outcome);
    came = (await stage.ask<{ n: number }>('select n from came')).map(({ n }) => n);
    assert(came.includes(19));
  });
  assert.deepEqual(came.slice(0, 6), [14, 15, 16, 17, 18, 19]);
});
