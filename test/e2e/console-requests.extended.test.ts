/** The list of all requests in a real Chromium: what PostgreSQL, the listener and the sender's own signature say is right. */
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { suite, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from 'pg';
import type { Page } from 'playwright-core';
import { refusals } from '../../src/errors/refusals.ts';
import { consoleRefusals } from '../../src/errors/refusals-console.ts';
import { addressesOf } from '../support/console-costs.ts';
import { chooseTheme, cli, consoleLink, openConsole, openPage } from '../support/console.ts';
import { overlapping, serious } from '../support/console-walk.ts';
import { sampleOf } from '../support/sample.ts';
import { startHeadgate } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { run } from '../support/run.ts';
import { requireBrowser } from '../support/tools.ts';
import { within } from '../support/within.ts';

const rows = (page: Page) => page.locator('.lines .line');

async function shoot(page: Page, name: string): Promise<void> {
  const folder = process.env['CONSOLE_SHOTS'];
  if (folder !== undefined) await page.screenshot({ path: `${folder}/${name}.png` });
}

/** As Stripe documents its signature. */
function stripe(body: string, secret: string, ageS = 0): Record<string, string> {
  const time = Math.floor(Date.now() / 1_000) - ageS;
  const v1 = createHmac('sha256', secret).update(`${time}.${body}`).digest('hex');
  return {
    'stripe-signature': `t=${time},v1=${v1}`,
    'user-agent': 'Stripe/1.0 (+https://stripe.com/docs/webhooks)',
  };
}

/** One of each kind; returns how many of which status were answered. */
async function filled(headgate: Headgate, client: Client): Promise<void> {
  await client.query(`CREATE SECRET payments_secret WITH (backend = 'meta') AS 'whsec_right';
    CREATE SECRET k WITH (backend = 'meta') AS 'the key';
    CREATE TABLE payments (data JSONB) INCLUDE TIMESTAMP AS received_at WITH (connector = 'webhook', inspect = 'bodies')
      VALIDATE SECRET payments_secret USING stripe;
    CREATE TABLE refunds (total NUMERIC) WITH (connector = 'webhook');
    CREATE TABLE asked (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET k USING slack;
    CREATE TABLE plain (data JSONB) WITH (connector = 'webhook')`);
  const event = (type: string, n: number): string =>
    `{"id":"evt_${n}","object":"event","amount":12345678901234567890,"type":"${type}","email":"zoe\u202e@example.com"}`;
  const send = async (path: string, body: string, headers: Record<string, string>, status: number) =>
    assert.equal((await headgate.post(`dev/public/${path}`, body, headers)).status, status, path);
  await send('payments', event('invoice.paid', 1), stripe(event('invoice.paid', 1), 'whsec_right'), 200);
  await send('payments', event('invoice.paid', 2), stripe(event('invoice.paid', 2), 'whsec_right', 420), 401);
  await send(
    'payments',
    event('charge.succeeded', 3),
    stripe(event('charge.succeeded', 3), 'whsec_wrong'),
    401,
  );
  await send(
    'payments',
    event('charge.succeeded', 4),
    stripe(event('charge.succeeded', 4), 'whsec_wrong'),
    401,
  );
  await send('payments', event('invoice.paid', 5), {}, 401);
  await send('refunds', '{"total":"much"}', {}, 422);
  await send('paymets', '{}', {}, 404);
  await send('plain', '{"needle":"in a haystack"}', {}, 200);
  const question = '{"type":"url_verification","challenge":"told"}';
  const time = String(Math.floor(Date.now() / 1_000));
  const signature = createHmac('sha256', 'the key').update(`v0:${time}:${question}`).digest('hex');
  await send(
    'asked',
    question,
    { 'x-slack-request-timestamp': time, 'x-slack-signature': `v0=${signature}` },
    200,
  );
  await within(10_000, async () => {
    const { rows: kept } = await client.query('SELECT FROM headgate.rejected_requests');
    const { rows: handshakes } = await client.query('SELECT FROM headgate.handshakes');
    assert.deepEqual([kept.length, handshakes.length], [5, 1]);
  });
}

suite("the console's request list is complete", () => {
  test("the console's request list shows each request once, explains refusals, and has a URL for every state", async (t) => {
    const chromium = requireBrowser(t);
    if (chromium === null) return;
    const headgate = await startHeadgate(t);
    const client = await headgate.client(t);
    await filled(headgate, client);
    // What it asks is no request of anybody.
    const doctor = await run(process.execPath, [cli, 'doctor', `--data-dir=${headgate.dataDir}`]);
    assert.match(doctor.stdout, /^ok +webhooks .*answers as Headgate$/m, doctor.stderr);
    const { page, complaints } = await openConsole(t, headgate, chromium);
    await page.setViewportSize({ width: 1440, height: 900 });
    const open = (place: string) => page.goto(`${headgate.adminUrl}/console/#/${place}`);
    await open('requests');
    await within(15_000, async () =>
      assert.equal(await rows(page).count(), 9, await page.locator('.lines').innerText()),
    );
    const texts = await rows(page).allInnerTexts();
    const row = (pattern: RegExp): string =>
      texts.find((text) => pattern.test(text)) ?? assert.fail(`${pattern}: ${texts.join('\n')}`);
    row(/200[^]*payments[^]*invoice\.paid[^]*1 row/);
    row(/401[^]*payments[^]*invoice\.paid[^]*Timestamp 7 minutes old/);
    row(/401[^]*payments[^]*charge\.succeeded[^]*Another secret, or changed/);
    row(/401[^]*No stripe-signature/);
    row(/422[^]*refunds[^]*Column total does not fit/);
    row(/404[^]*none[^]*No endpoint at …[^]*paymets/);
    row(/200[^]*asked[^]*Handshake answered/);
    // Counted by PostgreSQL, and by the answers above.
    const counts = await page.locator('.results').innerText();
    assert.match(counts.replaceAll(/\s+/g, ' '), /All 9 Stored 2 On disk 0 Refused 6 Handshakes 1/);
    await shoot(page, 'list');

    // The panel: the verdict is that of the arrival.
    await rows(page).filter({ hasText: 'Timestamp 7 minutes old' }).click();
    const panel = page.locator('.panel');
    await panel.getByText(/The timestamp is 7 minutes old; Stripe’s limit is 5 minutes\./).waitFor();
    await panel
      .getByText(
        'Nothing was stored. The signature itself was not looked at: whether the secret is right is not known.',
      )
      .waitFor();
    await panel.getByText('12345678901234567890').waitFor();
    await panel.getByText('U+202E').waitFor();
    await panel.getByRole('tab', { name: /Headers/ }).click();
    await panel.getByText('not kept').waitFor();
    assert.match(await panel.innerText(), /stripe-signature[^]*t=\d{10},/);
    assert.doesNotMatch(await panel.innerText(), /missing|NULL|NaN|undefined/);
    await shoot(page, 'panel');
    assert.match(page.url(), /open=r\d+/);
    // J goes on to the next one, the tab stays, and the address is that of the next one.
    const before = page.url();
    await page.getByRole('button', { name: 'Previous' }).click();
    await within(10_000, async () => assert.notEqual(page.url(), before));
    await panel.getByText('Stripe signed it with another secret, or it was changed on the way.').waitFor();
    await panel.getByText(/2 with this reason since/).waitFor();
    assert.equal(await panel.getByRole('tab', { name: /Headers/ }).getAttribute('aria-selected'), 'true');
    // The same address, cold, in another tab.
    const other = await page.context().newPage();
    await other.goto(page.url());
    await other.locator('.panel').getByText('Stripe signed it with another secret').waitFor();
    // Its button opens the secret of that table, ready to be typed.
    await other.locator('.panel').getByRole('link', { name: 'Set the secret' }).click();
    await other.locator('input:focus[type=password]').waitFor();
    await other.close();
    // Nothing that failed its check is stored by a key, and no primary button does it.
    assert.equal(await page.locator('.panel button.primary').count(), 0);
    for (const key of ['r', 'r', 'Enter']) await page.keyboard.press(key);
    await page.keyboard.press('Escape');
    await panel.waitFor({ state: 'detached' });
    // From its line, O leads to its page, without the panel.
    await page.keyboard.press('j');
    await page.keyboard.press('o');
    await page.waitForURL(/#\/dev\/requests\/[\w.]+/);
    await page.goBack();

    // An accepted one, with its body and its row.
    await rows(page).filter({ hasText: '1 row' }).filter({ hasText: 'payments' }).click();
    await panel.getByText('Stored: 1 row is committed.').waitFor();
    await panel.getByRole('tab', { name: 'Row' }).click();
    // Its document is indented, without a further click.
    const document = panel.locator('.one-row pre').first();
    await document.waitFor();
    assert.match(await document.innerText(), /^\{\n {2}"id": "evt_1/);
    await page.keyboard.press('Escape');
    // One whose body is not kept says so, with the click that keeps the next ones.
    await rows(page).filter({ hasText: 'plain' }).click();
    await panel.getByRole('tab', { name: 'Body' }).click();
    await panel.getByText('The body of this request was not kept.').waitFor();
    await panel.getByRole('button', { name: 'Show the row' }).click();
    await panel.getByRole('tab', { name: 'Row', selected: true }).waitFor();
    await panel.getByRole('tab', { name: 'Body' }).click();
    await panel.getByRole('button', { name: 'Keep bodies from now on' }).click();
    await within(10_000, async () => {
      const { rows: found } = await client.query<{ what: string }>(
        `SELECT options ->> 'inspect' AS what FROM headgate.webhook_table WHERE relation = 'plain'::regclass`,
      );
      assert.equal(found[0]?.what, 'bodies');
    });
    await page.keyboard.press('Escape');

    // Filters are the address; Back leads through them.
    await page.getByRole('button', { name: /^Refused/ }).click();
    await within(10_000, async () => assert.equal(await rows(page).count(), 6));
    await page.getByRole('searchbox', { name: 'Search requests' }).fill('evt_5');
    await within(10_000, async () => assert.equal(await rows(page).count(), 1));
    assert.match(page.url(), /result=refused&q=evt_5/);
    await page.goBack();
    await within(10_000, async () => assert.equal(await rows(page).count(), 6));
    await open('requests?event=charge.succeeded&sender=stripe');
    await within(10_000, async () => assert.equal(await rows(page).count(), 2));
    await open('requests?result=refused&schema=public&table=refunds&q=nothing%20has%20this');
    await page.getByText('No request matches.').waitFor();

    // Each refusal can be chosen, whoever adds one.
    const codes = Object.keys(refusals).filter((code) => !Object.hasOwn(consoleRefusals, code));
    await open('requests');
    await page.getByRole('button', { name: '+ Code' }).click();
    await page.getByText(`Type to find the other ${codes.length - 12}`).waitFor();
    await page.getByRole('button', { name: 'signature_failed' }).click();
    await within(10_000, async () => assert.equal(await rows(page).count(), 4));
    assert.match(page.url(), /code=signature_failed/);

    // Old addresses lead on.
    await open('refused?table=refunds');
    await within(10_000, async () => assert.equal(await rows(page).count(), 1));
    assert.match(page.url(), /#\/dev\/requests\?result=refused&table=refunds/);

    // The page of one request.
    const { rows: late } = await client.query<{ id: string; cause: unknown }>(
      `SELECT id, cause FROM headgate.rejected_requests WHERE cause ->> 'kind' = 'clock'`,
    );
    await open(`refused/${late[0]?.id}`);
    await page.getByText('The timestamp is 7 minutes old').waitFor();
    await page.getByText('5 minutes are allowed').waitFor();
    await page.getByText('What to do').waitFor();
    assert.deepEqual(await page.locator('button.danger').allTextContents(), [
      'Store it unchecked',
      'Delete it',
    ]);
    // Nothing runs out of the cards beside it, the question included.
    await page.locator('.danger-card input').fill('payments');
    await page.getByRole('button', { name: 'Store it unchecked' }).click();
    await page.getByRole('button', { name: 'Its signature is not checked. Store it?' }).waitFor();
    const wide = `[...document.querySelectorAll('aside .card, aside [role=tablist]')].filter((it) => it.scrollWidth > it.clientWidth).map((it) => it.textContent)`;
    assert.deepEqual(await page.evaluate(wide), []);
    await page.getByRole('button', { name: 'No', exact: true }).click();
    await shoot(page, 'page');
    for (const place of ['requests', `requests?open=r${late[0]?.id}`, `requests/r${late[0]?.id}`])
      for (const theme of ['light', 'dark'] as const) {
        await open('');
        await chooseTheme(page, theme);
        await open(place);
        await page
          .getByText(place === 'requests' ? 'Timestamp 7 minutes' : 'The timestamp is 7 minutes')
          .waitFor();
        assert.deepEqual(await serious(page), [], `${place} ${theme}`);
        for (const width of [390, 720, 1050, 1280, 1440]) {
          await page.setViewportSize({ width, height: 900 });
          await shoot(page, `${place.replaceAll(/\W+/g, '-')}-${width}-${theme}`);
          if (place.includes('open=')) assert.match(page.url(), new RegExp(`open=r${late[0]?.id}$`));
          const wide = await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth');
          assert(wide <= 0, `${place} is ${wide} px wider than ${width} px`);
          assert.deepEqual(await overlapping(page, '.timeline b, .timeline i'), [], `${place} ${width}`);
        }
      }
    await staysPut(headgate, page, late[0]?.id ?? '');
    await sameForAll(headgate, page, late[0]?.id ?? '');
    assert.deepEqual(complaints, []);
  });
});

/** A panel, a selection, the focus and what is typed, while a hundred requests a second arrive. */
async function staysPut(headgate: Headgate, page: Page, id: string): Promise<void> {
  const flood = async (): Promise<void> => {
    const answers = Array.from({ length: 100 }, async (_, i) => {
      await delay(i * 10);
      return headgate.post('dev/public/plain', `{"n":${i}}`);
    });
    for (const { status } of await Promise.all(answers)) assert.equal(status, 200);
  };
  const open = (place: string) => page.goto(`${headgate.adminUrl}/console/#/dev/${place}`);
  await open(`requests?open=r${id}`);
  const sentence = page.locator('.panel .sentence .title');
  await sentence.waitFor();
  for (const box of (await page.getByRole('checkbox', { name: /^Select the request/ }).all()).slice(0, 2))
    await box.check();
  const state = `JSON.stringify([location.hash, document.querySelector('.panel .sentence').textContent, document.querySelector('.requests').scrollTop,
    [...document.querySelectorAll('.lines .line')].slice(0, 5).map((it) => it.textContent), document.querySelector('.bulk b').textContent, document.activeElement.ariaLabel])`;
  const before = await page.evaluate<string>(state);
  await flood();
  await page.locator('.live-state', { hasText: /\d+\+? new/ }).waitFor();
  assert.equal(await page.evaluate<string>(state), before);
  await open(`requests/r${id}`);
  await page.getByText('Change it, and send it again').click();
  const body = page.getByRole('textbox', { name: 'Body' });
  await body.fill('{"half":');
  await flood();
  assert.equal(await body.inputValue(), '{"half":');
  await page.locator('textarea:focus').waitFor();
}

/** null: it is still loading. */
const viewOf = (page: Page) =>
  page.evaluate<string | null>(
    `document.querySelector('main h1') === null || document.querySelector('.skeleton') !== null ? null
      : JSON.stringify([location.hash, document.querySelector('main h1').textContent, ...[...document.querySelectorAll('.panel .sentence .title, main [role=tab][aria-selected=true], main input[type=search]')].map((it) => it.value ?? it.textContent)])`,
  );

/** Each address, cold in a new tab, reloaded, and by a colleague: the same view, and the same address. */
async function sameForAll(headgate: Headgate, page: Page, id: string): Promise<void> {
  const places = [
    ...Object.values(addressesOf('payments', id)),
    'endpoint/public/payments/rows?range=7d',
    'requests?result=refused&schema=public&table=payments&q=evt_2',
    `requests/r${id}?result=refused`,
  ];
  const tab = await page.context().newPage();
  const colleague = await openPage(page.context().browser() ?? assert.fail());
  await colleague.page.goto(await consoleLink(headgate));
  await colleague.page.getByRole('heading', { name: 'Overview' }).waitFor();
  for (const place of [`requests?open=r${id}`, ...sampleOf(places, 4)]) {
    const open = (of: Page) =>
      of.goto('about:blank').then(() => of.goto(`${headgate.adminUrl}/console/#/dev/${place}`));
    // What a page shows first may lack what it asks for by itself, such as the names of senders.
    const isSame = (of: Page) =>
      within(30_000, async () => {
        const [expected, shown] = [await viewOf(page), await viewOf(of)];
        assert.notEqual(expected, null, place);
        assert.deepEqual([place, shown], [place, expected]);
      });
    await open(page);
    await open(tab);
    await isSame(tab);
    await tab.reload();
    await isSame(tab);
    await open(colleague.page);
    await isSame(colleague.page);
  }
  await tab.close();
  await colleague.page.context().close();
}
