/** Rows in the console: which are the newest is known from PostgreSQL, and the one that is open stays open. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Client } from 'pg';
import type { Page } from 'playwright-core';
import { readOrder, rowPage } from '../../src/console/row-pages.ts';
import { openConsole } from '../support/console.ts';
import { holds } from '../support/console-walk.ts';
import { sharedHeadgate } from '../support/headgate.ts';
import { requireBrowser } from '../support/tools.ts';
import { within } from '../support/within.ts';

/** Two thirds of the rows go, and VACUUM gives their places to new ones. */
async function makeRoom(client: Client, table: string, rows: number): Promise<void> {
  await client.query(`DELETE FROM ${table} WHERE (data->>'n')::int <= ${(rows * 2) / 3}`);
  await client.query(`VACUUM ${table}`);
}

/** Rejects soon if there is none yet, so that the caller looks again. */
const firstRow = (page: Page): Promise<string> =>
  page.locator('.cells tbody tr').first().innerText({ timeout: 2_000 });

const shared = sharedHeadgate();

suite('the console lists rows', () => {
  test('the console lists the newest row first even after rows were deleted and vacuumed', async (t) => {
    const chromium = requireBrowser(t);
    if (chromium === null) return;
    const headgate = await shared();
    const client = await headgate.client(t);
    await client.query(`CREATE TABLE kept (data JSONB) INCLUDE TIMESTAMP AS arrived WITH (connector = 'webhook', keep = '1 hour');
      CREATE TABLE keyed (data JSONB, id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY) WITH (connector = 'webhook', document = 'data');
      CREATE TABLE plain (data JSONB) WITH (connector = 'webhook');
      CREATE TABLE "Odd ""name'" (data JSONB) INCLUDE TIMESTAMP AS "Arrived 'at""" WITH (connector = 'webhook');
      INSERT INTO kept SELECT jsonb_build_object('n', i), now() - interval '2 hours' + i * interval '480 ms' FROM generate_series(1, 15000) i;
      INSERT INTO keyed (data) SELECT jsonb_build_object('n', i) FROM generate_series(1, 15000) i;
      INSERT INTO plain SELECT jsonb_build_object('n', i) FROM generate_series(1, 15000) i;
      INSERT INTO "Odd ""name'" SELECT jsonb_build_object('n', i), NULL FROM generate_series(1, 15000) i`);
    const { page, complaints } = await openConsole(t, headgate, chromium);
    for (const table of ['kept', 'keyed', 'plain', `"Odd ""name'"`]) {
      await makeRoom(client, table, 15_000);
      const name = table.startsWith('"') ? `Odd "name'` : table;
      const body = `{"n":15001,"newest":12345678901234567890}`;
      let data = '';
      // VACUUM leaves rows that a statement of somebody else may still see.
      await within(60_000, async () => {
        await client.query(`DELETE FROM ${table} WHERE data ? 'newest'`);
        await client.query(`VACUUM ${table}`);
        assert.equal((await headgate.post(`dev/public/${encodeURIComponent(name)}`, body)).status, 200);
        const { rows } = await client.query<{ data: string; before: boolean }>(
          `SELECT data::text, (ctid::text::point)[0] < (SELECT max((ctid::text::point)[0]) - 64 FROM ${table}) AS before FROM ${table} WHERE data ? 'newest'`,
        );
        assert.equal(rows[0]?.before, true, 'PostgreSQL has put it before the last 64 pages');
        data = rows[0]?.data ?? '';
      });
      await page.goto(`${headgate.adminUrl}/console/#/endpoint/public/${encodeURIComponent(name)}/rows`);
      await within(15_000, async () => assert((await firstRow(page)).includes(data), await firstRow(page)));
    }
    assert.deepEqual(complaints, []);
  });

  test('the console reads the newest rows of a large table by an index, and without one only on request', async (t) => {
    const chromium = requireBrowser(t);
    if (chromium === null) return;
    const headgate = await shared();
    const client = await headgate.client(t);
    await client.query(`CREATE TABLE large (data JSONB) INCLUDE TIMESTAMP AS arrived WITH (connector = 'webhook');
      INSERT INTO large SELECT jsonb_build_object('n', i, 'pad', repeat('x', 1800)), '2026-01-01'::timestamptz + i * interval '1 ms' FROM generate_series(1, 40000) i;
      INSERT INTO large VALUES ('{"n":"without a time"}', NULL)`);
    const ref = { schema: 'public', table: 'large' };
    const { page } = await openConsole(t, headgate, chromium);
    await page.goto(`${headgate.adminUrl}/console/#/endpoint/public/large/rows`);
    await page.getByText('CREATE INDEX ON public.large (arrived)').waitFor();
    assert.equal(await page.locator('.cells').count(), 0);
    await page.getByRole('button', { name: 'Read the whole table' }).click();
    await within(15_000, async () => assert.match(await firstRow(page), /"n": 40000/));
    await client.query('CREATE INDEX ON large (arrived)');
    const { rows: found } = await client.query<{ column: string; indexed: boolean }>(readOrder(ref));
    assert.deepEqual([found[0]?.column, found[0]?.indexed], ['arrived', true]);
    const first = { column: 'arrived', direction: 'desc', from: null, text: '', names: [], max: 50 } as const;
    const explained = await client.query<Record<string, [{ Plan: Record<string, number> }]>>(
      `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${rowPage(ref, first)}`,
    );
    const plan = explained.rows[0]?.['QUERY PLAN']?.[0].Plan ?? {};
    assert((plan['Shared Hit Blocks'] ?? 0) + (plan['Shared Read Blocks'] ?? 0) < 100, JSON.stringify(plan));
    await page.reload();
    await within(15_000, async () => assert.match(await firstRow(page), /"n": 40000/));
    assert.equal(await page.getByRole('button', { name: 'Read the whole table' }).count(), 0);
  });

  test('an open document in the console stays open when rows arrive', async (t) => {
    const chromium = requireBrowser(t);
    if (chromium === null) return;
    const headgate = await shared();
    const client = await headgate.client(t);
    await client.query(
      `CREATE TABLE busy (data JSONB) INCLUDE TIMESTAMP AS arrived WITH (connector = 'webhook')`,
    );
    for (let i = 0; i < 50; i++)
      assert.equal(
        (await headgate.post('dev/public/busy', `{"n":${i},"order":{"total":${i}.50}}`)).status,
        200,
      );
    const { page, complaints } = await openConsole(t, headgate, chromium);
    await page.goto(`${headgate.adminUrl}/console/#/endpoint/public/busy/rows`);
    await page.getByRole('button', { name: /"n": 49,/ }).click();
    const opened = page.getByRole('region', { name: 'Opened document' });
    await opened.getByRole('heading', { name: 'row 1' }).waitFor();
    // It stands below fifty rows: the click has led there.
    await holds(page, `document.querySelector('.opened').getBoundingClientRect().top < innerHeight - 100`);
    await opened.getByText('Make a column of it').click();
    await opened.getByLabel('Column').fill('half_a_na');
    // Each is shown, although the one before came in the same second.
    for (let i = 50; i < 53; i++) {
      assert.equal((await headgate.post('dev/public/busy', `{"n":${i}}`)).status, 200);
      await page.getByRole('button', { name: new RegExp(`"n": ${i}`) }).waitFor({ timeout: 10_000 });
    }
    await opened.getByRole('heading', { name: 'row 4' }).waitFor();
    assert.match(await opened.innerText(), /"n": 49/);
    assert.equal(await opened.getByLabel('Column').inputValue(), 'half_a_na');
    assert.match(await page.locator('.cells tr[aria-current]').innerText(), /"n": 49,/);
    await client.query(`DELETE FROM busy WHERE data->>'n' = '49'`);
    assert.equal((await headgate.post('dev/public/busy', '{"n":53}')).status, 200);
    await opened.getByRole('heading', { name: 'which has changed or left the list' }).waitFor();
    assert.match(await opened.innerText(), /"n": 49/);
    assert.deepEqual(complaints, []);
  });

  test('the console lists the rows beside one of 25 MB', async (t) => {
    const chromium = requireBrowser(t);
    if (chromium === null) return;
    const headgate = await shared();
    const client = await headgate.client(t);
    await client.query(`CREATE TABLE fat (data JSONB, id BIGINT GENERATED ALWAYS AS IDENTITY) WITH (connector = 'webhook', document = 'data');
      INSERT INTO fat (data) SELECT jsonb_build_object('n', i) FROM generate_series(1, 60) i;
      INSERT INTO fat (data) SELECT jsonb_build_object('n', 61, 'fat', repeat('x', 25000000));
      INSERT INTO fat (data) VALUES ('{"n":62}')`);
    const { rows } = await client.query<{ n: number }>(
      `SELECT octet_length(data::text) AS n FROM fat WHERE id = 61`,
    );
    const { page } = await openConsole(t, headgate, chromium);
    await page.goto(`${headgate.adminUrl}/console/#/endpoint/public/fat/rows`);
    await page.getByText(`${rows[0]?.n} bytes, beginning with`).waitFor();
    assert.equal(await page.locator('.cells tbody tr').count(), 50);
    assert.match(await firstRow(page), /"n": 62/);
  });
});
