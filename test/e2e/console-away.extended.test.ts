/** What the console shows while the database or Headgate is away: true at each moment, and right again by itself. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Page } from 'playwright-core';
import { limits } from '../../src/config/limits.ts';
import { ask, openBrowser, openConsole, openPage, post } from '../support/console.ts';
import { startHeadgate } from '../support/headgate.ts';
import { MortalServer } from '../support/mortal-server.ts';
import { sampleOf } from '../support/sample.ts';
import { requireBrowser } from '../support/tools.ts';
import { within } from '../support/within.ts';

/** Whether the bar above live requests says this; the answers of the listener say what is true. */
async function says(page: Page, wanted: RegExp): Promise<void> {
  await within(20_000, async () =>
    assert.match((await page.locator('.latest [role=status]').innerText()).trim(), wanted),
  );
}

const green = (page: Page): Promise<number> => page.locator('.latest .dot.on').count();

suite('the console survives outages', () => {
  test('the console reports that the database or Headgate is away, keeps its content and recovers by itself', async (t) => {
    const chromium = requireBrowser(t);
    if (chromium === null) return;
    const server = await MortalServer.start(t);
    const headgate = await startHeadgate(t, { env: { HEADGATE_DATABASE_URL: server.databaseUrl } });
    const root = await headgate.client(t, 'postgres');
    await root.query(`CREATE ROLE alice LOGIN; GRANT CREATE ON SCHEMA public TO alice; SET ROLE alice;
      CREATE TABLE seen (data JSONB) WITH (connector = 'webhook'); RESET ROLE`);
    const { page, complaints } = await openPage(await openBrowser(t, chromium, 'attacker.example'));
    await page.goto(`${headgate.adminUrl}/console/`);
    await page.getByLabel('Role').fill('alice');
    await page.getByRole('button', { name: 'Log in' }).click();
    // Nothing has arrived yet.
    await page.getByText('No requests yet').waitFor();
    await says(page, /^live$/);
    const send = () => headgate.post('postgres/public/seen', '{"a":1}');
    const lines = (status: number) => page.locator('.latest td .badge', { hasText: String(status) });
    let refused = 0;
    const outages: readonly (readonly [() => Promise<void>, () => Promise<void>])[] = [
      [() => server.kill(), () => server.start()],
      [() => server.signal('SIGSTOP'), () => server.signal('SIGCONT')],
    ];
    for (const [away, back] of sampleOf(outages, 1)) {
      await within(30_000, async () => assert.equal((await send()).status, 200));
      await away();
      await within(30_000, async () =>
        assert.equal((await ask(headgate.ports.admin.port, '/readyz')).status, 503),
      );
      await says(page, /live, but the database is away/);
      assert.equal(await green(page), 0);
      await page
        .getByText(/The database does not answer since \d\d:\d\d:\d\d\..*You see the last known state/)
        .waitFor();
      for (let i = 0; i < 3; i++) assert.equal((await send()).status, 503);
      // What a card lacks meanwhile is no mistake of anybody's: amber, without a code.
      await page.getByText('Not available now: this needs the database.').first().waitFor();
      assert.equal(await page.locator('main .wrong').count(), 0);
      // What needs the database says so.
      const create = page.getByRole('button', { name: 'New endpoint' });
      assert.equal(await create.isDisabled(), true);
      assert.equal(await create.getAttribute('title'), 'Not available now. The database does not answer.');
      await page.getByText('What creates or changes something needs the database.').waitFor();
      refused += 3;
      // What senders get meanwhile is seen meanwhile.
      await within(15_000, async () => assert((await lines(503).count()) >= refused));
      await back();
      await within(30_000, async () =>
        assert.equal((await ask(headgate.ports.admin.port, '/readyz')).status, 200),
      );
      await says(page, /^live/);
      await page.getByText('you see the last known state').waitFor({ state: 'detached' });
      await page.getByRole('link', { name: 'New endpoint' }).waitFor();
      assert.equal(await create.count(), 0);
      // A page that is opened later shows it, too.
      await page.reload();
      await within(15_000, async () => assert((await lines(503).count()) >= refused));
    }
    await server.restart();
    await within(30_000, async () => assert.equal((await send()).status, 200));
    await says(page, /^live/);
    await within(10_000, async () => assert.equal(await green(page), 1));
    // The session ends elsewhere.
    const token = await page.evaluate<string>(`sessionStorage.getItem('headgate-token')`);
    await post(headgate.ports.admin.port, 'logout', {}, token);
    await page.getByText('The session has ended.').waitFor();
    await page.getByLabel('Role').fill('alice');
    await page.getByRole('button', { name: 'Log in' }).click();
    await says(page, /^live$/);
    headgate.child.kill('SIGSTOP');
    await says(page, /not connected, retrying/);
    await page.getByText(/Headgate does not answer since \d\d:\d\d:\d\d/).waitFor();
    headgate.child.kill('SIGCONT');
    await says(page, /^live$/);
    await page.getByText('you see the last known state').waitFor({ state: 'detached' });
    headgate.child.kill('SIGTERM');
    await headgate.ended;
    await says(page, /not connected, retrying/);
    assert.equal(await green(page), 0);
    // Sessions end with it. After the next start a login leads back to where the tab was.
    const { dataDir, ports } = headgate;
    const env = { HEADGATE_DATABASE_URL: server.databaseUrl };
    await startHeadgate(t, { dataDir, env, args: [`--admin-port=${ports.admin.port}`] });
    await page.getByText('The session has ended.').waitFor();
    await page.getByLabel('Role').fill('alice');
    await page.getByRole('button', { name: 'Log in' }).click();
    await says(page, /^live$/);
    await page.getByText('you see the last known state').waitFor({ state: 'detached' });
    assert.deepEqual(complaints, []);
  });

  test('a view that too many statements of its role keep out appears once they end', async (t) => {
    const chromium = requireBrowser(t);
    if (chromium === null) return;
    const headgate = await startHeadgate(t);
    const root = await headgate.client(t, 'dev');
    await root.query(`CREATE TABLE seen (data JSONB) WITH (connector = 'webhook')`);
    const { page, complaints } = await openConsole(t, headgate, chromium);
    const token = await page.evaluate<string>(`sessionStorage.getItem('headgate-token')`);
    const { port } = headgate.ports.admin;
    await page.goto(`${headgate.adminUrl}/console/#/dev/endpoint/public/seen`);
    const definition = page.getByRole('tab', { name: 'Definition' });
    await definition.waitFor();
    const sleeping: Promise<unknown>[] = [];
    const sleepers = "pg_stat_activity WHERE query LIKE '%pg_sleep(8), 4711' AND state = 'active'";
    const sleep = { sql: 'SELECT pg_sleep(8), 4711', write: false };
    await within(15_000, async () => {
      const { rowCount } = await root.query(`SELECT FROM ${sleepers}`);
      for (let i = rowCount ?? 0; i < limits.consoleRoleStatementsMax; i++)
        sleeping.push(post(port, 'sql', sleep, token));
      assert.equal(rowCount, limits.consoleRoleStatementsMax);
    });
    await definition.click();
    await page.locator('main').getByText('too many requests are in flight').first().waitFor();
    await root.query(`SELECT pg_cancel_backend(pid) FROM ${sleepers}`);
    await Promise.all(sleeping);
    await page.getByText('CREATE TABLE public.seen').waitFor();
    assert.deepEqual(complaints, []);
  });
});
