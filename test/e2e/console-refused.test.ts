/** A refused request in the console: what is said of it agrees with its arrival, and with what psql says. */
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { suite, test } from 'node:test';
import { openConsole } from '../support/console.ts';
import { startHeadgate } from '../support/headgate.ts';
import { requireBrowser } from '../support/tools.ts';
import { within } from '../support/within.ts';

suite('a refused request in the console', () => {
  test('the explanation of a 401 agrees with its reason: what was not kept is not missing', async (t) => {
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
    assert.deepEqual(complaints, []);
  });

  test('a request of which not all was kept is neither retried nor sent again, and says so as psql does', async (t) => {
    const chromium = requireBrowser(t);
    if (chromium === null) return;
    const headgate = await startHeadgate(t, { env: { HEADGATE_BODY_BYTES_MAX: '1000000' } });
    const client = await headgate.client(t);
    await client.query(`CREATE TABLE narrow (n SMALLINT) WITH (connector = 'webhook')`);
    const pad = 'x'.repeat(100_000);
    assert.equal((await headgate.post('dev/public/narrow', `{"n":70000,"pad":"${pad}"}`)).status, 422);
    assert.equal((await headgate.post('dev/public/narrow', `{"pad":"${pad.repeat(20)}"}`)).status, 413);
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
      const retry = page.getByRole('button', { name: 'Retry', exact: true });
      assert.equal((await retry.count()) === 0 || (await retry.isDisabled()), true);
      assert.equal(await page.getByText('Change it, and send it again').count(), 0);
      assert.equal(await page.getByRole('button', { name: 'Copy as curl' }).count(), 0);
      // No key does it either.
      for (const key of ['r', 'r', 'Enter']) await page.keyboard.press(key);
    }
    // What psql says after the click is said here, too.
    await page.goto(`${headgate.adminUrl}/console/#/refused/${ids[2]}`);
    await page.getByRole('button', { name: 'Retry', exact: true }).click();
    await page.getByText('waiting: column retry_outcome of headgate.rejected_requests tells').waitFor();
    const { rows } = await client.query('SELECT FROM narrow');
    assert.equal(rows.length, 0);
    assert.deepEqual(complaints, []);
  });
});
