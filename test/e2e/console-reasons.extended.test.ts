/** Reasons of refused requests: each is counted, named and filtered by one rule, and counts that stand beside each other agree. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Page } from 'playwright-core';
import { openConsole } from '../support/console.ts';
import { sharedHeadgate } from '../support/headgate.ts';
import { requireBrowser } from '../support/tools.ts';
import { within } from '../support/within.ts';

const webhook = `WITH (connector = 'webhook')`;
const shared = sharedHeadgate();

const listed = (page: Page): Promise<string[]> => page.locator('.lines .line').allInnerTexts();

suite('reasons of refused requests', () => {
  test('each reason narrows the list, and a retry, to the requests that it counts', async (t) => {
    const chromium = requireBrowser(t);
    if (chromium === null) return;
    const headgate = await shared();
    const client = await headgate.client(t);
    await client.query(`CREATE SECRET s WITH (backend = 'meta') AS 'the key';
      CREATE TABLE inhouse (order_id INT, amount INT, placed DATE) ${webhook};
      CREATE TABLE signed (data JSONB) ${webhook} VALIDATE SECRET s AS headers->>'x-first' = s AND headers->>'x-second' = s`);
    const send = async (n: number, path: string, body: string, headers = {}, status = 422) => {
      for (let i = 0; i < n; i++)
        assert.equal((await headgate.post(`dev/public/${path}`, body, headers)).status, status);
    };
    await send(5, 'inhouse', '{"order_id":"A-1"}');
    await send(2, 'inhouse', '{"amount":"many"}');
    await send(1, 'inhouse', 'no JSON at all');
    await send(1, 'inhouse', '{"amount":1');
    await send(1, 'inhouse', '"a text"');
    await send(2, 'signed', '{}', { 'x-second': 'the key' }, 401);
    await send(1, 'signed', '{}', { 'x-first': 'the key' }, 401);
    const wanted = {
      inhouse: {
        'Column order_id does not fit': 5,
        'Column amount does not fit': 2,
        'The body is not JSON': 2,
        'The body is no JSON object': 1,
      },
      signed: { 'No x-first': 2, 'No x-second': 1 },
    };
    const { page, complaints } = await openConsole(t, headgate, chromium);
    const place = `${headgate.adminUrl}/console/#/dev`;
    for (const [table, reasons] of Object.entries(wanted)) {
      for (const [reason, n] of Object.entries(reasons)) {
        await page.goto(`${place}/`);
        await page.locator('a.line', { hasText: reason }).getByText(String(n), { exact: true }).waitFor();
        await page.goto(`${place}/requests?result=refused&schema=public&table=${table}`);
        await page.locator('.reason-chips button', { hasText: `${reason} ${n}` }).click();
        await within(15_000, async () => {
          const lines = await listed(page);
          assert.equal(lines.length, n, reason);
          assert(
            lines.every((line) => line.includes(reason)),
            lines.join('\n'),
          );
        });
        await page.locator('.chips', { hasText: `Reason ${reason}` }).waitFor();
        await page.locator('.lines .line').first().click();
        if (n > 1) await page.getByText(`${n} with this reason since`).waitFor();
      }
    }
    await client.query('ALTER TABLE inhouse ALTER order_id TYPE TEXT');
    await page.goto(`${place}/requests?result=refused&schema=public&table=inhouse`);
    await page.locator('.reason-chips button', { hasText: 'order_id' }).click();
    await page.getByText(/^Refused\s*5$/).waitFor();
    await page.getByRole('checkbox', { name: 'Select all' }).check();
    await page.getByRole('button', { name: 'Retry', exact: true }).click();
    await within(30_000, async () => {
      const { rows } = await client.query(
        `SELECT retry_outcome, count(*)::int AS n FROM headgate.rejected_requests WHERE table_name = 'inhouse' GROUP BY 1 ORDER BY 2`,
      );
      assert.deepEqual(rows, [
        { retry_outcome: 'committed', n: 5 },
        { retry_outcome: null, n: 5 },
      ]);
    });
    assert.deepEqual(complaints, []);
  });

  test('how many requests were refused is the same in the sentence, its reasons and the list of endpoints', async (t) => {
    const chromium = requireBrowser(t);
    if (chromium === null) return;
    const headgate = await shared();
    const client = await headgate.client(t);
    await client.query(`CREATE SECRET gh_key WITH (backend = 'meta') AS 'the key';
      CREATE TABLE gh (a INT, b INT, c INT) ${webhook} VALIDATE SECRET gh_key AS headers->>'x-key' = gh_key`);
    const send = async (n: number, body: string, key: string, status: number) => {
      for (let i = 0; i < n; i++)
        assert.equal((await headgate.post('dev/public/gh', body, { 'x-key': key })).status, status);
    };
    await send(2, '{"b":"x"}', 'the key', 422);
    await send(2, '{"c":"x"}', 'the key', 422);
    await send(5, '{"a":"x"}', 'the key', 422);
    await send(3, '{"a":1}', 'another key', 401);
    await send(5, '{"a":1}', 'the key', 200);
    const { page } = await openConsole(t, headgate, chromium);
    const sentence =
      '12 of 17 requests of the last hour were refused: Column a does not fit (5), Another key (3), Column c does not fit (2), others (2).';
    await page.getByText(sentence).waitFor({ timeout: 45_000 });
    await page.goto(`${headgate.adminUrl}/console/#/dev/endpoints`);
    await page.getByRole('row', { name: /gh.*12 of 17 refused/ }).waitFor();
  });
});
