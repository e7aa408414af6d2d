/** The console's events page: the calls that it offers, given to a shell, store rows of its table and database, and it refuses what the gateway refuses. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openConsole } from '../support/console.ts';
import { startHeadgate } from '../support/headgate.ts';
import { run } from '../support/run.ts';
import { requireBrowser, requireTool } from '../support/tools.ts';
import { within } from '../support/within.ts';

const tables = [
  [`CREATE TABLE hooks (data JSONB) WITH (connector = 'webhook')`, 'hooks'],
  [`CREATE TABLE "Order" (id INT PRIMARY KEY, "to" TEXT NOT NULL, at TIMESTAMPTZ)`, '"Order"'],
  [`CREATE TABLE "a.b" (n NUMERIC)`, '"a.b"'],
  [`CREATE TABLE " " (on_day DATE, ok BOOLEAN)`, '" "'],
  [
    `CREATE SCHEMA "Sales"; CREATE TYPE mood AS ENUM ('fine', 'bad'); CREATE DOMAIN amount AS NUMERIC NOT NULL CHECK (VALUE > 0);
     CREATE TABLE "Sales"."Ö%&x" (id BIGINT GENERATED ALWAYS AS IDENTITY, "user" UUID NOT NULL, mood mood NOT NULL, of amount, tags TEXT[],
       took INTERVAL, ip INET, seen TIMESTAMP DEFAULT now())`,
    '"Sales"."Ö%&x"',
  ],
] as const;

/** What stands behind them in a table of one JSONB column, of two columns, and of one that may not be NULL. */
const documents = [
  '{"data":{"a":1}}',
  '{"sensor":"a"}',
  '{"data":1}\n{"data":2}',
  '{\n  "data": {\n    "a": 1 }\n}',
  '{"data":1}\n{"other":2}',
  '{"data":1}\n{"data":',
  '[{"data":1}]',
  '{"Data":1}',
  '{}',
  '{"id":7}',
  '{"id":8,"to":null}',
  '{"id":9,"to":"a","more":1}',
  '{"\\u0064ata":1}',
  ' ',
];

test('the calls of the console’s events page store rows of the table and the database that it shows', async (t) => {
  const chromium = requireBrowser(t);
  if (chromium === null || requireTool(t, 'curl') === null) return;
  const headgate = await startHeadgate(t);
  const first = await headgate.client(t);
  await first.query('CREATE DATABASE shop');
  await first.query('CREATE TABLE hooks (data JSONB)');
  const client = await headgate.client(t, 'shop');
  for (const [sql] of tables) await client.query(sql);
  const { page, complaints } = await openConsole(t, headgate, chromium);
  await page.goto(`${headgate.adminUrl}/console/#/shop/events`);
  const offered = page.locator('.code pre').first();
  const said = page.getByRole('status');
  const field = page.getByLabel('Documents, one per line');
  for (const [, name] of tables) {
    await page.getByLabel('Table').selectOption({ label: name });
    await said.getByText('2 documents', { exact: true }).waitFor();
    const { code, stdout } = await run('bash', ['-c', await offered.innerText()]);
    assert.deepEqual([code, stdout.trim()], [0, '{"rows":2}'], name);
    const { rows } = await client.query(`SELECT FROM ${name}`);
    assert.equal(rows.length, 2, name);
  }
  const elsewhere = await first.query('SELECT FROM hooks');
  assert.equal(elsewhere.rows.length, 0, 'the table of that name in the first database');
  for (const name of ['hooks', '"Order"']) {
    await page.getByLabel('Table').selectOption({ label: name });
    for (const document of documents) {
      await field.fill(document);
      await within(5_000, async () => assert((await offered.innerText()).includes('--data-raw')));
      // A name of its own is what the test waits for, since the verdict may be the same.
      await page.evaluate('new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))');
      const verdict = await said.innerText();
      const { stdout } = await run('bash', ['-c', await offered.innerText()]);
      const good = /^\d+ documents?/.test(verdict) && !verdict.startsWith('0');
      assert.equal(good, stdout.startsWith('{"rows":'), `${name} ${document}: ${verdict} / ${stdout}`);
    }
  }
  // Also of a database in which there is nothing of Headgate yet.
  await first.query('CREATE DATABASE bare');
  await (await headgate.clientAs(t, 'root', 'bare')).query('CREATE TABLE only_here (a INT)');
  await page.goto(`${headgate.adminUrl}/console/#/bare/events`);
  await page.getByRole('option', { name: 'only_here' }).waitFor({ state: 'attached' });
  assert.match(await offered.innerText(), /name=public.only_here&database=bare/);
  await page.goto(`${headgate.adminUrl}/console/#/shop/events`);
  await page.getByLabel('Table').selectOption({ label: '"Order"' });
  for (const width of [1280, 390]) {
    await page.setViewportSize({ width, height: 900 });
    await field.fill('{"sensor":"a"}');
    await said.getByText(/none of its keys is a column; the table has id, "to", at/).waitFor();
    assert.equal(await page.evaluate<number>('document.documentElement.scrollWidth'), width);
  }
  assert.deepEqual(complaints, []);
});
