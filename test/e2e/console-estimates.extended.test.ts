/** How many rows a table has is an estimate of PostgreSQL's, which a crash can take away: what is not known is shown as such. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { cli, openConsole } from '../support/console.ts';
import { startHeadgate } from '../support/headgate.ts';
import { run } from '../support/run.ts';
import { requireBrowser } from '../support/tools.ts';
import { within } from '../support/within.ts';

suite('the number of rows', () => {
  test('a table that was rewritten before PostgreSQL crashed is not shown as empty', async (t) => {
    const chromium = requireBrowser(t);
    if (chromium === null) return;
    const headgate = await startHeadgate(t);
    const client = await headgate.client(t);
    client.on('error', () => undefined);
    await client.query(`CREATE TABLE orders (n INT) WITH (connector = 'webhook')`);
    for (let i = 0; i < 5; i++)
      assert.equal((await headgate.post('dev/public/orders', `{"n":${i}}`)).status, 200);
    await client.query('ALTER TABLE orders ALTER n TYPE BIGINT');
    // The server starts anew if any process of it is killed.
    const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
    process.kill(rows[0]?.pid ?? 0, 'SIGKILL');
    await within(30_000, async () => {
      const again = await headgate.client(t);
      const { rows: found } = await again.query<{ about: string }>(
        `SELECT greatest(reltuples, pg_stat_get_live_tuples(oid))::text AS about FROM pg_class WHERE relname = 'orders'`,
      );
      assert.equal(found[0]?.about, '0');
    });
    const { page, complaints } = await openConsole(t, headgate, chromium);
    const place = `${headgate.adminUrl}/console/#/dev`;
    await page.goto(`${place}/endpoints`);
    await page.locator('tr', { hasText: 'orders' }).locator('td', { hasText: /^–/ }).waitFor();
    await page.goto(`${place}/endpoint/public/orders`);
    await page.getByRole('tab', { name: /^Rows\s*–$/ }).waitFor();
    await page.locator('.facts dd', { hasText: /^–, / }).waitFor();
    await page.goto(`${place}/sql`);
    await page.locator('summary', { hasText: /^\s*orders\s*–$/ }).waitFor();
    await page.goto(`${place}/health`);
    await page
      .locator('section, main')
      .getByRole('row', { name: /orders.*–/ })
      .waitFor();
    const dsn = `postgresql://root@127.0.0.1:${headgate.ports.sql.port}/dev`;
    const listed = await run(process.execPath, [cli, 'endpoints', '--dsn', dsn]);
    assert.match(listed.stdout, /can write {10,}0 /, listed.stderr);
    const { stdout } = await run(process.execPath, [cli, 'endpoints', '--dsn', dsn, '--json']);
    assert.equal((JSON.parse(stdout) as { rows: unknown }).rows, null);
    await (await headgate.client(t)).query('ANALYZE orders');
    await page.goto(`${place}/endpoint/public/orders`);
    await page.getByRole('tab', { name: /^Rows\s*≈ 5$/ }).waitFor();
    assert.deepEqual(complaints, []);
  });
});
