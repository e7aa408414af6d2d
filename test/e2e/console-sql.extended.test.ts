/** The statements that stand side by side on the console's SQL page, in a real Chromium. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { chooseTheme, openConsole } from '../support/console.ts';
import { holds, serious } from '../support/console-walk.ts';
import { startHeadgate } from '../support/headgate.ts';
import { requireBrowser } from '../support/tools.ts';

suite("the console's SQL page works in Chromium", () => {
  test("the console's SQL page holds several statements in tabs", async (t) => {
    const chromium = requireBrowser(t);
    if (chromium === null) return;
    const headgate = await startHeadgate(t);
    const { page, complaints } = await openConsole(t, headgate, chromium);
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    const base = `${headgate.adminUrl}/console/#/dev/sql`;
    await page.goto(base);
    const sql = page.getByLabel('SQL', { exact: true });
    const tab = (name: string | RegExp) => page.getByRole('tab', { name });
    const cell = (name: string) => page.getByRole('cell', { name, exact: true });
    const add = page.getByRole('button', { name: 'New statement' });
    const names = () =>
      page.evaluate<string[]>(
        `[...document.querySelectorAll('[role=tab]')].map((it) => it.firstChild.textContent)`,
      );
    const shows = (text: string) =>
      holds(page, `document.querySelector('.sql-field textarea').value === ${JSON.stringify(text)}`);
    const run = async (text: string): Promise<void> => {
      await sql.fill(text);
      await page.keyboard.press('Control+Enter');
    };

    await t.test(
      "each tab of the console's SQL page has its own text, result and write switch, and runs in the background",
      async () => {
        await run(`SELECT 'one'`);
        await cell('one').waitFor();
        await page.getByLabel('may write').check();
        await add.click();
        await page.locator('.sql-field textarea:focus').waitFor();
        await shows('');
        assert.equal(await page.getByLabel('may write').isChecked(), false);
        await page.keyboard.type(`SELECT pg_sleep(1), 'slow'`);
        await page.keyboard.press('Control+Enter');
        await page.getByText('Running …').waitFor();
        await tab('Statement 1').click();
        await shows(`SELECT 'one'`);
        await cell('one').waitFor();
        assert.equal(await page.getByLabel('may write').isChecked(), true);
        await tab('Statement 2').click();
        await cell('slow').waitFor();
        assert.deepEqual(await serious(page), []);
      },
    );

    await t.test(
      "tabs of the console's SQL page are switched, renamed and closed by keyboard, and a closed one reopened",
      async () => {
        await sql.click();
        await page.keyboard.press('Alt+PageUp');
        await shows(`SELECT 'one'`);
        await page.locator('.sql-field textarea:focus').waitFor();
        await tab('Statement 1').focus();
        await page.keyboard.press('ArrowRight');
        await page.locator('[role=tab][aria-selected=true]:focus', { hasText: 'Statement 2' }).waitFor();
        await page.keyboard.press('F2');
        await page.getByLabel('Name of this tab').fill('Revenue by hour');
        await page.keyboard.press('Enter');
        await page.locator('[role=tab]:focus', { hasText: 'Revenue by hour' }).waitFor();
        await page.keyboard.press('F2');
        await page.getByLabel('Name of this tab').fill('another name');
        await page.keyboard.press('Escape');
        assert.deepEqual(await names(), ['Statement 1', 'Revenue by hour']);
        await page.locator('[role=tab]:focus').waitFor();
        await page.keyboard.press('Delete');
        await shows(`SELECT 'one'`);
        await page.getByRole('button', { name: 'Reopen Revenue by hour' }).click();
        await shows(`SELECT pg_sleep(1), 'slow'`);
        // Its result is gone with it.
        assert.equal(await cell('slow').count(), 0);
      },
    );

    await t.test("the console's SQL page formats a statement, and Ctrl Z undoes it", async () => {
      const long = `SELECT relname, relkind, '  <b>  ' AS "x" FROM pg_class WHERE relname = 'pg_class' ORDER BY 1`;
      await sql.fill(long);
      await page.getByRole('button', { name: 'Format' }).click();
      await shows(
        `SELECT relname,\n       relkind,\n       '  <b>  ' AS "x"\nFROM pg_class\nWHERE relname = 'pg_class'\nORDER BY 1`,
      );
      await page.locator('.sql-field textarea:focus').waitFor();
      await page.keyboard.press('Control+Enter');
      await cell('<b>').waitFor();
      await page.keyboard.press('Control+z');
      await shows(long);
    });

    await t.test(
      "a saved statement of the console's SQL page has its name, and a mark once it is changed",
      async () => {
        await sql.fill('SELECT 3');
        await page.getByRole('button', { name: 'Save …' }).click();
        await page.keyboard.press('Enter');
        await page.getByText('Saved in this browser.').waitFor();
        assert.equal(await tab(/changed/).count(), 0);
        await sql.fill('SELECT 33');
        await tab(/^Revenue by hour.*changed since it was saved/).waitFor();
        // From the list it opens beside the changed one.
        await page.getByRole('button', { name: /^Saved/ }).click();
        await page.getByRole('button', { name: 'Revenue by hour', exact: true }).click();
        await shows('SELECT 3');
        assert.deepEqual(await names(), ['Statement 1', 'Revenue by hour', 'Revenue by hour']);
        await page.getByTitle('Close', { exact: true }).click();
        await shows('SELECT 33');
      },
    );

    await t.test(
      "a reload keeps the tabs of the console's SQL page, except statements that may hold a secret",
      async () => {
        await add.click();
        await sql.fill(`CREATE SECRET x WITH (backend = 'meta') AS 'never remember me'`);
        await tab('Statement 1').click();
        await page.reload();
        await shows(`SELECT 'one'`);
        assert.deepEqual(await names(), ['Statement 1', 'Revenue by hour', 'Statement 2']);
        await tab('Statement 2').click();
        await shows('');
        assert.doesNotMatch(
          await page.evaluate<string>('JSON.stringify([{ ...localStorage }, { ...sessionStorage }])'),
          /never remember me/,
        );
        await page.keyboard.press('Delete');
      },
    );

    await t.test(
      "an address with a statement opens a tab of the console's SQL page, and its draft survives a reload",
      async () => {
        const address = `${base}?sql=${encodeURIComponent('DROP TABLE x')}`;
        await page.goto(address);
        await shows('DROP TABLE x');
        assert.equal((await names()).length, 3);
        assert.equal(await page.getByLabel('may write').isChecked(), false);
        await page.getByRole('button', { name: 'Share' }).click();
        await page.getByRole('button', { name: /^Copy address/ }).click();
        await page.getByText('Copied').waitFor();
        const copied = await page.evaluate<string>('navigator.clipboard.readText()');
        assert.equal(new URLSearchParams(copied.split('?')[1]).get('sql'), 'DROP TABLE x');
        await sql.fill('DROP TABLE y');
        await page.reload();
        await shows('DROP TABLE y');
        await page.goto(base);
        await page.goto(address);
        await shows('DROP TABLE x');
        assert.equal((await names()).length, 4);
      },
    );

    await t.test(
      "the console's SQL page has at most 12 tabs, and a tab that was displaced can be reopened",
      async () => {
        while (await add.isEnabled()) {
          const before = await page.getByRole('tab').count();
          await add.click();
          await holds(page, `document.querySelectorAll('[role=tab]').length === ${before + 1}`);
          await sql.fill(`SELECT ${before}`);
        }
        assert.equal(await page.getByRole('tab').count(), 12);
        await page.goto(`${base}?sql=SELECT%20'beyond'`);
        await shows(`SELECT 'beyond'`);
        assert.equal(await page.getByRole('tab').count(), 12);
        await page.getByTitle('Close', { exact: true }).click();
        await page.getByRole('button', { name: 'Reopen' }).waitFor();
        await chooseTheme(page, 'dark');
        assert.deepEqual(await serious(page), []);
        await page.setViewportSize({ width: 390, height: 844 });
        await holds(page, 'document.documentElement.scrollWidth <= innerWidth');
      },
    );
    assert.deepEqual(complaints, []);
  });
});
