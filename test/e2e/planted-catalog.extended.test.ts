/**
 * In a database whose owner made a schema headgate of his own, a superuser's commands and statements run none of his code. The schema holds every
 * function and relation that Headgate's own has; each raises an error that names the role, and PostgreSQL shows that it does.
 */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { Client } from 'pg';
import { sharedHeadgate, temporaryFolder } from '../support/headgate.ts';
import { run } from '../support/run.ts';
import { sampleOf, sampleSeed } from '../support/sample.ts';

const started = sharedHeadgate();
const cli = fileURLToPath(new URL('../../src/app/cli.js', import.meta.url));

const ran = `BEGIN RAISE EXCEPTION 'ran as %', current_user; END`;

/** The functions and relations of Headgate's schema, as traps with the same names and arguments. */
async function trapsLike(real: Client): Promise<string[]> {
  const functions = await real.query<{ sql: string }>(
    `
    SELECT format('CREATE FUNCTION headgate.%I(%s) RETURNS text LANGUAGE plpgsql AS %L', proname,
      (SELECT string_agg(format_type(t, NULL), ', ') FROM unnest(proargtypes) t), $1::text) AS sql
    FROM pg_proc WHERE pronamespace = 'headgate'::regnamespace AND prokind = 'f'
      AND NOT EXISTS (SELECT FROM unnest(proargtypes) t JOIN pg_type y ON y.oid = t WHERE y.typnamespace = 'headgate'::regnamespace)
    UNION ALL SELECT format('CREATE PROCEDURE headgate.%I(%s) LANGUAGE plpgsql AS %L', proname,
      (SELECT string_agg(format_type(t, NULL), ', ') FROM unnest(proargtypes) t), $1::text)
    FROM pg_proc WHERE pronamespace = 'headgate'::regnamespace AND prokind = 'p'`,
    [ran],
  );
  const relations = await real.query<{ sql: string }>(`
    SELECT format('CREATE VIEW headgate.%I AS SELECT %s', c.relname, string_agg(
      format('headgate.trap()::text::%s AS %I', format_type(a.atttypid, NULL), a.attname), ', ' ORDER BY a.attnum)) AS sql
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    WHERE c.relnamespace = 'headgate'::regnamespace AND c.relkind IN ('r', 'p', 'v') GROUP BY c.relname`);
  return [
    'CREATE SCHEMA headgate; GRANT USAGE ON SCHEMA headgate TO PUBLIC',
    `CREATE FUNCTION headgate.trap() RETURNS text LANGUAGE plpgsql AS $$${ran}$$`,
    ...[...functions.rows, ...relations.rows].map(({ sql }) => sql),
    'GRANT SELECT ON ALL TABLES IN SCHEMA headgate TO PUBLIC',
  ];
}

/** Commands that ask the catalog of a database. */
const commands = [
  ['endpoints'],
  ['explain'],
  ['tail'],
  ['tail', 'orders'],
  ['listen', '--forward-to', 'http://127.0.0.1:9'],
  ['listen', 'orders', '--forward-to', 'http://127.0.0.1:9'],
  ['replay', 'orders', '--to', 'http://127.0.0.1:9'],
  ['deliver', 'orders', '--to', 'https://example.com/', '--secret-file', 'whsec'],
  ['export', 'orders'],
  ['infer', '--table', 'orders'],
  ['secrets', 'list'],
  ['init', 'github'],
  ['mcp'],
  ['doctor'],
];

/** Statements of the SQL port that Headgate answers from the catalog. */
const statements = [
  'SHOW ENDPOINTS',
  'SHOW SECRETS',
  'SHOW TOKENS',
  'SHOW SPOOL',
  'SHOW CREATE TABLE orders',
  "CREATE SECRET s WITH (backend = 'meta') AS 'x'",
  "ALTER SECRET s WITH (backend = 'meta') AS 'x'",
  'DROP SECRET s',
  "CREATE TABLE hooks (data JSONB) WITH (connector = 'webhook')",
  "ALTER TABLE orders SET (keep = '1 day')",
  'CREATE TOKEN t FOR INSERT ON orders',
];

test('commands and statements of a superuser run no code of a planted schema headgate', async (t) => {
  const headgate = await started();
  const root = await headgate.client(t);
  await root.query('CREATE ROLE planter LOGIN CREATEDB');
  await (await headgate.clientAs(t, 'planter')).query('CREATE DATABASE planted');
  const planter = await headgate.clientAs(t, 'planter', 'planted');
  await planter.query('CREATE TABLE public.orders (data jsonb)');
  for (const sql of await trapsLike(root)) await planter.query(sql);
  const there = await headgate.client(t, 'planted');
  for (const trap of ['SELECT headgate.trap()', 'SELECT * FROM headgate.rejected_requests'])
    await assert.rejects(there.query(trap), { message: 'ran as root' });
  const dsn = `postgresql://root@127.0.0.1:${headgate.ports.sql.port}/planted`;
  const cwd = await temporaryFolder(t);
  await writeFile(join(cwd, 'whsec'), `whsec_${Buffer.alloc(24, 1).toString('base64')}`, { mode: 0o600 });
  const env = { PATH: process.env['PATH'], HOME: cwd, HEADGATE_DELIVER_HOSTS: 'example.com:443' };
  t.diagnostic(sampleSeed);
  for (const command of sampleOf(commands, 4))
    await t.test(
      `headgate ${command.join(' ')} refuses a planted schema headgate and names the role to log in as`,
      async () => {
        const { code, stdout, stderr } = await run(process.execPath, [cli, ...command, '--dsn', dsn], {
          cwd,
          env,
        });
        assert.doesNotMatch(`${stdout}${stderr}`, /ran as/);
        assert.match(
          `${stdout}${stderr}`,
          /schema headgate of this database belongs to role "planter".*log in as that role/,
        );
        assert.equal(code, 1);
      },
    );
  for (const statement of statements)
    await t.test(`${statement} is refused where the schema headgate is planted`, async () => {
      await assert.rejects(there.query(statement), (error: Error) => {
        assert.doesNotMatch(error.message, /ran as/);
        assert.match(error.message, /the schema headgate, of role "planter"/);
        return true;
      });
    });
  await t.test(
    'headgate sql shows the columns by \\d without reading a planted schema headgate',
    async () => {
      const { code, stdout } = await run(process.execPath, [cli, 'sql', '-c', '\\d orders', '--dsn', dsn], {
        cwd,
        env,
      });
      assert.match(stdout, /jsonb/);
      assert.equal(code, 0);
    },
  );
});
