/** What stands in the columns of lists is readable: columns without text take no width. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { openConsole } from '../support/console.ts';
import { holds } from '../support/console-walk.ts';
import { startHeadgate } from '../support/headgate.ts';
import { requireBrowser } from '../support/tools.ts';

suite('widths of columns', () => {
  test('why a request was refused has the width of a column without events, and times on a phone end at one edge', async (t) => {
    const chromium = requireBrowser(t);
    if (chromium === null) return;
    const headgate = await startHeadgate(t);
    const client = await headgate.client(t);
    await client.query(`CREATE TABLE inhouse (order_id INT, placed_at TIMESTAMPTZ, customer_reference INT) WITH (connector = 'webhook');
      CREATE SECRET k WITH (backend = 'meta') AS 'a key';
      CREATE TABLE checked (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET k AS headers->>'x-key' = k`);
    assert.equal((await headgate.post('dev/public/inhouse', '{"placed_at":"now then"}')).status, 422);
    assert.equal((await headgate.post('dev/public/inhouse', '{"customer_reference":"x"}')).status, 422);
    assert.equal((await headgate.post('dev/public/checked', '{}', { 'x-key': 'a key' })).status, 200);
    const { page } = await openConsole(t, headgate, chromium);
    const place = `${headgate.adminUrl}/console/#/dev`;
    const refused = 'Column placed_at does not fit';
    for (const path of ['', 'requests']) {
      await page.goto(`${place}/${path}`);
      await page.locator('.lines .what', { hasText: refused }).waitFor();
      await holds(
        page,
        `[...document.querySelectorAll('.lines .what')].every((it) => it.scrollWidth <= it.clientWidth)`,
      );
      assert.equal(await page.getByRole('columnheader', { name: 'Event' }).isVisible(), false);
    }
    // The times of a phone end at one edge.
    await page.setViewportSize({ width: 390, height: 860 });
    await page.goto(`${place}/endpoints`);
    await page.getByRole('link', { name: 'inhouse' }).waitFor();
    const ends =
      '[...document.querySelectorAll(".wide-rows time")].map((it) => it.getBoundingClientRect().right)';
    await holds(page, `new Set(${ends}).size === 1 && ${ends}.length === 2`);
  });
});
