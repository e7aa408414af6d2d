/** Charts, the SQL page's memory, time zones and phones, in a real Chromium. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Page } from 'playwright-core';
import { chooseInMenu, openConsole } from '../support/console.ts';
import { holds, overlapping, serious } from '../support/console-walk.ts';
import { startHeadgate } from '../support/headgate.ts';
import { requireBrowser } from '../support/tools.ts';
import { within } from '../support/within.ts';

const hashOf = (page: Page): string => new URL(page.url()).hash;

/** Bytes of a middle point of the chart's bars. */
async function plotOf(page: Page) {
  const plot = page.locator('.plot');
  const bar = await page.locator('.plot rect.good').last().boundingBox();
  assert(bar !== null);
  return { plot, x: bar.x + bar.width / 2, y: bar.y + bar.height / 2 };
}

suite("the console's pages work in Chromium", () => {
  test("the console's charts, lists, SQL page, time zones and phone layout work in Chromium", async (t) => {
    const chromium = requireBrowser(t);
    if (chromium === null) return;
    const headgate = await startHeadgate(t);
    const client = await headgate.client(t);
    await client.query(
      `CREATE TABLE charted (data JSONB, id INT GENERATED ALWAYS AS IDENTITY PRIMARY KEY) WITH (connector = 'webhook', document = 'data')`,
    );
    const { page, complaints } = await openConsole(t, headgate, chromium);
    const base = `${headgate.adminUrl}/console/`;
    for (let i = 0; i < 3; i++)
      assert.equal((await headgate.post('dev/public/charted', '{"a":1}')).status, 200);

    await t.test('the console draws a chart of requests', async () => {
      await page.goto(`${base}#/dev/endpoint/public/charted?range=1h`);
      // Counted by the database every 15 s, and read by the page every 15 s.
      await page.getByRole('img', { name: /Requests, last hour: 3 stored/ }).waitFor({ timeout: 60_000 });
      // Bars move with the time, and the three may be of two minutes.
      await within(15_000, async () => {
        const bar = await plotOf(page);
        await page.mouse.move(bar.x, bar.y);
        await bar.plot.locator('.tip', { hasText: /Stored\s*[123]/ }).waitFor({ timeout: 1_000 });
      });
      const { plot, x, y } = await plotOf(page);
      await page.mouse.move(0, 0);
      await plot.locator('.tip').waitFor({ state: 'detached' });
      // The same by keyboard.
      await plot.focus();
      await page.keyboard.press('ArrowLeft');
      await plot.locator('.tip').waitFor();
      await page.mouse.move(x - 200, y);
      await page.mouse.down();
      await page.mouse.move(x - 20, y, { steps: 4 });
      await page.mouse.up();
      await holds(page, `/from=.*Z&until=.*Z/.test(decodeURIComponent(location.hash))`);
      const zoomed = hashOf(page);
      await page.reload();
      await page.getByLabel('Time range').waitFor();
      assert.equal(hashOf(page), zoomed);
      assert.match(
        await page.getByLabel('Time range').locator('option').first().innerText(),
        /\d\d:\d\d – \d\d:\d\d/,
      );
      await page.getByLabel('Time range').selectOption('1h');
      await page.getByRole('img', { name: /last hour: 3 stored/ }).waitFor();
      const again = await plotOf(page);
      await page.mouse.click(again.x, again.y);
      await holds(page, `/^#.dev.requests\\?/.test(location.hash) && /table=charted/.test(location.hash)`);
      assert.match(decodeURIComponent(hashOf(page)), /from=20.*Z&until=20.*Z/);
      await page.goBack();
      await page.locator('.plot').waitFor();
      // Beyond a day, what was counted by the hour.
      await client.query(`INSERT INTO headgate.traffic_hour (relation, slot, hour, stored, spooled, unauthorized, refused, unavailable, took)
        SELECT 'charted'::regclass, (extract(epoch FROM h)::bigint / 3600) % 744, h, 4, 1, 0, 2, 0, array_fill(0, '{14}')
        FROM unnest('{3,20}'::int[]) days, date_trunc('hour', now() - days * interval '1 day') h`);
      for (const [id, name] of [
        ['7d', /last 7 days: 7 stored, 0 with 401, 2 other refusals/],
        ['30d', /last 30 days: 11 stored, 0 with 401, 4 other refusals/],
      ] as const) {
        await page.getByLabel('Time range').selectOption(id);
        await page.getByRole('img', { name }).waitFor();
        assert((await page.locator('.plot rect.disk').count()) > 0);
      }
    });

    await t.test(
      'the console compares a day with the day before only if that is known completely',
      async () => {
        await page.goto(`${base}#/dev/endpoint/public/charted`);
        const chart = page.getByRole('img', { name: /Requests, last 24 hours: 3 stored/ });
        await chart.waitFor();
        const note = page.getByText(/on the day before/);
        assert.equal(await note.count(), 0);
        const add = (hours: string) =>
          client.query(`WITH known AS (
            SELECT h, CASE WHEN n < 24 THEN 1200 ELSE 1000 END AS n FROM unnest('{${hours}}'::int[]) n,
              LATERAL (SELECT to_timestamp(floor(extract(epoch FROM now()) / 3600) * 3600) - n * interval '1 hour' AS h) AS at),
          of_table AS (INSERT INTO headgate.traffic_hour (relation, slot, hour, stored, spooled, unauthorized, refused, unavailable, took)
            SELECT 'charted'::regclass, (extract(epoch FROM h)::bigint / 3600) % 744, h, n, 0, 0, 0, 0, array_fill(0, '{14}') FROM known)
          INSERT INTO headgate.traffic_total (owner_oid, owner, per, slot, at, stored, spooled, unauthorized, refused, unavailable, took)
          SELECT 0, '', 'hour', (extract(epoch FROM h)::bigint / 3600) % 744, h, 2 * n, 0, 0, 0, 0, array_fill(0, '{14}') FROM known`);
        // Of the day before less than all may be known.
        await add('5,30');
        await page.reload();
        await chart.waitFor();
        assert.equal(await note.count(), 0);
        await add('60');
        await page.reload();
        await page.getByText('up 20 % on the day before').waitFor();
        assert.match((await note.getAttribute('title')) ?? '', /^By whole hours: 1.?200\b.*, after 1.?000$/);
        await client.query(
          `UPDATE headgate.traffic_total SET stored = 1800 WHERE per = 'hour' AND stored = 2400`,
        );
        // Without a reload: statements of a page that was just left still count, and one of the next page would be refused as too many.
        await page.goto(`${base}#/dev`);
        await page.locator('.figures').getByText('down 10 % on the day before').waitFor();
        // Of other ranges nothing is said.
        await page.getByLabel('Time range').selectOption('6h');
        await page.getByRole('img', { name: /last 6 hours/ }).waitFor();
        assert.equal(await note.count(), 0);
      },
    );

    await t.test(
      "a drag in the console's request chart chooses the time range, and a view can be saved",
      async () => {
        await page.goto(`${base}#/dev/requests?table=charted&schema=public`);
        const plot = page.locator('.list-chart .plot');
        await plot.locator('rect.good').first().waitFor();
        const at = await plot.boundingBox();
        assert(at !== null);
        await page.mouse.move(at.x + at.width - 200, at.y + 30);
        await page.mouse.down();
        await page.mouse.move(at.x + at.width - 9, at.y + 30, { steps: 4 });
        await page.mouse.up();
        await holds(page, `/from=.*Z&until=.*Z/.test(decodeURIComponent(location.hash))`);
        await page.locator('.lines .line', { hasText: '1 row' }).nth(2).waitFor();
        // The refused ones that are kept, by a filter that the counts do not know.
        assert.equal((await headgate.post('dev/public/charted', '{"a":')).status, 422);
        // The list has it at once, the bars when it is written: they would be read again a minute later.
        await within(10_000, async () => {
          const { rowCount } = await client.query(
            `SELECT FROM headgate.rejected_requests WHERE code = 'body_not_json'`,
          );
          assert.equal(rowCount, 1);
        });
        await page.goto(`${base}#/dev/requests?code=body_not_json`);
        // The bars follow the list.
        await page.locator('.lines .line', { hasText: 'charted' }).waitFor();
        await plot.locator('rect.bad').first().waitFor({ timeout: 30_000 });
        assert.equal(await plot.locator('rect.good').count(), 0);
        await page.getByRole('button', { name: 'Views', exact: true }).click();
        await page.getByLabel('Name of this view').fill('no JSON');
        await page.getByRole('button', { name: 'Save', exact: true }).click();
        await page.goto(`${base}#/dev/requests`);
        await page.reload();
        await page.getByRole('button', { name: 'Views', exact: true }).click();
        await page.getByRole('button', { name: 'no JSON', exact: true }).click();
        await holds(page, `/^#.dev.requests.code=body_not_json$/.test(location.hash)`);
        await page.getByRole('button', { name: 'Views', exact: true }).click();
        await page.getByRole('button', { name: 'Forget no JSON' }).click();
        await page.goto(`${base}#/dev/requests`);
        await page.getByRole('button', { name: 'Views', exact: true }).waitFor({ state: 'detached' });
      },
    );

    await t.test("filters of an endpoint's requests in the console are kept in the address", async () => {
      await page.goto(`${base}#/dev/endpoint/public/charted`);
      const rows = page.locator('.latest .line');
      await page.getByRole('img', { name: /Requests, last 24 hours: / }).waitFor();
      await rows.filter({ hasText: '1 row' }).first().waitFor();
      await page.getByRole('group', { name: 'What became of them' }).getByText('Refused').click();
      await within(10_000, async () =>
        assert.match((await rows.allTextContents()).join(), /^[^,]*422[^,]*$/),
      );
      await holds(page, `location.hash === '#/dev/endpoint/public/charted?result=refused'`);
      await page.reload();
      await within(10_000, async () => assert.equal(await rows.count(), 1));
      await page.getByRole('searchbox', { name: 'Search its requests' }).fill('nothing has this');
      await page.getByText('No request matches.').waitFor();
      await holds(page, `/result=refused&q=nothing/.test(location.hash)`);
      // The list of all requests has the same filters.
      await page.getByRole('link', { name: 'All requests' }).click();
      await holds(
        page,
        `/^#.dev.requests\\?result=refused&schema=public&table=charted&q=nothing/.test(location.hash)`,
      );
    });

    await t.test(
      "the console's SQL page has a tree, saved statements and a history without secrets",
      async () => {
        await page.goto(`${base}#/dev/sql`);
        const sql = page.getByLabel('SQL', { exact: true });
        await page.getByRole('searchbox', { name: 'Table or column' }).fill('charted');
        await page.locator('.tree summary', { hasText: 'charted' }).click();
        await page.locator('.tree').getByText('integer · key').waitFor();
        // Beside each schema, how many of its tables were found.
        await page.locator('.tree > summary', { hasText: /^public\s*1$/ }).waitFor();
        await sql.fill('SELECT count(*) FROM ');
        await page.getByRole('button', { name: 'insert the name' }).click();
        assert.equal(await sql.inputValue(), 'SELECT count(*) FROM charted');
        await page.keyboard.press('Control+Enter');
        await page.getByRole('cell', { name: '3', exact: true }).waitFor();
        const recent = page.locator('.recall');
        await recent.filter({ hasText: /^SELECT count\(\*\) FROM charted\s*1 row$/ }).waitFor();
        await sql.fill('SELECT 1 / 0');
        await page.keyboard.press('Control+Enter');
        await recent.filter({ hasText: /^SELECT 1 \/ 0\s*error$/ }).waitFor();
        // In colours, letter for letter, and each line where it is in the field.
        const draft = `SELECT 'a''b', 12 -- «\u202e»\n\n  FROM "x" /* ${'long '.repeat(60)}*/\n`;
        await sql.fill(draft);
        const drawn = page.locator('.sql-field pre');
        assert.deepEqual(await drawn.locator('> div').allTextContents(), draft.split('\n'));
        assert.deepEqual(await drawn.locator('.sql-word').allTextContents(), ['SELECT', 'FROM']);
        assert.deepEqual(await drawn.locator('.sql-string').allTextContents(), [`'a''b'`]);
        const [shown = 0, ...heights] = await page.evaluate<number[]>(
          `(([pre, area]) => [pre.clientHeight, pre.scrollHeight, area.scrollHeight])(document.querySelectorAll('.sql-field > *'))`,
        );
        assert.deepEqual(heights, [shown, shown]);
        await sql.fill('SELECT count(*) FROM charted');
        await page.getByRole('button', { name: 'Save …' }).click();
        await page.getByLabel('Name of the statement').fill('How many?');
        await page.keyboard.press('Enter');
        await page.getByText('Saved in this browser.').waitFor();
        await sql.fill(`CREATE SECRET unforgotten WITH (backend = 'meta') AS 'never remember me'`);
        await page.getByLabel('may write').check();
        await page.keyboard.press('Control+Enter');
        await holds(page, `!document.body.innerText.includes('Running')`);
        assert.doesNotMatch(
          await page.evaluate<string>('JSON.stringify([{ ...localStorage }, { ...sessionStorage }])'),
          /never remember me/,
        );
        // A new tab knows what was saved and what ran.
        const tab = await page.context().newPage();
        await tab.goto(`${base}#/dev/sql`);
        await tab.getByRole('button', { name: /^Saved/ }).click();
        await tab.getByRole('button', { name: 'How many?', exact: true }).click();
        assert.equal(
          await tab.getByLabel('SQL', { exact: true }).inputValue(),
          'SELECT count(*) FROM charted',
        );
        await tab.getByRole('button', { name: 'History' }).click();
        await tab.locator('.recall', { hasText: 'SELECT count(*) FROM charted' }).waitFor();
        assert.equal(await tab.locator('.recall', { hasText: 'SECRET' }).count(), 0);
        await tab.getByRole('button', { name: 'Forget all of it' }).click();
        await tab.getByText('Statements that ran are remembered').waitFor();
        // An address fills the editor, and runs nothing.
        await tab.goto(`${base}#/dev/sql?sql=${encodeURIComponent('DROP TABLE charted')}`);
        await tab.reload();
        await tab.getByLabel('SQL', { exact: true }).waitFor();
        assert.equal(await tab.getByLabel('may write').isChecked(), false);
        await tab.getByRole('button', { name: 'Run', exact: true }).click();
        await tab.getByText('This changes something, and the page is read only.').waitFor();
        await tab.close();
      },
    );

    await t.test(
      'the console tries another VALIDATE on past requests without changing the table',
      async () => {
        await client.query(`CREATE SECRET checks WITH (backend = 'meta') AS 'key';
        CREATE TABLE checked (data JSONB) INCLUDE HEADER 'x-token' AS token INCLUDE TIMESTAMP AS at WITH (connector = 'webhook')
          VALIDATE SECRET checks AS secure_compare(headers->>'x-token', checks)`);
        assert.equal((await headgate.post('dev/public/checked', '{}', { 'x-token': 'key' })).status, 200);
        await page.goto(`${base}#/dev/endpoint/public/checked`);
        await page.getByRole('link', { name: 'Change it' }).click();
        const sql = page.getByLabel('SQL', { exact: true });
        await holds(page, `document.querySelector('textarea').value.startsWith('ALTER TABLE')`);
        await sql.fill((await sql.inputValue()).replace('x-token', 'x-other'));
        await page.getByRole('button', { name: /Try this check on the requests of 7 days/ }).click();
        await page.getByRole('cell', { name: /stored: header 'x-other' was not kept/ }).waitFor();
        const { rows } = await client.query('SHOW CREATE TABLE checked');
        assert.match(JSON.stringify(rows), /x-token/);
        assert.doesNotMatch(JSON.stringify(rows), /x-other/);
      },
    );

    await t.test("the browser's Back restores scroll position and focus in the console", async () => {
      const many = Array.from(
        { length: 60 },
        (_, i) => `CREATE TABLE many_${i + 10} (data JSONB) WITH (connector = 'webhook')`,
      );
      for (const create of many) await client.query(create);
      await page.goto(`${base}#/dev/endpoints?sort=name`);
      const row = page.getByRole('link', { name: 'many_50' });
      await row.scrollIntoViewIfNeeded();
      const place = () =>
        page.evaluate<number[]>(
          `[Math.round(scrollY), Math.round(document.querySelector('main .scroll').scrollTop)]`,
        );
      await row.focus();
      const before = await place();
      assert(Math.max(...before) > 0);
      await page.keyboard.press('Enter');
      await page.getByRole('heading', { name: /many_50/ }).waitFor();
      await page.goBack();
      await within(10_000, async () => {
        assert.deepEqual(await place(), before);
        assert.equal(await page.evaluate('document.activeElement.textContent'), 'many_50');
      });
    });

    await t.test('all console pages and SQL results use one time zone', async () => {
      await page.goto(`${base}#/dev/sql`);
      await page.getByRole('button', { name: /^Time zone/ }).click();
      await page.getByLabel('Another time zone').fill('Asia/Nowhere');
      await page.getByText('No time zone has this name').waitFor();
      await page.getByLabel('Another time zone').fill('Asia/Kolkata');
      await page.keyboard.press('Enter');
      const sql = page.getByLabel('SQL', { exact: true });
      await sql.fill(`SELECT timestamptz '2026-01-01 00:00+00' AS at`);
      await page.keyboard.press('Control+Enter');
      await page.getByRole('cell', { name: '2026-01-01 05:30:00+05:30' }).waitFor();
      await chooseInMenu(page, /^Time zone Kolkata, UTC\+5:30/, /^UTC$/);
      await sql.focus();
      await page.keyboard.press('Control+Enter');
      await page.getByRole('cell', { name: '2026-01-01 00:00:00+00' }).waitFor();
      await page.goto(`${base}#/dev`);
      // They came a moment ago, perhaps in the hour before.
      const hours = [0, 3_600_000].map((ms) => new Date(Date.now() - ms).toISOString().slice(11, 14));
      await page
        .locator('.latest td', { hasText: new RegExp(hours.join('|')) })
        .first()
        .waitFor();
    });

    await t.test(
      "the console's page of rows uses the chosen time zone, and is reached from the request list",
      async () => {
        await client.query(`CREATE TABLE zoned (data JSONB) INCLUDE TIMESTAMP AS at WITH (connector = 'webhook');
        INSERT INTO zoned VALUES ('{"only":"in its row"}', '2026-01-01 00:00:00.000001+00')`);
        await page.goto(`${base}#/dev/requests?q=in+its+row`);
        await page.getByText('No request matches.').waitFor();
        await page.getByRole('link', { name: 'zoned', exact: true }).click();
        await page.getByRole('cell', { name: '2026-01-01 00:00:00.000001+00', exact: true }).waitFor();
        await holds(page, `document.title === 'zoned · Headgate'`);
        await page.getByRole('button', { name: /^Time zone/ }).click();
        await page.getByLabel('Another time zone').fill('Asia/Kolkata');
        await page.keyboard.press('Enter');
        await page.getByRole('cell', { name: '2026-01-01 05:30:00.000001+05:30', exact: true }).waitFor();
        await chooseInMenu(page, /^Time zone Kolkata, UTC\+5:30/, /^UTC$/);
        await page.getByRole('cell', { name: '2026-01-01 00:00:00.000001+00', exact: true }).waitFor();
        await client.query('DROP TABLE zoned');
      },
    );

    await t.test(
      "the console's events page offers no tables of schema headgate, and counts documents",
      async () => {
        await page.goto(`${base}#/dev/events`);
        await holds(page, `document.title === 'Events · Headgate'`);
        await page.getByRole('option', { name: 'charted' }).waitFor({ state: 'attached' });
        const { rows } = await client.query<{ relname: string }>(
          `SELECT relname FROM pg_class WHERE relnamespace = 'headgate'::regnamespace AND relkind = 'r'`,
        );
        const offered = await page.getByLabel('Table').locator('option').allTextContents();
        assert(rows.length > 0);
        assert.deepEqual(
          rows.filter(({ relname }) => offered.includes(relname)),
          [],
        );
        await page.getByLabel('Documents, one per line').fill('{"data":{"a":1}}');
        await page.getByText('1 document', { exact: true }).waitFor();
      },
    );

    await t.test('Ctrl K finds an endpoint in the console', async () => {
      await page.goto(`${base}#/dev/health`);
      await page.getByRole('heading', { name: 'Health' }).waitFor();
      await page.keyboard.press('Control+k');
      await page.getByRole('searchbox', { name: 'Jump to' }).fill('CHART');
      await page.getByRole('dialog').getByRole('link', { name: 'charted', exact: true }).waitFor();
      await page.keyboard.press('Enter');
      await page.getByRole('heading', { name: /charted/ }).waitFor();
      // What can be done with it, by arrows; and a request by its number.
      const found = page.getByRole('dialog').getByRole('link');
      await page.keyboard.press('Control+k');
      await page.getByRole('searchbox', { name: 'Jump to' }).fill('charted');
      await found.filter({ hasText: 'Refused requests of charted' }).waitFor();
      await page.keyboard.press('ArrowDown');
      await page.keyboard.press('ArrowDown');
      await page.keyboard.press('Enter');
      await holds(page, `location.hash === '#/dev/requests?result=refused&schema=public&table=charted'`);
      await page.keyboard.press('Control+k');
      await page.getByRole('searchbox', { name: 'Jump to' }).fill('1');
      await found.filter({ hasText: 'Request 1' }).click();
      await holds(page, `location.hash === '#/dev/requests/r1'`);
      // Escape closes it, also with a text in its field.
      await page.keyboard.press('Control+k');
      await page.getByRole('searchbox', { name: 'Jump to' }).fill('charted');
      await page.keyboard.press('Escape');
      await page.getByRole('dialog', { name: 'Jump to' }).waitFor({ state: 'hidden' });
    });

    await t.test('the console filters endpoints by sender, owner and schema, with counts', async () => {
      await client.query(`CREATE ROLE filterer; CREATE SECRET filtered_key WITH (backend = 'meta') AS 'k';
        CREATE SECRET clerk_key WITH (backend = 'meta') AS 'whsec_c2VjcmV0c2VjcmV0c2VjcmV0'; CREATE SECRET resend_key WITH (backend = 'meta') AS 'whsec_c2VjcmV0c2VjcmV0c2VjcmV0';
        CREATE TABLE of_github (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET filtered_key USING github;
        CREATE TABLE of_github_too (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET clerk_key, filtered_key USING github;
        CREATE TABLE of_clerk (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET clerk_key USING clerk;
        CREATE TABLE of_resend (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET resend_key USING resend;
        CREATE TABLE of_nobody (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET filtered_key AS secure_compare(headers ->> 'x-key', filtered_key);
        ALTER TABLE of_clerk OWNER TO filterer`);
      const names = page.locator('.wide-rows td.url b');
      const shown = (...wanted: string[]) =>
        within(15_000, async () =>
          assert.deepEqual((await names.allInnerTexts()).toSorted(), wanted.toSorted()),
        );
      await page.goto(`${base}#/dev/endpoints?sort=name`);
      await page.reload();
      await names.first().waitFor();
      await page.getByRole('button', { name: '+ Sender' }).click();
      const menu = page.locator('.menu');
      await menu.getByRole('button', { name: /^GitHub\s*2/ }).waitFor();
      await menu.getByRole('searchbox', { name: 'Find a sender' }).fill('cler');
      await menu.getByRole('button', { name: /^Clerk\s*1/ }).click();
      // They sign alike, and are told apart by the names of their secrets.
      await shown('of_clerk');
      assert.equal(hashOf(page), '#/dev/endpoints?sender=clerk&sort=name');
      await page.getByRole('button', { name: /^All\s*1$/ }).waitFor();
      await page.goBack();
      await page.getByRole('button', { name: '+ Sender' }).waitFor();
      await page.goto(`${base}#/dev/endpoints?sender=github`);
      await page.reload();
      await shown('of_github', 'of_github_too');
      await page.getByText('1 – 2 of 2').waitFor();
      await page.getByRole('searchbox', { name: 'Search endpoints' }).fill('too');
      await shown('of_github_too');
      assert.equal(hashOf(page), '#/dev/endpoints?q=too&sender=github');
      await page.goto(`${base}#/dev/endpoints?sender=own`);
      await page.reload();
      await shown('checked', 'of_nobody');
      await page.getByRole('button', { name: 'Clear Sender' }).click();
      await page.getByRole('button', { name: '+ Owner' }).click();
      await menu.getByRole('searchbox', { name: 'Find an owner' }).fill('FILT');
      await menu.getByRole('button', { name: /^filterer\s*1/ }).click();
      await shown('of_clerk');
      assert.equal(hashOf(page), '#/dev/endpoints?owner=filterer');
      assert.deepEqual(await serious(page), []);
      // By schema, and those to which nothing was sent.
      await client.query(
        `CREATE SCHEMA "o'fice"; CREATE TABLE "o'fice".hooks (data JSONB) WITH (connector = 'webhook')`,
      );
      await page.goto(`${base}#/dev/endpoints`);
      await page.reload();
      await page.getByRole('button', { name: '+ Schema' }).click();
      await menu.getByRole('searchbox', { name: 'Find a schema' }).fill('FIC');
      await menu.getByRole('button', { name: /^o'fice\s*1/ }).click();
      await shown("o'fice.hooks");
      await page.getByRole('button', { name: /^No request yet\s*1$/ }).click();
      await holds(page, `location.hash.startsWith('#/dev/endpoints?show=never&schema=o')`);
      await shown("o'fice.hooks");
      await page.goto(`${base}#/dev/endpoints?owner=filterer&sender=github`);
      await page.getByText('No endpoint matches.').waitFor();
      await page.getByRole('button', { name: 'Show all' }).click();
      await holds(page, `location.hash === '#/dev/endpoints'`);
      await names.first().waitFor();
    });

    await t.test("the console's page of secrets opens a secret only if the address names it", async () => {
      await client.query(`CREATE SECRET of_nothing WITH (backend = 'meta') AS 'k'`);
      await page.goto(`${base}#/dev/secrets?q=of_nothing`);
      await page.getByRole('heading', { name: 'of_nothing' }).waitFor();
      await page.goto(`${base}#/dev/secrets`);
      await page.reload();
      await page.getByRole('row', { name: /^of_nothing/ }).waitFor();
      assert.equal(await page.getByLabel('New value').count(), 0);
    });

    await t.test(
      'the console shows reasons with counts above refused requests, and a click narrows the list',
      async () => {
        await client.query(`CREATE TABLE reasoned (n SMALLINT) WITH (connector = 'webhook')`);
        assert.equal((await headgate.post('dev/public/reasoned', '{"n":70000}')).status, 422);
        // Refused requests are kept within a second.
        await within(10_000, async () => {
          const { rows } = await client.query(
            `SELECT FROM headgate.rejected_requests WHERE table_name = 'reasoned'`,
          );
          assert.equal(rows.length, 1);
        });
        await page.goto(`${base}#/dev/requests?result=refused`);
        await page.reload();
        const reasons = page.getByRole('group', { name: 'Reasons' });
        await reasons.getByRole('button', { name: /^reasoned .* 1$/ }).waitFor();
        await reasons.getByRole('button', { name: /^charted .* 1$/ }).click();
        await holds(page, `/result=refused&schema=public&table=charted&code=\\w+/.test(location.hash)`);
        await within(10_000, async () => assert.equal(await page.locator('.lines .line').count(), 1));
        // Of a list that is narrowed already their counts would say something else.
        assert.equal(await reasons.count(), 0);
      },
    );

    await t.test('the console on a phone has tabs below and no horizontal scrolling', async () => {
      await page.setViewportSize({ width: 390, height: 844 });
      for (const place of [
        '',
        'endpoints',
        'endpoint/public/charted',
        'sql',
        'new',
        'new/stripe',
        'new/hmac',
        'secrets',
      ]) {
        await page.goto(`${base}#/dev/${place}`);
        await holds(page, `document.querySelector('.skeleton') === null`);
        const wide = await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth');
        assert(wide <= 0, `${place} is ${wide} px wider than a phone`);
        const cut = await page.evaluate<string[]>(
          `[...document.querySelectorAll('.lines .line .to, [role=tablist]')].filter((it) => it.scrollWidth > it.clientWidth).map((it) => it.textContent)`,
        );
        assert.deepEqual(cut, [], place);
      }
      // Names, senders and times of the endpoints do not lie over each other.
      await client.query(`CREATE SECRET phoned WITH (backend = 'meta') AS 'k';
        CREATE TABLE catalogue_import_from_the_old_warehouse_nightly_snapshot_v2 (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET phoned USING bearer`);
      await page.goto(`${base}#/dev/endpoints?q=catalogue`);
      await page.getByText('catalogue_impor…tly_snapshot_v2').waitFor();
      await page.getByText('Bearer token').waitFor();
      assert.deepEqual(
        await overlapping(page, '.wide-rows b, .wide-rows .sender, .wide-rows td:nth-child(4)'),
        [],
      );
      // The filters of the list are in a sheet, which the keyboard opens and closes, too.
      await page.goto(`${base}#/dev/requests?code=body_not_json`);
      await page.locator('.lines .line', { hasText: 'charted' }).waitFor();
      const filters = page.getByRole('button', { name: 'Filters' });
      assert.match(await filters.innerText(), /1$/);
      await page.keyboard.press('f');
      const sheet = page.getByRole('dialog', { name: 'Filters' });
      await sheet.getByRole('button', { name: 'Show 1', exact: true }).waitFor();
      await page.keyboard.press('Escape');
      await sheet.waitFor({ state: 'hidden' });
      await filters.click();
      await sheet.getByRole('button', { name: '+ Endpoint' }).click();
      await sheet.getByRole('searchbox', { name: 'Find an endpoint' }).fill('many_50');
      await sheet.getByRole('button', { name: 'many_50' }).click();
      await sheet.getByRole('button', { name: 'Show 0', exact: true }).click();
      await page.getByText('No request matches.').waitFor();
      await filters.click();
      assert.deepEqual(await serious(page), []);
      await sheet.getByRole('button', { name: 'Clear all' }).click();
      await sheet.getByRole('button', { name: /^Show \d/ }).click();
      await page.locator('.lines .line').first().waitFor();
      assert.equal(hashOf(page), '#/dev/requests');
      await page.getByRole('button', { name: 'More' }).click();
      await page.getByRole('link', { name: 'Health' }).click();
      await page.getByRole('heading', { name: 'Health' }).waitFor();
      assert.deepEqual(await serious(page), []);
    });
    assert.deepEqual(complaints, []);
  });
});
