import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { startHeadgate } from '../support/headgate.ts';
import { within } from '../support/within.ts';

const canary = 'tweet-7391-tweet';

test('a key is nowhere in the clear: log, engine log, data directory, sessions, catalog, errors, metrics', async (t) => {
  const headgate = await startHeadgate(t, { args: ['--log-level=debug'] });
  const client = await headgate.client(t);
  const seen: unknown[] = [];
  const refused = async (sql: string) => {
    await client.query(sql).then(
      () => assert.fail('is refused'),
      (error: Error) => seen.push(error.message, Object.entries(error)),
    );
  };
  await client.query("SET log_statement = 'all'; SET log_min_duration_statement = 0");
  await client.query(`CREATE SECRET s WITH (backend = 'meta') AS '${canary}'`);
  await client.query({ name: 'p', text: `ALTER SECRET s AS '${canary}'` });
  await client.query(`BEGIN; CREATE SECRET gone WITH (backend = 'meta') AS '${canary}'; ROLLBACK`);
  await refused(`CREATE SECRET s WITH (backend = 'meta') AS '${canary}'`);
  await refused(`CREATE SECRET t WITH (backend = 'vault') AS '${canary}'`);
  await refused(`CREATE SECRET t WITH (backend = 'meta') AS '${canary}' please`);
  await refused(`CREATE SECRET nowhere.t WITH (backend = 'meta') AS '${canary}'`);
  await refused(`ALTER SECRET missing AS '${canary}'`);
  const check = `secure_compare(headers->>'authorization', 'Bearer ${canary}')`;
  await client.query(
    `CREATE TABLE raw (data JSONB) WITH (connector = 'webhook') VALIDATE AS /* ${canary} */ ${check}`,
  );
  await client.query(
    `CREATE TABLE bound (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET s AS secure_compare(headers->>'authorization', 'Bearer ' || s)`,
  );
  await refused(`CREATE TABLE raw (data JSONB) WITH (connector = 'webhook') VALIDATE AS ${check}`);
  await refused(
    `CREATE TABLE bad (data JSONB) WITH (connector = 'webhook') VALIDATE AS ${check} AND nonsense(1)`,
  );
  await refused(`CREATE TABLE bad (data NOSUCH) WITH (connector = 'webhook') VALIDATE AS ${check}`);
  for (const table of ['raw', 'bound']) {
    await within(1_000, async () => {
      const answer = await headgate.post(`dev/public/${table}`, '{}', { authorization: `Bearer ${canary}` });
      assert.equal(answer.status, 200);
      seen.push(answer.text);
    });
    seen.push((await headgate.post(`dev/public/${table}`, '{}', { authorization: 'Bearer tweet' })).text);
    seen.push((await client.query(`SHOW CREATE TABLE ${table}`)).rows);
  }
  seen.push((await client.query('SHOW SECRETS')).rows);
  for (const relation of ['secret', 'webhook_table', 'catalog_rows']) {
    seen.push((await client.query(`select * from headgate.${relation}`)).rows);
  }
  seen.push((await client.query('select query from pg_stat_activity')).rows);
  seen.push(await (await fetch(`${headgate.adminUrl}/metrics`)).text());
  await client.query('checkpoint');
  for (const name of await readdir(headgate.dataDir, { recursive: true })) {
    const bytes = await readFile(join(headgate.dataDir, name)).catch(() => Buffer.alloc(0));
    assert(!bytes.includes(canary), name);
  }
  assert.equal((await headgate.signal('SIGTERM')).code, 0);
  assert(!JSON.stringify(seen).includes(canary), JSON.stringify(seen).slice(0, 5_000));
  assert(headgate.stderr.includes('sql.rewritten'), 'the log is at its most talkative');
  assert(!headgate.stderr.includes(canary));
  assert(!headgate.stdout.includes(canary));
});
