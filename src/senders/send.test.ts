import assert from 'node:assert/strict';
import { createHmac, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { limits } from '../config/limits.ts';
import { SendError } from './send-options.ts';
import type { CommandIo } from '../kit/terminal.ts';
import type { SendOptions } from './send-options.ts';
import { sendCommand } from './send.ts';
import { SendTally, progressBar } from './send-tally.ts';

interface Received {
  readonly request: IncomingMessage;
  readonly body: Buffer;
}

/** A receiver that answers what it is told, and remembers. */
async function receiver(t: TestContext, answer: (index: number) => number | null = () => 200) {
  const received: Received[] = [];
  let inFlight = 0;
  let inFlightMax = 0;
  const server = createServer((request, response) => {
    inFlightMax = Math.max(inFlightMax, ++inFlight);
    response.on('close', () => inFlight--);
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const index = received.push({ request, body: Buffer.concat(chunks) }) - 1;
      const status = answer(index);
      if (status !== null) response.writeHead(status).end('{"rows":1}');
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/webhook/dev/public/t`;
  return { url, received, inFlightMax: () => inFlightMax };
}

function testIo(changes: Partial<CommandIo> = {}) {
  const out = { stdout: '', stderr: '' };
  const io: CommandIo = {
    print: (text) => (out.stdout += text),
    note: (text) => (out.stderr += text),
    terminal: false,
    read: () => Promise.reject(new Error('nothing to read')),
    clock: () => 1_700_000_000_123,
    elapsed: () => performance.now(),
    random: randomBytes,
    signal: new AbortController().signal,
    ...changes,
  };
  return { io, out };
}

suite('headgate send sends signed requests', () => {
  test('headgate send sends one signed request and prints the answer', async (t) => {
    const { url, received } = await receiver(t);
    const { io, out } = testIo();
    assert.equal(await sendCommand({ sender: 'github', url, secret: 'ключ' }, io), 0);
    assert.equal(out.stdout, 'HTTP 200\n{"rows":1}\n');
    const [{ request, body }] = received as [Received];
    const digest = createHmac('sha256', 'ключ').update(body).digest('hex');
    assert.equal(request.headers['x-hub-signature-256'], `sha256=${digest}`);
    assert.equal(request.headers['content-type'], 'application/json');
    assert.equal(request.headers['x-github-event'], 'issues');
    assert.equal((JSON.parse(body.toString()) as { action: string }).action, 'opened');
  });

  test('headgate send --id repeats one delivery under the same id', async (t) => {
    const { url, received } = await receiver(t);
    const deliveries: unknown[] = [];
    for (const id of ['1', '1', 'two', undefined]) {
      const { io } = testIo();
      assert.equal(await sendCommand({ sender: 'github', url, secret: 'x', id }, io), 0);
      deliveries.push(received.at(-1)?.request.headers['x-github-delivery']);
    }
    assert.equal(deliveries[0], deliveries[1]);
    assert.equal(new Set(deliveries).size, 3);
    const { io } = testIo({ read: () => Promise.resolve(Buffer.from('{}')) });
    await assert.rejects(sendCommand({ sender: 'paystack', url, secret: 'x', id: '1' }, io), {
      name: 'SendError',
      message: '--id: nobody has looked whether Paystack sends an id',
    });
    await assert.rejects(sendCommand({ sender: 'stripe', url, secret: 'x', id: '1', body: 'b' }, io), {
      message: "--id: Stripe has the delivery's id in the body, which --body replaces",
    });
    assert.equal(await sendCommand({ sender: 'github', url, secret: 'x', id: '1', body: 'b' }, io), 0);
    assert.equal(received.at(-1)?.body.toString(), '{}');
  });

  test('headgate send prints an answer that is not 2xx and exits with 1', async (t) => {
    const { url } = await receiver(t, () => 401);
    const { io, out } = testIo();
    assert.equal(await sendCommand({ sender: 'gitlab', url, secret: 'x' }, io), 1);
    assert.match(out.stdout, /^HTTP 401\n/);
  });

  test('headgate send --count sends requests with distinct ids, a bounded number at a time', async (t) => {
    const { url, received, inFlightMax } = await receiver(t, (index) => (index % 50 === 7 ? 503 : 200));
    const { io, out } = testIo();
    assert.equal(await sendCommand({ sender: 'stripe', url, secret: 'whsec_x', count: '200' }, io), 1);
    assert.equal(
      new Set(received.map(({ body }) => (JSON.parse(body.toString()) as { id: string }).id)).size,
      200,
    );
    assert(inFlightMax() <= limits.sendInFlightMax);
    assert.match(
      out.stdout,
      /^200 of 200 answered in [\d.]+ s \(\d+\/s\)\n200 {2}196\n503 {2}4\np50 [\d.]+ ms {2}p99 [\d.]+ ms\n$/,
    );
    assert.equal(
      out.stderr,
      [20, 40, 60, 80, 100, 120, 140, 160, 180, 200].map((n) => `${n}/200\n`).join(''),
    );
  });

  test('headgate send --rate keeps to the rate', async (t) => {
    const { url, received } = await receiver(t);
    const { io } = testIo();
    const begun = performance.now();
    assert.equal(
      await sendCommand({ sender: 'github', url, secret: 'x', count: '21', rate: '100/s' }, io),
      0,
    );
    assert.equal(received.length, 21);
    assert(performance.now() - begun >= 200 - 5);
  });

  test('headgate send draws a progress bar on a terminal', async (t) => {
    const { url } = await receiver(t);
    const { io, out } = testIo({ terminal: true });
    assert.equal(await sendCommand({ sender: 'github', url, secret: 'x', count: '5' }, io), 0);
    assert.match(out.stderr, /^\r\[[#-]{30}\] \d\/5[^]*\r\[#{30}\] 5\/5\n$/);
    assert.equal(progressBar(1, 2), `[${'#'.repeat(15)}${'-'.repeat(15)}] 1/2`);
  });

  test('headgate send ends cleanly on an interrupt, with the results so far', async (t) => {
    const interrupt = new AbortController();
    const { url } = await receiver(t, (index) => {
      if (index < 40) return 200;
      interrupt.abort();
      return null;
    });
    const { io, out } = testIo({ signal: interrupt.signal });
    assert.equal(await sendCommand({ sender: 'github', url, secret: 'x', count: '1000' }, io), 130);
    assert.match(out.stdout, /^\d+ of 1000 answered/);
    const alone = testIo({ signal: AbortSignal.abort() });
    assert.equal(await sendCommand({ sender: 'github', url, secret: 'x' }, alone.io), 130);
  });

  test('headgate send asks for a secret that is in no option', async (t) => {
    const { url, received } = await receiver(t);
    const { io } = testIo({ ask: () => Promise.resolve('typed') });
    assert.equal(await sendCommand({ sender: 'github', url }, io), 0);
    const [{ request, body }] = received as [Received];
    const digest = createHmac('sha256', 'typed').update(body).digest('hex');
    assert.equal(request.headers['x-hub-signature-256'], `sha256=${digest}`);
    const interrupted = testIo({ ask: () => Promise.resolve(null) });
    await assert.rejects(sendCommand({ sender: 'github', url }, interrupted.io), SendError);
  });

  test('headgate send uses the given time, URL and body', async (t) => {
    const { url, received } = await receiver(t);
    const body = Buffer.from('{"mine": true}');
    const { io } = testIo({
      read: (path) => Promise.resolve(path === 'key.txt' ? Buffer.from('k\n') : body),
    });
    const options = { url, secretFile: 'key.txt', body: '-', now: '2026-03-04T05:06:07Z' };
    const signedUrl = 'https://hooks.example.com/webhook/dev/public/t';
    assert.equal(await sendCommand({ sender: 'hubspot', signedUrl, ...options }, io), 0);
    assert.equal(await sendCommand({ sender: 'twilio', signedUrl, ...options }, io), 0);
    const [hubspot, twilio] = received as [Received, Received];
    const time = String(Date.UTC(2026, 2, 4, 5, 6, 7));
    const signature = createHmac('sha256', 'k')
      .update(`POST${signedUrl}`)
      .update(body)
      .update(time)
      .digest('base64');
    assert.equal(hubspot.request.headers['x-hubspot-signature-v3'], signature);
    assert.deepEqual(hubspot.body, body);
    assert.match(twilio.request.url ?? '', /^\/webhook\/dev\/public\/t\?bodySHA256=[0-9a-f]{64}$/);
  });

  test('headgate send creates a secret and its key', async () => {
    const { io, out } = testIo();
    assert.equal(await sendCommand({ sender: 'discord', makeSecret: true }, io), 0);
    const keys = JSON.parse(out.stdout) as Record<string, string>;
    assert.deepEqual(Object.keys(keys), ['secret', 'signingKey']);
    assert.match(keys['secret'] ?? '', /^[0-9a-f]{64}$/);
  });

  test('headgate send reports an unreachable receiver in one line', async (t) => {
    const { url } = await receiver(t);
    const gone = url.replace(/:\d+/, ':1');
    await assert.rejects(sendCommand({ sender: 'github', url: gone, secret: 'x' }, testIo().io), (error) => {
      assert(error instanceof SendError);
      assert.match(error.message, /^no answer from 127\.0\.0\.1:1: .*ECONNREFUSED/);
      return true;
    });
    const { io, out } = testIo();
    assert.equal(await sendCommand({ sender: 'github', url: gone, secret: 'x', count: '2' }, io), 1);
    assert.match(out.stdout, /ECONNREFUSED.* 2\n/);
  });

  const wrong: readonly (readonly [Partial<SendOptions>, RegExp])[] = [
    [{ sender: 'githup' }, /^unknown sender "githup": Perhaps github\? For a signature of your own see /],
    [{ sender: 'zzzzzzzz' }, /: headgate senders lists them\. For a signature of your own see /],
    [{ url: 'ftp://a/b' }, /^--url: /],
    [{ url: undefined }, /^--url is missing/],
    [{ signedUrl: 'x' }, /^--signed-url: /],
    [{ count: '0' }, /^--count: /],
    [{ count: '1000001' }, /^--count: /],
    [{ rate: 'fast' }, /^--rate: /],
    [{ now: 'soon' }, /^--now: /],
    [{ secret: '' }, /secret is empty/],
    [{ secret: undefined }, /with --secret-file, - for standard input, or with --secret$/],
    [{ secretFile: 'f' }, /either --secret or --secret-file/],
    [{ sender: 'discord', secret: 'topsecret' }, /private key, see --make-secret$/],
    [
      { sender: 'pusher', secret: 'topsecret' },
      /cannot sign with this secret: it is not JSON with `key` and `secret`; it must be JSON/,
    ],
  ];
  for (const [options, message] of wrong) {
    test(`headgate send refuses the options ${JSON.stringify(options)}`, async () => {
      const whole = { sender: 'github', url: 'http://127.0.0.1:1/', secret: 'x', ...options };
      await assert.rejects(sendCommand(whole, testIo().io), (error) => {
        assert(error instanceof SendError);
        assert.match(error.message, message);
        assert(!error.message.includes('topsecret'));
        return true;
      });
    });
  }
});

test("headgate send's summary has the median and the 99th percentile", () => {
  const tally = new SendTally(200);
  for (let ms = 200; ms >= 1; ms--) tally.add('200', true, ms);
  assert.equal(tally.allAccepted, true);
  assert.equal(
    tally.summary(2000),
    '200 of 200 answered in 2.0 s (100/s)\n200  200\np50 100.0 ms  p99 198.0 ms\n',
  );
  assert.equal(new SendTally(3).summary(0), '0 of 3 answered in 0.0 s\n');
});
