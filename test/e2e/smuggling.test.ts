/**
 * Requests that hide another one: between two programs that read them differently, the hidden one would be answered in the place
 * of somebody else's. Each goes to a listener directly, and through nginx, Caddy and HAProxy, with the requests read by the
 * recogniser where they can be, and by Node's parser alone. Wherever it goes, the listener serves no more requests than the sender
 * was answered, and whoever comes next gets their own answer.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { onEnd } from '../support/cleanup.ts';
import { serverName, startCaddy, startHaproxy, startNginx } from '../support/proxy.ts';
import type { Proxy } from '../support/proxy.ts';
import { RawClient } from '../support/raw-http.ts';
import { sampleOf } from '../support/sample.ts';
import { startListener } from '../support/test-listener.ts';
import type { TestListener } from '../support/test-listener.ts';
import { requireTool } from '../support/tools.ts';

const path = '/webhook/dev/public/t';
const request = (start: string, headers: readonly string[], body: string) =>
  `${[start, `Host: ${serverName}`, ...headers].join('\r\n')}\r\n\r\n${body}`;
const post = (headers: readonly string[], body: string, to = path) =>
  request(`POST ${to} HTTP/1.1`, headers, body);

const hidden = post(['Content-Length: 6'], 'hidden');
const n = hidden.length;
const length = `Content-Length: ${n}`;
const chunkedEnd = `0\r\n\r\n${hidden}`;

const cases: Readonly<Record<string, string>> = {
  'a length, and chunks': post([`Content-Length: ${chunkedEnd.length}`, 'Transfer-Encoding: chunked'], chunkedEnd),
  'chunks, and a length': post(['Transfer-Encoding: chunked', 'Content-Length: 4'], `${n.toString(16)}\r\n${hidden}\r\n0\r\n\r\n`),
  ...Object.fromEntries(
    ['Transfer-Encoding : chunked', 'Transfer-Encoding: xchunked', 'Transfer-Encoding: chunked, identity', 'Transfer-Encoding:\x0bchunked',
     'Transfer-Encoding: "chunked"', 'Transfer-Encoding: chunked\r\nTransfer-Encoding: x', ' Transfer-Encoding: chunked', 'X: y\nTransfer-Encoding: chunked',
     'Transfer-Encoding\r\n : chunked', 'X: y\r\n Transfer-Encoding: chunked', 'transfer_encoding: chunked', 'Transfer-Encoding:\r\n chunked',
     'X: y\rTransfer-Encoding: chunked', 'Transfer-Encoding: \x00chunked', 'Tran\xcdfer-Encoding: chunked',
    ].map((line) => [`a length, and ${JSON.stringify(line)}`, post([`Content-Length: ${chunkedEnd.length}`, line], chunkedEnd)]),
  ),
  ...Object.fromEntries(
    ['Content-Length: 0\r\nContent-Length: N', 'Content-Length: N\r\nContent-Length: 0', 'Content-Length: 0, N', 'Content-Length: +N', 'Content-Length: 0N',
     'Content-Length : N', 'Content-Length: N\r\nX: y\nContent-Length: 0', 'Content-Length: 0\r\n Content-Length: N', 'Content-Length: N ', 'Content-Length:\tN',
     'Content-Length: N\x00', 'Content-Length: 0x2', 'Content-Length: 0\r\nContent_Length: N', 'Content-Length:', 'Content-Length: -1', 'Content-Length: N;a=b',
     'Content-Length: 18446744073709551617', 'Content-Length: N\r\nConnection: close, content-length', 'Connection: content-length\r\nContent-Length: N',
     'Content-Length: N\r\nExpect: 100-continue', 'Content-Length: N\r\nExpect: x', 'Content-Length: N\r\nConnection: Upgrade\r\nUpgrade: h2c', 'X-A: 1',
    ].map((lines) => [JSON.stringify(lines), post([lines.replaceAll('N', String(n))], hidden)]),
  ),
  'a GET with a body': request(`GET ${path} HTTP/1.1`, [length], hidden),
  'HTTP/1.0': request(`POST ${path} HTTP/1.0`, [length, 'Connection: keep-alive'], hidden),
  'HTTP/1.0 with chunks': request(`POST ${path} HTTP/1.0`, ['Connection: keep-alive', 'Transfer-Encoding: chunked'], chunkedEnd),
  'a line feed alone': post([length], hidden).replace('\r\n', '\n'),
  'two Hosts': post(['Host: other', length], hidden),
  'a chunk extension with a line in it': post(['Transfer-Encoding: chunked'], `2;a=\n\r\n{}\r\n${chunkedEnd}`),
  'a chunk size that is not plain': post(['Transfer-Encoding: chunked'], `0x2\r\n{}\r\n${chunkedEnd}`),
  'a chunk that is longer than it says': post(['Transfer-Encoding: chunked'], `1\r\n{}\r\n${chunkedEnd}`),
  'a trailer that is a length': post(['Transfer-Encoding: chunked'], `2\r\n{}\r\n0\r\nContent-Length: ${n}\r\n\r\n${hidden}`),
  'a target with a blank': post([length], hidden, `${path} HTTP/1.1\r\nX: y`),
  'nothing hidden': post(['Content-Length: 2'], '{}') + hidden,
}; // prettier-ignore

interface Way {
  readonly open: () => Promise<RawClient>;
  readonly server: TestListener;
}

/** What a request that never ends is waited for, in ms: longer than the listener itself waits. */
const ackTimeoutMs = 1_500;

/** Tells what of it the listener served, and what the sender was answered. */
async function tryOne({ open, server }: Way, bytes: string): Promise<readonly string[]> {
  server.bodies.length = 0;
  const client = await open();
  const statuses: number[] = [];
  const answered = async () => {
    const answer = await client.answer();
    if (answer !== null && answer.status >= 200) statuses.push(answer.status);
    return answer !== null;
  };
  client.send(bytes);
  // A proxy may wait for the rest of it for longer than this test.
  const timer = setTimeout(() => client.destroy(), ackTimeoutMs);
  while (statuses.length === 0 && (await answered()));
  const own = ['first', 'second'];
  for (const body of own) {
    const next = await open();
    next.send(post([`Content-Length: ${body.length}`], body, body === 'first' ? `${path}/none` : path));
    assert.equal((await next.answer())?.status, body === 'first' ? 404 : 200);
    next.destroy();
  }
  assert.equal(server.bodies.at(-1)?.toString(), 'second');
  const served = () => server.bodies.map(String).filter((body) => !own.includes(body));
  const committed = () => statuses.filter((status) => status === 200).length;
  while (served().length > committed() && (await answered()));
  clearTimeout(timer);
  client.destroy();
  assert.ok(served().length <= committed(), `${served().length} were served, ${statuses.join()} answered`);
  return [...served(), statuses.join()];
}

const starts = { nginx: startNginx, caddy: startCaddy, haproxy: startHaproxy };

async function wayOf(
  t: TestContext,
  over: keyof typeof starts | 'direct',
  fastPath?: boolean,
): Promise<Way | null> {
  const program = over === 'direct' ? '' : requireTool(t, over);
  if (program === null) return null;
  const limits = { lingerMs: 100, headersTimeoutMs: 400, requestTimeoutMs: 800 };
  const server = await startListener({ limits, ...(fastPath === undefined ? {} : { fastPath }) });
  onEnd(t, 'listener', () => server.close());
  if (over === 'direct') return { server, open: () => RawClient.connect(server.port) };
  const proxy: Proxy = await starts[over](t, program, [server.port]);
  return { server, open: async () => new RawClient(await proxy.open(t)) };
}

for (const over of ['nginx', 'caddy', 'haproxy'] as const)
  for (const fastPath of sampleOf([true, false], 1))
    test(`request smuggling through ${over} is refused${fastPath ? '' : " (Node's parser alone)"}`, async (t) => {
      const way = await wayOf(t, over, fastPath);
      if (way === null) return;
      for (const [name, bytes] of Object.entries(cases)) {
        // Caddy answers in HTTP/1.0, which this client does not read.
        if (over === 'caddy' && name.startsWith('HTTP/1.0')) continue;
        await tryOne(way, bytes).catch((cause: unknown) => {
          throw new Error(name, { cause });
        });
      }
    });

test('request smuggling without a proxy is refused, and both HTTP parsers read it in the same way', async (t) => {
  const [fast, slow] = [await wayOf(t, 'direct', true), await wayOf(t, 'direct', false)];
  if (fast === null || slow === null) return;
  for (const [name, bytes] of Object.entries(cases))
    assert.deepEqual(await tryOne(fast, bytes), await tryOne(slow, bytes), name);
});
