/** What the console says to a role that may do little, and to one that looks at one database of several. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { openBrowser, openConsole, openPage } from '../support/console.ts';
import { startHeadgate } from '../support/headgate.ts';
import { MortalServer } from '../support/mortal-server.ts';
import { requireBrowser } from '../support/tools.ts';

suite('the console says what a role can see and do', () => {
  test('a role without rights is told that it sees nothing of others, and is offered no endpoint', async (t) => {
    const chromium = requireBrowser(t);
    if (chromium === null) return;
    const server = await MortalServer.start(t);
    const headgate = await startHeadgate(t, { env: { HEADGATE_DATABASE_URL: server.databaseUrl } });
    const root = await headgate.client(t, 'postgres');
    await root.query(`CREATE ROLE bob LOGIN; CREATE TABLE hooks (n INT) WITH (connector = 'webhook')`);
    assert.equal((await headgate.post('postgres/public/hooks', '{"n":"x"}')).status, 422);
    const { page, complaints } = await openPage(await openBrowser(t, chromium, 'attacker.example'));
    const base = `${headgate.adminUrl}/console/`;
    await page.goto(base);
    await page.getByLabel('Role').fill('bob');
    await page.getByLabel('Password').fill('any');
    await page.getByRole('button', { name: 'Log in' }).click();
    await page.getByRole('heading', { name: 'You have no endpoint in this database.' }).waitFor();
    await page.getByText('Role bob may not create tables in this database').waitFor();
    assert.equal(await page.getByText(/Nothing has been received yet|Nothing was refused\./).count(), 0);
    assert.equal(await page.getByLabel('New endpoint').count(), 0);
    for (const width of [390, 1280]) {
      await page.setViewportSize({ width, height: 860 });
      assert.equal(await page.evaluate<number>('document.documentElement.scrollWidth'), width);
    }
    await page.goto(`${base}#/postgres/new/anything`);
    await page.getByText(/Role bob may not create tables/).waitFor();
    assert.equal(await page.getByRole('button').filter({ hasText: 'endpoint' }).count(), 0);
    assert.equal(await page.locator('.wizard .step').count(), 0);
    await page.goto(`${base}#/postgres/health`);
    await page.getByText('Of all databases and roles together').waitFor();
    // With what the page names, he can.
    await root.query('GRANT CREATE ON SCHEMA public TO bob');
    await page.goto(`${base}#/postgres/new/anything`);
    await page.reload();
    await page.getByRole('button', { name: 'Create the endpoint' }).click();
    await page.getByText(/Nothing has arrived at/).waitFor();
    assert.deepEqual(complaints, []);
  });

  test('the list of a database leaves out requests to addresses of another one', async (t) => {
    const chromium = requireBrowser(t);
    if (chromium === null) return;
    const headgate = await startHeadgate(t);
    const root = await headgate.client(t);
    await root.query('CREATE DATABASE shop');
    const shop = await headgate.client(t, 'shop');
    await shop.query(`CREATE TABLE hooks (data JSONB) WITH (connector = 'webhook')`);
    assert.equal((await headgate.post('dev/public/of_dev', '{}')).status, 404);
    assert.equal((await headgate.post('shop/public/of_shop', '{}')).status, 404);
    assert.equal((await headgate.post('shopp/public/of_none', '{}')).status, 404);
    const { page } = await openConsole(t, headgate, chromium);
    const lines = page.locator('.lines .line');
    for (const [database, other] of [
      ['shop', 'dev'],
      ['dev', 'shop'],
    ] as const) {
      await page.goto(`${headgate.adminUrl}/console/#/${database}/requests`);
      await lines.filter({ hasText: `No endpoint at …/of_${database}` }).waitFor();
      await lines.filter({ hasText: 'No endpoint at …/of_none' }).waitFor();
      assert.equal(await lines.filter({ hasText: `of_${other}` }).count(), 0);
      await page.getByRole('button', { name: /^Refused 2/ }).waitFor();
    }
  });

  test('the wizard says after a refusal that nothing was accepted, not that nothing has arrived', async (t) => {
    const chromium = requireBrowser(t);
    if (chromium === null) return;
    const headgate = await startHeadgate(t);
    const root = await headgate.client(t);
    await root.query(`CREATE SECRET gitlab_events_secret WITH (backend = 'meta') AS 'right';
      CREATE TABLE gitlab_events (data JSONB) INCLUDE TIMESTAMP AS received_at WITH (connector = 'webhook') VALIDATE SECRET gitlab_events_secret USING gitlab`);
    const { page } = await openConsole(t, headgate, chromium);
    await page.goto(`${headgate.adminUrl}/console/#/dev/new/gitlab?table=gitlab_events`);
    await page.getByText('Nothing has arrived at').waitFor();
    assert.equal((await headgate.post('dev/public/gitlab_events', '{}')).status, 401);
    await page.getByText('Nothing has been accepted at').waitFor();
    assert.equal(await page.getByText('Nothing has arrived').count(), 0);
  });
});
