/** `/readyz` on a disk without room: not ready, with the reason, whether anybody writes or not, and by itself back. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { asked } from '../support/asked.ts';
import { startHeadgate } from '../support/headgate.ts';
import { smallDisk } from '../support/small-disk.ts';
import { within } from '../support/within.ts';

test('/readyz names a full disk as the reason, and is ready again when there is room', async (t) => {
  const disk = await smallDisk(t);
  if (disk.fill === null) return t.skip('no disk can be mounted here');
  const headgate = await startHeadgate(t, { dataDir: disk.dataDir });
  const client = await headgate.client(t);
  await client.query(`CREATE TABLE t (data JSONB) WITH (connector = 'webhook')`);
  const readiness = async () => (await asked(`${headgate.adminUrl}/readyz`)).text;
  const metric = async () =>
    /^headgate_ready (\d)/m.exec((await asked(`${headgate.adminUrl}/metrics`)).text)?.[1];
  assert.equal((await headgate.post('dev/public/t', '{}')).status, 200);
  assert.equal(await readiness(), '{"status":"ready"}');
  const makeRoom = await disk.fill();
  await within(20_000, async () =>
    assert.match(await readiness(), /"reason":"nothing can be written: .*No space left on device"/),
  );
  assert.equal(await metric(), '0');
  await makeRoom();
  await within(20_000, async () => assert.equal(await readiness(), '{"status":"ready"}'));
  assert.equal((await headgate.post('dev/public/t', '{}')).status, 200);
  assert.equal(await metric(), '1');
  // What asked has left nothing.
  const { rows } = await client.query(`select from pg_class where relname = 'headgate_probe'`);
  assert.equal(rows.length, 0);
});
