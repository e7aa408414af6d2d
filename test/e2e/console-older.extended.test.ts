/** What the list of one endpoint's requests shows of those that Headgate no longer remembers; what is right is counted by PostgreSQL. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { openConsole } from '../support/console.ts';
import { startHeadgate, temporaryFolder } from '../support/headgate.ts';
import { requireBrowser } from '../support/tools.ts';
import { within } from '../support/within.ts';

suite('the console lists accepted requests after a restart', () => {
  test('the console lists requests accepted before a restart from the rows of the table, or says why it cannot', async (t) => {
    const chromium = requireBrowser(t);
    if (chromium === null) return;
    const dataDir = await temporaryFolder(t);
    const first = await startHeadgate(t, { dataDir });
    const before = await first.client(t);
    await before.query(`CREATE TABLE orders (n INT) INCLUDE TIMESTAMP AS at WITH (connector = 'webhook');
      CREATE TABLE plain (n INT) WITH (connector = 'webhook');
      CREATE ROLE clerk LOGIN; GRANT CREATE ON SCHEMA public TO clerk; SET ROLE clerk;
      CREATE TABLE others (n INT) INCLUDE TIMESTAMP AS at WITH (connector = 'webhook'); RESET ROLE;
      INSERT INTO orders SELECT i, timestamptz '2026-01-01 00:00:00.125+00' + i / 2 * interval '1 hour' FROM generate_series(0, 139) i`);
    for (const table of ['orders', 'orders', 'plain', 'others'])
      assert.equal((await first.post(`dev/public/${table}`, '{"n":1}')).status, 200);
    await before.end();
    assert.equal((await first.signal('SIGTERM')).code, 0);
    const headgate = await startHeadgate(t, { dataDir });
    const client = await headgate.client(t);
    const { rows: known } = await client.query<{ line: string }>(
      `SELECT to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') || ' ' || count(*) || CASE count(*) WHEN 1 THEN ' row' ELSE ' rows' END AS line
       FROM orders GROUP BY at ORDER BY at DESC`,
    );
    assert.equal(known.length, 72);
    const { page, complaints } = await openConsole(t, headgate, chromium);
    const open = (address: string) => page.goto(`${headgate.adminUrl}/console/#/dev/${address}`);
    await open('requests?schema=public&table=orders');
    await page.getByText('Accepted before').first().waitFor();
    const shown = () =>
      page.locator('table[aria-label^="Accepted before"] tr').evaluateAll((lines) =>
        lines.map((line) => {
          const time = line.querySelector('time')?.getAttribute('datetime');
          return `${time} ${line.querySelector('.what')?.textContent}`;
        }),
      );
    await page.locator('table[aria-label^="Accepted before"] tr').nth(49).waitFor();
    const all = known.map(({ line }) => line);
    assert.deepEqual(await shown(), all.slice(0, 50));
    await page.getByRole('button', { name: '50 earlier ones' }).click();
    await page.locator('table[aria-label^="Accepted before"] tr').nth(71).waitFor();
    assert.deepEqual(await shown(), all);
    // What comes now is in the list, once.
    assert.equal((await headgate.post('dev/public/orders', '{"n":2}')).status, 200);
    await page
      .locator('.requests .line', { hasText: 'public.orders' })
      .or(page.locator('.requests td.to', { hasText: 'orders' }))
      .first()
      .waitFor();
    await page.locator('table[aria-label^="Accepted before"] tr').nth(71).waitFor();
    assert.deepEqual(await shown(), all);
    // A line leads to its rows.
    await page.locator('table[aria-label^="Accepted before"] a').nth(2).click();
    await page.getByRole('cell', { name: '139', exact: true }).waitFor();
    await open('requests?schema=public&table=plain');
    await page.getByText('which has no column with the time of arrival').waitFor();
    await page.getByRole('link', { name: 'Keep it from now on' }).click();
    // As Headgate itself understands it.
    const editor = page.getByLabel('SQL', { exact: true });
    await within(10_000, async () =>
      assert.match(await editor.inputValue(), /^ALTER TABLE .*plain.* INCLUDE TIMESTAMP AS received_at$/),
    );
    await client.query(await editor.inputValue());
    // A look at a table of another role may run that role's code.
    await open('requests?schema=public&table=others');
    await page.getByRole('button', { name: 'Show them here' }).click();
    await page.locator('table[aria-label^="Accepted before"] tr').first().waitFor();
    assert.equal((await shown()).length, 1);
    // A filter that a row does not answer shows none.
    await open('requests?schema=public&table=orders&result=refused');
    await page.getByText('No request matches.').waitFor();
    assert.equal(await page.getByText('Accepted before').count(), 0);
    assert.deepEqual(complaints, []);
  });
});
