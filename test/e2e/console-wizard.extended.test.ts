/** The wizard, with the senders' own packages as senders: from a click to the first delivery, interrupted at each step. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { sign as signGithub } from '@octokit/webhooks-methods';
import type { Page } from 'playwright-core';
import Stripe from 'stripe';
import type { SenderInfo, TestAnswer } from '../../src/console/api.ts';
import { createEndpoint } from '../../src/console/new-endpoint.ts';
import { cli, consoleLink, openConsole, post } from '../support/console.ts';
import { holds } from '../support/console-walk.ts';
import { startHeadgate } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { run } from '../support/run.ts';
import { findTool, requireBrowser } from '../support/tools.ts';
import { sampleOf, sampleSeed } from '../support/sample.ts';
import { within } from '../support/within.ts';

interface Tried {
  readonly headgate: Headgate;
  readonly page: Page;
  readonly open: (place: string) => Promise<void>;
}

const create = (page: Page) => page.getByRole('button', { name: 'Create the endpoint' }).click();
const secretOf = (page: Page, what: string | RegExp) =>
  page.getByRole('group', { name: what }).locator('code').innerText();
/** A new page of the browser, as after a crash: nothing but the address is known. */
const again = async (page: Page): Promise<void> => {
  await page.reload();
  await page.getByRole('heading', { name: 'New endpoint' }).waitFor();
};

/** Stripe shows its secret only after it has the URL. */
async function connectsStripe({ headgate, page, open }: Tried, t: TestContext): Promise<void> {
  const client = await headgate.client(t);
  await open('');
  await page.getByRole('link', { name: 'New endpoint' }).click();
  // Those that most people use stand first.
  await page.getByText('Most used').waitFor();
  assert.deepEqual(
    (await page.locator('.senders .sender').allInnerTexts())
      .slice(0, 3)
      .map((it) => it.replace(/^\w\s+/, '')),
    ['Stripe', 'GitHub', 'Shopify'],
  );
  await page.locator('.senders').getByText('Stripe', { exact: true }).click();
  await page.getByText(`${headgate.webhookUrl}/dev/public/stripe_events`).waitFor();
  await page.locator('[name=table]').fill('payments');
  await again(page);
  assert.equal(await page.locator('[name=table]').inputValue(), 'payments');
  await create(page);
  await page.getByText('until it has its secret it refuses everything').waitFor();
  assert.equal(new URL(page.url()).hash, '#/dev/new/stripe?table=payments');
  await page.getByText('reveal its signing secret').waitFor();
  const body = JSON.stringify({
    id: 'evt_1',
    object: 'event',
    type: 'invoice.paid',
    data: { object: { amount: 1 } },
  });
  const url = 'dev/public/payments';
  const deliver = (secret: string, payload = body) => {
    const header = Stripe.webhooks.generateTestHeaderString({ payload, secret });
    return headgate.post(url, payload, { 'stripe-signature': header });
  };
  assert.equal((await deliver('whsec_mine')).status, 401);
  await page.getByText('the endpoint has not got Stripe’s secret yet').waitFor();
  // Left, and gone on with another day, with the address alone.
  await again(page);
  await page.locator('[name=secret]').fill('whsec_mine');
  await page.getByRole('button', { name: 'Save the secret' }).click();
  await page.getByText('The secret is saved.').waitFor();
  assert.doesNotMatch(await page.content(), /whsec_mine/);
  await page.getByRole('button', { name: 'Send a test as Stripe would' }).click();
  await page.getByText(/answered 200, and its row was taken away again/).waitFor();
  await within(10_000, async () => assert.equal((await deliver('whsec_mine')).status, 200));
  await page.getByText(/Received\. Signed by Stripe, stored in [\d.]+ ms/).waitFor();
  await page.getByText('invoice.paid').first().waitFor();
  await again(page);
  await page.getByText(/Received\. Signed by Stripe/).waitFor();
  // A repetition, and what the table keeps.
  assert.equal((await deliver('whsec_mine')).status, 200);
  const { rows } = await client.query<Record<string, unknown>>(
    `SELECT event, delivery_id, raw = convert_to($1, 'UTF8') AS raw, headers ? 'user-agent' OR headers <> '{}' AS headers, received_at IS NOT NULL AS at FROM payments`,
    [body],
  );
  assert.deepEqual(rows, [
    { event: 'invoice.paid', delivery_id: 'evt_1', raw: true, headers: true, at: true },
  ]);
}

/** GitHub is told the secret, which is shown until the page is left. */
async function connectsGithub({ headgate, page, open }: Tried, t: TestContext): Promise<void> {
  const client = await headgate.client(t);
  await open('new/github');
  await create(page);
  assert.match(await secretOf(page, 'Secret'), /^[0-9a-f]{48}$/);
  await page.getByText('Settings → Webhooks → Add webhook').waitFor();
  await again(page);
  await page.getByText('It was shown once').waitFor();
  await page.getByRole('button', { name: 'Make another one' }).click();
  const secret = await secretOf(page, 'Secret');
  const body = '{"zen":"Keep it logically awesome."}';
  const headers = {
    'x-hub-signature-256': await signGithub(secret, body),
    'x-github-event': 'ping',
    'x-github-delivery': '72d3162e-cc78-11e3-81ab-4c9367dc0958',
  };
  await within(10_000, async () =>
    assert.equal((await headgate.post('dev/public/github_events', body, headers)).status, 200),
  );
  await page.getByText(/Received\. Signed by GitHub/).waitFor();
  const { rows } = await client.query('SELECT event, delivery_id FROM github_events');
  assert.deepEqual(rows, [{ event: 'ping', delivery_id: headers['x-github-delivery'] }]);
  // Another table of this name has another secret.
  await client.query(`CREATE SCHEMA elsewhere;
    CREATE SECRET elsewhere.s WITH (backend = 'meta') AS 'its own';
    CREATE TABLE elsewhere.github_events (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET elsewhere.s USING github`);
  await page.evaluate(`location.hash = '#/dev/new/github?table=github_events&schema=elsewhere'`);
  await page.getByText('It was shown once').waitFor();
  assert.doesNotMatch(await page.content(), new RegExp(secret));
}

/** Names that are taken, names that are none, a statement that fails, and a secret that is there. */
async function collides({ headgate, page, open }: Tried, t: TestContext): Promise<void> {
  const client = await headgate.client(t);
  await open('new/github');
  await holds(page, `document.querySelector('[name=table]').value === 'github_events_2'`);
  await page.locator('[name=table]').fill('é'.repeat(32));
  await page.getByText('The name has 64 bytes; PostgreSQL allows 63.').waitFor();
  assert.equal(await page.getByRole('button', { name: 'Create the endpoint' }).isDisabled(), true);
  await client.query('CREATE TABLE in_the_way (a int)');
  await page.locator('[name=table]').fill('in_the_way');
  await create(page);
  await page.getByText('relation "in_the_way" already exists').waitFor();
  const left = await client.query(`SELECT FROM headgate.secret WHERE name LIKE 'in_the_way%'`);
  assert.equal(left.rowCount, 0);
  const long = 'n'.repeat(63);
  await page.locator('[name=table]').fill(long);
  await create(page);
  await page.getByText('Waiting for the first request').waitFor();
  const { rows } = await client.query<{ name: string }>(
    `SELECT name FROM headgate.secret WHERE name LIKE 'nnn%'`,
  );
  assert.deepEqual(rows, [{ name: `${'n'.repeat(56)}_secret` }]);
  await open('new/gitea');
  await page.locator('[name=existing]').selectOption({ label: 'github_events_secret' });
  await create(page);
  await page.getByText('Waiting for the first request').waitFor();
  const shown = await client.query<Record<string, string>>('SHOW CREATE TABLE gitea_events');
  assert.match(Object.values(shown.rows[0] ?? {}).at(-1) ?? '', /github_events_secret/);
}

/** Slack signs its question, Meta sends a token of its own. */
async function answersQuestions({ headgate, page, open }: Tried): Promise<void> {
  const asks = (sender: string, ...more: string[]) =>
    run(process.execPath, [
      cli,
      'send',
      sender,
      '--handshake',
      '--url',
      `${headgate.webhookUrl}/dev/public/${sender}_events`,
      ...more,
    ]);
  await open('new/slack');
  await create(page);
  await page.getByText('Before it delivers, it asks').waitFor();
  await page.locator('[name=secret]').fill('8f742231b10e8888abcd99yyyzzz85a5');
  await page.getByRole('button', { name: 'Save the secret' }).click();
  await page.getByText('The secret is saved.').waitFor();
  await within(10_000, async () => {
    const asked = await asks('slack', '--secret', '8f742231b10e8888abcd99yyyzzz85a5');
    assert.equal(asked.code, 0, asked.stdout + asked.stderr);
  });
  await page.getByText('Its question was answered').waitFor();
  await open('new/whatsapp');
  await page.getByText('Most used').waitFor();
  await page.getByRole('searchbox', { name: 'Search senders' }).fill('whatsapp');
  await page.keyboard.press('Enter');
  await create(page);
  const token = await secretOf(page, /verify token/);
  await within(10_000, async () => {
    const asked = await asks('meta', '--secret', 'x', '--answer-secret', token);
    assert.equal(asked.code, 0, asked.stdout + asked.stderr);
  });
  await page.getByText('Its question was answered').waitFor();
}

/** A request that OpenSSL has signed, in a way that no known sender has. */
async function ownHmac({ headgate, page, open }: Tried): Promise<void> {
  const openssl = findTool('openssl');
  if (openssl === null) return;
  const body = '{"sku":"MUG-01"}';
  const sign = (text: string): string =>
    execFileSync(openssl, ['dgst', '-sha512', '-hmac', 'shop key', '-binary'], { input: text }).toString(
      'base64',
    );
  await open('new');
  await page.getByText('My own HMAC').click();
  await page.getByLabel('Header with the signature').fill('X-Shop-Signature');
  const time = String(Math.floor(Date.now() / 1000));
  const signature = `v1=${sign(`${time}.${body}`)}`;
  await page
    .getByLabel('Try it on a request of yours')
    .fill(`x-shop-time: ${time}\nx-shop-signature: ${signature}\n\n${body}`);
  await page.getByLabel('The secret that signed it').fill('shop key');
  await page.getByRole('button', { name: 'Try it', exact: true }).click();
  await page.getByText('With these settings it would be refused.').waitFor();
  await page.getByRole('button', { name: 'Use that' }).click();
  await page.getByRole('button', { name: 'Try it', exact: true }).click();
  await page.getByText('With these settings it would be accepted.').waitFor();
  assert.doesNotMatch(page.url(), /shop(%20|\+| )key/);
  await page.getByRole('button', { name: 'Use this check' }).click();
  await create(page);
  await page.getByText('until it has its secret it refuses everything').waitFor();
  await again(page);
  await page.locator('[name=secret]').fill('shop key');
  await page.getByRole('button', { name: 'Save the secret' }).click();
  await page.getByText('The secret is saved.').waitFor();
  await within(10_000, async () => {
    const headers = { 'x-shop-time': time, 'x-shop-signature': signature };
    assert.equal((await headgate.post('dev/public/my_events', body, headers)).status, 200);
  });
  await page.getByText(/Received\. Signed, stored/).waitFor();
  const forged = { 'x-shop-time': time, 'x-shop-signature': `v1=${sign('other')}` };
  assert.equal((await headgate.post('dev/public/my_events', body, forged)).status, 401);
}

interface Api {
  (path: string, body: unknown): Promise<{ readonly status: number; readonly value: unknown }>;
}

/** A sender's table can be made, refuses all until it has its secret, and stores a test that is signed with it. */
async function knows(headgate: Headgate, api: Api, senders: readonly SenderInfo[]): Promise<void> {
  for (const it of senders) {
    const table = `w_${it.id}`;
    const made = await api('make-secret', { sender: it.id, placeholder: true });
    const { secret } = made.value as { secret: string };
    const sql = createEndpoint({
      table,
      check: { kind: 'sender', id: it.id },
      secret: it.learns
        ? { kind: 'learned', name: `${table}_secret` }
        : { kind: 'new', name: `${table}_secret`, value: secret },
      answer: it.answerSecret === null ? null : { name: `${table}_answer_secret`, value: 'verify me' },
      columns: it.columns,
      includes: it.includes,
      format: it.format,
      once: it.once !== null,
      spool: true,
      arrival: true,
      whole: true,
    });
    const created = await api('sql', { sql, write: true });
    assert.equal(created.status, 200, `${it.id}: ${JSON.stringify(created.value)}\n${sql}`);
    const path = `dev/public/${table}`;
    const plain = await headgate.post(path, '{}', { 'content-type': it.contentType });
    assert(plain.status >= 400, `${it.id} accepts what nobody has signed: ${plain.status}`);
    if (it.paired || it.learns) continue;
    const test = await api('send', { sender: it.id, secret: '', schema: 'public', table });
    assert.equal(test.status, 200, `${it.id}: ${JSON.stringify(test.value)}`);
    const { status } = test.value as TestAnswer;
    assert(status >= 200 && status < 300, `${it.id}: ${JSON.stringify(test.value)}`);
  }
}

suite("the console's wizard creates endpoints", () => {
  test("the console's wizard leads from a sender to its first delivery, interrupted at each step", async (t) => {
    const chromium = requireBrowser(t);
    if (chromium === null) return;
    const headgate = await startHeadgate(t);
    const { page, complaints } = await openConsole(t, headgate, chromium);
    const open = async (place: string): Promise<void> => {
      await page.goto(`${headgate.adminUrl}/console/#/dev/${place}`);
    };
    const tried: Tried = { headgate, page, open };
    await t.test("the console's wizard for Stripe gives the URL first, then takes the secret", (inner) =>
      connectsStripe(tried, inner),
    );
    await t.test("the console's wizard for GitHub creates the secret", (inner) =>
      connectsGithub(tried, inner),
    );
    await t.test("the console's wizard handles taken names and a failing CREATE", (inner) =>
      collides(tried, inner),
    );
    await t.test("the console's wizard creates endpoints that answer handshakes of Slack and Meta", () =>
      answersQuestions(tried),
    );
    await t.test("the console's wizard creates a check for a custom HMAC", () => ownHmac(tried));
    assert.deepEqual(complaints, []);
  });

  test("a table that the console's wizard creates refuses unsigned requests and accepts a test delivery", async (t) => {
    t.diagnostic(sampleSeed);
    // Some sign the URL that they call.
    const headgate = await startHeadgate(t, { env: { HEADGATE_PUBLIC_URL: 'https://hooks.example.com' } });
    const { port } = headgate.ports.admin;
    const link = (await consoleLink(headgate)).split('#t=')[1];
    const { token } = JSON.parse((await post(port, 'login', { link })).text) as { token: string };
    const api: Api = async (path, body) => {
      const { status, text } = await post(port, path, body, token);
      return { status, value: JSON.parse(text) };
    };
    const response = await fetch(`${headgate.adminUrl}/console/api/senders`, {
      headers: { authorization: `Bearer ${token}` },
    });
    await knows(headgate, api, sampleOf((await response.json()) as readonly SenderInfo[], 6));
  });
});
