/** `headgate send`: what can be changed about a request, and the questions, against a receiver that answers as instructed. */
import assert from 'node:assert/strict';
import { createHmac, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { run } from '../../test/support/run.ts';
import { requireTool } from '../../test/support/tools.ts';
import { SendError } from './send-options.ts';
import type { CommandIo } from '../kit/terminal.ts';
import type { SendOptions } from './send-options.ts';
import { sendCommand } from './send.ts';

interface Received {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

interface Told {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

async function receiver(t: TestContext, answer: (request: Received) => Told = () => ({})) {
  const received: Received[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { method = '', url = '', headers } = request;
      const got = { method, url, headers, body: Buffer.concat(chunks) };
      received.push(got);
      const { status = 200, headers: own = {}, body = '' } = answer(got);
      response.writeHead(status, own).end(body);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/t`, received };
}

const nowMs = 1_700_000_000_000;

async function send(options: SendOptions, changes: Partial<CommandIo> = {}) {
  let printed = '';
  const code = await sendCommand(options, {
    print: (text) => (printed += text),
    note: () => {},
    terminal: false,
    read: () => Promise.resolve(Buffer.from('{"own":1}')),
    clock: () => nowMs,
    elapsed: () => performance.now(),
    random: randomBytes,
    signal: new AbortController().signal,
    ...changes,
  });
  return { code, printed };
}

suite('headgate send changes requests by its options', () => {
  test('headgate send --repeat sends one delivery again, with a new signature', async (t) => {
    const { url, received } = await receiver(t);
    let now = nowMs;
    const { code, printed } = await send(
      { sender: 'slack', url, secret: 'k', repeat: '3' },
      { clock: () => (now += 1000) },
    );
    assert.equal(code, 0);
    assert.equal(printed, '1/3 HTTP 200\n2/3 HTTP 200\n3/3 HTTP 200\n');
    assert.equal(new Set(received.map(({ body }) => body.toString())).size, 1);
    assert.equal(new Set(received.map(({ headers }) => headers['x-slack-signature'])).size, 3);
  });

  test("headgate send --event writes the event name at the sender's place, and signs it", async (t) => {
    const { url, received } = await receiver(t);
    await send({ sender: 'github', url, secret: 'k', event: 'push' });
    await send({ sender: 'stripe', url, secret: 'k', event: 'charge.refunded' });
    assert.equal(received[0]?.headers['x-github-event'], 'push');
    const { headers, body } = received[1] ?? assert.fail();
    assert.equal((JSON.parse(body.toString()) as { type: string }).type, 'charge.refunded');
    const [, time = '', signature] = /^t=(\d+),v1=(\w+)$/.exec(String(headers['stripe-signature'])) ?? [];
    assert.equal(signature, createHmac('sha256', 'k').update(`${time}.`).update(body).digest('hex'));
  });

  test('headgate send --header adds or replaces a header in any case', async (t) => {
    const { url, received } = await receiver(t);
    await send({ sender: 'github', url, secret: 'k', header: ['X-Test:  a: b ', 'x-hub-signature-256: no'] });
    const { headers } = received[0] ?? assert.fail();
    assert.equal(headers['x-test'], 'a: b');
    assert.equal(headers['x-hub-signature-256'], 'no');
  });

  test('headgate send --stale and --tamper succeed when they are refused', async (t) => {
    let status = 401;
    const { url, received } = await receiver(t, () => ({ status }));
    const stale = await send({ sender: 'slack', url, secret: 'k', stale: true });
    assert.deepEqual(stale, { code: 0, printed: 'HTTP 401\nright: a stale request must be refused\n' });
    assert.equal(received[0]?.headers['x-slack-request-timestamp'], String(nowMs / 1000 - 360));
    const { headers, body } =
      (await send({ sender: 'github', url, secret: 'k', tamper: true }), received[1]!);
    const digest = createHmac('sha256', 'k').update(body).digest('hex');
    assert.notEqual(headers['x-hub-signature-256'], `sha256=${digest}`);
    for (status of [200, 503, 429]) {
      const { code, printed } = await send({ sender: 'github', url, secret: 'k', tamper: true });
      assert.equal(code, 1);
      assert.match(printed, /^HTTP \d+\nwrong: a tampered request must be refused\n$/);
    }
  });

  test('headgate send --print prints a curl command that sends the same request, and sends nothing itself', async (t) => {
    if (requireTool(t, 'curl') === null) return;
    const { url, received } = await receiver(t);
    const text = `{"it's": "Zoë ☕ $(id) \`id\` \\\\ \\"q\\""}`;
    for (const body of [Buffer.from(text), Buffer.from([0, 255, 10]), Buffer.from('@file')]) {
      const options = { sender: 'github', url, secret: 'k', id: '1', body: 'b' };
      const read = () => Promise.resolve(body);
      const before = received.length;
      const { printed } = await send({ ...options, header: ["X-A: it's"], print: true }, { read });
      assert.equal(received.length, before);
      assert(!printed.includes("'k'"));
      assert.equal((await run('sh', ['-c', printed])).code, 0);
      const [byCurl = assert.fail()] = received.slice(before);
      assert.deepEqual(byCurl.body, body);
      assert.equal(byCurl.headers['x-a'], "it's");
      const digest = createHmac('sha256', 'k').update(body).digest('hex');
      assert.equal(byCurl.headers['x-hub-signature-256'], `sha256=${digest}`);
    }
  });

  const wrong: readonly (readonly [Partial<SendOptions>, RegExp])[] = [
    [{ sender: 'github', stale: true }, /^--stale: the check of GitHub does not use a time$/],
    [{ sender: 'gitlab', tamper: true }, /^--tamper: GitLab .* does not sign the whole body/],
    [{ sender: 'twilio_form', event: 'x' }, /^--event: .* has no single place/],
    [{ sender: 'stripe', event: 'x', body: 'f' }, /^--event: Stripe has the event's name in the body/],
    [{ header: ['no header'] }, /^--header: "no header" is not a header/],
    [{ header: ['X-A: a\r\nX-B: b'] }, /^--header: /],
    [{ repeat: '2', count: '2' }, /^--repeat and --count cannot be used together$/],
    [{ handshake: true }, /^--handshake: GitHub asks nothing before it delivers$/],
    [
      { sender: 'aws_sns', handshake: true },
      /^--handshake: AWS SNS waits until a URL of its own is opened, .*; see docs\/senders\/aws_sns\.md$/,
    ],
    [{ sender: 'meta', handshake: true }, /^--handshake: .* needs --answer-secret: it is the verify token$/],
  ];
  for (const [options, message] of wrong) {
    test(`headgate send refuses the changes ${JSON.stringify(options)}`, async () => {
      const whole = { sender: 'github', url: 'http://127.0.0.1:1/', secret: 'x', ...options };
      await assert.rejects(send(whole), (error) => {
        assert(error instanceof SendError);
        assert.match(error.message, message);
        return true;
      });
    });
  }
});

suite('headgate send --handshake performs handshakes', () => {
  test('headgate send --handshake performs each handshake and reports whether the sender would accept the answer', async (t) => {
    let headers: Record<string, string> = { 'Content-Type': 'text/plain; charset=utf-8' };
    const { url, received } = await receiver(t, ({ url }) => {
      const query = new URL(url, 'http://h').searchParams;
      const right = query.get('hub.verify_token') === 'v';
      return right ? { headers, body: query.get('hub.challenge') ?? '' } : { status: 403 };
    });
    const options = { sender: 'meta', url, secret: 'k', answerSecret: 'v', handshake: true };
    const good = await send(options);
    assert.equal(good.code, 0);
    assert.match(
      good.printed,
      /^Meta \(.*\) asks for `hub\.challenge` back: GET http:\S+\nHTTP 200 \(\d+ bytes, \d+ ms\)\n\d+\nright\nMeta .* a wrong verify token: GET \S+\nHTTP 403 .*\nright\n$/,
    );
    assert.equal(received.length, 2);
    assert.equal(received[0]?.headers['content-length'], undefined);
    headers = {};
    const other = await send({ ...options, answerSecret: 'w' });
    assert.equal(other.code, 1);
    assert.match(other.printed, /\nwrong: the status is 403, but must be 200\n/);
  });

  test('headgate send measures an answer with its head', async (t) => {
    const { url } = await receiver(t, ({ headers }) => ({
      headers: { 'Validation-Token': String(headers['validation-token']), 'X-Long': 'a'.repeat(900) },
    }));
    const { code, printed } = await send({ sender: 'ringcentral', url, secret: 'mine', handshake: true });
    assert.equal(code, 1);
    assert.match(printed, /wrong: the answer has 10\d\d bytes, but at most 1024 are allowed\n$/);
  });

  test('headgate send --handshake --print prints the handshakes', async () => {
    const url = 'http://127.0.0.1:1/t';
    const { code, printed } = await send({
      sender: 'trello',
      url,
      secret: 'k',
      handshake: true,
      print: true,
    });
    assert.deepEqual({ code, printed }, { code: 0, printed: `curl --head \\\n  '${url}'\n` });
  });
});
