/**
 * Input of an attacker who wants to run a script in the owner's browser, or to block it; and checks that it stays text.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestContext } from 'node:test';
import type { Page } from 'playwright-core';
import { consoleLink, post } from './console.ts';
import { holds } from './console-walk.ts';
import type { Tried } from './console-walk.ts';

/** A foreign name that resolves to this machine. */
export const rebound = 'headgate.attacker.example';
const strange = '"><img src=x onerror=globalThis.xss=1><script>globalThis.xss=1</script>\u202e\u200b';
export const digits = ['12345678901234567890', '10.00', '1e400'];

async function hasNothingForeign(page: Page): Promise<void> {
  const foreign = `img:not([src="/console/icon.svg"]), script:not([src]), iframe, object, a[href^="javascript"]`;
  assert.equal(await page.evaluate(`document.querySelectorAll('${foreign}').length`), 0);
  assert.equal(await page.evaluate('globalThis.xss'), undefined);
}

/** Payloads, names and header values of an attacker who wants to run a script in the owner's browser. */
export async function staysText({ headgate, page, open }: Tried, t: TestContext): Promise<void> {
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
    // A long name loses its middle, and is whole in its title.
    if (place === '') await page.locator('.latest [title*="<img src=x"]').first().waitFor();
    else await shows(place === 'refused' ? 'guarded' : '<img src=x');
  }
  await open(`endpoint/public/${encodeURIComponent(name)}/rows`);
  await page.getByRole('button', { name: /big/ }).first().click();
  for (const wanted of [...digits.map((it) => `: ${it}`), 'U+202E', '<script>']) await shows(wanted);
  await open(`endpoint/public/${encodeURIComponent(name)}/definition`);
  await shows('INCLUDE HEADER');
  // The wizard, which goes on from its address, and a form that somebody else has filled in.
  await open(`new/anything?table=${encodeURIComponent(name)}`);
  await shows('<img src=x');
  await shows('Received.');
  await hasNothingForeign(page);
  const form = {
    header: 'x',
    algorithm: 'sha256',
    encoding: 'hex',
    prefix: strange,
    signed: [{ kind: 'body' }],
    timeHeader: '',
    ageS: 1,
  };
  await open(`new/hmac?form=${encodeURIComponent(JSON.stringify(form))}&name=${encodeURIComponent(strange)}`);
  await shows('<script>');
  await hasNothingForeign(page);
  await open('refused');
  await page.getByRole('cell', { name: 'guarded' }).first().click();
  for (const wanted of digits.map((it) => `: ${it}`)) await shows(wanted);
  await page.getByRole('tab', { name: /Headers/ }).click();
  await shows('x-other');
  await hasNothingForeign(page);
  const [, id = ''] = /open=r(\d+)/.exec(page.url()) ?? [];
  await page.getByRole('link', { name: 'Open its page' }).click();
  await page.getByText('Change it, and send it again').click();
  await open(`diff/1/${id}`);
  await shows('x-other: "><img src=x');
  await hasNothingForeign(page);
  await open('sql');
  await page
    .getByLabel('SQL')
    .fill(
      `SELECT ${digits[0]} AS big, ${digits[1]} AS money, '${digits[2]}'::json AS far, data FROM ${quoted}`,
    );
  await page.keyboard.press('Control+Enter');
  for (const wanted of digits) await page.getByRole('cell', { name: wanted, exact: true }).waitFor();
  await open(`refused?table=${encodeURIComponent(strange)}&text=${encodeURIComponent(strange)}`);
  await page.getByText('No request matches.').waitFor();
  await hasNothingForeign(page);
  await client.query(`DROP TABLE ${quoted}, guarded`);
}

const payloads = [
  '<script>globalThis.xss=1</script>',
  '"><img src=x onerror=globalThis.xss=1>',
  'javascript:globalThis.xss=1',
  '<svg/onload=globalThis.xss=1>',
  '{{constructor.constructor("globalThis.xss=1")()}}',
  '</textarea><iframe srcdoc="<script>parent.xss=1</script>">',
  '\u202e\u2066\u200b\ufeff\u0007',
  '\\u003cscript\\u003e',
  "'; DROP TABLE x; --",
  '=cmd|calc!A1',
];

/** Ten thousand such rows, and values larger, deeper and longer than any page should read. */
export async function standsFloods({ headgate, page, open }: Tried, t: TestContext): Promise<void> {
  const client = await headgate.client(t);
  await client.query(`CREATE TABLE flood (data JSONB) WITH (connector = 'webhook')`);
  await client.query(
    `INSERT INTO flood SELECT jsonb_build_object(p.all[1 + i % 10] || i, p.all[1 + (i / 10) % 10], 'n', i)
     FROM generate_series(1, 10000) i, (SELECT $1::text[]) AS p ("all")`,
    [payloads],
  );
  const longest = `new Promise((resolve) => {
    let most = 0;
    const seen = new PerformanceObserver((list) => { for (const it of list.getEntries()) most = Math.max(most, it.duration); });
    seen.observe({ entryTypes: ['longtask'] });
    resolve(globalThis.longest = () => most);
  })`;
  const tookMs: number[] = [];
  // The fastest of several runs: others use this machine as well.
  for (let turn = 0; turn < 5 && !(Math.min(...tookMs) < 200); turn++) {
    for (const place of ['', 'sql']) await open(place);
    await page.evaluate(longest);
    await page.getByLabel('SQL').fill(`SELECT data FROM flood OFFSET ${turn * 1_000}`);
    await page.keyboard.press('Control+Enter');
    await page.getByText('The first 1000 rows; there are more.').waitFor();
    await page.getByRole('button', { name: 'Show more' }).click();
    await holds(page, `document.querySelectorAll('.cells tbody tr').length === 200`);
    await hasNothingForeign(page);
    tookMs.push(await page.evaluate<number>('globalThis.longest()'));
  }
  assert(Math.min(...tookMs) < 200, `the tab was held up for ${tookMs.join(', ')} ms`);
  await page
    .getByLabel('SQL')
    .fill(
      `SELECT '1e131071'::jsonb AS long, repeat('[', 600) || repeat(']', 600) AS deep, repeat('{"a":', 40000) AS broken`,
    );
  await page.keyboard.press('Control+Enter');
  await page.getByRole('columnheader', { name: 'broken' }).waitFor();
  for (const at of [0, 1, 2]) {
    await page.locator('button.cell').nth(at).click();
    await page.locator('.result .card pre').waitFor();
    await page.getByRole('button', { name: 'Close' }).click();
  }
  await client.query(`INSERT INTO flood SELECT to_jsonb(repeat('x', 25 * 1024 * 1024))`);
  await open('endpoint/public/flood/rows');
  // PostgreSQL's own count of its text, with the quotation marks.
  await page.getByText(`${25 * 1024 * 1024 + 2} bytes, beginning with`).waitFor();
  assert.equal(await page.locator('.cells tbody tr').count(), 50);
}

/** Attempts of a page in another tab: on another port, or under a name that resolves to this machine. */
const attempts = `(base) => {
  const text = (url, init) => fetch(base + url, init).then((it) => it.text(), () => '');
  const body = '{"sql":"DROP TABLE github_events","write":true}';
  const plain = { method: 'POST', mode: 'no-cors', headers: { 'content-type': 'text/plain' }, body };
  const json = { method: 'POST', headers: { 'content-type': 'application/json', 'x-headgate-console': '1' }, body };
  const frame = document.body.appendChild(Object.assign(document.createElement('iframe'), { src: base }));
  const form = document.body.appendChild(document.createElement('form'));
  Object.assign(form, { method: 'POST', action: base + 'api/sql', enctype: 'text/plain', target: 'there' });
  form.append(Object.assign(document.createElement('input'), { name: '{"sql":"DROP TABLE github_events","write":true,"x":"', value: '"}' }));
  const there = document.body.appendChild(Object.assign(document.createElement('iframe'), { name: 'there' }));
  const framed = [frame, there].map((it) => new Promise((done) => (it.onload = () => done(it.contentDocument?.body.innerText ?? ''))));
  form.submit();
  return Promise.all([
    text(''), text('api/me'), text('api/login'), text('api/sql', plain), text('api/sql', json), text('api/login', plain), text('api/held', plain),
    text('api/me', { credentials: 'include', mode: 'no-cors' }), text('api/tail', { headers: { authorization: 'Bearer x' } }),
    import(base + 'main.js').then(() => 'loaded', () => ''), ...framed,
  ]);
}`;

export async function keepsOtherPagesOut({ headgate, page, base }: Tried, t: TestContext): Promise<void> {
  const server = createServer((_, response) => {
    response.setHeader('content-type', 'text/html').end('<!doctype html><title>other</title>');
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  t.after(() => new Promise((done) => server.close(done)));
  const { port } = server.address() as AddressInfo;
  const other = await page.context().newPage();
  const met: number[] = [];
  other.on('response', (response) => {
    if (response.url().includes('/console/api/')) met.push(response.status());
  });
  for (const host of ['127.0.0.1', 'localhost', rebound]) {
    await other.goto(`http://${host}:${port}/`);
    const read = await other.evaluate<string[]>(`(${attempts})(${JSON.stringify(base)})`);
    assert.deepEqual(new Set(read), new Set(['']), host);
  }
  assert(met.length > 0 && met.every((status) => status >= 400), met.join());
  // The name now resolves to this machine, so the page has the same origin as the console: the name is still wrong.
  const { port: admin } = headgate.ports.admin;
  await other.goto(`http://${rebound}:${admin}/console/`);
  const token = await page.evaluate<string>(`sessionStorage.getItem('headgate-token')`);
  const statuses = await other.evaluate<number[]>(
    `Promise.all(['', 'icon.svg', 'api/login', 'api/me', 'api/health', 'api/machine', 'api/senders', 'api/tail', 'api/retry'].map((path) =>
      fetch('/console/' + path, { headers: { authorization: 'Bearer ${token}', 'x-headgate-console': '1' } }).then((it) => it.status)))`,
  );
  assert.deepEqual(new Set(statuses), new Set([421]));
  await other.close();
  const client = await headgate.client(t);
  await client.query('SELECT FROM github_events');
}

/** Exactly one of them gets in. */
export async function letsInOne({ headgate }: Tried): Promise<void> {
  const link = (await consoleLink(headgate)).split('#t=')[1];
  const { port } = headgate.ports.admin;
  const all = await Promise.all(Array.from({ length: 50 }, () => post(port, 'login', { link })));
  const statuses = all.map(({ status }) => status).toSorted((a, b) => a - b);
  assert.deepEqual(statuses, [200, ...Array.from({ length: 49 }, () => 401)]);
}
