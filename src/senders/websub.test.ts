/** `headgate websub`: what it sends to which hub and when, and what it accepts as a hub. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { SendError } from './send-options.ts';
import type { HandshakeQuery } from './sender.ts';
import { hubInDocument, hubInHeader, websubCommand } from './websub.ts';
import type { WebsubOptions } from './websub.ts';

const topic = 'https://blog.example/feed?a=1&b=2';
const callback = 'https://hooks.example.com/webhook/dev/public/feed';
const feed = `<feed xmlns="http://www.w3.org/2005/Atom"><link rel='self' href='${topic}'/><link href="https://hub.example/?x=1&amp;y=2" rel="alternate hub"/></feed>`;

type Reply = { status?: number; headers?: Record<string, string>; body?: string } | Error;

/** Runs until `replies` are used up, then it is interrupted. */
async function run(options: Partial<WebsubOptions>, replies: readonly Reply[]) {
  const interrupt = new AbortController();
  const asked: HandshakeQuery[] = [];
  const pauses: number[] = [];
  let [printed, noted] = ['', ''];
  const left = [...replies];
  const code = await websubCommand(
    { topic, callback, secret: 'k', ...options },
    {
      print: (text) => void (printed += text),
      note: (text) => void (noted += text),
      read: () => Promise.reject(new Error('nothing to read')),
      signal: interrupt.signal,
      random: () => 0,
      pause: async (ms) => {
        pauses.push(ms);
        if (left.length === 0) interrupt.abort();
      },
      client: {
        send: async (sent) => {
          asked.push(sent);
          const reply = left.shift() ?? assert.fail('asked once more');
          if (reply instanceof Error) throw reply;
          return { status: 200, headers: {}, body: '', bytes: 0, ...reply };
        },
      },
    },
  );
  return { code, asked, pauses, printed, noted };
}

test("headgate websub subscribes at the feed's hub, and twice in each lease until it is interrupted", async () => {
  const { code, asked, pauses, printed } = await run({ lease: '10 days' }, [
    { body: feed },
    { status: 202 },
    { status: 204 },
  ]);
  assert.equal(code, 130);
  assert.deepEqual(
    asked.map(({ method, url }) => `${method} ${url}`),
    [`GET ${topic}`, 'POST https://hub.example/?x=1&y=2', 'POST https://hub.example/?x=1&y=2'],
  );
  assert.deepEqual(Object.fromEntries(new URLSearchParams(asked[1]?.body.toString())), {
    'hub.mode': 'subscribe',
    'hub.topic': topic,
    'hub.callback': callback,
    'hub.lease_seconds': '864000',
    'hub.verify': 'async',
    'hub.secret': 'k',
  });
  assert.deepEqual(pauses, [432_000_000, 432_000_000]);
  assert.match(printed, /^https:\/\/hub\.example\/\?x=1&y=2 accepted the request \(202\)/);
});

test('headgate websub tries an unavailable hub again less and less often, and reads the feed anew', async () => {
  const { asked, pauses, noted } = await run({ every: '1 hour' }, [
    { headers: { link: '<https://one.example/>; rel="hub"' } },
    { status: 503 },
    new Error('connect ECONNREFUSED'),
    { headers: { link: '<https://two.example/>; rel=hub, <https://blog.example/feed>; rel="self"' } },
    { status: 202 },
  ]);
  assert.deepEqual(pauses, [60_000, 120_000, 3_600_000]);
  assert.equal(asked.at(-1)?.url, 'https://two.example/');
  assert.match(
    noted,
    /^the hub https:\/\/one\.example\/ answered 503\nno answer from blog\.example: connect/,
  );
});

test('headgate websub supports --once, --unsubscribe and a given hub', async () => {
  const once = await run({ once: true, hub: 'https://hub.example/' }, [{ status: 202 }]);
  assert.deepEqual([once.code, once.asked.length, once.pauses.length], [0, 1, 0]);
  const ended = await run({ unsubscribe: true, hub: 'https://hub.example/', secret: undefined }, [{}]);
  const form = new URLSearchParams(ended.asked[0]?.body.toString());
  assert.deepEqual([ended.code, form.get('hub.mode'), form.get('hub.secret')], [0, 'unsubscribe', null]);
});

suite('headgate websub refuses unusable options, hubs and feeds', () => {
  const refused: readonly (readonly [Partial<WebsubOptions>, readonly Reply[], RegExp])[] = [
    [{ topic: 'feed' }, [], /^topic: "feed" is not an http/],
    [{ callback: undefined }, [], /^--callback is missing/],
    [{ secret: undefined }, [], /^give the secret with/],
    [{ secret: 'x'.repeat(200) }, [], /199 bytes/],
    [{ lease: '2' }, [], /^--lease: "2" is not a time/],
    [{ every: '2 years' }, [], /^--every: /],
    [{ hub: 'http://hub.example/' }, [], /not https, so the secret would be sent to it in clear/],
    [{ hub: 'http://127.0.0.1.hub.example/' }, [], /not https/],
    [{ once: true }, [{ body: '<html></html>' }], /^the topic names no hub/],
    [{ once: true }, [{ status: 301 }], /^the topic answered 301/],
    [{}, [{ headers: { link: '<http://127.0.0.1:9/>; rel="hub"' } }], /not https/],
    [{ once: true }, [{ headers: { link: '<file:///etc/passwd>; rel="hub"' } }], /is not an http/],
    [{ once: true, hub: 'https://hub.example/' }, [{ status: 400 }], /answered 400$/],
  ];
  for (const [options, replies, message] of refused)
    test(`headgate websub is refused with the message /${message.source}/`, () =>
      assert.rejects(run(options, replies), (error) => {
        assert(error instanceof SendError);
        assert.match(error.message, message);
        return true;
      }));
  test('a WebSub hub on this machine is refused', async () => {
    for (const hub of ['http://127.0.0.1:9/', 'http://[::1]:9/', 'http://localhost:9/'])
      assert.equal((await run({ once: true, hub }, [{ status: 202 }])).code, 0);
  });
});

test('headgate websub accepts a hub only by its link relation', () => {
  assert.equal(hubInHeader('<https://a/>; rel="next"; title="hub", <https://b/>; rel="x hub"'), 'https://b/');
  assert.equal(hubInHeader('<https://a/>; rel=hub'), 'https://a/');
  for (const none of [
    '',
    'hub',
    '<https://a/>',
    '<https://a/>; rel="github"',
    '<https://a/>; title="rel=hub"',
  ])
    assert.equal(hubInHeader(none), null, none);
  assert.equal(hubInDocument('<head><LINK REL="hub" HREF="/hub"></head>'), '/hub');
  assert.equal(hubInDocument('<atom:link rel="hub" href="https://a/" xmlns:atom="…"/>'), 'https://a/');
  for (const none of [
    '<link rel="hub">',
    '<a rel="hub" href="/">',
    '<link data-rel="hub" href="/">',
    '<linkrel="hub" href="/">',
  ])
    assert.equal(hubInDocument(none), null, none);
  const hostile = '<link '.repeat(20_000) + '<'.repeat(20_000) + '; rel="'.repeat(2_000);
  assert.deepEqual([hubInDocument(hostile), hubInHeader(hostile)], [null, null]);
});
