/** The console in a real Chromium, and requests to it without one. Everything opened is closed with the test. */
import assert from 'node:assert/strict';
import { request as httpRequest } from 'node:http';
import { fileURLToPath } from 'node:url';
import type { TestContext } from 'node:test';
import { chromium } from 'playwright-core';
import type { Browser, Page } from 'playwright-core';
import { onEnd, wholeFile } from './cleanup.ts';
import type { Headgate } from './headgate.ts';
import { run } from './run.ts';

export const cli = fileURLToPath(new URL('../../src/app/cli.js', import.meta.url));

/** `headgate console`: returns the link. */
export async function consoleLink({ dataDir }: Headgate): Promise<string> {
  const { code, stdout, stderr } = await run(process.execPath, [cli, 'console', `--data-dir=${dataDir}`]);
  assert.equal(code, 0, stderr);
  return stdout.trim();
}

const file = wholeFile();
const browsers = new Map<string, Promise<Browser>>();

/** One for all tests of a file, each of which closes what it opened in it. `rebound`: a name that resolves to this machine, like that of a hostile page. */
export async function openBrowser(t: TestContext, path: string, rebound: string): Promise<Browser> {
  const launched = browsers.get(rebound) ?? launch(path, rebound);
  browsers.set(rebound, launched);
  const browser = await launched;
  onEnd(t, 'pages', async () => {
    for (const context of browser.contexts()) await context.close();
  });
  return browser;
}

async function launch(path: string, rebound: string): Promise<Browser> {
  const browser = await chromium.launch({
    executablePath: path,
    // Chromium has no sandbox for root; only Headgate's own pages are opened in it.
    args: [
      ...(process.getuid?.() === 0 ? ['--no-sandbox'] : []),
      `--host-resolver-rules=MAP ${rebound} 127.0.0.1`,
      '--disable-gpu',
    ],
  });
  onEnd(file, 'browser', () => browser.close());
  return browser;
}

export interface Watched {
  readonly page: Page;
  /** Complaints of the browser: the policy, scripts that failed. */
  readonly complaints: string[];
}

export async function openPage(browser: Browser, theme: 'light' | 'dark' = 'light'): Promise<Watched> {
  // Animations on the page are drawn sixty times a second, by the CPU.
  const still = { reducedMotion: 'reduce', viewport: { width: 1280, height: 860 } } as const;
  const context = await browser.newContext({ colorScheme: theme, ...still });
  const page = await context.newPage();
  page.setDefaultTimeout(15_000);
  const complaints: string[] = [];
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('console', (message) => {
    // A refusal that the page shows is no complaint.
    if (!message.text().startsWith('Failed to load resource')) complaints.push(message.text());
  });
  page.on('dialog', (dialog) => complaints.push(`dialog ${dialog.message()}`));
  return { page, complaints };
}

export interface Asked {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
}

/** One request with exactly these headers. */
export function ask(
  port: number,
  path: string,
  {
    method = 'GET',
    headers = {},
    body = '',
    from = '127.0.0.1',
  }: { method?: string; headers?: Record<string, string>; body?: string; from?: string } = {},
): Promise<Asked> {
  return new Promise((resolve, reject) => {
    const request = httpRequest(
      { host: '127.0.0.1', port, path, method, headers, agent: false, localAddress: from },
      (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (piece: string) => (text += piece));
        response.on('end', () =>
          resolve({ status: response.statusCode ?? 0, headers: response.headers, text }),
        );
      },
    );
    request.on('error', reject);
    request.end(body);
  });
}

export const jsonHeaders = { 'content-type': 'application/json', 'x-headgate-console': '1' } as const;

export function post(port: number, path: string, value: unknown, token = ''): Promise<Asked> {
  const headers = { ...jsonHeaders, ...(token === '' ? {} : { authorization: `Bearer ${token}` }) };
  return ask(port, `/console/api/${path}`, { method: 'POST', headers, body: JSON.stringify(value) });
}

/** A page that has logged in by a new link. */
export async function openConsole(t: TestContext, headgate: Headgate, path: string): Promise<Watched> {
  const watched = await openPage(await openBrowser(t, path, 'attacker.example'));
  await watched.page.goto(await consoleLink(headgate));
  await watched.page.getByRole('heading', { name: 'Overview' }).waitFor();
  return watched;
}

/** What the menus of the side bar offer, by the beginning of their names. */
export async function chooseInMenu(page: Page, menu: RegExp, choice: string | RegExp): Promise<void> {
  await page.getByRole('navigation').getByRole('button', { name: menu }).click();
  await page.getByRole('navigation').locator('.menu').getByRole('button', { name: choice }).click();
}

export const chooseTheme = (page: Page, theme: 'light' | 'dark'): Promise<void> =>
  chooseInMenu(page, /Theme, keys, log out$/, theme === 'dark' ? 'Dark' : 'Light');

export const logOut = (page: Page): Promise<void> => chooseInMenu(page, /Theme, keys, log out$/, /^Log out/);
