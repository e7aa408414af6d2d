/** How many clicks a task takes in the console: as many as docs/console.md says, which has the counts of others, from their documentation. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import type { Locator } from 'playwright-core';
import { cli, openConsole } from '../support/console.ts';
import { startHeadgate } from '../support/headgate.ts';
import { root } from '../support/package.ts';
import { run } from '../support/run.ts';
import { requireBrowser } from '../support/tools.ts';
import { within } from '../support/within.ts';

const documented = new Map(
  readFileSync(join(root, 'docs/console.md'), 'utf8')
    .split('### Clicks')[1]
    ?.split('\n')
    .flatMap((line) => {
      const cells = line.split('|').map((cell) => cell.trim());
      const counts = cells.slice(2, 6).map((cell) => (cell === '–' ? Infinity : Number.parseInt(cell, 10)));
      return counts.length === 4 && counts.every((it) => it >= 0) ? [[cells[1] ?? '', counts] as const] : [];
    }),
);

suite('the console takes the documented number of clicks', () => {
  test('each task in the console takes as many clicks as docs/console.md says', async (t) => {
    const chromium = requireBrowser(t);
    if (chromium === null) return;
    const headgate = await startHeadgate(t);
    const client = await headgate.client(t);
    await client.query(`CREATE TABLE hooks (data JSONB) WITH (connector = 'webhook', inspect = 'bodies');
      CREATE TABLE numbers (n INT) WITH (connector = 'webhook');
      CREATE SECRET rolled_secret WITH (backend = 'meta') AS 'the old one';
      CREATE TABLE rolled (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET rolled_secret USING gitlab`);
    const { page } = await openConsole(t, headgate, chromium);
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    const ofGitlab = { 'x-gitlab-token': 'the new one' };
    const refusals = [
      ['rolled', '{}', 401, 5],
      ['numbers', '{"n":"twelve"}', 422, 14],
    ] as const;
    for (const [table, body, status, count] of refusals)
      for (let i = 0; i < count; i++)
        assert.equal((await headgate.post(`dev/public/${table}`, body, ofGitlab)).status, status);
    await within(10_000, async () => {
      const { rows } = await client.query('SELECT FROM headgate.rejected_requests');
      assert.equal(rows.length, 19);
    });
    // The overview shows ten: refused ones are below.
    for (const said of ['the older', 'the newest'])
      assert.equal((await headgate.post('dev/public/hooks', JSON.stringify({ said }))).status, 200);
    // So that a retry is stored.
    await client.query('ALTER TABLE numbers ALTER n TYPE text');
    let clicks = 0;
    const more: string[] = [];
    const click = async (what: Locator): Promise<void> => {
      await what.click();
      clicks += 1;
    };
    const latest = page.locator('.latest tr');
    const retried = async (count: number): Promise<void> =>
      within(10_000, async () => {
        const { rows } = await client.query('SELECT FROM numbers');
        assert.equal(rows.length, count);
      });
    const tasks: Readonly<Record<string, () => Promise<void>>> = {
      "read the body of the newest accepted request (`inspect = 'bodies'`)": async () => {
        await click(latest.filter({ hasText: 'hooks' }).first());
        await page.getByText('the newest').waitFor();
      },
      'send that request again': async () => {
        await click(latest.filter({ hasText: 'hooks' }).first());
        await click(page.getByRole('link', { name: 'Send again…' }));
        await click(page.getByRole('button', { name: 'Send it' }));
        await page.locator('.verdict.good', { hasText: 'Answered 200' }).waitFor();
      },
      'find a request by a text in its body': async () => {
        await click(page.getByRole('link', { name: 'Requests', exact: true }));
        await page.getByRole('searchbox', { name: 'Search requests' }).fill('twelve');
        clicks += 1;
        await within(10_000, async () => assert.equal(await page.locator('.lines .line').count(), 14));
      },
      'read why a request was refused': async () => {
        await click(latest.filter({ hasText: 'numbers' }).first());
        await page.locator('.sentence .title').waitFor();
      },
      'go on to the next request': async () => {
        await latest.filter({ hasText: 'hooks' }).first().click();
        await page.getByText('the newest').waitFor();
        const opened = page.url();
        await page.keyboard.press('j');
        clicks += 1;
        await within(10_000, async () => assert.notEqual(page.url(), opened));
        assert.match(page.url(), /open=/);
      },
      'retry a request that was refused': async () => {
        await click(latest.filter({ hasText: 'numbers' }).first());
        await click(page.getByRole('button', { name: 'Retry' }));
        await retried(1);
      },
      'retry ten requests that are chosen in a list': async () => {
        await click(page.getByRole('link', { name: 'Requests', exact: true }));
        const boxes = page.locator('.line', { hasText: 'numbers' }).getByRole('checkbox');
        await click(boxes.nth(1));
        await boxes.nth(10).click({ modifiers: ['Shift'] });
        clicks += 1;
        await page.getByText('10 selected').waitFor();
        await page.keyboard.press('r');
        clicks += 1;
        await retried(11);
      },
      'retry all that were refused for one reason': async () => {
        await click(page.locator('.list a', { hasText: 'Column n does not fit' }));
        await click(page.getByRole('checkbox').first());
        await click(page.getByRole('button', { name: /^Retry/ }));
        await retried(14);
      },
      'connect Stripe, and see its first delivery': async () => {
        await click(page.getByRole('link', { name: 'New endpoint' }));
        await click(page.getByRole('link', { name: /^S?\s*Stripe$/ }));
        await click(page.getByRole('button', { name: 'Create the endpoint' }));
        await click(page.getByRole('button', { name: 'Copy URL' }));
        const url = await page.evaluate<string>('navigator.clipboard.readText()');
        await page.locator('[name=secret]').fill('whsec_clicks');
        clicks += 1;
        await click(page.getByRole('button', { name: 'Save the secret' }));
        await page.getByText('The secret is saved.').waitFor();
        // Each process learns of the secret within a second.
        await within(5_000, async () => {
          const sent = await run(process.execPath, [
            cli,
            'send',
            'stripe',
            '--url',
            url,
            '--secret',
            'whsec_clicks',
          ]);
          assert.equal(sent.code, 0, sent.stdout);
        });
        await page.getByText(/Received\. Signed by Stripe, stored/).waitFor();
      },
      'set the new secret, when the sender has another one': async () => {
        // Counts reach the database within ten seconds, and the page asks for them every fifteen.
        await within(20_000, async () => {
          const { rows } = await client.query(
            `SELECT FROM headgate.endpoint_states WHERE table_name = 'rolled' AND state = 'nothing stored'`,
          );
          assert.equal(rows.length, 1);
        });
        await page.reload();
        await click(page.locator('.needs').getByRole('link', { name: 'Set the secret' }));
        await page.locator('input:focus[type=password]').fill('the new one');
        clicks += 1;
        await click(page.getByRole('button', { name: 'Set it' }));
        await within(5_000, async () =>
          assert.equal((await headgate.post('dev/public/rolled', '{}', ofGitlab)).status, 200),
        );
      },
      'open the console in a new tab': async () => {
        const tab = await page.context().newPage();
        await tab.goto(`${headgate.adminUrl}/console/#/dev/requests`);
        await tab.getByRole('heading', { name: 'Requests' }).waitFor();
        await tab.close();
      },
      'copy the address of an endpoint': async () => {
        await click(page.getByRole('link', { name: /^Endpoints/ }));
        const row = page.locator('tr', { hasText: '/dev/public/hooks' });
        await row.hover();
        await click(row.getByRole('button', { name: 'Copy URL' }));
      },
    };
    assert.deepEqual([...documented.keys()].toSorted(), Object.keys(tasks).toSorted());
    for (const [task, doIt] of Object.entries(tasks)) {
      await page.goto(`${headgate.adminUrl}/console/#/dev`);
      // Any: requests that are refused until a new secret is known push out the others.
      await latest.first().waitFor();
      clicks = 0;
      await doIt();
      const [ours = Infinity, ...others] = documented.get(task) ?? [];
      assert.equal(clicks, ours, task);
      if (ours > Math.min(...others)) more.push(task);
    }
    assert.deepEqual(more, ['retry ten requests that are chosen in a list']);
  });
});
