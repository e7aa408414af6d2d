/**
 * The list of all requests for two roles, of two listener processes, while the database is killed, frozen and back, and when the session ends: what
 * PostgreSQL's rights and the listener's answers say is right.
 */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { anyKept } from '../../src/console/request-filter.ts';
import type { ListAnswer } from '../../src/console/api.ts';
import { openBrowser, openPage, post } from '../support/console.ts';
import { startHeadgate } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { MortalServer } from '../support/mortal-server.ts';
import { sampleOf } from '../support/sample.ts';
import { spoolOpened } from '../support/spool-opened.ts';
import { requireBrowser } from '../support/tools.ts';
import { within } from '../support/within.ts';

const database = 'postgres';

async function enter(headgate: Headgate, user: string): Promise<string> {
  const { text } = await post(headgate.ports.admin.port, 'login', { user, password: 'any', database });
  return (JSON.parse(text) as { token: string }).token;
}

async function list(
  headgate: Headgate,
  token: string,
  change: object = {},
  more: object = {},
): Promise<ListAnswer> {
  const body = { filter: { ...anyKept, ...change }, ...more };
  const { status, text } = await post(headgate.ports.admin.port, 'requests', body, token);
  assert.equal(status, 200, text);
  return JSON.parse(text) as ListAnswer;
}

/** Whether the request is in headgate.rejected_requests; the id of another one begins with the name of its process, which may begin with r, too. */
const isKept = (id: string): boolean => /^r\d+$/.test(id);

suite("the console's request list is right for each role and in outages", () => {
  test("the console's request list shows each role its own requests once, page by page, from all processes", async (t) => {
    const server = await MortalServer.start(t);
    const headgate = await startHeadgate(t, {
      env: {
        HEADGATE_DATABASE_URL: server.databaseUrl,
        HEADGATE_LISTENERS: '2',
        HEADGATE_BODY_BYTES_MAX: '10000',
      },
    });
    const root = await headgate.client(t, database);
    await root.query(
      `CREATE ROLE alice LOGIN; CREATE ROLE mallory LOGIN; GRANT CREATE ON SCHEMA public TO alice, mallory`,
    );
    for (const role of ['alice', 'mallory'])
      await root.query(
        `SET ROLE ${role}; CREATE TABLE of_${role} (n SMALLINT) WITH (connector = 'webhook', inspect = 'bodies'); RESET ROLE`,
      );
    const [alice, mallory] = [await enter(headgate, 'alice'), await enter(headgate, 'mallory')];
    const sent = { alice: 130, mallory: 7 };
    // Ten at a time, so that many arrive in one millisecond.
    for (let i = 0; i < sent.alice; i += 10)
      await Promise.all(
        Array.from({ length: 10 }, async (_, n) => {
          const good = n % 2 === 0;
          const { status } = await headgate.post(
            `${database}/public/of_alice`,
            `{"n":${(good ? 0 : 70_000) + i + n}}`,
          );
          assert.equal(status, good ? 200 : 422);
        }),
      );
    for (let i = 0; i < sent.mallory; i++)
      assert.equal((await headgate.post(`${database}/public/of_mallory`, '{"n":70000}')).status, 422);
    assert.equal((await headgate.post(`${database}/public/nowhere`, '{}')).status, 404);
    await within(10_000, async () => {
      const { rows } = await root.query('SELECT FROM headgate.rejected_requests');
      assert.equal(rows.length, sent.alice / 2 + sent.mallory);
    });
    // Page by page: each once, in one order.
    const seen: string[] = [];
    let stored = 0;
    let page = await list(headgate, alice, {}, { counts: true });
    assert.deepEqual(page.counts?.by, { stored: 65, spooled: 0, refused: 65, later: 0, handshake: 0 });
    for (;;) {
      assert(page.rows.every(({ table }) => table === 'of_alice'));
      seen.push(...page.rows.map(({ id }) => id));
      stored += page.rows.filter(({ code }) => code === 'committed').length;
      if (page.next === null) break;
      page = await list(headgate, alice, {}, { from: page.next });
    }
    assert.deepEqual([seen.length, new Set(seen).size, stored], [sent.alice, sent.alice, sent.alice / 2]);
    // What was refused is that of PostgreSQL, in its order.
    const { rows: kept } = await root.query<{ id: string }>(
      `SELECT 'r' || r.id AS id FROM headgate.rejected_requests r WHERE table_name = 'of_alice' ORDER BY received_at DESC, r.id DESC`,
    );
    assert.deepEqual(
      seen.filter(isKept),
      kept.map(({ id }) => id),
    );
    // A text in a body, looked for in the engine; nothing of hers for him, by no way.
    assert.equal((await list(headgate, alice, { text: '70001' })).rows.length, 1);
    for (const change of [{}, { text: '70001' }, { table: 'of_alice' }, { result: 'stored' }]) {
      const { rows } = await list(headgate, mallory, change, { counts: true });
      assert(
        rows.every(({ table }) => table === 'of_mallory'),
        JSON.stringify(rows[0]),
      );
    }
    assert.equal((await list(headgate, mallory, {}, { counts: true })).counts?.by.refused, sent.mallory);
    for (const id of [seen.find((it) => !isKept(it)) ?? '', 'x.1', '']) {
      const found = await post(headgate.ports.admin.port, 'request', { id }, mallory);
      assert.equal(found.status, 404, found.text);
    }
    const own = seen.find((it) => !isKept(it)) ?? '';
    assert.equal((await post(headgate.ports.admin.port, 'request', { id: own }, alice)).status, 200);
    // A body that was not read has the size that was announced.
    const large = `{"n":"${'x'.repeat(20_000)}"}`;
    assert.equal((await headgate.post(`${database}/public/of_mallory`, large)).status, 413);
    await within(10_000, async () => {
      const [row] = (await list(headgate, mallory, { code: 'body_too_large' })).rows;
      assert.deepEqual([isKept(row?.id ?? ''), row?.bytes], [true, large.length]);
    });
    // Requests that led to no table are a superuser's.
    const strays = await list(headgate, await enter(headgate, 'root'), { code: 'not_found' });
    assert.deepEqual(
      strays.rows.map(({ path }) => path),
      [`/webhook/${database}/public/nowhere`],
    );
    for (const wrong of [
      { filter: null },
      { filter: { text: 1 } },
      { filter: {}, from: ['a', 1] },
      { filter: { fromMs: -1 } },
    ])
      assert.equal((await post(headgate.ports.admin.port, 'requests', wrong, alice)).status, 400);
    assert.equal((await post(headgate.ports.admin.port, 'requests', { filter: {} }, 'wrong')).status, 401);
  });

  test("the console's request list survives a killed or frozen database, and the end of the session", async (t) => {
    const chromium = requireBrowser(t);
    if (chromium === null) return;
    const server = await MortalServer.start(t);
    const headgate = await startHeadgate(t, { env: { HEADGATE_DATABASE_URL: server.databaseUrl } });
    const root = await headgate.client(t, database);
    await root.query(`CREATE ROLE alice LOGIN; GRANT CREATE ON SCHEMA public TO alice; SET ROLE alice;
      CREATE TABLE seen (n SMALLINT) WITH (connector = 'webhook');
      CREATE TABLE held (n SMALLINT) WITH (connector = 'webhook', spool = 'fallback'); RESET ROLE`);
    const send = (table: string, n = 1) => headgate.post(`${database}/public/${table}`, `{"n":${n}}`);
    assert.equal((await send('seen', 70_000)).status, 422);
    assert.equal((await send('held')).status, 200);
    const { page, complaints } = await openPage(await openBrowser(t, chromium, 'attacker.example'));
    await page.goto(`${headgate.adminUrl}/console/#/requests`);
    await page.getByLabel('Role').fill('alice');
    await page.getByRole('button', { name: 'Log in' }).click();
    const lines = (what: string | RegExp) => page.locator('.lines .line', { hasText: what });
    await within(15_000, async () => assert.equal(await page.locator('.lines .line').count(), 2));
    await page.locator('.live-state', { hasText: /^ *live$/ }).waitFor();
    await spoolOpened(headgate.dataDir, database);
    const outages: readonly (readonly [() => Promise<void>, () => Promise<void>])[] = [
      [() => server.kill(), () => server.start()],
      [() => server.signal('SIGSTOP'), () => server.signal('SIGCONT')],
    ];
    for (const [n, [away, back]] of sampleOf(outages, 1).entries()) {
      await within(30_000, async () => assert.equal((await send('held')).status, 200));
      await away();
      await within(30_000, async () => assert.equal((await send('seen')).status, 503));
      await page.locator('.live-state', { hasText: 'the database is away' }).waitFor();
      assert.equal(await page.locator('.live-state .dot.on').count(), 0);
      await within(20_000, async () => assert.equal((await send('held')).status, 202));
      await within(20_000, async () => assert((await lines('Told to come again').count()) >= n + 1));
      await within(20_000, async () => assert((await lines('Kept on disk').count()) >= n + 1));
      // What only the database knows is not claimed to be all.
      await page.getByText('only what this Headgate remembers is shown').waitFor();
      assert.equal(await lines('Kept on disk').locator('.badge.bad').count(), 0);
      await back();
      await within(30_000, async () => assert.equal((await send('seen')).status, 200));
      await page.getByText('only what this Headgate remembers is shown').waitFor({ state: 'detached' });
      await within(20_000, async () => assert.equal(await lines('does not fit').count(), 1));
      await page.locator('.live-state', { hasText: /^ *live$/ }).waitFor();
    }
    // Her login ends: nothing of hers stays on the screen.
    const again = await headgate.client(t, database);
    await again.query('ALTER ROLE alice NOLOGIN');
    await page.getByText('The session has ended.').waitFor({ timeout: 90_000 });
    assert.equal(await page.locator('.lines').count(), 0);
    assert.deepEqual(complaints, []);
  });
});
