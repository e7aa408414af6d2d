/** Colours, counts and search in the console: what is right is counted by PostgreSQL, or was answered by the listener. */
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { suite, test } from 'node:test';
import { openBrowser, openConsole, openPage } from '../support/console.ts';
import { startHeadgate } from '../support/headgate.ts';
import { MortalServer } from '../support/mortal-server.ts';
import { asked } from '../support/asked.ts';
import { spoolOpened } from '../support/spool-opened.ts';
import { requireBrowser } from '../support/tools.ts';
import { within } from '../support/within.ts';

suite('the console shows right colours, counts and search results', () => {
  test('the console does not show a 202, a handshake or a repetition as a refusal', async (t) => {
    const chromium = requireBrowser(t);
    if (chromium === null) return;
    const server = await MortalServer.start(t);
    const headgate = await startHeadgate(t, { env: { HEADGATE_DATABASE_URL: server.databaseUrl } });
    const client = await headgate.client(t, 'postgres');
    await client.query(`CREATE SECRET k WITH (backend = 'meta') AS 'the key';
      CREATE TABLE held (data JSONB) WITH (connector = 'webhook', spool = 'fallback');
      CREATE TABLE asked (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET k USING slack;
      CREATE TABLE once (data JSONB) INCLUDE HEADER 'x-id' AS id WITH (connector = 'webhook', dedupe = 'header:x-id')`);
    const { page } = await openPage(await openBrowser(t, chromium, 'attacker.example'));
    await page.goto(`${headgate.adminUrl}/console/`);
    await page.getByLabel('Role').fill('root');
    await page.getByRole('button', { name: 'Log in' }).click();
    await page.locator('.latest .dot.on').waitFor();
    // As Slack documents its handshake and its signature.
    const question = '{"type":"url_verification","challenge":"told"}';
    const time = String(Math.floor(Date.now() / 1_000));
    const signature = createHmac('sha256', 'the key').update(`v0:${time}:${question}`).digest('hex');
    const handshake = await headgate.post('postgres/public/asked', question, {
      'x-slack-request-timestamp': time,
      'x-slack-signature': `v0=${signature}`,
    });
    assert.deepEqual([handshake.status, handshake.text], [200, 'told']);
    await page.locator('.latest tr', { hasText: 'Handshake answered' }).first().waitFor();
    const sent: number[] = [];
    for (let i = 0; i < 2; i++)
      sent.push((await headgate.post('postgres/public/once', '{"a":1}', { 'x-id': '1' })).status);
    const { rows } = await client.query('SELECT FROM once');
    assert.deepEqual([sent, rows.length], [[200, 200], 1]);
    await page.locator('.latest tr', { hasText: 'No new row' }).first().waitFor();
    const { text } = await asked(`${headgate.adminUrl}/metrics`);
    assert.equal(/^headgate_rows_total\{.*table="once"\} (\d+)$/m.exec(text)?.[1], `${rows.length}`);
    assert.equal((await headgate.post('postgres/public/held', '{"a":1}')).status, 200);
    await spoolOpened(headgate.dataDir, 'postgres');
    await server.kill();
    await within(20_000, async () =>
      assert.equal((await headgate.post('postgres/public/held', '{"a":1}')).status, 202),
    );
    await page.locator('.latest tr', { hasText: 'Kept on disk' }).first().waitFor();
    assert.equal(await page.locator('.latest .badge.bad').count(), 0);
    assert.equal((await page.locator('.latest .badge.info', { hasText: '202' }).count()) > 0, true);
    await page.locator('.latest').getByRole('link', { name: 'All requests' }).click();
    await page.getByRole('button', { name: /^Refused\b/ }).click();
    await page.getByText('No request matches.').waitFor();
    await server.start();
  });

  test('the console finds the last of 600 tables and counts all', async (t) => {
    const chromium = requireBrowser(t);
    if (chromium === null) return;
    const headgate = await startHeadgate(t);
    const client = await headgate.client(t);
    for (const name of ['t_000', 't_599', `"zz'""%_"`])
      await client.query(`CREATE TABLE ${name} (data JSONB) WITH (connector = 'webhook')`);
    // The console reads what the catalog has; so many statements would take a minute.
    await client.query(`DO $$ BEGIN FOR i IN 1..598 LOOP EXECUTE format('CREATE TABLE t_%s (data JSONB)', lpad(i::text, 3, '0')); END LOOP; END $$;
      INSERT INTO headgate.webhook_table SELECT (jsonb_populate_record(w, jsonb_build_object('relation', 't_' || lpad(i::text, 3, '0')))).*
      FROM headgate.webhook_table w, generate_series(1, 598) i WHERE w.relation = 't_000'::regclass`);
    const { rows } = await client.query<{ n: string }>('SELECT count(*) AS n FROM headgate.webhook_table');
    const { page, complaints } = await openConsole(t, headgate, chromium);
    await page.getByText(`${rows[0]?.n} endpoints`, { exact: true }).waitFor();
    await page.goto(`${headgate.adminUrl}/console/#/endpoints`);
    await page.getByText('1 – 50 of 601').waitFor();
    await page.getByRole('link', { name: 't_000' }).waitFor();
    await page.getByRole('button', { name: 'Next' }).click();
    await page.getByText('51 – 100 of 601').waitFor();
    await page.getByRole('link', { name: 't_050' }).waitFor();
    await page.goBack();
    await page.getByRole('link', { name: 't_000' }).waitFor();
    await page.goto(`${headgate.adminUrl}/console/#/dev/endpoints?page=12`);
    await page.getByRole('link', { name: `zz'"%_` }).waitFor();
    await page.getByRole('button', { name: 'Next' }).isDisabled();
    await page.goto(`${headgate.adminUrl}/console/#/dev/endpoints`);
    const search = page.getByRole('searchbox', { name: 'Search endpoints' });
    await search.fill('T_599');
    await page.getByRole('link', { name: 't_599' }).waitFor();
    await page.getByText('1 – 1 of 1').waitFor();
    await search.fill(`'"%_`);
    await page.getByRole('link', { name: `zz'"%_` }).waitFor();
    await page.getByText('1 – 1 of 1').waitFor();
    await search.fill('nothing');
    await page.getByText('No endpoint matches').waitFor();
    // Values that do not fit one column are one reason, which needs somebody.
    await client.query(`CREATE TABLE amounts (n INT) WITH (connector = 'webhook')`);
    await client.query(`CREATE TABLE " " (n INT) WITH (connector = 'webhook')`);
    for (let i = 0; i < 4; i++)
      assert.equal((await headgate.post('dev/public/amounts', `{"n":"x${i}"}`)).status, 422);
    assert.equal((await headgate.post('dev/public/amounts', '{"n":1}')).status, 200);
    await page.goto(`${headgate.adminUrl}/console/#/`);
    const reasons = page.locator('.list li', { hasText: 'Column n does not fit' });
    await reasons.getByText('4', { exact: true }).waitFor();
    assert.equal(await reasons.count(), 1);
    await page
      .getByText('4 of 5 requests of the last hour were refused: Column n does not fit (4).')
      .waitFor({ timeout: 45_000 });
    await page.goto(`${headgate.adminUrl}/console/#/endpoints`);
    await page.getByRole('row', { name: /amounts.*4 of 5 refused/ }).waitFor();
    await page.getByRole('link', { name: '" "', exact: true }).waitFor();
    // Before ANALYZE, too.
    await page.goto(`${headgate.adminUrl}/console/#/sql`);
    await page.getByPlaceholder('Table or column').fill('amounts');
    await page.locator('summary', { hasText: /^\s*amounts\s*≈ 1$/ }).waitFor();
    await page.getByPlaceholder('Table or column').fill('');
    // Its lines are seen as they arrive, too.
    assert.equal((await headgate.post('dev/public/t_599', '{"a":1}')).status, 200);
    await page.goto(`${headgate.adminUrl}/console/#/`);
    await page.locator('.latest tr', { hasText: 't_599' }).waitFor();
    assert.deepEqual(complaints, []);
  });
});
