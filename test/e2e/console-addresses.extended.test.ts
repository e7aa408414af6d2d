/** Where requests came from and went to, in the list of requests, and addresses of the console that lead nowhere. */
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { suite, test } from 'node:test';
import { openConsole } from '../support/console.ts';
import { startHeadgate } from '../support/headgate.ts';
import { requireBrowser } from '../support/tools.ts';
import { within } from '../support/within.ts';

/** Returns the first line of the answer. */
const sent = (port: number, bytes: string): Promise<string> =>
  new Promise((resolve, reject) => {
    let text = '';
    const socket = connect(port, '127.0.0.1', () => socket.write(bytes));
    socket.setEncoding('latin1').on('data', (piece: string) => (text += piece));
    socket.on('error', reject).on('close', () => resolve(text.split('\r\n', 1)[0] ?? ''));
  });

suite('addresses', () => {
  test('requests that HTTP refuses have an address in the list, and those of another method their endpoint', async (t) => {
    const chromium = requireBrowser(t);
    if (chromium === null) return;
    const headgate = await startHeadgate(t);
    const client = await headgate.client(t);
    await client.query(`CREATE TABLE inhouse (n INT) WITH (connector = 'webhook')`);
    const { port } = headgate.ports.listen;
    assert.match(await sent(port, 'no HTTP\r\n\r\n'), /400/);
    const large = `POST /webhook/dev/public/inhouse HTTP/1.1\r\nhost: a\r\nx: ${'y'.repeat(100_000)}\r\n\r\n`;
    assert.match(await sent(port, large), /431/);
    assert.equal((await fetch(`${headgate.webhookUrl}/dev/public/inhouse`)).status, 405);
    const { page, complaints } = await openConsole(t, headgate, chromium);
    const place = `${headgate.adminUrl}/console/#/dev`;
    await page.goto(`${place}/requests`);
    for (const line of [
      /400.*No valid HTTP.*127\.0\.0\.1/,
      /431.*Headers are too large.*127\.0\.0\.1/,
      /405.*inhouse.*Not a POST/,
    ])
      await page.locator('.lines .line', { hasText: line }).waitFor();
    for (const wrong of ['endpoints/public.inhouse', 'sql/inhouse', 'nowhere']) {
      await page.goto(`${place}/${wrong}`);
      await page.getByText('There is no such page.').waitFor();
    }
    await page.goto(`${place}/endpoints/public/inhouse`);
    await page.getByRole('tab', { name: 'Definition' }).waitFor();
    // Of processes that are named at random.
    for (const [id, name] of [
      ['r7f3.12', 'Requests r7f3.12'],
      ['r12', 'Requests 12'],
    ]) {
      await page.goto(`${place}/requests/${id}`);
      await within(15_000, async () => assert.equal(await page.title(), `${name} · Headgate`));
    }
    assert.deepEqual(complaints, []);
  });
});
