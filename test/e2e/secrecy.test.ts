import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { asked } from '../support/asked.ts';
import { startHeadgate } from '../support/headgate.ts';
import { within } from '../support/within.ts';

const canary = 'tweet-7391-tweet';

/** A literal in each place that an expression has for one, accepted or not. */
const literals = [
  `secure_compare(headers->>'a', E'${canary}\\n')`,
  `secure_compare(headers->>'a', $x$${canary}$x$)`,
  `secure_compare(headers->>'a', U&'${canary}')`,
  `secure_compare('${canary}', headers->>'a')`,
  `secure_compare(headers->>'a', ('${canary}'::text || '${canary}')::text)`,
  `secure_compare(headers->>'a', encode(hmac('${canary}', data, 'sha256'), 'hex'))`,
  `secure_compare(headers->>'a', encode(digest(convert_to('${canary}', 'UTF8') || data, 'sha256'), 'hex'))`,
  `secure_compare(headers->>'a', CASE WHEN headers->>'b' = 'x' THEN '${canary}' ELSE upper('${canary}') END)`,
  `secure_compare_any(headers->>'a', ARRAY['${canary}', 'b-${canary}'])`,
  `secure_compare_any(headers->>'a', string_to_array('${canary},${canary}', ','))`,
  `secure_compare(coalesce(headers->>'a', '${canary}'), replace('${canary}', 'x', 'y'))`,
  `secure_compare(headers->>'a', '{"k":"${canary}"}'::jsonb->>'k')`,
  `headers->>'a' IN ('${canary}', 'b')`,
  `secure_compare(headers->>'a', '${canary}') OR headers->>'b' LIKE '${canary}%'`,
  `secure_compare(headers->>'${canary}', 1 / '${canary}')`,
];

test('a secret appears unsealed in no log, file, session, catalog, error or metric', async (t) => {
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
  const known = `UNCHECKED WHEN /* ${canary} */ method = 'GET' AND secure_compare(query->>'v', '${canary}')`;
  await client.query(
    `ALTER TABLE raw ANSWER /* ${canary} */ ${known} BODY 'known' ANSWER WHEN method = 'PUT' BODY encode(hmac('${canary}', data, 'sha256'), 'hex')`,
  );
  await refused(`ALTER TABLE raw ANSWER ${known} BODY nonsense(1)`);
  await refused(`ALTER TABLE raw ANSWER ${known} BODY headers->>'a'`);
  await refused(`ALTER TABLE raw ANSWER SECRET nobody ${known}`);
  seen.push(
    (await client.query(`EXPLAIN VALIDATE raw WITH (method = 'GET', url = '/webhook/dev/public/raw?v=x')`))
      .rows,
  );
  for (const table of ['raw', 'bound']) {
    await within(1_000, async () => {
      const answer = await headgate.post(`dev/public/${table}`, '{}', { authorization: `Bearer ${canary}` });
      assert.equal(answer.status, 200);
      seen.push(answer.text);
    });
    seen.push((await headgate.post(`dev/public/${table}`, '{}', { authorization: 'Bearer tweet' })).text);
    seen.push((await client.query(`SHOW CREATE TABLE ${table}`)).rows);
  }
  let made = 0;
  for (const [i, literal] of literals.entries()) {
    // By the extended protocol; what is not accepted must not be shown either.
    const text = `CREATE TABLE l${i} (data JSONB) WITH (connector = 'webhook') VALIDATE AS ${literal}`;
    const error = await client.query({ name: `l${i}`, text }).then(() => null, String);
    if (error !== null) {
      seen.push(error);
      continue;
    }
    made++;
    seen.push((await client.query(`SHOW CREATE TABLE l${i}`)).rows);
    seen.push((await client.query(`EXPLAIN VALIDATE l${i} WITH (headers = '{"a":"b"}', body = 'x')`)).rows);
    seen.push((await headgate.post(`dev/public/l${i}`, '{}', { a: 'b' })).text);
  }
  assert(made >= 9, `${made} tables`);
  seen.push((await client.query('SHOW SECRETS')).rows);
  for (const relation of ['secret', 'webhook_table', 'catalog_rows']) {
    seen.push((await client.query(`select * from headgate.${relation}`)).rows);
  }
  seen.push((await client.query('select query from pg_stat_activity')).rows);
  seen.push((await asked(`${headgate.adminUrl}/metrics`)).text);
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
