/** The walk that is tried on every kind of Headgate: from the wizard to a forged request that is repaired and retried. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Page } from 'playwright-core';
import { cli } from './console.ts';
import type { Watched } from './console.ts';
import type { Headgate } from './headgate.ts';
import { run } from './run.ts';
import { within } from './within.ts';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

export interface Tried extends Watched {
  readonly headgate: Headgate;
  readonly base: string;
  readonly database: string;
  readonly open: (place: string) => Promise<void>;
}

interface Violation {
  readonly id: string;
  readonly impact: string;
  readonly nodes: readonly { readonly html: string }[];
}

/** Serious findings of axe on the page; `rules`: only these. */
export async function serious(page: Page, rules: readonly string[] | null = null): Promise<string[]> {
  // Bypasses the page's own policy, which allows only its own scripts.
  if (!(await page.evaluate<boolean>(`'axe' in globalThis`))) await page.evaluate(axe);
  const options = JSON.stringify({ resultTypes: ['violations'], ...(rules !== null && { runOnly: rules }) });
  const found = await page.evaluate<readonly Violation[]>(
    `axe.run(${options}).then(({ violations }) => violations)`,
  );
  return found
    .filter(({ id, impact }) => impact === 'serious' || impact === 'critical' || id === 'empty-table-header')
    .map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html.slice(0, 160)).join(' | ')}`);
}

/** Texts that lie over each other, of elements that this selector finds. */
export const overlapping = (page: Page, selector: string): Promise<string[]> =>
  page.evaluate<string[]>(`(() => {
    const all = [...document.querySelectorAll(${JSON.stringify(selector)})].map((it) => [it.textContent, it.getBoundingClientRect()]);
    return all.flatMap(([text, a], i) => all.slice(i + 1)
      .filter(([, b]) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)
      .map(([other]) => text + ' | ' + other));
  })()`);

/** Waits until this is true in the page; its policy allows only the debugger to evaluate text. */
export async function holds(page: Page, expression: string): Promise<void> {
  await within(15_000, async () => assert.equal(await page.evaluate(expression), true, expression));
}

const send = (secret: string, url: string) =>
  run(process.execPath, [cli, 'send', 'github', '--url', url, '--secret', secret]);

export async function makesAnEndpoint({ headgate, page, open, database }: Tried): Promise<void> {
  await open('new');
  await page.getByRole('searchbox', { name: 'Search senders' }).fill('github');
  await page.keyboard.press('Enter');
  // The address is known before anything exists.
  await page.getByText(`/webhook/${database}/public/github_events`).first().waitFor();
  await page.getByText('What will run').click();
  const shown = await page.locator('.code pre').first().innerText();
  assert.match(
    shown,
    /CREATE SECRET github_events_secret[^]*'\*{8}'[^]*VALIDATE SECRET github_events_secret USING github/,
  );
  await page.getByRole('button', { name: 'Create the endpoint' }).click();
  const made = page.getByRole('group', { name: 'Secret' }).locator('code');
  assert.match(await made.innerText(), /^[0-9a-f]{48}$/);
  await page.getByRole('button', { name: 'I have a secret already' }).click();
  await page.locator('[name=secret]').fill('right key');
  await page.getByRole('button', { name: 'Save the secret' }).click();
  await page.getByText('The secret is saved.').waitFor();
  await page.getByText('Waiting for the first request').waitFor();
  await page.getByRole('button', { name: 'Send a test as GitHub would' }).click();
  await page.getByText(/The test was answered 200, and its row was taken away again/).waitFor();
  // Each process learns of the secret within a second.
  await within(5_000, async () => {
    const sent = await send('right key', `${headgate.webhookUrl}/${database}/public/github_events`);
    assert.equal(sent.code, 0, sent.stdout);
  });
  await page.getByText(/Received\. Signed by GitHub, stored/).waitFor();
  await page.getByText('"octocat"').waitFor();
}

export async function explainsAndRetries({ headgate, page, open, database }: Tried): Promise<void> {
  await open('endpoint/public/github_events/live');
  await send('forged key', `${headgate.webhookUrl}/${database}/public/github_events`);
  await page.getByRole('cell', { name: 'Another secret, or changed' }).first().waitFor();
  await page.getByRole('tab', { name: 'Reasons' }).click();
  await page.getByRole('link', { name: 'Another secret, or changed' }).click();
  await page.getByText('VALIDATE did not accept it').waitFor();
  await page.getByLabel('x-hub-signature-256').fill(`sha256=${'0'.repeat(64)}`);
  await page.getByRole('button', { name: 'Explain', exact: true }).click();
  await page.locator('.steps li.bad').first().waitFor();
  assert.doesNotMatch(await page.locator('.steps').innerText(), /right key/);
  const request = page.url();
  await open('secrets');
  await page.getByRole('button', { name: 'Change' }).click();
  await page.getByLabel('New value').fill('forged key');
  await page.getByRole('button', { name: 'Set it' }).click();
  await page.getByRole('button', { name: /will be refused\. Set it\?/ }).click();
  await holds(page, `document.querySelector('[type=password]').value === ''`);
  // Each process learns of it within a second.
  await within(5_000, async () => {
    const sent = await send('forged key', `${headgate.webhookUrl}/${database}/public/github_events`);
    assert.match(sent.stdout, /HTTP 200/);
  });
  await page.goto(request);
  await page.getByRole('button', { name: 'Store it unchecked' }).waitFor();
  // No key stores it, and no primary button: only the person who has read what it means.
  for (const key of ['r', 'r', 'Enter', 'Space']) await page.keyboard.press(key);
  assert.equal(await page.getByRole('button', { name: /is not checked/ }).count(), 0);
  // The latter is sent without a new signature.
  assert.deepEqual(await page.locator('button.primary').allTextContents(), ['Explain', 'Send it']);
  assert.equal(await page.getByRole('button', { name: 'Store it unchecked' }).isDisabled(), true);
  await page.getByLabel(/To store it, type the name of the table/).fill('github_events');
  await page.getByRole('button', { name: 'Store it unchecked' }).click();
  await page.getByRole('button', { name: /is not checked\. Store it\?/ }).click();
  await page.getByText('Retried:').waitFor();
  await page.locator('.badge.good', { hasText: 'committed' }).waitFor();
}
