/** Getting into the console: links, new tabs, databases, passwords; and attempts to get in without them. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { suite, test } from 'node:test';
import type { Page } from 'playwright-core';
import {
  ask,
  chooseInMenu,
  consoleLink,
  logOut,
  openBrowser,
  openConsole,
  openPage,
  post,
} from '../support/console.ts';
import { holds, serious } from '../support/console-walk.ts';
import { startHeadgate } from '../support/headgate.ts';
import { requireBrowser } from '../support/tools.ts';

const overview = (page: Page) => page.getByRole('heading', { name: 'Overview' }).waitFor();
const tokenOf = (page: Page) => page.evaluate<string>(`sessionStorage.getItem('headgate-token')`);

suite('console logins work for all tabs and are limited', () => {
  test('a console login by link extends to new tabs without a cookie, and a logout ends all tabs', async (t) => {
    const chromium = requireBrowser(t);
    if (chromium === null) return;
    const headgate = await startHeadgate(t);
    const { port } = headgate.ports.admin;
    const base = `${headgate.adminUrl}/console/`;
    const client = await headgate.client(t);
    await client.query('CREATE DATABASE "other one"');
    const { page, complaints } = await openConsole(t, headgate, chromium);
    const context = page.context();

    // A link that is pasted into a tab that is in: used up, and gone from address and history.
    await page.goto(`${base}#/secrets`);
    const link = await consoleLink(headgate);
    await page.goto(`${link}&to=/requests?code=row_refused`);
    await page.getByRole('heading', { name: 'Requests' }).waitFor();
    assert.equal(new URL(page.url()).hash, '#/dev/requests?code=row_refused');
    assert.equal((await post(port, 'login', { link: link.split('#t=')[1] })).status, 401);
    await page.goBack();
    assert.equal(new URL(page.url()).hash, '#/dev/secrets');
    await page.goto(await consoleLink(headgate));
    await page.getByRole('heading', { name: 'Secrets' }).waitFor();
    assert.equal(new URL(page.url()).hash, '#/dev/secrets');

    // New tabs, of which one is opened by a link within the page.
    const second = await context.newPage();
    await second.goto(`${base}#/health`);
    await second.getByRole('heading', { name: 'Health' }).waitFor();
    await page.goto(`${base}#/endpoints`);
    const opening = context.waitForEvent('page');
    await page.getByRole('link', { name: 'Health' }).click({ modifiers: ['Control'] });
    const third = await opening;
    await third.getByRole('heading', { name: 'Health' }).waitFor();
    assert.deepEqual(await context.cookies(), []);
    const tokens = await Promise.all([page, second, third].map(tokenOf));
    assert.equal(new Set(tokens).size, 3);

    // Another port, another name and another profile of the browser get nothing.
    const server = createServer((_, response) => void response.end('<!doctype html><title>x</title>'));
    await once(server.listen(0, '127.0.0.1'), 'listening');
    t.after(() => new Promise((done) => server.close(done)));
    const foreign = await context.newPage();
    await foreign.goto(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
    const heard = foreign.evaluate<unknown[]>(`new Promise((resolve) => {
      const heard = [];
      const channel = new BroadcastChannel('headgate');
      channel.onmessage = ({ data }) => heard.push(data);
      channel.postMessage({ kind: 'ask', nonce: 'x' });
      globalThis.stop = () => resolve(heard);
    })`);
    const named = await context.newPage();
    await named.goto(`http://localhost:${port}/console/#/health`);
    await named.getByText('Log in with a link').waitFor();
    assert.match(await named.locator('.code pre').innerText(), /headgate console --open \/health/);
    await named.getByText('Then: health').waitFor();
    const profile = await openPage(context.browser() ?? assert.fail());
    await profile.page.goto(base);
    await profile.page.getByText('Log in with a link').waitFor();
    await foreign.evaluate('globalThis.stop()');
    assert.deepEqual(await heard, []);

    // The databases that PostgreSQL lists, and the rows of the one that was chosen.
    const { rows } = await client.query<{ datname: string }>(
      'SELECT datname FROM pg_database WHERE NOT datistemplate AND datallowconn ORDER BY 1',
    );
    const menu = second.getByRole('button', { name: /^Database/ });
    await menu.click();
    const choices = second.locator('.menu .choice .grow');
    await choices.first().waitFor();
    assert.deepEqual(
      await choices.allTextContents(),
      rows.map(({ datname }) => datname),
    );
    assert.equal(await second.locator('.menu [aria-pressed=true] .grow').innerText(), 'dev');
    // Escape leaves it, with the focus where it was.
    await second.keyboard.press('Escape');
    assert.equal(await choices.count(), 0);
    await second.locator('.database:focus').waitFor();
    await menu.click();
    await second.getByRole('button', { name: 'other one' }).click();
    await overview(second);
    // Nothing of Headgate is there yet, which is no mistake.
    await second.getByText('Ready. Nothing has been received yet.').waitFor();
    assert.equal(await second.locator('.wrong').count(), 0);
    await second.goto(`${base}#/sql`);
    await second.getByLabel('SQL').fill('SELECT current_database()');
    await second.keyboard.press('Control+Enter');
    await second.getByRole('cell', { name: 'other one' }).waitFor();
    // The database is the first part of each address: a link enters it, and Back leaves it.
    assert.match(new URL(second.url()).hash, /^#\/other%20one\//);
    await page.goto(`${base}#/other%20one/sql`);
    await page.getByLabel('SQL', { exact: true }).fill('SELECT current_database()');
    await page.keyboard.press('Control+Enter');
    await page.getByRole('cell', { name: 'other one' }).waitFor();
    await page.goto(`${base}#/no%20such%20one/sql`);
    await page.getByText('No database').waitFor();
    await page.goto(`${base}#/dev/secrets`);
    await page.getByRole('heading', { name: 'Secrets' }).waitFor();
    await page.getByRole('button', { name: /^Database\s*dev/ }).waitFor();
    // The one that was entered, or used, last.
    const lastIs = (database: string) =>
      holds(page, `JSON.parse(localStorage.getItem('headgate-place'))[1] === '${database}'`);
    await lastIs('dev');
    await second.getByLabel('SQL', { exact: true }).click();
    await lastIs('other one');
    assert.equal((await post(port, 'tab', { database: 'no such one' }, tokens[0])).status, 422);
    assert.equal((await post(port, 'tab', { database: 'template0' }, tokens[0])).status, 422);
    // A tab that is opened from there belongs there.
    const fourth = await context.newPage();
    // It takes what another tab offers if the one that was used last has not answered in 150 ms, as on a machine that is busy.
    await fourth.addInitScript(
      `{ const later = setTimeout; globalThis.setTimeout = (run, ms, ...of) => later(run, ms === 150 ? 30_000 : ms, ...of); }`,
    );
    await fourth.goto(base);
    await fourth.getByRole('button', { name: /^Database\s*other one/ }).waitFor();

    const all = await Promise.all([page, second, third, fourth].map(tokenOf));
    // The menu says how many tabs it ends; those of other names and browsers are no part of it.
    await chooseInMenu(page, /Theme, keys, log out$/, 'Log out in 4 tabs');
    for (const tab of [page, second, third, fourth]) await tab.getByText('Log in with a link').waitFor();
    // Whoever has stolen one of their tokens has nothing any more.
    for (const token of [...tokens, ...all]) {
      const headers = { authorization: `Bearer ${token}` };
      assert.equal((await ask(port, '/console/api/me', { headers })).status, 401);
      assert.equal((await post(port, 'tab', {}, token)).status, 401);
    }
    // A link is pasted into the field of the login page, as a terminal has wrapped it, or its key alone. One tab gets in, and the waiting ones follow
    // to where they were.
    const field = page.getByLabel(/paste it here/);
    await field.fill(`${base}#t=${'A'.repeat(43)}&to=/events`);
    await page.getByText('This link was already used').waitFor();
    assert.equal(await field.inputValue(), '');
    assert.deepEqual(await serious(page), []);
    for (const text of [
      'javascript:alert(1)',
      'https://attacker.example/?t=x',
      '<img src=x onerror=alert(1)>',
    ]) {
      await field.fill(text);
      await page.keyboard.press('Enter');
      await page.getByText('This is no link of Headgate.').waitFor();
    }
    assert.equal(new URL(page.url()).hash, '#/events');
    const [, key = ''] = (await consoleLink(headgate)).split('#t=');
    await field.fill(` ${base}#t=${key.slice(0, 20)}  ${key.slice(20)}&to=/secrets?q=x `);
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Secrets' }).waitFor();
    await holds(page, `location.hash === '#/dev/secrets?q=x'`);
    await third.getByRole('heading', { name: 'Health' }).waitFor();
    await second.getByLabel('SQL').waitFor();
    assert.equal(await second.getByLabel('SQL').inputValue(), 'SELECT current_database()');
    await profile.page.getByLabel(/paste it here/).fill((await consoleLink(headgate)).split('#t=')[1] ?? '');
    await profile.page.keyboard.press('Enter');
    await overview(profile.page);
    await logOut(profile.page);
    await profile.page.goBack();
    assert.doesNotMatch(profile.page.url(), /t=/);
    await page.getByRole('heading', { name: 'Secrets' }).waitFor();
    assert.deepEqual(complaints, []);
  });

  test('the console limits wrong passwords but not right ones, and a deep link survives the login', async (t) => {
    const chromium = requireBrowser(t);
    if (chromium === null) return;
    const headgate = await startHeadgate(t, { env: { HEADGATE_SQL_PASSWORD: 'the right one' } });
    const { port } = headgate.ports.admin;
    const logIn = (password: string) => post(port, 'login', { user: 'root', password });
    for (let i = 0; i < 12; i++) assert.equal((await logIn('the right one')).status, 200, String(i));
    const wrong: number[] = [];
    for (let i = 0; i < 7; i++) {
      wrong.push((await logIn(`wrong ${i}`)).status);
      // A right one in between pays for none of them.
      if (i < 5) assert.equal((await logIn('the right one')).status, i < 4 ? 200 : 429);
    }
    assert.deepEqual(wrong, [401, 401, 401, 401, 401, 429, 429]);
    // A role that logs in as often as it likes ends only its own logins.
    const other = await startHeadgate(t, { env: { HEADGATE_SQL_PASSWORD: 'the right one' } });
    const enter = async (user: string): Promise<string> => {
      const { text } = await post(other.ports.admin.port, 'login', { user, password: 'the right one' });
      return (JSON.parse(text) as { token: string }).token;
    };
    const token = await enter('root');
    await post(
      other.ports.admin.port,
      'sql',
      { sql: `CREATE ROLE mallory LOGIN PASSWORD 'the right one'`, write: true },
      token,
    );
    for (let i = 0; i < 40; i++) await enter('mallory');
    const headers = { authorization: `Bearer ${token}` };
    assert.equal((await ask(other.ports.admin.port, '/console/api/me', { headers })).status, 200);
    // One role does not take all of the live streams.
    const greedy = await enter('mallory');
    const leaving = new AbortController();
    const watch = (of: string) =>
      fetch(`${other.adminUrl}/console/api/tail`, {
        headers: { authorization: `Bearer ${of}` },
        signal: leaving.signal,
      });
    // Kept: fetch ends the stream of an answer that nobody refers to any more, at the next garbage collection.
    const streams = [];
    for (let i = 0; i < 17; i++) streams.push(await watch(greedy));
    const seventeen = streams.map(({ status }) => status);
    assert.deepEqual(seventeen, [...Array.from({ length: 16 }, () => 200), 503]);
    streams.push(await watch(token));
    assert.equal(streams.at(-1)?.status, 200);
    leaving.abort();
    const { page } = await openPage(await openBrowser(t, chromium, 'attacker.example'));
    await page.goto(`${other.adminUrl}/console/#/health`);
    await page.getByLabel('Role').fill('root');
    await page.getByLabel('Password').fill('the right one');
    await page.getByRole('button', { name: 'Log in' }).click();
    await page.getByRole('heading', { name: 'Health' }).waitFor();
  });
});
