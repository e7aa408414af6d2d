/** Retries of many requests from the console: what they store, what is counted of them, and that the list shows it without anybody's doing. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Page } from 'playwright-core';
import type { RetryState } from '../../src/console/api.ts';
import { anyKept } from '../../src/console/request-filter.ts';
import { ask, consoleLink, openConsole, post } from '../support/console.ts';
import { startHeadgate } from '../support/headgate.ts';
import { requireBrowser } from '../support/tools.ts';
import { within } from '../support/within.ts';

/** More than a page of the list. */
const sent = 104;
/** Well before the list is read again because nothing has happened. */
const soonMs = 6_000;

/** The lines that are drawn, by whether they say that the request is stored. */
async function linesOf(page: Page): Promise<readonly [stored: number, others: number]> {
  const texts = await page.locator('.lines .line').allInnerTexts();
  const stored = texts.filter((it) => it.includes('Retried: stored')).length;
  return [stored, texts.length - stored];
}

suite('retries of many requests from the console', () => {
  test('the list shows what a retry of some and of all has stored, and none is stored or counted twice', async (t) => {
    const chromium = requireBrowser(t);
    if (chromium === null) return;
    const headgate = await startHeadgate(t);
    const [client, holder] = [await headgate.client(t), await headgate.client(t)];
    await client.query(`CREATE TABLE plain (n SMALLINT) WITH (connector = 'webhook')`);
    for (let i = 0; i < sent; i++)
      assert.equal((await headgate.post('dev/public/plain', `{"n":${70_000 + i}}`)).status, 422);
    await within(10_000, async () => {
      const { rows } = await client.query('SELECT FROM headgate.rejected_requests');
      assert.equal(rows.length, sent);
    });
    await client.query('ALTER TABLE plain ALTER n TYPE INT');
    const stored = async (count: number): Promise<void> =>
      within(10_000, async () => {
        const { rows } = await client.query<{ n: number }>('SELECT n FROM plain');
        assert.equal(new Set(rows.map(({ n }) => n)).size, count);
        assert.equal(rows.length, count);
      });
    await client.query(
      'SELECT headgate.retry_rejected(id) FROM (SELECT id FROM headgate.rejected_requests ORDER BY id LIMIT 3) q',
    );
    await stored(3);

    const { page, complaints } = await openConsole(t, headgate, chromium);
    await page.goto(`${headgate.adminUrl}/console/#/dev/requests?result=refused&schema=public&table=plain`);
    const bar = page.getByRole('region', { name: 'Selected requests' });
    const shown = page.getByLabel('Select all that are shown');
    await shown.waitFor();
    /** The list has been read after the retry was asked for, and before anything is stored. */
    const retryWhileLocked = async (): Promise<void> => {
      await holder.query('BEGIN; LOCK TABLE plain IN SHARE MODE');
      await bar.getByRole('button', { name: /^Retry/ }).click();
      await within(10_000, async () => {
        const { rows } = await client.query(
          `SELECT FROM headgate.rejected_requests WHERE retry_outcome IN ('waiting', 'running')`,
        );
        assert.notEqual(rows.length, 0);
      });
      await page.evaluate('new Promise((drawn) => requestAnimationFrame(drawn))');
      await holder.query('COMMIT');
    };
    for (const nth of [0, 1]) await page.locator('.line').getByRole('checkbox').nth(nth).check();
    await retryWhileLocked();
    await stored(5);
    await within(soonMs, async () => assert.equal((await linesOf(page))[0], 2));

    await shown.check();
    await bar.getByRole('button', { name: `Select all ${sent} that match` }).click();
    await retryWhileLocked();
    await stored(sent);
    const progress = page.locator('.progress');
    await progress.getByText('done').waitFor();
    await within(soonMs, async () => assert.equal((await linesOf(page))[1], 0));
    const said = await progress.innerText();
    assert.match(said, new RegExp(`${sent - 5} of ${sent - 5}`));
    assert.match(said, new RegExp(`committed ${sent - 5}\\b`));
    assert.match(said, /5 × stored already/);
    assert.doesNotMatch(said, /not retried/);
    assert.deepEqual(complaints, []);
  });

  test('what is stored already is not stored again by a retry without the check', async (t) => {
    const headgate = await startHeadgate(t);
    const client = await headgate.client(t);
    const { port } = headgate.ports.admin;
    await client.query(`CREATE SECRET s WITH (backend = 'meta') AS 'a key';
      CREATE TABLE signed (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET s USING gitlab`);
    for (let i = 0; i < 3; i++)
      assert.equal((await headgate.post('dev/public/signed', `{"n":${i}}`)).status, 401);
    await within(10_000, async () => {
      const { rows } = await client.query('SELECT FROM headgate.rejected_requests');
      assert.equal(rows.length, 3);
    });
    const [, link = ''] = (await consoleLink(headgate)).split('#t=');
    const { token } = JSON.parse((await post(port, 'login', { link })).text) as { token: string };
    const retried = async (): Promise<RetryState> => {
      assert.equal((await post(port, 'retry', { filter: anyKept, force: true }, token)).status, 200);
      return within(10_000, async () => {
        const { text } = await ask(port, '/console/api/retry', {
          headers: { authorization: `Bearer ${token}` },
        });
        const state = JSON.parse(text) as RetryState;
        assert.equal(state.kind, 'done');
        return state;
      });
    };
    const first = await retried();
    assert.deepEqual([first.total, first.asked, first.outcomes], [3, 3, [['committed', 3]]]);
    const again = await retried();
    assert.deepEqual([again.total, again.asked, again.outcomes], [0, 0, []]);
    assert.deepEqual(again.said, [['stored already', 3]]);
    assert.equal((await client.query('SELECT FROM signed')).rows.length, 3);
  });
});
