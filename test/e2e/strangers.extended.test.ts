/** Requests that anybody can send make no endpoint one that needs somebody, in the console or for `headgate doctor`; those of its sender do. */
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { test } from 'node:test';
import { cli, openConsole } from '../support/console.ts';
import { startHeadgate } from '../support/headgate.ts';
import { run } from '../support/run.ts';
import { requireBrowser } from '../support/tools.ts';
import { within } from '../support/within.ts';

test('unsigned requests leave an endpoint alone, and signed ones that are refused are named by their reasons', async (t) => {
  const chromium = requireBrowser(t);
  if (chromium === null) return;
  const headgate = await startHeadgate(t);
  const client = await headgate.client(t);
  const tables = ['strange', 'misfit', 'rolled'] as const;
  await client.query(`CREATE SECRET k WITH (backend = 'meta') AS 'key'`);
  for (const table of tables)
    await client.query(
      `CREATE TABLE ${table} (n SMALLINT) WITH (connector = 'webhook') VALIDATE SECRET k USING github`,
    );
  // As GitHub documents its signature.
  const signed = (body: string, key = 'key') => ({
    'x-hub-signature-256': `sha256=${createHmac('sha256', key).update(body).digest('hex')}`,
  });
  const broken = { 'content-encoding': 'gzip' };
  const body = '{"n":70000}';
  const sent = [
    ['strange', body, {}, 401],
    ['strange', body, {}, 401],
    ['strange', body, broken, 400],
    ['strange', body, {}, 401],
    ['misfit', body, signed(body), 422],
    ['misfit', body, signed(body), 422],
    ['misfit', '{"m":1}', signed('{"m":1}'), 422],
    ['misfit', body, {}, 401],
    ['rolled', body, signed(body, 'another'), 401],
    ['rolled', body, signed(body, 'another'), 401],
    ['rolled', body, signed(body, 'another'), 401],
  ] as const;
  for (const [table, text, headers, status] of sent)
    assert.equal((await headgate.post(`dev/public/${table}`, text, headers)).status, status);
  await within(40_000, async () => {
    const { rows } = await client.query<{ n: number }>(
      'SELECT sum(since_unauthorized + since_refused)::int AS n FROM headgate.endpoint_states',
    );
    assert.equal(rows[0]?.n, sent.length);
  });
  const { stdout } = await run(process.execPath, [cli, 'doctor', '--json', '--data-dir', headgate.dataDir]);
  const says = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { check: string; says: string })
    .filter(({ check }) => check === 'tables')
    .map((it) => it.says);
  assert.deepEqual(
    tables.filter((table) => says.some((it) => it.startsWith(`public.${table} stores nothing`))),
    ['misfit', 'rolled'],
  );
  const { page } = await openConsole(t, headgate, chromium);
  const needs = page.locator('.needs li');
  await needs.filter({ hasText: 'rolled' }).waitFor();
  assert.deepEqual((await needs.locator('.name').allInnerTexts()).toSorted(), ['misfit', 'rolled']);
  await needs
    .filter({ hasText: 'All 4 requests of the last hour were refused: Column n does not fit (2), ' })
    .filter({ hasText: 'No key is a column (1)' })
    .filter({ hasText: 'No x-hub-signature-256 (1)' })
    .waitFor();
  await needs
    .filter({
      hasText: 'All 3 requests of the last hour were refused by the check: Another secret, or changed (3).',
    })
    .waitFor();
  // Its own page says what it was, and who may have been it.
  await page.goto(`${headgate.adminUrl}/console/#/dev/endpoint/public/strange`);
  await page
    .getByText(
      /4 of 4 requests of the last hour were refused, most of them by the check: No x-hub-signature-256 \(3\), /,
    )
    .waitFor();
  await page.getByText('Anybody can send such requests').waitFor();
});
