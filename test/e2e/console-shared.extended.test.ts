/** A login of the console that is shared by a link: what the link gives, and attempts to get more out of it. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { Client, escapeIdentifier } from 'pg';
import { limits } from '../../src/config/limits.ts';
import type { Me, SharedLogin } from '../../src/console/api.ts';
import { onEnd } from '../support/cleanup.ts';
import { ask, chooseInMenu, jsonHeaders, logOut, openBrowser, openPage } from '../support/console.ts';
import type { Asked } from '../support/console.ts';
import { serious } from '../support/console-walk.ts';
import { startHeadgate } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { requireBrowser } from '../support/tools.ts';
import { within } from '../support/within.ts';

const password = 'the right one';

async function rootOf(t: TestContext, { ports }: Headgate): Promise<Client> {
  const client = new Client({
    host: '127.0.0.1',
    port: ports.sql.port,
    user: 'root',
    password,
    database: 'dev',
  });
  client.on('error', () => {});
  await client.connect();
  onEnd(t, 'client', () => client.end());
  return client;
}

interface Call {
  readonly token?: string;
  /** Attempts are counted by address: 127.0.0.1 and its neighbours are all this machine's. */
  readonly from?: string;
  readonly headers?: Record<string, string>;
}

suite("the console's shared links log in once", () => {
  test('a shared console link gives one session of the same role and nothing more', async (t) => {
    const headgate = await startHeadgate(t, { env: { HEADGATE_SQL_PASSWORD: password } });
    const { port } = headgate.ports.admin;
    const post = (
      path: string,
      value: unknown,
      { token = '', from = '127.0.0.1', headers = {} }: Call = {},
    ) => {
      const authorization: Record<string, string> = token === '' ? {} : { authorization: `Bearer ${token}` };
      return ask(port, `/console/api/${path}`, {
        method: 'POST',
        headers: { ...jsonHeaders, ...authorization, ...headers },
        body: JSON.stringify(value),
        from,
      });
    };
    const textOf = ({ text }: Asked, name: 'token' | 'key' | 'code'): string =>
      (JSON.parse(text) as Record<string, string>)[name] ?? '';
    const enter = async (user: string): Promise<string> =>
      textOf(await post('login', { user, password }), 'token');
    const meOf = async (token: string): Promise<Me> =>
      JSON.parse(
        (await ask(port, '/console/api/me', { headers: { authorization: `Bearer ${token}` } })).text,
      ) as Me;
    const share = async (token: string): Promise<string> => textOf(await post('share', {}, { token }), 'key');
    const redeem = (shared: string, call: Call = {}): Promise<Asked> => post('login', { shared }, call);
    const client = await rootOf(t, headgate);
    await client.query(`CREATE ROLE ann LOGIN PASSWORD '${password}'`);
    await client.query('CREATE DATABASE other');

    // Only a session makes one.
    assert.equal((await post('share', {})).status, 401);
    const ann = await enter('ann');
    const key = await share(ann);
    // 256 bits.
    assert.match(key, /^[\w-]{43}$/);

    // What looks at links for people asks for the page, and finds no other address by GET.
    for (const path of [
      '/console/',
      `/console/?s=${key}`,
      '/console/api/login',
      '/console/api/shared-link',
      `/console/api/login?shared=${key}`,
    ])
      assert.notEqual((await ask(port, path)).status, 401, path);
    const looked = await post('shared-link', { key });
    const { role, database, leftMs } = JSON.parse(looked.text) as SharedLogin;
    assert.deepEqual([role, database], ['ann', 'dev']);
    assert(leftMs > 0 && leftMs <= limits.consoleSessionMs);
    // Pages of others, and another name of this machine.
    assert.equal((await redeem(key, { headers: { 'sec-fetch-site': 'cross-site' } })).status, 403);
    assert.equal((await redeem(key, { headers: { host: 'attacker.example' } })).status, 421);
    assert.equal((await redeem(key, { headers: { host: `localhost:${port}` } })).status, 401);
    // A link names no role and no database, whatever is asked for beside it.
    const race = await Promise.all(
      Array.from({ length: 40 }, (_, i) =>
        post('login', { shared: key, user: 'root', database: 'other' }, { from: `127.0.1.${i + 1}` }),
      ),
    );
    const winners = race.filter(({ status }) => status === 200);
    assert.equal(winners.length, 1);
    assert(race.every(({ status }) => status === 200 || status === 401));
    const guest = textOf(winners[0] ?? assert.fail(), 'token');
    const me = await meOf(guest);
    assert.deepEqual([me.role, me.database, me.shared, me.superuser], ['ann', 'dev', true, false]);
    assert.equal((await meOf(ann)).shared, false);

    // The guest shares no further and stays in the database; a further tab is the same login.
    assert.equal(textOf(await post('share', {}, { token: guest }), 'code'), 'login_shared');
    assert.equal(textOf(await post('tab', { database: 'other' }, { token: guest }), 'code'), 'login_shared');
    assert.equal((await post('tab', { database: 'other' }, { token: ann })).status, 200);
    const tab = textOf(await post('tab', {}, { token: guest }), 'token');
    assert.equal((await meOf(tab)).shared, true);

    // Taken back, and too many.
    const unwanted = await share(ann);
    assert.equal(
      (await post('shared-link', { key: unwanted, drop: true }, { from: '127.0.2.1' })).status,
      200,
    );
    assert.equal((await redeem(unwanted, { from: '127.0.2.1' })).status, 401);
    const keys: string[] = [];
    for (let i = 1; i < limits.consoleSharedMax; i++) keys.push(await share(ann));
    assert.equal((await post('share', {}, { token: ann })).status, 503);

    // Guesses count as wrong passwords do, together with them; a right key that is not looked at is not used up.
    const from = '127.0.3.1';
    const guesses: number[] = [];
    for (let i = 0; i < 4; i++)
      guesses.push(
        (
          await post(
            i % 2 === 0 ? 'login' : 'shared-link',
            { shared: `guess${i}`, key: `guess${i}` },
            { from },
          )
        ).status,
      );
    guesses.push((await post('login', { user: 'ann', password: 'wrong' }, { from })).status);
    for (const it of ['guess', keys[0] ?? '']) guesses.push((await redeem(it, { from })).status);
    assert.deepEqual(guesses, [401, 401, 401, 401, 401, 429, 429]);
    const second = textOf(await redeem(keys[0] ?? '', { from: '127.0.3.2' }), 'token');
    assert.equal((await meOf(second)).role, 'ann');

    // A guest that logs out ends nobody else; when the maker does, all of it ends: guests, their tabs, links.
    await post('logout', {}, { token: second });
    assert.equal((await post('tab', {}, { token: second })).status, 401);
    assert.equal((await meOf(guest)).role, 'ann');
    const again = await enter('ann');
    await post('logout', {}, { token: ann });
    for (const token of [guest, tab, ann]) assert.equal((await post('tab', {}, { token })).status, 401);
    assert.equal((await redeem(keys[1] ?? '', { from: '127.0.4.1' })).status, 401);
    // Another login of the role has nothing to do with it.
    const last = await share(again);
    await client.query('ALTER ROLE ann NOLOGIN');
    assert.equal((await redeem(last, { from: '127.0.4.2' })).status, 401);
    await within(5_000, async () => {
      await new Promise(setImmediate);
      assert.match(headgate.stderr, /"user":"ann".*"kind":"console\.shared"/);
      assert.match(headgate.stderr, /"by":"shared link".*"kind":"console\.entered"/);
    });
    // The log has no key.
    for (const it of [key, last, ...keys]) assert(!headgate.stderr.includes(it));
  });

  test("the console's menu “Share” copies address, SQL, command and a link that logs in once after confirmation", async (t) => {
    const chromium = requireBrowser(t);
    if (chromium === null) return;
    const headgate = await startHeadgate(t, {
      env: { HEADGATE_SQL_PASSWORD: password, HEADGATE_CONSOLE_HOSTS: 'attacker.example' },
    });
    const client = await rootOf(t, headgate);
    await client.query(
      `CREATE TABLE payments (data JSONB, id INT GENERATED ALWAYS AS IDENTITY PRIMARY KEY) WITH (connector = 'webhook', document = 'data')`,
    );
    const base = `${headgate.adminUrl}/console/`;
    const browser = await openBrowser(t, chromium, 'attacker.example');
    const { page, complaints } = await openPage(browser);
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    await page.goto(base);
    await page.getByLabel('Role').fill('root');
    await page.getByLabel('Password').fill(password);
    await page.getByRole('button', { name: 'Log in' }).click();
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    const place = '#/dev/requests?result=refused&schema=public&table=payments';
    await page.goto(`${base}${place}`);
    const copied = async (choice: RegExp): Promise<string> => {
      const button = page.locator('.menu').getByRole('button', { name: choice });
      await button.click();
      await button.getByText('Copied').waitFor();
      return page.evaluate<string>('navigator.clipboard.readText()');
    };
    const openMenu = () => page.getByRole('button', { name: 'Share' }).click();
    await openMenu();
    await page.locator('.menu').getByText('refused, payments').waitFor();
    assert.deepEqual(await serious(page), []);
    assert.equal(await copied(/^Copy address/), `${base}${place}`);
    assert.match(await copied(/^Copy as SQL/), /rejected_requests/);
    assert.equal(await copied(/^Copy as command/), 'headgate tail public.payments --failed');
    const link = await copied(/^Copy a link that logs in, once Whoever opens it within 10 minutes is root/);
    assert(link.startsWith(`${base}#s=`) && link.endsWith(`&to=${place.slice(1)}`), link);

    // Opening it tells what it gives, and uses nothing up: twice.
    for (const theme of ['light', 'dark'] as const) {
      const preview = await openPage(browser, theme);
      await preview.page.goto(link);
      await preview.page.getByText('This link logs you in as root in dev').waitFor();
      assert.deepEqual(await serious(preview.page), []);
      assert.equal(new URL(preview.page.url()).hash, place);
      await preview.page.context().close();
    }
    const receiver = await openPage(browser);
    await receiver.page.goto(link);
    await receiver.page.getByRole('button', { name: 'Log in as root' }).click();
    await receiver.page.getByRole('heading', { name: 'Requests' }).waitFor();
    assert.equal(new URL(receiver.page.url()).hash, place);
    await receiver.page.getByRole('button', { name: 'Share' }).click();
    await receiver.page.getByText('it is shared no further').waitFor();
    assert.equal(
      await receiver.page.getByRole('button', { name: /^Copy a link that logs in/ }).isEnabled(),
      false,
    );
    const late = await openPage(browser);
    await late.page.goto(link);
    await late.page.getByText('This link was already used').waitFor();
    await late.page.getByLabel('Role').waitFor();

    // Pasted where that role is logged in: the page goes where the link leads, and the key is worth nothing any more.
    const own = await copied(/^Copy a link that logs in, once/);
    const kept = await page.evaluate<string>(`sessionStorage.getItem('headgate-token')`);
    await page.goto(own.replace('result=refused', 'result=stored'));
    await page.getByText('You were logged in already. The link has been used up.').waitFor();
    assert.match(new URL(page.url()).hash, /^#\/dev\/requests\?result=stored/);
    assert.equal(await page.evaluate(`sessionStorage.getItem('headgate-token')`), kept);
    await page.getByRole('button', { name: 'Close' }).click();
    await late.page.goto(own);
    await late.page.getByText('This link was already used').waitFor();
    await page.goBack();
    assert.doesNotMatch(page.url(), /#s=/);

    // Taken back.
    await openMenu();
    const unwanted = await copied(/^Copy a link that logs in, once/);
    await page.getByRole('button', { name: 'Take it back' }).click();
    await page.getByText('Taken back').waitFor();
    await late.page.goto(unwanted);
    await late.page.getByText('This link was already used').waitFor();

    // On the page of an endpoint, whatever it is called: its name is text, the menu holds all of it, and the link leads there.
    const name = `p&to=/sql#s=x' "<img src=x onerror=alert(1)>\u202e.y`;
    await client.query(`CREATE TABLE ${escapeIdentifier(name)} (data JSONB) WITH (connector = 'webhook')`);
    const there = `#/dev/${['endpoint', 'public', name].map(encodeURIComponent).join('/')}`;
    await page.goto(`${base}${there}`);
    await openMenu();
    const menu = page.locator('.menu');
    await menu.getByText('U+202E').first().waitFor();
    const command = (await copied(/^Copy as command/)).replace(/^headgate tail /, '');
    assert.equal(
      execFileSync('bash', ['-c', `printf %s ${command}`], { encoding: 'utf8' }),
      `public.${name}`,
    );
    const led = await copied(/^Copy a link that logs in, once/);
    for (const [width, height] of [
      [1440, 900],
      [1280, 860],
      [390, 844],
    ] as const) {
      await page.setViewportSize({ width, height });
      const [left, right, hidden] = await page.evaluate<number[]>(
        `((it, at) => [at.left, innerWidth - at.right, it.scrollHeight - it.clientHeight])(...((it) => [it, it.getBoundingClientRect()])(document.querySelector('.menu')))`,
      );
      assert(
        Math.min(left ?? -1, right ?? -1) >= 0 && hidden === 0,
        `${width} px: ${left}, ${right}, ${hidden}`,
      );
    }
    assert.equal(await page.locator('main img').count(), 0);
    const guided = await openPage(browser);
    await guided.page.goto(led);
    await guided.page.getByText('This link logs you in as root in dev').waitFor();
    assert.equal(decodeURIComponent(new URL(guided.page.url()).hash), decodeURIComponent(there));
    await guided.page.context().close();
    await page.getByRole('button', { name: 'Take it back' }).click();
    await page.getByText('Taken back').waitFor();
    await page.setViewportSize({ width: 1280, height: 860 });
    await page.goto(`${base}${place}`);

    // Another role decides whether it stays who it is.
    await client.query(`CREATE ROLE ann LOGIN PASSWORD '${password}'`);
    await late.page.getByLabel('Role').fill('ann');
    await late.page.getByLabel('Password').fill(password);
    await late.page.getByRole('button', { name: 'Log in' }).click();
    await late.page.getByRole('heading', { name: 'Requests' }).waitFor();
    await page.keyboard.press('Escape');
    await openMenu();
    const offered = await copied(/^Copy a link that logs in, once/);
    await late.page.goto(offered);
    await late.page.getByRole('button', { name: 'Stay ann, and use it up' }).click();
    await late.page.getByRole('heading', { name: 'Requests' }).waitFor();
    await late.page.getByRole('navigation').getByText('ann', { exact: true }).waitFor();

    // Where the browser has no clipboard API, and where it copies nothing at all.
    const plain = await openPage(browser);
    await plain.page.goto(`http://attacker.example:${headgate.ports.admin.port}/console/`);
    assert.equal(await plain.page.evaluate('isSecureContext'), false);
    await plain.page.getByLabel('Role').fill('ann');
    await plain.page.getByLabel('Password').fill(password);
    await plain.page.getByRole('button', { name: 'Log in' }).click();
    await plain.page.goto(`http://attacker.example:${headgate.ports.admin.port}/console/#/dev/requests`);
    await plain.page.getByRole('button', { name: 'Share' }).click();
    const makes = plain.page.getByRole('button', { name: /^Copy a link that logs in, once/ });
    await makes.click();
    await makes.getByText('Copied', { exact: true }).waitFor();
    await plain.page.getByRole('button', { name: 'Take it back' }).click();
    await plain.page.evaluate('document.execCommand = () => false');
    await makes.click();
    await makes.getByText('Not copied').waitFor();
    assert.match(
      await plain.page.locator('.menu code, .menu pre').innerText(),
      /^http:\/\/attacker\.example:\d+\/console\/#s=[\w-]{43}&to=/,
    );
    await plain.page.context().close();

    // The maker leaves, and so do those who came by his links.
    await page.keyboard.press('Escape');
    await logOut(page);
    await receiver.page.getByLabel('Password').waitFor();
    await chooseInMenu(late.page, /Theme, keys, log out$/, 'Dark');
    assert.deepEqual([...complaints, ...receiver.complaints, ...late.complaints], []);
  });
});
