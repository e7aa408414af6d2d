/**
 * The console in front of somebody else's PostgreSQL, with two listener processes and two roles, of which each sees and
 * does only what is its own: in a browser, and asked without one. And what it shows while the database is away.
 */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import type { Client } from 'pg';
import type { RetryState, SqlResponse, TailEvent, TestAnswer } from '../../src/console/api.ts';
import { anyKept } from '../../src/console/request-filter.ts';
import type { HeldRequest, TailLine } from '../../src/observe/tail.ts';
import { ask, openBrowser, openPage, post } from '../support/console.ts';
import { explainsAndRetries, makesAnEndpoint } from '../support/console-walk.ts';
import type { Tried } from '../support/console-walk.ts';
import { startHeadgate } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { MortalServer } from '../support/mortal-server.ts';
import { requireBrowser } from '../support/tools.ts';
import { within } from '../support/within.ts';

const database = 'postgres';
const base64 = (text: string): string => Buffer.from(text).toString('base64');

interface Asking {
  readonly headgate: Headgate;
  /** Of alice, who owns github_events, and of mallory, who owns mine. */
  readonly alice: string;
  readonly mallory: string;
}

async function enter(headgate: Headgate, user: string): Promise<string> {
  const { status, text } = await post(headgate.ports.admin.port, 'login', {
    user,
    password: 'any',
    database,
  });
  assert.equal(status, 200, text);
  return (JSON.parse(text) as { token: string }).token;
}

const replayOf = (table: string, more: object = {}) => ({
  schema: 'public',
  table,
  method: 'POST',
  query: '',
  sign: true,
  checked: true,
  headers: [['X-GitHub-Delivery', 'one']],
  body: base64('{"again":1}'),
  ...more,
});

async function replaysOwn({ headgate, alice, mallory }: Asking, root: Client): Promise<void> {
  const { port } = headgate.ports.admin;
  const replay = async (token: string, asked: object) => {
    const { status, text } = await post(port, 'replay', asked, token);
    return {
      status,
      ...(JSON.parse(text) as Partial<TestAnswer & { error: string; sqlstate: string; code: string }>),
      answer: text,
    };
  };
  const good = await replay(alice, replayOf('github_events'));
  assert.deepEqual([good.answer], ['{"status":200,"text":""}']);
  // A request that no check has accepted gets a signature only by a person's word, which is the table's name.
  for (const more of [{ checked: false }, { checked: false, vouched: 'yes' }]) {
    const { status, code } = await replay(alice, replayOf('github_events', more));
    assert.deepEqual([status >= 400 && status < 500, code], [true, 'replay_impossible']);
  }
  assert.equal(
    (await replay(alice, replayOf('github_events', { checked: undefined }))).code,
    'malformed_request',
  );
  const meant = await replay(alice, replayOf('github_events', { checked: false, vouched: 'github_events' }));
  assert.equal(meant.answer, '{"status":200,"text":""}');
  const bare = await replay(alice, replayOf('github_events', { checked: false, sign: false }));
  assert.match(bare.answer, /"status":401/);
  // A header of hers does not take the place of the signature, and what proxies say is left out.
  const headers = [
    ['X-GitHub-Delivery', 'two'],
    ['X-Hub-Signature-256', 'sha256=00'],
    ['Host', 'elsewhere.example'],
    ['X-Forwarded-For', '203.0.113.9'],
    ['Content-Length', '1'],
    ['Transfer-Encoding', 'chunked'],
  ];
  assert.equal(
    (await replay(alice, replayOf('github_events', { headers }))).answer,
    '{"status":200,"text":""}',
  );
  for (const table of ['github_events', 'nothing', 'pg_class', "x'; DROP TABLE mine; --"]) {
    const denied = await replay(mallory, replayOf(table));
    assert.deepEqual([denied.status, denied.sqlstate], [422, '42501'], denied.answer);
    assert.match(denied.error ?? '', /^there is no table .* of yours$/);
  }
  // A table of his, whose check uses a secret that is not: a superuser made it so.
  const foreign = await replay(mallory, replayOf('lent'));
  assert.deepEqual(
    [foreign.sqlstate, foreign.error],
    ['42501', 'permission denied for secret "roots", which the check uses'],
  );
  const own = await replay(mallory, replayOf('mine'));
  assert.equal(own.code, 'replay_impossible', own.answer);
  for (const wrong of [
    { headers: [['a b', 'x']] },
    { headers: [['a', 'x\r\nHost: y']] },
    { headers: 'x' },
    { query: '#/../..' },
    { query: ' HTTP/1.1' },
    { method: 'GET /' },
    { table: '' },
    { body: 1 },
  ])
    assert.equal((await replay(alice, replayOf('github_events', wrong))).status, 400, JSON.stringify(wrong));
  const { rows } = await root.query<{ n: number }>(
    `SELECT count(*)::int AS n FROM github_events WHERE data ? 'again'`,
  );
  assert.equal(rows[0]?.n, 2);
}

/** Counters, endpoints and retries of one role are not the other's. */
async function keepsApart(t: TestContext, { headgate, alice, mallory }: Asking): Promise<void> {
  const { port } = headgate.ports.admin;
  const sql = async (token: string, text: string): Promise<string> => {
    const { text: answer } = await post(port, 'sql', { sql: text, write: false }, token);
    const { tables } = JSON.parse(answer) as Partial<SqlResponse>;
    return tables === undefined ? answer : JSON.stringify(tables.at(-1)?.rows);
  };
  const counted = 'SELECT table_name, sum(stored) FROM headgate.traffic GROUP BY 1';
  await within(30_000, async () => assert.match(await sql(alice, counted), /github_events/));
  assert.match(await sql(alice, 'SHOW ENDPOINTS'), /github_events.*"github","signature"/);
  for (const statement of [counted, 'SHOW ENDPOINTS', 'SELECT * FROM headgate.endpoints'])
    assert.doesNotMatch(await sql(mallory, statement), /github_events/, statement);
  assert.match(await sql(mallory, 'SELECT * FROM headgate.traffic_minute'), /permission denied/);
  assert.match(await sql(mallory, "SELECT * FROM headgate.show_endpoints('{}')"), /"mine"/);
  // Not even in the text of the statement that is sent for him.
  const sent = `SELECT string_agg(query, ' ') FROM pg_stat_activity WHERE usename = 'mallory'`;
  const his = await headgate.clientAs(t, 'mallory', database);
  await his.query('SHOW ENDPOINTS');
  const text = await sql(mallory, sent);
  assert.match(text, /show_endpoints/);
  const hers = JSON.parse(await sql(alice, `SELECT 'github_events'::regclass::oid`)) as string[][];
  assert(!text.includes(hers[0]?.[0] ?? 'none'), text);
  const state = async (token: string) => {
    const { text } = await ask(port, '/console/api/retry', { headers: { authorization: `Bearer ${token}` } });
    return JSON.parse(text) as RetryState | null;
  };
  const retry = (token: string) => post(port, 'retry', { filter: anyKept, force: true }, token);
  assert.equal(await state(mallory), null);
  assert.equal((await retry(mallory)).status, 200);
  await within(10_000, async () => assert.equal((await state(mallory))?.kind, 'done'));
  assert.equal((await state(mallory))?.asked, 0);
  // One at a time, and it can be ended.
  const [one, two] = await Promise.all([retry(alice), retry(alice)]);
  assert.deepEqual(new Set([one.status, two.status]), new Set([200, 503]));
  await post(port, 'retry-cancel', {}, alice);
  await within(10_000, async () => assert.notEqual((await state(alice))?.kind, 'running'));
  for (const filter of [null, { ...anyKept, table: 1 }, { ...anyKept, text: 'a\0' }])
    assert.equal((await post(port, 'retry', { filter, force: false }, alice)).status, 400);
}

/** What accepted requests held is the owner's, from whichever process has it, and gone with the option, the table and its owner. */
async function holdsBodies({ headgate, alice, mallory }: Asking, root: Client): Promise<void> {
  const { port } = headgate.ports.admin;
  const name = { database, schema: 'public', table: 'looked_at' };
  const path = `${database}/public/looked_at`;
  const hold = async (of: object, token: string) => {
    const { status, text } = await post(port, 'held', of, token);
    return { status, text, ...(JSON.parse(text) as Partial<HeldRequest>) };
  };
  /** The line of a request that is posted now. */
  const posted = async (body: string): Promise<TailLine> => {
    assert.equal(
      (await headgate.post(path, body, { 'x-api-key': 'letmein', 'x-event': 'push' })).status,
      200,
    );
    const leaving = new AbortController();
    const headers = { authorization: `Bearer ${alice}` };
    const response = await fetch(`${headgate.adminUrl}/console/api/tail`, {
      headers,
      signal: leaving.signal,
    });
    try {
      let found: TailLine | undefined;
      let text = '';
      for await (const piece of response.body ?? []) {
        text += Buffer.from(piece as Uint8Array).toString();
        const events = text.match(/(?<=^data: ).*(?=\n\n)/gm) ?? [];
        const lines = events.flatMap((it) => (JSON.parse(it) as TailEvent).lines);
        found = lines.findLast((line) => line.table === 'looked_at' && line.bytes === body.length);
        if (found !== undefined) break;
      }
      return found ?? assert.fail(text);
    } finally {
      leaving.abort();
    }
  };
  await root.query(`SET ROLE alice; CREATE TABLE looked_at (data JSONB) WITH (connector = 'webhook')`);
  assert.equal((await posted('{"before":1}')).held, undefined);
  await root.query(`ALTER TABLE looked_at SET (inspect = 'bodies')`);
  const shown = await root.query<{ 'Create Sql': string }>('SHOW CREATE TABLE looked_at');
  assert.match(shown.rows[0]?.['Create Sql'] ?? '', /inspect = 'bodies'/);
  // Another process, and so another one's catalog, may take the first ones.
  let line: TailLine | null = null;
  await within(10_000, async () => {
    line = await posted('{"n":12345678901234567890}');
    assert.notEqual(line.held, undefined);
  });
  const { held = '' } = line ?? assert.fail();
  const mine = await hold({ ...name, held }, alice);
  assert.equal(Buffer.from(mine.body ?? '', 'base64').toString(), '{"n":12345678901234567890}');
  assert.deepEqual([mine.headers?.['x-event'], mine.masked?.['x-api-key']], ['push', '… (7 characters)']);
  assert.doesNotMatch(mine.text, /letmein/);
  const others = [{ table: 'mine' }, { table: 'nothing' }, { table: `looked_at' OR '1' = '1` }, {}];
  for (const other of others) {
    const his = await hold({ ...name, held, ...other }, mallory);
    assert.deepEqual([his.status, his.body], [404, undefined], his.text);
  }
  assert.equal((await hold({ ...name, held, database: 'template1' }, alice)).status, 200);
  for (const wrong of [{ table: 'mine' }, { held: `${held}1` }, { held: '__proto__' }])
    assert.equal((await hold({ ...name, held, ...wrong }, alice)).status, 404, JSON.stringify(wrong));
  for (const wrong of [{ held: 1 }, { table: '' }, { schema: null }])
    assert.equal((await hold({ ...name, held, ...wrong }, alice)).status, 400);
  assert.equal((await hold({ ...name, held }, 'x')).status, 401);
  await root.query('RESET ROLE; ALTER TABLE looked_at OWNER TO mallory');
  await within(5_000, async () => assert.equal((await hold({ ...name, held }, mallory)).status, 404));
  assert.equal((await hold({ ...name, held }, alice)).status, 404);
  await root.query('DROP TABLE looked_at');
}

/** Who sees what is asked as the role, whose names must not be looked up for it: he has operators of his own, which are always true. */
async function believesNoOperator(t: TestContext, { headgate }: Asking): Promise<void> {
  const his = await headgate.clientAs(t, 'mallory', database);
  const types = ['oid, regclass', 'oid, oid', 'name, name'].map((it) => it.split(', '));
  for (const [left, right] of types)
    await his.query(`CREATE FUNCTION always(${left}, ${right}) RETURNS boolean LANGUAGE sql AS 'SELECT true';
      CREATE OPERATOR public.= (LEFTARG = ${left}, RIGHTARG = ${right}, FUNCTION = always)`);
  await his.query('ALTER ROLE mallory SET search_path = public, pg_catalog');
  try {
    const { port } = headgate.ports.admin;
    const authorization = `Bearer ${await enter(headgate, 'mallory')}`;
    const me = await ask(port, '/console/api/me', { headers: { authorization } });
    assert.match(me.text, /"superuser":false/);
    assert.equal((await headgate.post(`${database}/public/mine`, '{}', { x: 'k' })).status, 200);
    const leaving = new AbortController();
    const { body } = await fetch(`${headgate.adminUrl}/console/api/tail`, {
      headers: { authorization },
      signal: leaving.signal,
    });
    let text = '';
    for await (const piece of body ?? []) {
      text += Buffer.from(piece as Uint8Array).toString();
      if (text.includes('"mine"')) break;
    }
    leaving.abort();
    assert.doesNotMatch(text, /github_events/);
  } finally {
    await his.query('ALTER ROLE mallory RESET search_path');
    for (const [left, right] of types)
      await his.query(`DROP OPERATOR public.= (${left}, ${right}); DROP FUNCTION always(${left}, ${right})`);
  }
}

/** What was there stays, under a strip that says why; and goes on by itself. */
async function tellsOfAway({ page, open }: Tried, server: MortalServer): Promise<void> {
  await open('endpoints');
  await page.getByRole('link', { name: 'github_events' }).waitFor();
  await server.kill();
  await page.getByText(/The database does not answer since/).waitFor();
  assert.equal(await page.getByRole('link', { name: 'github_events' }).count(), 1);
  await server.start();
  await page.getByText('you see the last known state').waitFor({ state: 'detached', timeout: 30_000 });
}

async function logIn(page: Tried['page'], base: string, role: string): Promise<void> {
  await page.goto(base);
  await page.getByLabel('Role').fill(role);
  await page.getByLabel('Password').fill('any');
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
}

async function tables(t: TestContext, headgate: Headgate): Promise<Client> {
  const root = await headgate.client(t, database);
  await root.query(`CREATE ROLE alice LOGIN; CREATE ROLE mallory LOGIN; GRANT CREATE ON SCHEMA public TO alice, mallory;
    CREATE SECRET roots WITH (backend = 'meta') AS 'key'`);
  await root.query(
    `CREATE TABLE lent (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET roots USING github`,
  );
  await root.query('ALTER TABLE lent OWNER TO mallory');
  const his = await headgate.clientAs(t, 'mallory', database);
  await his.query(`CREATE SECRET his WITH (backend = 'meta') AS 'k';
    CREATE TABLE mine (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET his AS secure_compare(headers->>'x', his)`);
  return root;
}

suite('the console works in front of an external PostgreSQL', () => {
  test('the console on an external PostgreSQL serves two roles and survives an outage', async (t) => {
    const server = await MortalServer.start(t);
    const env = { HEADGATE_DATABASE_URL: server.databaseUrl, HEADGATE_LISTENERS: '2' };
    const headgate = await startHeadgate(t, { env });
    const root = await tables(t, headgate);
    const chromium = requireBrowser(t);
    if (chromium === null) return;
    const browser = await openBrowser(t, chromium, 'attacker.example');
    const base = `${headgate.adminUrl}/console/`;
    const hers = await openPage(browser);
    const his = await openPage(browser, 'dark');
    await logIn(hers.page, base, 'alice');
    await logIn(his.page, base, 'mallory');
    const open = async (place: string): Promise<void> => void (await hers.page.goto(`${base}#/${place}`));
    const tried: Tried = { ...hers, headgate, base, open, database };
    await t.test(
      "the console's wizard on an external PostgreSQL creates an endpoint, and its first delivery arrives",
      () => makesAnEndpoint(tried),
    );
    await t.test(
      'the console on an external PostgreSQL explains a forged request and retries it after the repair',
      () => explainsAndRetries(tried),
    );
    const asking = {
      headgate,
      alice: await enter(headgate, 'alice'),
      mallory: await enter(headgate, 'mallory'),
    };
    await t.test('the console signs a request anew for its own table only', () => replaysOwn(asking, root));
    await t.test('the console shows a role its own counters, endpoints and retries', (inner) =>
      keepsApart(inner, asking),
    );
    await t.test("the console shows the content of accepted requests to the table's owner only", () =>
      holdsBodies(asking, root),
    );
    await t.test("a role's own SQL operators do not affect the console's statements", (inner) =>
      believesNoOperator(inner, asking),
    );
    await t.test(
      "a console session of another role shows nothing of the first role's endpoints and requests",
      async () => {
        for (const place of [
          '',
          'endpoints',
          'refused',
          'secrets',
          'endpoint/public/github_events/live',
          'diff/1/2',
        ]) {
          await his.page.goto(`${base}#/${place}`);
          await within(15_000, async () =>
            assert.equal(await his.page.evaluate(`document.querySelector('.skeleton') === null`), true),
          );
          const text = (await his.page.locator('body').innerText()).replaceAll('public.github_events', '');
          assert.doesNotMatch(text, /github_secret|octocat|signature_failed/, place);
        }
        assert.deepEqual(his.complaints, []);
      },
    );
    await t.test('the console keeps its content while the database is away', () =>
      tellsOfAway(tried, server),
    );
    assert.deepEqual(hers.complaints, []);
  });
});
