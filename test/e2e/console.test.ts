/** The console as somebody uses it for the first time, in a real Chromium, and as somebody attacks it. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { routes } from '../../src/console/routes.ts';
import {
  digits,
  keepsOtherPagesOut,
  letsInOne,
  rebound,
  standsFloods,
  staysText,
} from '../support/console-hostile.ts';
import { chooseTheme, consoleLink, openBrowser, openPage } from '../support/console.ts';
import { explainsAndRetries, holds, makesAnEndpoint, serious } from '../support/console-walk.ts';
import type { Tried } from '../support/console-walk.ts';
import { startHeadgate } from '../support/headgate.ts';
import { sampleOf } from '../support/sample.ts';
import { requireBrowser } from '../support/tools.ts';
import { within } from '../support/within.ts';

const places = [
  '',
  'endpoints',
  'requests',
  'requests/r1',
  'requests?open=r1',
  'refused',
  'sql',
  'secrets',
  'health',
  'events',
  'new',
  'new/github',
  'new/stripe?name=somewhere_else',
  'new/github?table=github_events',
  'new/hmac',
  'new/anything',
  'nowhere',
  'endpoint/public/github_events/live',
  'endpoint/public/github_events/verify',
  'endpoint/public/github_events/refused',
  'endpoint/public/github_events/definition',
  'endpoint/public/forged',
  'endpoint/public/columned/rows',
  'refused/1',
  'diff/1/2',
  'request/public/github_events/forgotten',
];

async function entersOnce({ headgate, page, base, complaints }: Tried): Promise<void> {
  const link = await consoleLink(headgate);
  assert(link.startsWith(`${base}#t=`), link);
  await page.goto(link);
  await page.getByRole('heading', { name: 'Ready. Nothing has been received yet.' }).waitFor();
  // What is sent to the address that is shown is seen, and that address is the one that is offered.
  await page.getByText('connected', { exact: true }).waitFor();
  const shown = await page.locator('.listening pre').innerText();
  const [address = '', name = ''] = /http\S+\/(inbox_[0-9a-f]{4})(?=')?/.exec(shown) ?? assert.fail(shown);
  assert.equal((await fetch(address, { method: 'POST', body: '{"hello":"world"}' })).status, 404);
  await page.locator('.latest .line', { hasText: name }).waitFor();
  assert.match(
    (await page.getByRole('link', { name: /^Catch anything/ }).getAttribute('href')) ?? '',
    new RegExp(`new/anything\\?name=${name}$`),
  );
  assert.equal(new URL(page.url()).hash, '#/dev');
  assert.deepEqual(await page.context().cookies(), []);
  const other = await page.context().browser()?.newContext();
  const second = await other?.newPage();
  await second?.goto(link);
  await second?.getByText('This link was already used').waitFor();
  assert.doesNotMatch(second?.url() ?? '', /t=/);
  await other?.close();
  assert.deepEqual(complaints, []);
}

async function answersKeys({ page, open }: Tried): Promise<void> {
  await open('endpoints');
  await page.getByRole('link', { name: 'github_events' }).waitFor();
  await page.keyboard.press('?');
  await page.getByRole('dialog', { name: 'Keys' }).waitFor();
  await page.keyboard.press('Escape');
  await page.keyboard.press('/');
  await page.keyboard.type('nothing');
  await page.getByText('No endpoint matches').waitFor();
  await page.getByRole('button', { name: 'Show all' }).click();
  await page.getByRole('link', { name: 'github_events' }).waitFor();
  await page.keyboard.press('j');
  await page.keyboard.press('Enter');
  await page.getByRole('tab', { name: 'Requests' }).waitFor();
  // No mouse: to a refused request, and on to its retry. Other tables, whose requests are still remembered, are gone.
  await open('requests?result=refused&table=github_events');
  await page.locator('.lines a[data-row]').first().waitFor();
  await page.keyboard.press('j');
  await page.keyboard.press('Enter');
  await page.locator('.panel .sentence').waitFor();
  await page.keyboard.press('o');
  await page.locator('.request-page').waitFor();
  for (let i = 0; i < 60; i++) {
    await page.keyboard.press('Tab');
    const focused = await page.evaluate<string>('document.activeElement.textContent');
    if (focused === 'Change it, and send it again') return page.keyboard.press('Enter');
  }
  assert.fail('Tab does not reach it');
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
  await page.getByRole('button', { name: 'Run and write' }).click();
  await page
    .getByText(/whoever reaches/i)
    .first()
    .waitFor();
}

const shopify = { 'x-shopify-hmac-sha256': 'AAAA', 'x-shopify-topic': 'orders/create' };

/** From one of github's requests, refused before, to one that is signed anew; and whose another looks like. */
async function sendsAgain({ headgate, page, open }: Tried): Promise<void> {
  await open('requests?result=refused&table=github_events');
  await page.locator('a[data-row]').first().click();
  await page.getByRole('link', { name: 'Open its page' }).click();
  await page.getByText('Change it, and send it again').click();
  await page
    .getByRole('textbox', { name: 'Body' })
    .fill('{"action":"sent again","big":12345678901234567890}');
  // No check has accepted it: it is not signed unless a person says so in words.
  assert.equal(await page.getByLabel('sign again').isChecked(), false);
  await page.getByRole('button', { name: 'Send it' }).click();
  await page.getByText('Answered 401').waitFor();
  await page.getByRole('link', { name: 'why?' }).waitFor();
  await page.getByLabel('sign again').check();
  assert.equal(await page.getByRole('button', { name: 'Send it' }).isDisabled(), true);
  assert.equal(await page.locator('.resend button.primary').count(), 0);
  await page.getByLabel('No check has accepted this request').fill('github_events');
  await page.getByRole('button', { name: 'Send it' }).click();
  await page.getByText('Answered 200').waitFor();
  assert.equal((await headgate.post('dev/public/github_events', '{"a":1}', shopify)).status, 401);
  await within(10_000, async () => {
    await open('requests?result=refused&table=github_events');
    await page.reload();
    await page.locator('a[data-row]').first().click();
    await page.getByRole('link', { name: 'Open its page' }).click();
    await page.getByText('It looks like').waitFor({ timeout: 1_500 });
  });
  await page.getByRole('link', { name: 'Shopify' }).waitFor();
  await page.getByRole('button', { name: 'Compare' }).click();
  await page.locator('.diff .second', { hasText: 'x-shopify-topic: orders/create' }).waitFor();
  await page.locator('.diff .first').first().waitFor();
}

/** The owner has accepted requests shown: the next one leads from its line to what it held, to another like it, and to nothing any more. */
async function looksAtAccepted({ headgate, page, open }: Tried, t: TestContext): Promise<void> {
  const client = await headgate.client(t);
  await client.query(`CREATE TABLE looked (data JSONB) WITH (connector = 'webhook')`);
  await open('endpoint/public/looked/definition');
  await page.getByRole('button', { name: 'Show them' }).click();
  const shows = (what: string) =>
    holds(
      page,
      `[...document.querySelectorAll('.code pre')].some((it) => it.innerText.includes("inspect = '${what}'"))`,
    );
  await shows('bodies');
  const body = `{"big":${digits[0]},"money":${digits[1]},"far":1e-400,"s":"<script>globalThis.xss=1</script>\u202e"}`;
  const headers = { 'x-api-key': 'letmein', 'x-github-event': 'push', 'x-hub-signature-256': 'sha256=00' };
  await open('endpoint/public/looked/live');
  await within(15_000, async () => {
    assert.equal((await headgate.post('dev/public/looked?token=letmein', body, headers)).status, 200);
    await page.getByRole('cell', { name: '1 row' }).first().waitFor({ timeout: 2_000 });
  });
  await page.keyboard.press('j');
  await page.keyboard.press('Enter');
  await page.locator('.panel .sentence').waitFor();
  await page.keyboard.press('o');
  for (const wanted of [`: ${digits[0]}`, ': 1e-400', '<script>', 'U+202E'])
    await holds(page, `document.body.innerText.includes(${JSON.stringify(wanted)})`);
  await page.getByRole('tab', { name: /Headers/ }).click();
  for (const wanted of ['?token=***', 'push'])
    await holds(page, `document.body.innerText.includes(${JSON.stringify(wanted)})`);
  await page.getByText('It looks like').waitFor();
  assert.doesNotMatch(await page.content(), /letmein/);
  assert.deepEqual(await serious(page), []);
  await page.getByText('Change it, and send it again').click();
  await page.getByRole('button', { name: 'Send it' }).click();
  await page.getByText('Answered 200').waitFor();
  const request = page.url();
  await open('endpoint/public/looked/definition');
  assert.equal(await page.getByRole('button', { name: 'Show them', exact: true }).count(), 0);
  await page.getByRole('button', { name: 'Stop showing them' }).click();
  await page.locator('.facts dd', { hasText: 'not kept' }).waitFor();
  await page.getByRole('button', { name: 'Show them', exact: true }).waitFor();
  await shows('off');
  // The process knows of it when the catalog has told it.
  await within(15_000, async () => {
    await page.goto(request);
    await page.reload();
    await page.getByRole('tab', { name: 'Body' }).click();
    await page.getByText('The body of this request was not kept.').waitFor({ timeout: 1_000 });
  });
}

/** What the process and the database know of themselves. */
async function tellsOfItself({ headgate, page, open }: Tried): Promise<void> {
  await open('health');
  for (const name of ['write-ahead log', 'this database', 'flush time', 'Node', 'PostgreSQL'])
    await page.locator('dt').getByText(name, { exact: true }).waitFor();
  await page.getByText(`free in ${headgate.dataDir}`).waitFor();
  await page
    .getByRole('region', { name: 'Growth of tables' })
    .getByRole('link', { name: 'github_events' })
    .waitFor();
  await page.getByText(/the disk is full in/).waitFor();
}

async function makesAColumn({ headgate, page, open }: Tried, t: TestContext): Promise<void> {
  const client = await headgate.client(t);
  await client.query(`CREATE TABLE columned (data JSONB) WITH (connector = 'webhook')`);
  const evil = `a'); DROP TABLE github_events; --`;
  const body = (value: string) => `{"order":{"total":${value}},${JSON.stringify(evil)}:"=1+1"}`;
  assert.equal((await headgate.post('dev/public/columned', body('10.00'))).status, 200);
  await open('endpoint/public/columned/rows');
  await page.getByRole('button', { name: /order/ }).first().click();
  for (const [path, column] of [
    [/order → total = 10\.00/, 'order_total'],
    [/a'\); DROP TABLE/, 'a_drop_table_github_events'],
  ] as const) {
    await page.getByText('Make a column of it').click();
    const option = page.getByLabel('Value').locator('option', { hasText: path });
    await page.getByLabel('Value').selectOption((await option.getAttribute('value')) ?? '');
    assert.equal(await page.getByLabel('Column').inputValue(), column);
    await page.getByRole('button', { name: 'Add the column' }).click();
    await page.getByRole('button', { name: 'Rewrite the table?' }).click();
    await page.getByRole('columnheader', { name: column }).waitFor();
    await page.getByText('Make a column of it').click();
  }
  // What is no number is NULL, and refuses no request.
  assert.equal((await headgate.post('dev/public/columned', body('"free"'))).status, 200);
  const { rows } = await client.query('SELECT order_total, a_drop_table_github_events AS evil FROM columned');
  assert.deepEqual(rows, [
    { order_total: '10.00', evil: '=1+1' },
    { order_total: null, evil: '=1+1' },
  ]);
}

/** What is saved holds the same digits, and no formula; words are completed out of what there is. */
async function completesAndSaves({ page, open }: Tried): Promise<void> {
  await open('sql');
  const sql = page.getByLabel('SQL');
  await sql.fill('');
  await sql.pressSequentially('SELECT order_t');
  await page.getByRole('option', { name: 'order_total' }).waitFor();
  await page.keyboard.press('Tab');
  await sql.pressSequentially(", '=evil()' AS x FROM col");
  await page.getByRole('option', { name: 'columned' }).waitFor();
  await page.keyboard.press('Tab');
  assert.equal(await sql.inputValue(), "SELECT order_total, '=evil()' AS x FROM columned");
  await sql.fill(`SELECT ${digits[0]} AS a, ${digits[1]} AS b, '${digits[2]}'::json AS c, '=evil()' AS "@x"`);
  await page.keyboard.press('Control+Enter');
  await page.getByRole('cell', { name: '=evil()', exact: true }).waitFor();
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'CSV' }).click(),
  ]);
  assert.equal(readFileSync(await download.path(), 'utf8'), `a,b,c,'@x\r\n${digits.join(',')},'=evil()\r\n`);
  // The same as JSON, and what the result says of itself.
  const [json] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'JSON', exact: true }).click(),
  ]);
  assert.equal(
    readFileSync(await json.path(), 'utf8'),
    `[{"a": ${digits[0]}, "b": ${digits[1]}, "c": ${digits[2]}, "@x": "=evil()"}]\n`,
  );
  assert.match(await page.locator('.result-head').innerText(), /^✓ 1 row in \d+ ms/);
  await page.getByRole('columnheader', { name: 'c json' }).waitFor();
  // Its plan, of which nothing runs; what ran stands beside.
  await sql.fill('SELECT pg_sleep(600) FROM columned');
  await page.getByRole('button', { name: 'Explain', exact: true }).click();
  await page.getByRole('cell', { name: /^Seq Scan on columned/ }).waitFor();
  await page.locator('.recall', { hasText: 'EXPLAIN SELECT pg_sleep(600) FROM columned' }).waitFor();
}

async function retriesAll({ headgate, page, open }: Tried, t: TestContext): Promise<void> {
  const client = await headgate.client(t);
  const names = ['narrow', 'narrower'];
  for (const name of names)
    await client.query(`CREATE TABLE ${name} (n SMALLINT) WITH (connector = 'webhook')`);
  // Whether the table is still what it was is asked of the engine before they are refused for good: one that is late tells them to come again.
  const refuse = (i: number) =>
    within(20_000, async () =>
      assert.equal((await headgate.post(`dev/public/${names[i % 2]}`, `{"n":${70_000 + i}}`)).status, 422),
    );
  for (let i = 0; i < 110; i += 10) await Promise.all(Array.from({ length: 10 }, (_, n) => refuse(i + n)));
  const kept = async () => {
    const { rows } = await client.query<{ code: string; n: number }>(
      `SELECT code, count(*)::int AS n FROM headgate.rejected_requests WHERE table_name LIKE 'narrow%' GROUP BY 1`,
    );
    return rows[0];
  };
  await within(10_000, async () => assert.equal((await kept())?.n, 110));
  for (const name of names) await client.query(`ALTER TABLE ${name} ALTER n TYPE INT`);
  await open(`requests?result=refused&code=${(await kept())?.code}&stored=no`);
  await page.getByLabel('Select all that are shown').click();
  // A page ends with a millisecond, in which several may have come.
  await page.locator('.bulk', { hasText: /^\d+ selected/ }).waitFor();
  await page.getByRole('button', { name: 'Select all 110 that match' }).click();
  await page.getByRole('button', { name: 'Retry', exact: true }).click();
  await page.getByText('110 of 110').waitFor();
  await page.locator('.badge', { hasText: 'done' }).waitFor();
  const { rows } = await client.query<{ n: number }>(
    'SELECT (SELECT count(*) FROM narrow)::int + (SELECT count(*) FROM narrower)::int AS n',
  );
  assert.equal(rows[0]?.n, 110);
}

/** What came is counted by the minute, and what is wrong is said. */
async function showsCounts({ headgate, page, open }: Tried, t: TestContext): Promise<void> {
  const client = await headgate.client(t);
  await client.query(`CREATE SECRET k WITH (backend = 'meta') AS 'k';
    CREATE TABLE forged (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET k USING gitlab`);
  const wrong = { 'x-gitlab-token': 'another' };
  for (let i = 0; i < 5; i++)
    assert.equal((await headgate.post('dev/public/forged', '{}', wrong)).status, 401);
  await within(40_000, async () => {
    await open('');
    await open('endpoints');
    await page.getByRole('row', { name: /forged.*5 of 5: signature fails/ }).waitFor({ timeout: 2_000 });
    // The counts of the five may arrive in two parts.
    await page.getByRole('img', { name: /0 stored, 5 with 401/ }).waitFor({ timeout: 2_000 });
  });
  await open('endpoint/public/forged');
  await page
    .getByText('All 5 requests of the last hour were refused by the check: Another key (5).')
    .waitFor();
  await page.getByRole('img', { name: 'Requests, last 24 hours: 0 stored, 5 with 401' }).waitFor();
  await page.getByLabel('Time range').selectOption('1h');
  await page.getByRole('img', { name: 'Requests, last hour: 0 stored, 5 with 401' }).waitFor();
}

async function hasNoBarrier({ page, open, complaints }: Tried): Promise<void> {
  // The page's own table: one that nobody opens here would be tried by nobody.
  const opened = new Set(places.map((place) => place.split(/[/?]/)[0]));
  const unopened = routes.filter((route) => !opened.has(route));
  assert.deepEqual(unopened, [], 'open these in `places` of test/e2e/console.test.ts');
  // The other theme has other colours, and nothing else.
  const themes = [
    ['light', sampleOf(places, 4), null],
    ['dark', sampleOf(places, 2), ['color-contrast', 'link-in-text-block']],
  ] as const;
  for (const [theme, tried, rules] of themes) {
    await chooseTheme(page, theme);
    for (const place of tried) {
      await open(place);
      await holds(page, `document.querySelector('.skeleton') === null`);
      assert.deepEqual(await serious(page, rules), [], `${theme} ${place}`);
      assert.doesNotMatch(await page.content(), /right key|forged key/);
    }
  }
  // A small phone, and a window of 1280 px at 200 %.
  for (const [width, tried] of [
    [360, sampleOf(places, 12)],
    [640, sampleOf(places, 2)],
  ] as const) {
    await page.setViewportSize({ width, height: 800 });
    for (const place of tried) {
      await open(place);
      await holds(page, `document.querySelector('.skeleton') === null`);
      assert.doesNotMatch(await page.content(), /right key|forged key/);
      const wide = await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth');
      assert(wide <= 0, `${place} is ${wide} px wider than a window of ${width} px`);
    }
  }
  assert.deepEqual(complaints, []);
}

suite('the console works in a browser', () => {
  test('the console works in Chromium from the first link to the repair and retry of a refused request', async (t) => {
    const chromium = requireBrowser(t);
    if (chromium === null) return;
    const headgate = await startHeadgate(t);
    const watched = await openPage(await openBrowser(t, chromium, rebound));
    const base = `${headgate.adminUrl}/console/`;
    const open = async (place: string): Promise<void> => {
      await watched.page.goto(`${base}#/${place}`);
    };
    const tried: Tried = { ...watched, headgate, base, open, database: 'dev' };
    await t.test('a console login link works once', () => entersOnce(tried));
    await t.test("the console's wizard creates an endpoint, and its first delivery arrives", () =>
      makesAnEndpoint(tried),
    );
    await t.test('the console explains a forged request and retries it after the repair', () =>
      explainsAndRetries(tried),
    );
    await t.test('the console shows hostile content as text, with every digit', (inner) =>
      staysText(tried, inner),
    );
    await t.test('the console shows ten thousand hostile documents, and one of 25 MiB', (inner) =>
      standsFloods(tried, inner),
    );
    await t.test('the console works by keyboard alone', () => answersKeys(tried));
    await t.test("the console's SQL page shows errors, read-only refusals, cancellation and writes", () =>
      runsSql(tried),
    );
    await t.test('the console signs a request anew, recognises its sender and compares it', () =>
      sendsAgain(tried),
    );
    await t.test('the console turns a value into a column for any key', (inner) =>
      makesAColumn(tried, inner),
    );
    await t.test('the console shows the content of an accepted request', (inner) =>
      looksAtAccepted(tried, inner),
    );
    await t.test("the console's health page shows disk, engine and growth", () => tellsOfItself(tried));
    await t.test('the console completes SQL and saves result rows unchanged', () => completesAndSaves(tried));
    await t.test('the console retries all requests that a filter matches in the background', (inner) =>
      retriesAll(tried, inner),
    );
    await t.test('the console counts requests by minute and names problems', (inner) =>
      showsCounts(tried, inner),
    );
    await t.test('console pages have no serious axe finding, fit a phone and log no error', () =>
      hasNoBarrier(tried),
    );
    await t.test('a page of another origin gets nothing from the console, even by DNS rebinding', (inner) =>
      keepsOtherPagesOut(tried, inner),
    );
    await t.test('a console login link used fifty times at once works once', () => letsInOne(tried));
  });
});
