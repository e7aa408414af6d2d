/** The console as somebody uses it for the first time, in a real Chromium, and as somebody attacks it. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import type { Page } from 'playwright-core';
import { consoleLink, cli, openBrowser, openPage } from '../support/console.ts';
import type { Watched } from '../support/console.ts';
import { startHeadgate } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { run } from '../support/run.ts';
import { requireTool } from '../support/tools.ts';
import { within } from '../support/within.ts';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const rebound = 'headgate.attacker.example';
const places = [
  '',
  'endpoints',
  'refused',
  'sql',
  'secrets',
  'health',
  'new',
  'new/github',
  'new/anything',
  'nowhere',
];

interface Tried extends Watched {
  readonly headgate: Headgate;
  readonly base: string;
  readonly open: (place: string) => Promise<void>;
}

interface Violation {
  readonly id: string;
  readonly impact: string;
  readonly nodes: readonly { readonly html: string }[];
}

/** Waits until this is true in the page, whose policy lets no text become code but the debugger's. */
async function holds(page: Page, expression: string): Promise<void> {
  await within(15_000, async () => assert.equal(await page.evaluate(expression), true, expression));
}

/** Serious findings of axe on what is shown. */
async function serious(page: Page): Promise<string[]> {
  // Past the page's own policy, which allows no script but its own.
  await page.evaluate(axe);
  const found = await page.evaluate<readonly Violation[]>('axe.run().then(({ violations }) => violations)');
  return found
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html.slice(0, 160)).join(' | ')}`);
}

const send = (secret: string, url: string) =>
  run(process.execPath, [cli, 'send', 'github', '--url', url, '--secret', secret]);

async function entersOnce({ headgate, page, base, complaints }: Tried): Promise<void> {
  const link = await consoleLink(headgate);
  assert(link.startsWith(`${base}#t=`), link);
  await page.goto(link);
  await page.getByRole('heading', { name: 'No endpoint yet' }).waitFor();
  assert.equal(new URL(page.url()).hash, '#/');
  assert.deepEqual(await page.context().cookies(), []);
  const other = await page.context().browser()?.newContext();
  const second = await other?.newPage();
  await second?.goto(link);
  await second?.getByText('This link has been used').waitFor();
  assert.doesNotMatch(second?.url() ?? '', /t=/);
  await other?.close();
  assert.deepEqual(complaints, []);
}

async function makesAnEndpoint({ headgate, page, open }: Tried): Promise<void> {
  await open('new');
  await page.getByRole('searchbox', { name: 'Search senders' }).fill('github');
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: 'Generate' }).click();
  await holds(page, `document.querySelector('[name=secret]').value.length === 48`);
  await page.locator('[name=secret]').fill('right key');
  const shown = await page.locator('.code pre').first().innerText();
  assert.match(shown, /CREATE SECRET github_secret[^]*'\*{8}'[^]*VALIDATE SECRET github_secret USING github/);
  await page.getByRole('button', { name: 'Create' }).click();
  await page.getByText('Waiting for the first request').waitFor();
  const sent = await send('right key', `${headgate.webhookUrl}/dev/public/github_events`);
  assert.equal(sent.code, 0, sent.stdout);
  await page.getByText(/Committed in [\d.]+ ms/).waitFor();
  await page.getByText('"octocat"').waitFor();
  await page.getByRole('button', { name: 'Send a test request' }).click();
  await page.getByText('Answered 200').waitFor();
}

async function explainsAndRetries({ headgate, page, open }: Tried): Promise<void> {
  await open('endpoint/public/github_events/live');
  await send('forged key', `${headgate.webhookUrl}/dev/public/github_events`);
  await page.getByRole('cell', { name: 'signature_failed' }).waitFor();
  await page.getByRole('tab', { name: 'Refused' }).click();
  await page.getByRole('link', { name: /the signature differs/ }).click();
  await page.getByText('VALIDATE did not accept it').waitFor();
  await page.getByLabel('x-hub-signature-256').fill(`sha256=${'0'.repeat(64)}`);
  await page.getByRole('button', { name: 'Explain' }).click();
  await page.locator('.steps li.bad').first().waitFor();
  assert.doesNotMatch(await page.locator('.steps').innerText(), /right key/);
  const request = page.url();
  await open('secrets');
  await page.getByRole('button', { name: 'Change' }).click();
  await page.getByLabel('New value').fill('forged key');
  await page.getByRole('button', { name: 'Set it' }).click();
  await page.getByRole('button', { name: /will be refused\. Set it\?/ }).click();
  await holds(page, `document.querySelector('[type=password]').value === ''`);
  const sent = await send('forged key', `${headgate.webhookUrl}/dev/public/github_events`);
  assert.match(sent.stdout, /HTTP 200/);
  await page.goto(request);
  await page.getByRole('button', { name: 'Store it unchecked' }).waitFor();
  await page.keyboard.press('r');
  await page.getByRole('button', { name: /is not checked\. Store it\?/ }).click();
  await page.getByText('Tried again:').waitFor();
  await page.locator('.badge.good', { hasText: 'committed' }).waitFor();
}

const strange = '"><img src=x onerror=globalThis.xss=1><script>globalThis.xss=1</script>\u202e\u200b';
const digits = ['12345678901234567890', '10.00', '1e400'];

/** Payloads, names and header values of somebody who wants to run a script in the owner's browser. */
async function staysText({ headgate, page, open }: Tried, t: TestContext): Promise<void> {
  const client = await headgate.client(t);
  const name = `x${strange}`.slice(0, 60);
  const quoted = `"${name.replaceAll('"', '""')}"`;
  await client.query(`CREATE TABLE ${quoted} (data JSON, "${strange.slice(0, 20).replaceAll('"', '""')}" INT DEFAULT 1)
    INCLUDE HEADER 'x-evil' AS h WITH (connector = 'webhook', document = 'data')`);
  await client.query(`CREATE SECRET guard WITH (backend = 'meta') AS 'key';
    CREATE TABLE guarded (data JSONB) WITH (connector = 'webhook')
    VALIDATE SECRET guard AS secure_compare(headers->>'x', guard)`);
  const body = `{"big": ${digits[0]}, "money": ${digits[1]}, "far": ${digits[2]}, "s": ${JSON.stringify(strange)}, "${'k'.repeat(5_000)}": [${'['.repeat(300)}${']'.repeat(300)}]}`;
  const evil = '"><img src=x onerror=globalThis.xss=1>';
  const path = `dev/public/${encodeURIComponent(name)}`;
  assert.equal((await headgate.post(path, body, { 'x-evil': evil })).status, 200);
  assert.equal((await headgate.post('dev/public/guarded?q=<script>', body, { 'x-other': evil })).status, 401);
  const shows = (text: string) => holds(page, `document.body.innerText.includes(${JSON.stringify(text)})`);
  for (const place of ['', 'endpoints', 'refused', `endpoint/public/${encodeURIComponent(name)}/live`]) {
    await open(place);
    await shows(place === 'refused' ? 'guarded' : '<img src=x');
  }
  await open(`endpoint/public/${encodeURIComponent(name)}/rows`);
  await page.getByRole('button', { name: /big/ }).first().click();
  for (const wanted of [...digits.map((it) => `: ${it}`), 'U+202E', '<script>']) await shows(wanted);
  await open(`endpoint/public/${encodeURIComponent(name)}/definition`);
  await shows('INCLUDE HEADER');
  await open('refused');
  await page.getByRole('cell', { name: 'guarded' }).first().click();
  for (const wanted of [...digits.map((it) => `: ${it}`), 'x-other']) await shows(wanted);
  await open('sql');
  await page
    .getByLabel('SQL')
    .fill(
      `SELECT ${digits[0]} AS big, ${digits[1]} AS money, '${digits[2]}'::json AS far, data FROM ${quoted}`,
    );
  await page.keyboard.press('Control+Enter');
  for (const wanted of digits) await page.getByRole('cell', { name: wanted, exact: true }).waitFor();
  await open(`refused?table=${encodeURIComponent(strange)}&text=${encodeURIComponent(strange)}`);
  await page.getByText('Nothing matches').waitFor();
  const foreign = `img:not([src="/console/icon.svg"]), script:not([src]), iframe, object`;
  assert.equal(await page.evaluate(`document.querySelectorAll('${foreign}').length`), 0);
  assert.equal(await page.evaluate('globalThis.xss'), undefined);
  await client.query(`DROP TABLE ${quoted}, guarded`);
}

async function answersKeys({ page, open }: Tried): Promise<void> {
  await open('endpoints');
  await page.getByRole('link', { name: 'github_events' }).waitFor();
  await page.keyboard.press('?');
  await page.getByRole('dialog', { name: 'Keys' }).waitFor();
  await page.keyboard.press('Escape');
  await page.keyboard.press('/');
  await page.keyboard.type('nothing');
  await page.getByText('No endpoint is called like that').waitFor();
  await page.getByRole('button', { name: 'Show all' }).click();
  await page.keyboard.press('j');
  await page.keyboard.press('Enter');
  await page.getByRole('tab', { name: 'Live' }).waitFor();
}

async function runsSql({ page, open }: Tried): Promise<void> {
  await open('sql');
  const sql = page.getByLabel('SQL');
  await sql.fill('SELECT wrong_name FROM github_events');
  await page.keyboard.press('Control+Enter');
  await page.getByText('column "wrong_name" does not exist').waitFor();
  assert.equal(await page.evaluate('getSelection().toString()'), 'wrong_name');
  await sql.fill('DELETE FROM github_events');
  await page.keyboard.press('Control+Enter');
  await page.getByText('cannot execute DELETE in a read-only transaction').waitFor();
  await sql.fill('SELECT pg_sleep(60)');
  await page.keyboard.press('Control+Enter');
  await page.getByRole('button', { name: 'Cancel' }).click();
  await page.getByText('Cancelled.').waitFor();
  await sql.fill("CREATE TABLE open_one (data JSONB) WITH (connector = 'webhook')");
  await page.getByLabel('may write').check();
  await page.keyboard.press('Control+Enter');
  await page.getByRole('button', { name: 'Run, and write' }).click();
  await page
    .getByText(/whoever reaches/i)
    .first()
    .waitFor();
}

async function hasNoBarrier({ page, open, complaints }: Tried): Promise<void> {
  for (const theme of ['light', 'dark']) {
    await page.getByLabel('Theme').selectOption(theme);
    for (const place of [
      ...places,
      'endpoint/public/github_events/verify',
      'endpoint/public/github_events/refused',
      'refused/1',
    ]) {
      await open(place);
      await holds(page, `document.querySelector('.skeleton') === null`);
      assert.deepEqual(await serious(page), [], `${theme} ${place}`);
      assert.doesNotMatch(await page.content(), /right key|forged key/);
    }
  }
  await page.setViewportSize({ width: 390, height: 800 });
  for (const place of places) {
    await open(place);
    await holds(page, `document.querySelector('.skeleton') === null`);
    const wide = await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth');
    assert(wide <= 0, `${place} is ${wide} px wider than a phone`);
  }
  assert.deepEqual(complaints, []);
}

suite('the console in a browser', () => {
  test('from the first link to an endpoint that is explained, repaired and retried', async (t) => {
    const chromium = requireTool(t, 'chromium');
    if (chromium === null) return;
    const headgate = await startHeadgate(t);
    const watched = await openPage(await openBrowser(t, chromium, rebound));
    const base = `${headgate.adminUrl}/console/`;
    const open = async (place: string): Promise<void> => {
      await watched.page.goto(`${base}#/${place}`);
    };
    const tried: Tried = { ...watched, headgate, base, open };
    await t.test('a link lets in, once', () => entersOnce(tried));
    await t.test('the wizard makes an endpoint, and its first delivery arrives', () =>
      makesAnEndpoint(tried),
    );
    await t.test('a forged one is explained, and retried after the repair', () => explainsAndRetries(tried));
    await t.test('what strangers send stays text, and its digits what they are', (inner) =>
      staysText(tried, inner),
    );
    await t.test('the keyboard is enough', () => answersKeys(tried));
    await t.test('SQL: errors, read only, cancelled, and written', () => runsSql(tried));
    await t.test('nothing serious for axe, nothing wider than a phone, no complaint', () =>
      hasNoBarrier(tried),
    );
    await t.test('a name of somebody else that leads here gets nothing', async () => {
      const response = await watched.page.goto(base.replace('127.0.0.1', rebound));
      assert.equal(response?.status(), 421);
    });
  });
});
