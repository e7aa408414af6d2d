// Takes the screenshots of docs/console.md: `npm run docs:images`, after a build. Starts Headgate on a new data
// directory, creates two endpoints and some requests through it, and opens it in Chromium.
import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const cli = join(root, 'dist/src/app/cli.js');
const folder = join(root, 'docs/images');
const dataDir = mkdtempSync(join(tmpdir(), 'headgate-images-'));

const ports = ['--listen-port=4560', '--sql-port=0', '--gateway-port=0', '--admin-port=0', '--listeners=1'];
const headgate = spawn(process.execPath, [cli, 'start', `--data-dir=${dataDir}`, ...ports], {
  stdio: ['ignore', 'pipe', 'inherit'],
});
const ended = new Promise((resolve) => headgate.once('close', resolve));
await new Promise((resolve) => {
  headgate.stdout.on('data', (text) => String(text).includes('Headgate is ready') && resolve());
});

const command = (...args) => {
  try {
    return execFileSync(process.execPath, [cli, ...args], { encoding: 'utf8' }).trim();
  } catch (error) {
    // `send` exits with 1 if refused, which is intended here.
    return String(error.stdout);
  }
};
const { gateway } = JSON.parse(readFileSync(join(dataDir, 'ports.json'), 'utf8'));
const sql = (text) => fetch(`http://127.0.0.1:${gateway.port}/v1/sql`, { method: 'POST', body: text });
const send = (sender, secret, count = 1) =>
  command(
    'send',
    sender,
    `--secret=${secret}`,
    `--count=${count}`,
    `--url=http://127.0.0.1:4560/webhook/dev/public/${sender}_events`,
  );

const browser = await chromium.launch({
  executablePath: '/usr/bin/chromium-headless-shell',
  args: process.getuid?.() === 0 ? ['--no-sandbox'] : [],
});
try {
  const link = command('console', `--data-dir=${dataDir}`);
  const page = await browser.newPage({ viewport: { width: 1180, height: 720 } });
  const open = (place) => page.goto(`${link.split('#')[0]}#/${place}`);
  const theme = async (name) => {
    await page.getByRole('button', { name: /Theme, keys, log out$/ }).click();
    await page.getByRole('button', { name, exact: true }).click();
  };
  mkdirSync(folder, { recursive: true });
  const picture = (name) =>
    page.screenshot({ path: join(folder, `console-${name}.png`), animations: 'disabled' });

  await page.goto(link);
  await open('new/stripe');
  await page.getByRole('button', { name: 'Create the endpoint' }).click();
  await page.getByText('Waiting for the first request').waitFor();
  await picture('wizard');
  await open('new/github');
  await page.getByRole('button', { name: 'Create the endpoint' }).click();
  await page.getByRole('button', { name: 'I have a secret already' }).click();
  await page.locator('[name=secret]').fill('key of github');
  await page.getByRole('button', { name: 'Save the secret' }).click();
  await page.getByText('The secret is saved.').waitFor();
  send('github', 'key of github');
  await page.getByText('"octocat"').waitFor();
  await picture('first-request');

  await sql(`CREATE SECRET s WITH (backend = 'meta') AS 'key'`);
  await sql(
    `CREATE TABLE gitlab_events (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET s USING gitlab`,
  );
  for (const [sender, secret, count] of [
    ['github', 'key of github', 4],
    ['gitlab', 'key', 3],
    ['github', 'an older key', 2],
    ['gitlab', 'key', 2],
    ['github', 'key of github', 3],
  ])
    send(sender, secret, count);
  // Traffic is counted every few seconds.
  for (let counted = false; !counted;) {
    await open('');
    await open('endpoint/public/github_events/live');
    const bars = page.getByRole('img', { name: /\b[1-9]\d* stored, [1-9]\d* with 401/ });
    counted = await bars.waitFor({ timeout: 3_000 }).then(
      () => true,
      () => false,
    );
  }
  await page.getByText('A delivery sent twice').waitFor();
  await page.locator('.latest .line').nth(2).waitFor();
  await picture('endpoint');
  await open('');
  await page.locator('.latest tr', { hasText: 'Another secret, or changed' }).first().waitFor();
  await page
    .getByText(/[1-9]\d* with 401/)
    .first()
    .waitFor();
  await picture('overview');
  await open('endpoints');
  await page.getByRole('row', { name: /github_events.*GitHub.*(stored|refused)/ }).waitFor();
  await page.getByText('1 – 3 of 3').waitFor();
  await picture('endpoints');
  await open('health');
  await page.getByText('the disk is full in').waitFor();
  await page.getByText('flush time').scrollIntoViewIfNeeded();
  await picture('health');
  await open('endpoint/public/github_events/definition');
  await page.getByRole('button', { name: 'Show them' }).click();
  for (let held = false; !held;) {
    send('github', 'key of github');
    await open('');
    await open('requests');
    await page.getByRole('cell', { name: '1 row' }).first().click();
    // Bodies are kept as soon as this process has read of it.
    held = await page
      .getByText('"octocat"')
      .first()
      .waitFor({ timeout: 2_000 })
      .then(
        () => true,
        () => false,
      );
  }
  await picture('request');
  await theme('Dark');
  await open('refused/1');
  await page.getByLabel('x-hub-signature-256').fill(`sha256=${'5'.repeat(64)}`);
  await page.getByRole('button', { name: 'Explain' }).click();
  await page.locator('.steps').scrollIntoViewIfNeeded();
  await picture('explained');
  await theme('Light');
  await open('sql');
  await page
    .getByLabel('SQL')
    .fill(
      `SELECT data->>'action' AS action, data->'issue'->'id' AS issue, received_at\nFROM github_events\nORDER BY received_at DESC`,
    );
  await page.keyboard.press('Control+Enter');
  await page.locator('.result-head', { hasText: /\d+ rows in/ }).waitFor();
  await picture('sql');
} finally {
  await browser.close();
  headgate.kill('SIGTERM');
  await ended;
  rmSync(dataDir, { recursive: true, force: true });
}
