import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { RateLimit } from '../access/rate-limit.ts';
import type { RejectedRequest } from '../types/journal.ts';
import type { Target } from '../types/target.ts';
import { limits } from '../config/limits.ts';
import type { Limits } from '../config/limits.ts';
import { refusal } from '../errors/refusals.ts';
import { describe, rawHeadersOf } from './redact.ts';
import { RejectedRows } from './rejected-rows.ts';

function target(intake: Partial<Target['intake']> = {}): Target {
  return {
    database: 'dev',
    schema: 'public',
    table: 't',
    oid: 1,
    check: null,
    waitsForDisk: true,
    hasLocks: false,
    code: {
      owner: 10,
      ownerName: 'root',
      as: 'writer',
      deletesAs: 'writer',
      inert: true,
      schemaTrusted: true,
      writer: 'root',
      functionsIn: null,
    },
    shape: {
      version: '',
      writeMode: 'documents',
      columns: [],
      key: [],
      document: null,
      onTypeError: 'reject',
    },
    intake: {
      format: 'json',
      batched: false,
      document: 'data',
      unknown: 'ignore',
      includes: [],
      hiddenHeaders: new Set(['authorization', 'cookie', 'webhook-id', 'x-proof']),
      ...intake,
    },
  };
}

function request(over: Partial<RejectedRequest> = {}): RejectedRequest {
  return {
    target: target(),
    refusal: refusal('body_not_json'),
    door: 'http',
    authenticated: true,
    method: 'POST',
    requestTarget: '/',
    rawHeaders: [],
    arrivedAtMs: 0,
    remoteAddress: '',
    body: null,
    ...over,
  };
}

const described = (over: Partial<RejectedRequest>) => describe(request(over), null, null, limits);

test('headers that may hold a credential are named without their value, unless the table stores them', () => {
  const names = [
    'Authorization',
    'COOKIE',
    'Set-Cookie',
    'X-Proof',
    'webhook-id',
    'X-Api-Key',
    'X-GitLab-Token',
  ];
  const rawHeaders = [...names, 'X-Hub-Signature'].flatMap((name) => [name, 'canary']);
  rawHeaders[9] = 'e';
  rawHeaders.push('X-Plain', 'i', 'x-plain', 'j');
  const named = described({ rawHeaders: ['X-Event-Key', 'repo:push', 'X-Key', 'canary', 'X-Sig', 'canary'] });
  assert.deepEqual(named.headers, { 'x-event-key': 'repo:push' });
  const plain = described({ rawHeaders });
  assert.deepEqual(plain.headers, { 'x-plain': 'i, j' });
  assert.equal(plain.leftOut.length, 8);
  const stored = described({
    rawHeaders,
    target: target({
      includes: [
        { what: 'header', header: 'Webhook-Id', column: 'id' },
        { what: 'header', header: 'authorization', column: 'who' },
      ],
    }),
  });
  assert.deepEqual(stored.headers, { 'webhook-id': 'e', 'x-plain': 'i, j' });
  const hidden = described({ rawHeaders, target: target({ hiddenHeaders: null }) });
  assert.deepEqual(hidden.headers, {});
});

test('redaction of a request target keeps no query value of any form', () => {
  assert.equal(described({ requestTarget: '/a/b' }).target, '/a/b');
  assert.equal(
    described({ requestTarget: '/a?x=1&token=2&3&=4&x==5?6=7' }).target,
    '/a?x=***&token=***&***&***&x=***',
  );
  fc.assert(
    fc.property(fc.string(), (value) => {
      const shown = described({ requestTarget: `/p?k=canary${value.replaceAll('&', '')}&canary` }).target;
      assert.equal(shown, '/p?k=***&***');
    }),
  );
});

test('the headers of a rejected request keep their meaning when they are read back', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), (text) => {
      fc.pre(!text.includes('\0'));
      const value = Buffer.from(text).toString('latin1');
      const { headers } = described({ rawHeaders: ['x-plain', value] });
      assert.deepEqual(rawHeadersOf(headers), ['x-plain', value]);
    }),
  );
  // Latin-1 that is no UTF-8 becomes UTF-8, which is read as the same text.
  const { headers } = described({ rawHeaders: ['x-plain', 'caf\u00e9'] });
  assert.deepEqual(headers, { 'x-plain': 'café' });
});

test('the rate limit of rejected requests is separate for each key, and recovers with time', () => {
  const rate = new RateLimit({ count: 10, perMs: 1_000, burst: 2 }, 3);
  const take = (key: string, nowMs: number) => rate.take(key, nowMs) === 0;
  assert.deepEqual(
    [1, 2, 3].map(() => take('a', 0)),
    [true, true, false],
  );
  assert.equal(take('b', 0), true);
  assert.deepEqual([take('a', 99), take('a', 101), take('a', 102)], [false, true, false]);
  assert.deepEqual(
    [1, 2, 3].map(() => take('a', 1_000_000)),
    [true, true, false],
  );
  for (const key of ['c', 'd', 'e', 'f', 'g', 'h']) assert.equal(take(key, 0), true);
});

test('the queue of rejected requests is bounded in entries and bytes, keeps the oldest, and holds no whole body', () => {
  const context = { observe: () => {}, clock: () => 0, stored: () => {}, rowsMax: 1, days: 1 };
  const rows = (bounds: Partial<Limits>) =>
    new RejectedRows('dev', { ...context, limits: { ...limits, ...bounds } });
  const few = rows({ rejectedWaitingMax: 3, rejectedBatchRowsMax: 2 });
  assert.deepEqual(
    [1, 2, 3, 4].map((n) => few.push(request({ arrivedAtMs: n }))),
    [0, 0, 0, 1],
  );
  const times = () => few.takeBatch().map(({ description }) => description.receivedAt.getTime());
  assert.deepEqual([times(), times(), times()], [[1, 2], [3], []]);
  const whole = Buffer.alloc(1_000_000, 1);
  const bytes = rows({
    rejectedWaitingBytesMax: 300_000,
    rejectedAuthenticBodyBytesMax: 131_072,
    rejectedBatchBytesMax: 10,
  });
  const accepted = request({ body: whole, target: { ...target(), check: () => true } });
  assert.deepEqual(
    [1, 2, 3].map(() => bytes.push(accepted)),
    [0, 0, 1],
  );
  const [first, ...more] = bytes.takeBatch().map(({ description }) => description);
  assert.deepEqual(more, [], 'one is taken even where it is larger than a batch');
  assert.equal(first?.body?.length, 131_072);
  assert.notEqual(first?.body?.buffer, whole.buffer);
  assert.equal(first?.bodyBytes, 1_000_000);
  assert.equal(bytes.push(accepted), 0, 'there is room again');
  const shared = rows({ rejectedWaitingBytesMax: 600_000, rejectedBatchBytesMax: 1_000_000 });
  const sent = (oid: number, n: number) =>
    shared.push(request({ body: Buffer.alloc(100_000, n), target: { ...target(), check: () => true, oid } }));
  assert.deepEqual(
    [1, 2, 3, 4, 5, 6].map((n) => sent(1, n)),
    [0, 0, 0, 0, 0, 1],
    'one table may use all of it',
  );
  assert.deepEqual(
    [7, 8, 9].map((n) => sent(2, n)),
    [1, 1, 1],
    'a table that has less takes the room of the last one of the table that has the most, until neither has more',
  );
  assert.deepEqual(
    shared.takeBatch().map(({ description }) => description.body?.[0]),
    [1, 2, 3, 7, 8],
  );
  const full = rows({ rejectedWaitingBytesMax: 600_000, rejectedBatchBytesMax: 1_000_000 });
  const push = (oid: number, bytes: number) =>
    full.push(request({ body: Buffer.alloc(bytes, oid), target: { ...target(), check: () => true, oid } }));
  for (const oid of [1, 1, 1, 2, 2, 2]) assert.equal(push(oid, 90_000), 0);
  assert.equal(push(3, 250_000), 1, 'one for which there would be no room after all displaces none');
  assert.equal(push(3, 200_000), 2);
  assert.deepEqual(
    full.takeBatch().map(({ description }) => description.body?.[0]),
    [1, 1, 2, 2, 3],
  );
  const cut = rows({});
  const open = request({ body: whole, target: { ...target(), check: null } });
  for (const it of [open, { ...accepted, authenticated: false }]) cut.push(it);
  assert.deepEqual(
    cut.takeBatch().map(({ description }) => description.body?.length),
    [limits.rejectedBodyBytesMax, limits.rejectedBodyBytesMax],
    'of a table without VALIDATE, which takes requests of anybody, as of forged requests',
  );
});
