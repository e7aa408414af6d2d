/** Web pages of two origins in a real browser, which send requests to a server of another origin. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestContext } from 'node:test';
import { onEnd } from './cleanup.ts';
import { openBrowser } from './console.ts';
import { requireBrowser } from './tools.ts';

interface Pages {
  readonly origin: string;
  readonly other: string;
  /** What a page of `from` reads of a POST to `url` with a bearer token: status and text, or the browser's error. */
  readonly insert: (from: string, url: string, token: string) => Promise<string>;
  /** What an EventSource of a page of `from` has read when the browser gives up. */
  readonly follow: (from: string, url: string) => Promise<readonly string[]>;
}

/** null: no browser is installed, and the test is skipped. */
export async function openPages(t: TestContext): Promise<Pages | null> {
  const path = requireBrowser(t);
  if (path === null) return null;
  const server = createServer((_, response) => {
    response.setHeader('content-type', 'text/html').end('<!doctype html><title>x</title>');
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onEnd(t, 'pages', () => void server.close());
  const { port } = server.address() as AddressInfo;
  const browser = await openBrowser(t, path, 'app.example');
  return {
    origin: `http://app.example:${port}`,
    other: `http://127.0.0.1:${port}`,
    insert: async (from, url, token) => {
      const tab = await browser.newPage();
      await tab.goto(`${from}/`);
      const said = await tab.evaluate(
        async ({ to, headers }) => {
          try {
            const response = await fetch(to, { method: 'POST', body: '{"n":1}', headers });
            return `${response.status} ${await response.text()}`;
          } catch (error) {
            return String(error);
          }
        },
        { to: url, headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' } },
      );
      await tab.close();
      return said;
    },
    follow: async (from, url) => {
      const tab = await browser.newPage();
      await tab.goto(`${from}/`);
      const read = await tab.evaluate(
        (to) =>
          new Promise<string[]>((resolve) => {
            const messages: string[] = [];
            const source = new EventSource(to);
            source.addEventListener('message', ({ data }) => messages.push(String(data)));
            source.addEventListener('error', () => {
              if (source.readyState === EventSource.CLOSED) resolve(messages);
            });
          }),
        url,
      );
      await tab.close();
      return read;
    },
  };
}
