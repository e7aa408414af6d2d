/** The receiver over the network: what its answers mean, and where messages are not sent. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { createTelemetryPost } from '../access/outgoing.ts';
import type { Observation } from '../observe/observations.ts';
import { OtlpReceiver } from './otlp.ts';

const patient = createTelemetryPost({ outgoingMs: 60_000, outgoingBytesMax: 1_024 });
const hurried = createTelemetryPost({ outgoingMs: 300, outgoingBytesMax: 1_024 });
const never = new AbortController().signal;

function receiverAt(url: string, said: Observation[] = [], post = patient): OtlpReceiver {
  const now = () => Date.UTC(2026, 0, 1);
  return new OtlpReceiver({
    what: 'traces',
    url: new URL(url),
    headers: {},
    resource: '{}',
    scope: '{}',
    post,
    observe: (it) => said.push(it),
    now,
  });
}

test("the status of an OTLP receiver's answer decides whether spans are accepted, sent later, halved or dropped", async (t) => {
  let answer: readonly [status: number, headers: Record<string, string>, body: string] = [200, {}, ''];
  const seen: string[] = [];
  const server = createServer((request, response) => {
    seen.push(request.url ?? '');
    response.writeHead(answer[0], answer[1]).end(answer[2]);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/traces`;
  const said: Observation[] = [];
  const receiver = receiverAt(url, said);
  for (const [given, expected] of [
    [[200, {}, '{}'], { kind: 'accepted', rejected: 0 }],
    [
      [202, {}, '{"partialSuccess":{"rejectedSpans":"3","errorMessage":"no"}}'],
      { kind: 'accepted', rejected: 3 },
    ],
    [[429, { 'retry-after': '7' }, ''], { kind: 'later', afterMs: 7_000 }],
    [[503, { 'retry-after': 'Thu, 01 Jan 2026 00:00:02 GMT' }, ''], { kind: 'later', afterMs: 2_000 }],
    [[503, { 'retry-after': 'soon' }, ''], { kind: 'later', afterMs: null }],
    [[502, {}, ''], { kind: 'later', afterMs: null }],
    [[504, {}, ''], { kind: 'later', afterMs: null }],
    [[413, {}, ''], { kind: 'too large' }],
    [[400, {}, ''], { kind: 'refused' }],
    [[500, {}, ''], { kind: 'refused' }],
    // Nobody is led elsewhere.
    [[307, { location: 'http://127.0.0.1:1/elsewhere' }, ''], { kind: 'refused' }],
  ] as const) {
    answer = given;
    assert.deepEqual(await receiver.post('{}', never), expected, String(given[0]));
  }
  assert.deepEqual(new Set(seen), new Set(['/v1/traces']));
  // Once for failures that are the same in a row, and the end of them.
  const failures = said.flatMap((it) => (it.kind === 'telemetry.failed' ? [it.reason] : []));
  assert.equal(failures.filter((reason) => reason.endsWith('503')).length, 1);
  answer = [200, {}, ''];
  await receiver.post('{}', never);
  assert.equal(said.at(-1)?.kind, 'telemetry.works');
  answer = [200, {}, 'x'.repeat(2_000)];
  assert.deepEqual(await receiver.post('{}', never), { kind: 'later', afterMs: null });
});

test('an OTLP receiver that never answers is given up, and nothing is sent to public addresses without TLS', async (t) => {
  const server = createServer(() => undefined).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  assert.deepEqual(await receiverAt(`http://127.0.0.1:${port}/`, [], hurried).post('{}', never), {
    kind: 'later',
    afterMs: null,
  });
  const said: Observation[] = [];
  for (const host of ['8.8.8.8', '[2606:4700::1111]'])
    assert.deepEqual(await receiverAt(`http://${host}:4318/`, said).post('{}', never), {
      kind: 'later',
      afterMs: null,
    });
  assert.ok(
    said.every((it) => it.kind === 'telemetry.failed' && /no address that may be called/.test(it.reason)),
  );
});
