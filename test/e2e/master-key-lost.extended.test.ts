/** A data directory that came back without its master key: said by /readyz, and no other key is made beside it. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { asked } from '../support/asked.ts';
import { startHeadgate, temporaryFolder } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { within } from '../support/within.ts';

const readiness = (headgate: Headgate) => asked(`${headgate.adminUrl}/readyz`);

test('Headgate without its master key is not ready and says why; with the key back it continues', async (t) => {
  const dataDir = await temporaryFolder(t);
  const path = join(dataDir, 'master.key');
  const first = await startHeadgate(t, { dataDir });
  const client = await first.client(t);
  await client.query(`CREATE SECRET s WITH (backend = 'meta') AS 'right';
    CREATE TABLE checked (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET s AS secure_compare(headers->>'x', s);
    CREATE TABLE open (data JSONB) WITH (connector = 'webhook')`);
  assert.equal((await readiness(first)).status, 200);
  await client.end();
  await first.signal('SIGTERM');
  const key = await readFile(path, 'utf8');
  await rm(path);

  const second = await startHeadgate(t, { dataDir });
  const told = await readiness(second);
  assert.equal(told.status, 503);
  assert.match(
    told.text,
    /sealed values of database .*dev.* do not open: start Headgate with the master key/,
  );
  assert.match(second.stderr, /catalog\.sealed_otherwise/);
  assert.equal(existsSync(path), false);
  const unusable = second.stderr.split('\n').filter((line) => line.includes('catalog.table_unusable'));
  assert.equal(unusable.length, 1, unusable.join('\n'));
  assert.match(unusable[0] ?? '', /"table":"dev\.public\.checked"/);
  assert.match(unusable[0] ?? '', /"reason":"secret s: /);
  assert.equal((await second.post('dev/public/checked', '{}', { x: 'right' })).status, 503);
  assert.equal((await second.post('dev/public/open', '{}')).status, 200);
  const again = await second.client(t);
  await assert.rejects(again.query(`CREATE SECRET t WITH (backend = 'meta') AS 'x'`), { code: '55000' });

  await writeFile(path, key, { mode: 0o600 });
  await within(10_000, async () => assert.equal((await readiness(second)).status, 200));
  await within(2_000, async () =>
    assert.equal((await second.post('dev/public/checked', '{}', { x: 'right' })).status, 200),
  );
});

test('a wrong master key gives 503 for tables with secrets, and the log names the secret but not its value', async (t) => {
  const dataDir = await temporaryFolder(t);
  const first = await startHeadgate(t, { dataDir });
  await (
    await first.client(t)
  ).query(`CREATE SECRET canary WITH (backend = 'meta') AS 'tweet-tweet';
    CREATE TABLE keyed (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET canary AS secure_compare(headers->>'x', canary)`);
  await first.signal('SIGTERM');
  const env = { HEADGATE_MASTER_KEY: Buffer.alloc(32, 3).toString('base64') };
  const second = await startHeadgate(t, { dataDir, env });
  assert.equal((await readiness(second)).status, 503);
  const answer = await second.post('dev/public/keyed', '{}', { x: 'tweet-tweet' });
  assert.equal(answer.status, 503);
  assert.match(second.stderr, /secret canary/);
  for (const text of [second.stderr, answer.text]) assert(!text.includes('tweet-tweet'));
});
