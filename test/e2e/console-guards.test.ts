/** Who gets what of the console: names, pages of others, tokens, passwords, roles, and how much of anything. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { request as httpRequest } from 'node:http';
import type { IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Client } from 'pg';
import { limits } from '../../src/config/limits.ts';
import type { SqlResponse } from '../../src/console/api.ts';
import { emptyForm } from '../../src/console/custom-hmac.ts';
import { onEnd } from '../support/cleanup.ts';
import { ask, cli, jsonHeaders, openBrowser, openPage, post } from '../support/console.ts';
import { startHeadgate } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { root } from '../support/package.ts';
import { run } from '../support/run.ts';
import { requireBrowser } from '../support/tools.ts';
import { sampleOf } from '../support/sample.ts';
import { within } from '../support/within.ts';

const assets = fileURLToPath(new URL('../../console/', import.meta.url));
const password = 'root password';

async function clientOf(t: TestContext, { ports }: Headgate, user: string, its: string): Promise<Client> {
  const client = new Client({
    host: '127.0.0.1',
    port: ports.sql.port,
    user,
    password: its,
    database: 'dev',
  });
  client.on('error', () => {});
  await client.connect();
  onEnd(t, 'client', () => client.end());
  return client;
}

async function enterAs({ ports }: Headgate, user: string, its: string): Promise<string> {
  const { status, text } = await post(ports.admin.port, 'login', { user, password: its });
  assert.equal(status, 200, text);
  return (JSON.parse(text) as { token: string }).token;
}

/** Every file of the page, and every path behind it. */
const paths = [
  '/console',
  '/console/',
  ...readdirSync(assets).map((name) => `/console/${name}`),
  ...[
    'login',
    'logout',
    'tab',
    'local',
    'me',
    'senders',
    'health',
    'machine',
    'make-secret',
    'send',
    'replay',
    'held',
    'requests',
    'request',
    'try-hmac',
    'which-sender',
    'unusable',
    'secret-form',
    'retry',
    'retry-cancel',
    'sql',
    'tail',
    'nothing',
  ].map((name) => `/console/api/${name}`),
  '/console/../metrics',
  '/console/%2e%2e/x',
];

async function refusesNames({ ports: { admin } }: Headgate): Promise<void> {
  const all = paths.flatMap((path) =>
    ['attacker.example', `attacker.example:${admin.port}`, '127.0.0.1.attacker.example', '0.0.0.0'].flatMap(
      (host) => [
        { path, host, method: 'GET' },
        { path, host, method: 'POST' },
      ],
    ),
  );
  for (const { path, host, method } of sampleOf(all, 40)) {
    const { status, headers, text } = await ask(admin.port, path, {
      method,
      headers: { ...jsonHeaders, host },
    });
    assert.equal(status, 421, `${method} ${path} as ${host}: ${text}`);
    assert.equal(headers['access-control-allow-origin'], undefined);
  }
  // A scraper calls it as it likes.
  assert.equal((await ask(admin.port, '/healthz', { headers: { host: 'attacker.example' } })).status, 200);
  assert.equal(
    (await ask(admin.port, '/console/', { headers: { host: 'console.example.com' } })).status,
    200,
  );
}

async function guardsAnswers({ ports: { admin } }: Headgate): Promise<void> {
  const page = await ask(admin.port, '/console/');
  assert.equal(
    page.headers['content-security-policy'],
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
  );
  assert.doesNotMatch(page.text, /<style|style=|<script(?! type="module" src=)| on\w+=|https?:/);
  const script = /main-\w+\.js/.exec(page.text)?.[0] ?? '';
  for (const [path, cached] of [
    ['/console/', 'no-cache'],
    [`/console/${script}`, 'public, max-age=31536000, immutable'],
    ['/console/api/login', 'no-store'],
    ['/console/nothing.js', 'no-store'],
  ] as const) {
    const { headers } = await ask(admin.port, path);
    assert.equal(headers['cache-control'], cached, path);
    assert.equal(headers['x-content-type-options'], 'nosniff');
    assert.equal(headers['cross-origin-opener-policy'], 'same-origin');
    assert.equal(headers['cross-origin-resource-policy'], 'same-origin');
    assert.equal(headers['x-frame-options'], 'DENY');
    assert.equal(headers['referrer-policy'], 'no-referrer');
    assert.equal(headers['set-cookie'], undefined);
  }
  const packed = await ask(admin.port, `/console/${script}`, {
    headers: { 'accept-encoding': 'gzip, br;q=0' },
  });
  assert.equal(packed.headers['content-encoding'], 'gzip');
  const etag = String(packed.headers['etag']);
  const again = { 'accept-encoding': 'gzip', 'if-none-match': etag };
  assert.equal((await ask(admin.port, `/console/${script}`, { headers: again })).status, 304);
  assert.equal((await ask(admin.port, '/console/', { method: 'POST' })).status, 405);
  assert.equal((await ask(admin.port, '/console/', { method: 'HEAD' })).text, '');
  assert.equal((await ask(admin.port, '/console')).headers['location'], '/console/');
}

async function refusesOthers(headgate: Headgate): Promise<void> {
  const { port } = headgate.ports.admin;
  const token = await enterAs(headgate, 'root', password);
  const authorization = `Bearer ${token}`;
  const body = JSON.stringify({ sql: 'SELECT 1', write: false });
  const sql = (headers: Record<string, string>) =>
    ask(port, '/console/api/sql', { method: 'POST', headers, body }).then(({ status }) => status);
  assert.equal(await sql({ ...jsonHeaders, authorization }), 200);
  assert.equal(await sql({ ...jsonHeaders, authorization, 'sec-fetch-site': 'same-origin' }), 200);
  for (const site of ['cross-site', 'same-site', 'none'])
    assert.equal(await sql({ ...jsonHeaders, authorization, 'sec-fetch-site': site }), 403, site);
  assert.equal(await sql({ 'content-type': 'application/json', authorization }), 403);
  assert.equal(await sql({ ...jsonHeaders, authorization, 'content-type': 'text/plain' }), 403);
  for (const wrong of ['', 'Bearer ', `Basic ${token}`, `Bearer ${token}x`, `bearer ${token.toLowerCase()}`])
    assert.equal(await sql({ ...jsonHeaders, authorization: wrong }), 401, wrong);
  for (const name of ['me', 'senders', 'health', 'machine', 'tail', 'retry'])
    assert.equal((await ask(port, `/console/api/${name}`)).status, 401, name);
  assert.equal((await post(port, 'local', { want: 'link' }, token)).status, 401);
  assert.equal((await post(port, 'login', { user: 'x'.repeat(20_000), password: '' })).status, 413);
  assert.equal((await post(port, 'sql', { sql: 'x'.repeat(1024 * 1024), write: false }, token)).status, 413);
  for (const wrong of [[], 1, { sql: 1, write: false }, { sql: 'SELECT 1' }, { sql: 'a\0', write: true }])
    assert.equal((await post(port, 'sql', wrong, token)).status, 400, JSON.stringify(wrong));
  assert.equal((await ask(port, '/console/api/constructor', { headers: { authorization } })).status, 404);
  const machine = async (its: string) =>
    (await ask(port, '/console/api/machine', { headers: { authorization: `Bearer ${its}` } })).text;
  assert.match(await machine(token), /"disk":\{"freeBytes":\d+/);
  assert.equal(await machine(await enterAs(headgate, 'alice', 'alice password')), 'null');
  // Requests that were let in, and whose bodies come after the logout.
  const late = await Promise.all(
    (
      [
        ['tab', {}],
        ['sql', { sql: 'SELECT 1', write: false }],
        ['sql', { sql: 'SELECT 1', write: true }],
      ] as const
    ).map(([path, value]) => halfSent(port, path, value, { ...jsonHeaders, authorization })),
  );
  await post(port, 'logout', {}, token);
  assert.equal(await sql({ ...jsonHeaders, authorization }), 401);
  for (const finish of late) assert.equal(await finish(), 401);
}

/** A request that the server has begun to answer; returns what sends its body and gives the status. */
async function halfSent(
  port: number,
  path: string,
  value: unknown,
  headers: Record<string, string>,
): Promise<() => Promise<number>> {
  const request = httpRequest({
    host: '127.0.0.1',
    port,
    path: `/console/api/${path}`,
    method: 'POST',
    headers: { ...headers, expect: '100-continue' },
    agent: false,
  });
  request.flushHeaders();
  await once(request, 'continue');
  return async () => {
    request.end(JSON.stringify(value));
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    response.resume();
    return response.statusCode ?? 0;
  };
}

async function bounds(headgate: Headgate, root: Client): Promise<void> {
  const { port } = headgate.ports.admin;
  const token = await enterAs(headgate, 'root', password);
  const sql = async (text: string, write = false) => {
    const { status, text: answer } = await post(port, 'sql', { sql: text, write }, token);
    return {
      status,
      ...(JSON.parse(answer) as Partial<SqlResponse> & { error?: string; sqlstate?: string }),
    };
  };
  const many = await sql('SELECT generate_series(1, 100000)');
  assert.deepEqual([many.tables?.[0]?.rows.length, many.tables?.[0]?.more], [1_000, true]);
  assert.equal((await sql(`SELECT repeat('x', 9000000)`)).status, 413);
  const several = await sql('COMMIT; CREATE TABLE escaped ()');
  assert.deepEqual(
    [several.sqlstate, several.error],
    ['42601', 'a run that only reads takes one statement, and there are several'],
  );
  assert.equal((await sql('CREATE TABLE escaped ()')).sqlstate, '25006');
  await sql('SET default_transaction_read_only = off');
  assert.equal((await sql('CREATE TABLE escaped ()')).sqlstate, '25006');
  assert.equal((await sql('COPY (SELECT 1) TO STDOUT')).sqlstate, '0A000');
  const two = await sql(`SELECT 10.00; SELECT '1e400'::json, NULL, 12345678901234567890`, true);
  assert.deepEqual(
    two.tables?.map(({ rows }) => rows),
    [[['10.00']], [['1e400', null, '12345678901234567890']]],
  );
  for (const filter of [{ text: 'x'.repeat(4_097) }, { table: 1 }, { fromMs: Date.UTC(10_000, 0) }])
    assert.equal((await post(port, 'requests', { filter }, token)).status, 400, JSON.stringify(filter));
  const widest = { text: 'x'.repeat(4_096), fromMs: 1, untilMs: Date.UTC(10_000, 0) - 1 };
  assert.equal((await post(port, 'requests', { filter: widest, counts: true }, token)).status, 200);
  await takesTurns(headgate, token);
  // Nobody waits for it any more: it is cancelled, not left to run.
  const leaving = new AbortController();
  const left = fetch(`${headgate.adminUrl}/console/api/sql`, {
    method: 'POST',
    headers: { ...jsonHeaders, authorization: `Bearer ${token}` },
    body: JSON.stringify({ sql: 'SELECT pg_sleep(9), 4711', write: false }),
    signal: leaving.signal,
  }).catch(() => null);
  const running = async () =>
    (
      await root.query(
        `SELECT FROM pg_stat_activity WHERE query LIKE '%pg_sleep(9), 4711' AND state = 'active'`,
      )
    ).rowCount;
  await within(5_000, async () => assert.equal(await running(), 1));
  leaving.abort();
  await left;
  await within(3_000, async () => assert.equal(await running(), 0));
  // One role leaves some for the others.
  const hers = await enterAs(headgate, 'alice', 'alice password');
  const enough = new AbortController();
  const slow = Array.from({ length: limits.consoleRoleStatementsMax }, () =>
    fetch(`${headgate.adminUrl}/console/api/sql`, {
      method: 'POST',
      headers: { ...jsonHeaders, authorization: `Bearer ${hers}` },
      body: JSON.stringify({ sql: 'SELECT pg_sleep(9), 4711', write: false }),
      signal: enough.signal,
    }).catch(() => null),
  );
  await within(8_000, async () => assert.equal(await running(), limits.consoleRoleStatementsMax));
  const more = await post(port, 'sql', { sql: 'SELECT 1', write: false }, hers);
  assert.deepEqual([more.status, (JSON.parse(more.text) as { code: string }).code], [503, 'overloaded']);
  assert.equal((await sql('SELECT 1')).status, 200);
  enough.abort();
  await Promise.all(slow);
  await within(5_000, async () =>
    assert.equal((await post(port, 'sql', { sql: 'SELECT 1', write: false }, hers)).status, 200),
  );
}

/** While a form is tried on many requests, others are answered. */
async function takesTurns({ ports }: Headgate, token: string): Promise<void> {
  const { port } = ports.admin;
  const signed = Array.from({ length: 8 }, () => ({ kind: 'body' }));
  const form = { ...emptyForm, header: 'x', prefix: 'a=', signed };
  const headers = [
    ['x', 'b=1'],
    ['t', '1700000000'],
  ];
  const request = { headers, body: Buffer.alloc(80_000).toString('base64') };
  let answered = 0;
  const trials = Array.from({ length: 40 }, async () => {
    assert.equal((await post(port, 'try-hmac', { form, secret: 'k', request }, token)).status, 200);
    answered += 1;
  });
  await Promise.race(trials);
  assert.equal((await ask(port, '/healthz')).status, 200);
  assert(answered < trials.length, `${answered} trials came first`);
  await Promise.all(trials);
}

/** Two roles, each with a table, a secret and a refused request, and two browsers. */
async function keepsApart(t: TestContext, headgate: Headgate, chromium: string): Promise<void> {
  const browser = await openBrowser(t, chromium, 'attacker.example');
  const pages = [];
  for (const [role, other] of [
    ['alice', 'bob'],
    ['bob', 'alice'],
  ] as const) {
    const client = await clientOf(t, headgate, role, `${role} password`);
    await client.query(`CREATE SECRET ${role}_secret WITH (backend = 'meta') AS 'key';
      CREATE TABLE ${role}_table (data JSONB) WITH (connector = 'webhook')
      VALIDATE SECRET ${role}_secret AS secure_compare(headers->>'x', ${role}_secret)`);
    const { page, complaints } = await openPage(browser);
    await page.goto(`${headgate.adminUrl}/console/`);
    await page.getByLabel('Role').fill(role);
    await page.getByLabel('Password').fill(`${role} password`);
    await page.getByRole('button', { name: 'Log in' }).click();
    await page.getByText('No requests yet').waitFor();
    pages.push({ role, other, page, complaints });
  }
  for (const { role } of pages) {
    assert.equal((await headgate.post(`dev/public/${role}_table`, '{}', { x: 'key' })).status, 200);
    assert.equal((await headgate.post(`dev/public/${role}_table`, '{}')).status, 401);
  }
  assert.equal((await headgate.post('dev/public/nothing', '{}')).status, 404);
  for (const { role, other, page, complaints } of pages) {
    await page.getByRole('cell', { name: '401' }).waitFor();
    await page.getByRole('cell', { name: '1 row' }).waitFor();
    for (const place of ['', 'endpoints', 'refused', 'secrets']) {
      await page.goto(`${headgate.adminUrl}/console/#/${place}`);
      await page
        .getByText(new RegExp(`${role}_(table|secret)`))
        .first()
        .waitFor();
      const text = await page.locator('body').innerText();
      assert(!text.includes(other), `${role} sees ${other} in ${place}`);
      assert(!text.includes('no table') && !text.includes('No endpoint at'), place);
    }
    // What is found while it is typed.
    await page.keyboard.press('Control+k');
    await page.getByRole('searchbox', { name: 'Jump to' }).fill('_table');
    const jump = page.getByRole('dialog', { name: 'Jump to' });
    await jump.getByText(`${role}_table`, { exact: true }).waitFor();
    assert(!(await jump.innerText()).includes(other), `${role} jumps to ${other}`);
    await page.keyboard.press('Escape');
    await page.goto(`${headgate.adminUrl}/console/#/requests`);
    await page.getByRole('button', { name: '+ Endpoint' }).click();
    await page.getByRole('searchbox', { name: 'Find an endpoint' }).fill('_table');
    const menu = page.locator('.menu');
    await menu.getByRole('button', { name: `${role}_table` }).waitFor();
    assert(!(await menu.innerText()).includes(other), `${role} is offered ${other}`);
    assert.deepEqual(complaints, []);
  }
}

/** `headgate tail` of alice's table, and what it has printed so far. */
function tailOf(t: TestContext, { dataDir }: Headgate, flag: string) {
  const child = spawn(process.execPath, [cli, 'tail', `--data-dir=${dataDir}`, 'alice_table', flag], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const ended = new Promise((resolve) => child.once('close', resolve));
  onEnd(t, 'tail', async () => {
    child.kill('SIGTERM');
    await ended;
  });
  let text = '';
  const read = new EventEmitter();
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (piece: string) => {
      text += piece;
      read.emit('more');
    });
  }
  const shows = async (wanted: RegExp, times = 1): Promise<void> => {
    while ((text.match(wanted)?.length ?? 0) < times)
      await once(read, 'more', { signal: AbortSignal.timeout(30_000) });
  };
  return { shows, text: () => text };
}

async function tells(t: TestContext, headgate: Headgate, root: Client): Promise<void> {
  const refused = /401 {2}dev\.public\.alice_table {2}signature_failed/g;
  const failed = tailOf(t, headgate, '--failed');
  const whole = tailOf(t, headgate, '--body');
  // What came before is shown first, and then what comes.
  for (const { shows } of [failed, whole]) await shows(refused);
  await headgate.post('dev/public/bob_table', '{}');
  await root.query(`ALTER TABLE alice_table SET (inspect = 'bodies')`);
  assert.equal(
    (await headgate.post('dev/public/alice_table', '{"a":"\u202e"}\n\u001b[2J', { x: 'key' })).status,
    422,
  );
  await within(10_000, async () => {
    assert.equal(
      (await headgate.post('dev/public/alice_table', '{"a":\n"\u202e"}', { x: 'key' })).status,
      200,
    );
    await new Promise(setImmediate);
    assert.match(whole.text(), / {4}\{"a":\n {4}"\\u\{202e\}"\}\n/);
  });
  assert.match(whole.text(), / {4}POST \/webhook\/dev\/public\/alice_table\n/);
  assert.match(whole.text(), / {4}x: not kept, … \(3 characters\)\n/);
  await headgate.post('dev/public/alice_table', '{"later":1}');
  await failed.shows(refused, 2);
  assert.doesNotMatch(failed.text(), /bob_table| 200 {2}|POST/);
  assert.doesNotMatch(whole.text(), /bob_table/);
}

async function countsAttempts(headgate: Headgate): Promise<void> {
  const { ports } = headgate;
  const said = async (): Promise<string> => {
    await new Promise(setImmediate);
    return headgate.stderr;
  };
  const statuses: number[] = [];
  for (let i = 0; i < 7; i++) {
    const { status, text } = await post(ports.admin.port, 'login', { user: 'alice', password: `wrong ${i}` });
    statuses.push(status);
    assert.doesNotMatch(text, /alice/);
  }
  assert.equal(statuses.at(-1), 429);
  assert(statuses.every((status) => status === 401 || status === 429));
  await within(5_000, async () => assert.match(await said(), /console\.login_failed/));
}

suite('the console restricts access', () => {
  test('the console guards host names, origins, tokens, bounds, roles and login attempts', async (t) => {
    const headgate = await startHeadgate(t, {
      env: { HEADGATE_SQL_PASSWORD: password, HEADGATE_CONSOLE_HOSTS: 'console.example.com' },
    });
    const root = await clientOf(t, headgate, 'root', password);
    await root.query(`CREATE ROLE alice LOGIN PASSWORD 'alice password'; CREATE ROLE bob LOGIN PASSWORD 'bob password';
      GRANT CREATE ON SCHEMA public TO alice, bob`);
    const link = await run(process.execPath, [cli, 'console', `--data-dir=${headgate.dataDir}`]);
    assert.match(link.stdout, /\/console\/\nLog in with a role and password of/);
    assert.equal((await post(headgate.ports.admin.port, 'login', { link: 'x' })).status, 401);
    assert.doesNotMatch(headgate.stdout + headgate.stderr, /#t=/);
    assert.equal(statSync(join(headgate.dataDir, 'console.key')).mode & 0o777, 0o600);
    await t.test('the console refuses other host names', () => refusesNames(headgate));
    await t.test('every console response carries its security headers', () => guardsAnswers(headgate));
    await t.test('the console refuses other origins and requests without a token', () =>
      refusesOthers(headgate),
    );
    await t.test('the console bounds rows, bytes, statements and time', () => bounds(headgate, root));
    await t.test('each role sees its own requests in the console', async (inner) => {
      const chromium = requireBrowser(inner);
      if (chromium !== null) await keepsApart(t, headgate, chromium);
    });
    await t.test('headgate tail shows new requests and their content', () => tells(t, headgate, root));
    await t.test('the console limits password attempts to five a minute', () => countsAttempts(headgate));
  });

  test('the console is not served when switched off', async (t) => {
    const headgate = await startHeadgate(t, { env: { HEADGATE_CONSOLE: 'off' } });
    assert.equal((await ask(headgate.ports.admin.port, '/console/')).status, 404);
    const { code, stderr } = await run(process.execPath, [cli, 'console', `--data-dir=${headgate.dataDir}`]);
    assert.deepEqual(
      [code, stderr],
      [1, 'headgate: the console of this Headgate is off: set HEADGATE_CONSOLE=on\n'],
    );
  });

  test('the console page is small and loads nothing from other hosts', () => {
    const names = readdirSync(assets);
    const bytes = (wanted: RegExp) =>
      names
        .filter((name) => wanted.test(name))
        .reduce((sum, name) => sum + statSync(join(assets, name)).size, 0);
    // What the first file imports, and what that imports, is loaded before anything is shown.
    const loaded = new Set(names.filter((name) => /^main-.*\.js$/.test(name)));
    for (const name of loaded)
      for (const [, file = ''] of readFileSync(join(assets, name), 'utf8').matchAll(
        /\b(?:from|import) ?"\.\/([^"]+)"/g,
      ))
        loaded.add(file);
    const first = [...loaded].reduce((sum, name) => sum + statSync(join(assets, `${name}.gz`)).size, 0);
    const beside = bytes(/^(index|style-).*\.gz$/);
    assert(first + beside <= 60 * 1024, `first load: ${first + beside}`);
    assert(bytes(/\.gz$/) <= 250 * 1024, 'all');
    const pictures = join(root, 'docs/images');
    for (const name of readdirSync(pictures)) assert(statSync(join(pictures, name)).size <= 150 * 1024, name);
    const source = names
      .filter((name) => /\.(js|css|html)$/.test(name))
      .map((name) => readFileSync(join(assets, name), 'utf8'));
    // Namespaces are names, and what the wizard shows is no address that is called.
    const addresses = source.join('').match(/https?:\/\/[\w.]+/g) ?? [];
    assert.deepEqual(
      addresses.filter((it) => !/^http:\/\/www\.w3\.org$/.test(it)),
      [],
    );
  });
});
