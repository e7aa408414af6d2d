/** A refused request in the console: what is said of it agrees with its arrival, and with what psql says. */
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { suite, test } from 'node:test';
import { logOut, openBrowser, openConsole, openPage } from '../support/console.ts';
import { holds } from '../support/console-walk.ts';
import { startHeadgate } from '../support/headgate.ts';
import { MortalServer } from '../support/mortal-server.ts';
import { requireBrowser } from '../support/tools.ts';
import { within } from '../support/within.ts';

suite('the console explains refused requests', () => {
  test("the console's explanation of a 401 agrees with its recorded reason", async (t) => {
    const chromium = requireBrowser(t);
    if (chromium === null) return;
    const headgate = await startHeadgate(t);
    const client = await headgate.client(t);
    await client.query(`CREATE SECRET whsec WITH (backend = 'meta') AS 'whsec_test';
      CREATE TABLE paid (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET whsec USING stripe`);
    // As Stripe documents its signature.
    const body = '{"id":"evt_1"}';
    const time = Math.floor(Date.now() / 1_000) - 420;
    const v1 = createHmac('sha256', 'whsec_test').update(`${time}.${body}`).digest('hex');
    const sent = await headgate.post('dev/public/paid', body, { 'stripe-signature': `t=${time},v1=${v1}` });
    assert.equal(sent.status, 401);
    const { page, complaints } = await openConsole(t, headgate, chromium);
    let id = '';
    await within(10_000, async () => {
      const { rows } = await client.query<{ id: string }>('SELECT id FROM headgate.rejected_requests');
      id = rows[0]?.id ?? '';
      assert.notEqual(id, '');
    });
    await page.goto(`${headgate.adminUrl}/console/#/refused/${id}`);
    await page.getByText('The timestamp is 7 minutes old; Stripe’s limit is 5 minutes.').waitFor();
    // Between signing and arrival stands the limit, 300 s after the signing.
    const clock = (ms: number): string => new Date(ms).toISOString().slice(11, 19);
    const line = page.locator('.timeline');
    await line.getByText(`signed ${clock(time * 1_000)}`).waitFor();
    await line.getByText(`limit ${clock((time + 300) * 1_000)}`).waitFor();
    const lefts = await line
      .locator('b')
      .evaluateAll((all) => all.map((it) => it.getBoundingClientRect().left));
    assert.deepEqual(
      lefts,
      lefts.toSorted((a, b) => a - b),
    );
    const words = (await page.locator('.words p').textContent()) ?? '';
    const [, age = ''] = /timestamp is (\d+) s old/.exec(words) ?? [];
    assert(Number(age) >= 420 && Number(age) < 430, age);
    await page.getByRole('button', { name: 'Explain', exact: true }).click();
    await page.locator('.steps .badge', { hasText: 'not known' }).waitFor();
    const steps = await page.locator('.steps').innerText();
    assert.match(steps, /header 'stripe-signature' was not kept/);
    assert.match(steps, /not kept/);
    assert.doesNotMatch(steps, /missing|NULL/);
    assert.equal(await page.locator('.steps li.bad').count(), 0);
    // With the header that the sender shows it is explained to the end, as of its arrival.
    await page.getByLabel('stripe-signature').fill(`t=${time},v1=${v1}`);
    await page.getByRole('button', { name: 'Explain', exact: true }).click();
    await page.locator('.steps .badge', { hasText: 'refused' }).waitFor();
    assert.match(await page.locator('.steps').innerText(), new RegExp(`the timestamp is ${age} s old`));
    // The steps in words say the same; those of SQL are behind them.
    assert.deepEqual(
      (await page.locator('.in-words li').allInnerTexts()).map((text) =>
        text.split('\n').slice(1).join(': '),
      ),
      [
        `The request has the header stripe-signature: t=${time},v1=${v1}`,
        `The time is at most 300 s from this machine’s clock: ${age} s, when the request arrived`,
        'The signature is that of the request with whsec: Not looked at: a step before was decisive',
      ],
    );
    assert.deepEqual(await page.locator('.in-words .bad b').allInnerTexts(), [
      'The time is at most 300 s from this machine’s clock',
    ]);
    assert.deepEqual(complaints, []);
  });

  test('the console offers no retry for a request kept in part, and says why in the words of psql', async (t) => {
    const chromium = requireBrowser(t);
    if (chromium === null) return;
    const headgate = await startHeadgate(t, { env: { HEADGATE_BODY_BYTES_MAX: '2000000' } });
    const client = await headgate.client(t);
    await client.query(`CREATE TABLE narrow (n SMALLINT) WITH (connector = 'webhook')`);
    const pad = 'x'.repeat(1_200_000);
    assert.equal((await headgate.post('dev/public/narrow', `{"n":70000,"pad":"${pad}"}`)).status, 422);
    assert.equal((await headgate.post('dev/public/narrow', `{"pad":"${pad.repeat(2)}"}`)).status, 413);
    assert.equal((await headgate.post('dev/public/narrow', '{"n":70000}')).status, 422);
    let ids: string[] = [];
    await within(10_000, async () => {
      const { rows } = await client.query<{ id: string }>(
        'SELECT id FROM headgate.rejected_requests ORDER BY id',
      );
      ids = rows.map(({ id }) => id);
      assert.equal(ids.length, 3);
    });
    const { page, complaints } = await openConsole(t, headgate, chromium);
    for (const id of ids.slice(0, 2)) {
      const { rows } = await client.query<{ said: string }>('SELECT headgate.retry_rejected($1) AS said', [
        id,
      ]);
      const said = rows[0]?.said ?? '';
      assert.match(said, /^not retried: /);
      await page.goto(`${headgate.adminUrl}/console/#/refused/${id}`);
      await page.getByText(said).waitFor();
      assert.equal(await page.getByText(/nothing is lost|Then retry it here/).count(), 0);
      const retry = page.getByRole('button', { name: 'Retry', exact: true });
      assert.equal((await retry.count()) === 0 || (await retry.isDisabled()), true);
      assert.equal(await page.getByText('Change it, and send it again').count(), 0);
      assert.equal(await page.getByRole('button', { name: 'Copy as curl' }).count(), 0);
      // No key does it either.
      for (const key of ['r', 'r', 'Enter']) await page.keyboard.press(key);
    }
    await page.goto(`${headgate.adminUrl}/console/#/refused/${ids[0]}`);
    await page.getByText('Then let its sender send it again.').waitFor();
    await page
      .getByText(/the first 1 MiB of a refused body is kept if the request passed the check/)
      .first()
      .waitFor();
    // Of a body that is not JSON it is said where, and nothing of a check.
    assert.equal((await headgate.post('dev/public/narrow', 'nonsense')).status, 422);
    await page.goto(`${headgate.adminUrl}/console/#/`);
    await page.getByRole('link', { name: 'The body is not JSON' }).click();
    await page.locator('.lines .line', { hasText: 'The body is not JSON' }).click();
    await page.getByRole('link', { name: 'Explain' }).click();
    await page.getByText('The body is not JSON: unexpected character at byte 0.').waitFor();
    await page.getByText('A retry cannot help: the body stays what it is.').waitFor();
    assert.equal(await page.getByText('has passed the check').count(), 0);
    assert.equal(await page.locator('.primary', { hasText: 'Retry' }).count(), 0);
    // What psql says after the click is said here, too.
    await page.goto(`${headgate.adminUrl}/console/#/refused/${ids[2]}`);
    await page.getByRole('button', { name: 'Retry', exact: true }).click();
    await page.getByText('waiting: column retry_outcome of headgate.rejected_requests tells').waitFor();
    const { rows } = await client.query('SELECT FROM narrow');
    assert.equal(rows.length, 0);
    assert.deepEqual(complaints, []);
  });

  test('the console offers a role that may only read a table no action of its owner, and says so', async (t) => {
    const chromium = requireBrowser(t);
    if (chromium === null) return;
    const server = await MortalServer.start(t);
    const headgate = await startHeadgate(t, { env: { HEADGATE_DATABASE_URL: server.databaseUrl } });
    const client = await headgate.client(t, 'postgres');
    await client.query(`CREATE ROLE agent LOGIN; CREATE SECRET k WITH (backend = 'meta') AS 'the key';
      CREATE TABLE orders (data JSONB) WITH (connector = 'webhook', readers = 'agent') VALIDATE SECRET k USING github;
      CREATE TABLE hidden (data JSONB) WITH (connector = 'webhook'); GRANT SELECT ON orders TO agent`);
    const forged = await headgate.post('postgres/public/orders', '{"a":1}', {
      'x-hub-signature-256': `sha256=${'0'.repeat(64)}`,
    });
    assert.equal(forged.status, 401);
    const kept = async () =>
      (await client.query<{ id: string }>('SELECT id FROM headgate.rejected_requests')).rows;
    await within(10_000, async () => assert.equal((await kept()).length, 1));
    const [{ id } = { id: '' }] = await kept();
    const { page, complaints } = await openPage(await openBrowser(t, chromium, 'attacker.example'));
    const base = `${headgate.adminUrl}/console/#/postgres`;
    await page.goto(`${headgate.adminUrl}/console/`);
    await page.getByLabel('Role').fill('agent');
    await page.getByRole('button', { name: 'Log in' }).click();
    await page.locator('.latest tr', { hasText: 'Another secret, or changed' }).waitFor();
    const offered = () =>
      page
        .locator('main')
        .getByText(
          /^(Delete it|Store it unchecked|Set the secret|Change it, and send it again|Send a test|Change it|Change|Retry|Drop the table|Show them)$/,
        )
        .allTextContents();
    await page.goto(`${base}/requests/r${id}`);
    await page.getByText('You may look at it; only the owner of its table deletes and retries.').waitFor();
    await page.getByText('What to do').waitFor();
    assert.deepEqual(await offered(), []);
    await page.goto(`${base}/endpoint/public/orders/definition`);
    await page.getByText('You may look at it; only its owner changes it.').waitFor();
    await page.getByText('CREATE TABLE').first().waitFor();
    assert.deepEqual(await offered(), []);
    // What the log of its sender has and the table lacks is shown to its readers, too, and of no other table.
    const gap = (table: string) =>
      client.query(`INSERT INTO headgate.reconciling (relation, log, mark, since, read_to) VALUES ('${table}'::regclass, 'github', 0, now() - interval '1 day', now());
        INSERT INTO headgate.announced (relation, delivery, id, log_id, announced_at, next_at)
        SELECT '${table}'::regclass, gen_random_uuid(), 'lost ' || i, 'log ' || i, now() - interval '3 hours', now() FROM generate_series(1, 3) i`);
    await gap('orders');
    await gap('hidden');
    await page.goto(`${base}/endpoints`);
    await page.getByRole('cell', { name: /3 deliveries missing/ }).waitFor();
    // Away from this page the number is as old as 30 s.
    await page.getByRole('link', { name: /^Endpoints 1 needs you/ }).waitFor();
    await page.goto(`${base}/endpoint/public/orders`);
    await page
      .getByText('3 deliveries of the last 7 days that the log of its sender has are missing here.')
      .waitFor();
    await page.getByRole('link', { name: 'Show the hours' }).click();
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await page.getByRole('cell', { name: '{"lost 1","lost 2","lost 3"}' }).waitFor();
    for (const name of ['hidden', 'nowhere']) {
      await page.goto(`${base}/endpoint/public/${name}`);
      await page.getByText('There is no such table, or it is not yours to look at.').waitFor();
    }
    // Several at a time: nothing among them is its own.
    await page.goto(`${base}/requests?result=refused`);
    await page.getByRole('checkbox', { name: /^Select the request/ }).check();
    await page
      .getByText('You may look at them; only the owner of their table deletes and retries.')
      .waitFor();
    for (const name of [/^Delete/, /^Retry/, /^Store unchecked/])
      assert.equal(await page.locator('.bulk').getByRole('button', { name }).isDisabled(), true);
    assert.deepEqual(await kept(), [{ id }]);
    // Its owner is offered all of it, and the request goes.
    await logOut(page);
    await page.getByLabel('Role').fill('root');
    await page.getByRole('button', { name: 'Log in' }).click();
    await page.goto(`${base}/requests/r${id}`);
    await page.getByRole('button', { name: 'Delete it' }).click();
    await page.getByRole('button', { name: 'Delete it for good?' }).click();
    await within(10_000, async () => assert.deepEqual(await kept(), []));
    await holds(page, `location.hash === '#/postgres/requests'`);
    // A check that cannot be used is named, in the list and on the page, and of this table alone.
    await client.query(
      `UPDATE headgate.webhook_table SET expression = 'nonsense(' WHERE relation = 'orders'::regclass`,
    );
    await within(10_000, async () =>
      assert.equal((await headgate.post('postgres/public/orders', '{}')).status, 503),
    );
    await page.goto(`${base}/endpoints`);
    await page.getByRole('row', { name: /^orders.*unusable/ }).waitFor();
    assert.equal(await page.getByText('unusable').count(), 1);
    await page.goto(`${base}/endpoint/public/orders`);
    await page.getByText('No request can be taken:').waitFor();
    assert.deepEqual(complaints, []);
  });
});
