/**
 * The two sides of every handshake, held to each other: the sender's question is put to the compiled ANSWER clauses and
 * VALIDATE of its USING, as the listener does, and the sender judges the result. Also covers what anybody else may ask.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { suite, test } from 'node:test';
import type { AnswerText } from '../types/answers.ts';
import type { CheckRequest } from '../types/request.ts';
import { parseAnswer } from '../validate/answer.ts';
import { compileCheck } from '../validate/compile.ts';
import { loadParser, parseExpression } from '../validate/expression.ts';
import { roundsOf, verdict } from './send-handshake.ts';
import type { HandshakeRound } from './send-handshake.ts';
import type { HandshakeReply, HandshakeQuery, Sender } from './sender.ts';
import { expressionOf, senders, signedRequest } from './senders.ts';

await loadParser();

const publicUrl = 'https://h.example';
const url = `${publicUrl}/webhook/dev/public/t`;
const nowMs = 1_700_000_000_000;
const id = 'a1b2c3d4e5f60718293a4b5c6d7e8f90';

/** The texts of a clause as clauses.ts writes it. */
function textOf(clause: string): AnswerText & { readonly when: string | null } {
  const [first = '', ...rest] = clause
    .replace(/^ANSWER (?=STATUS |TYPE |HEADER |BODY )/, 'ANSWER\n  ')
    .split(/\n  (?=STATUS |TYPE |HEADER |BODY )/);
  const head = /^ANSWER( SECRET \w+)?( UNCHECKED)?(?: WHEN ([^]*))?$/.exec(first) ?? assert.fail(first);
  const valueOf = (word: string) =>
    rest.find((part) => part.startsWith(`${word} `))?.slice(word.length + 1) ?? null;
  const headers = rest.flatMap((part) => {
    const [, name = '', value = ''] = /^HEADER '([^']+)' = ([^]*)$/.exec(part) ?? [];
    return name === '' ? [] : [{ name, value }];
  });
  const status = valueOf('STATUS');
  return {
    unchecked: head[2] !== undefined,
    when: head[3] ?? null,
    status: status === null ? null : Number(status),
    type: valueOf('TYPE')?.slice(1, -1) ?? null,
    headers,
    body: valueOf('BODY'),
  };
}

function received({ method, url, headers, body }: HandshakeQuery, arrivedAtMs: number): CheckRequest {
  const { pathname, search } = new URL(url);
  const rawHeaders = Object.entries(headers).flatMap(([name, value]) => [
    name,
    Buffer.from(value).toString('latin1'),
  ]);
  return { method, target: pathname + search, rawHeaders, arrivedAtMs, body };
}

/** The listener's order: rules for anybody, VALIDATE, rules for who has passed it, the row. */
function tableOf(sender: Sender, secret: string, answerKey: string | null) {
  const secrets = ['s', ...(answerKey === null ? [] : ['t'])];
  const values = {
    secrets: new Map([
      ['s', secret],
      ['t', answerKey ?? ''],
    ]),
    publicUrl,
  };
  const expression = expressionOf(sender, 's');
  const check = compileCheck(parseExpression(expression, { secrets: ['s'] }), {
    secrets: new Map([['s', secret]]),
    publicUrl,
  });
  const guard = { expression, secrets: ['s'], format: sender.format };
  const clauses = sender.answers({ secret: 's', answer: answerKey === null ? null : 't' }).map((clause) => {
    const text = textOf(clause);
    return { text, parsed: parseAnswer(text, { secrets, guard }) };
  });
  const rules = (unchecked: boolean) =>
    clauses
      .filter(({ text }) => text.when !== null && text.unchecked === unchecked)
      .map(({ parsed }) => parsed.compileRule(values));
  const [open, guarded] = [rules(true), rules(false)];
  const committed = clauses.find(({ text }) => text.when === null)?.parsed.committed();
  return (asked: HandshakeQuery, atMs = nowMs): HandshakeReply & { readonly stored: boolean } => {
    const request = received(asked, atMs);
    const first = (from: typeof open) => from.map(({ answer }) => answer(request)).find((it) => it !== null);
    const early = first(open);
    const passed = early === undefined && check(request);
    const late = passed ? first(guarded) : undefined;
    const found = early ?? late;
    const stored = found === undefined && passed && asked.method === 'POST' && isDocument(sender, asked.body);
    const made = found ?? (stored ? (committed ?? { status: 200, type: null, headers: [], body: '' }) : null);
    if (made === null) {
      const status = asked.method === 'POST' ? 401 : 405;
      return { status, headers: {}, body: 'refused', bytes: 300, ms: 1, stored };
    }
    const own = Array.from({ length: made.headers.length / 2 }, (_, at) => [
      (made.headers[2 * at] ?? '').toLowerCase(),
      made.headers[2 * at + 1] ?? '',
    ]);
    const headers = Object.fromEntries([
      ...own,
      ...(made.type === null ? [] : [['content-type', made.type]]),
    ]);
    return { status: made.status, headers, body: made.body, bytes: 300 + made.body.length, ms: 1, stored };
  };
}

/** What the table would refuse with 422 is no row. */
function isDocument({ format }: Sender, body: Buffer): boolean {
  if (format !== 'json') return true;
  try {
    JSON.parse(body.toString());
    return true;
  } catch {
    return false;
  }
}

/** What brings its secret is learned by the catalog, and answered in its tests. */
const asking = [...senders.values()].filter(
  ({ questions, answers }) =>
    questions.length > 0 &&
    !answers({ secret: 's', answer: 't' }).some((clause) => clause.includes(' LEARN ')),
);

function setUp(sender: Sender) {
  const keys = sender.makeSecret(randomBytes);
  const answerKey = sender.answerSecret === null ? null : answerKeyOf(sender);
  const asker = {
    sender,
    url,
    signedUrl: url,
    signingKey: keys.signingKey,
    answerKey: answerKey ?? '',
    headers: new Map<string, string>(),
  };
  return { keys, answerKey, asker, table: tableOf(sender, keys.secret, answerKey) };
}

const answerKeyOf = ({ id }: Sender) =>
  id === 'websub' || id === 'youtube'
    ? 'https://blog.example/feed?a=1&b=2'
    : 'a-second-secret-of-32-characters';

for (const sender of asking) {
  suite(`handshakes of ${sender.id} are answered`, () => {
    const { keys, answerKey, asker, table } = setUp(sender);

    test(`handshakes of ${sender.id} get the expected answer, and nothing is stored`, () => {
      for (const round of roundsOf(asker, id, nowMs)) {
        const answer = table(round.asked);
        assert.equal(verdict(round, answer), null, round.question.what);
        // Xero tells its intent with an event like any other.
        if (sender.id !== 'xero') assert.equal(answer.stored, false, round.question.what);
        assert(Buffer.byteLength(answer.body) <= 512);
      }
    });

    test(`a delivery of ${sender.id} is stored beside its handshake answers, and a forged one is refused`, () => {
      const deliver = (signingKey: string) => {
        const body = Buffer.from(sender.example({ id, nowMs }));
        return table(signedRequest(sender, { method: 'POST', url, body, nowMs, signingKey, id }));
      };
      const stored = deliver(keys.signingKey);
      assert.equal(stored.stored, true);
      assert(stored.status === 200 || stored.status === 204);
      const forged = deliver(sender.makeSecret(randomBytes).signingKey);
      assert.deepEqual([forged.stored, forged.status], [false, 401]);
    });

    const every = sender.answers({ secret: 's', answer: 't' }).filter((clause) => clause.includes(' WHEN '));
    if (answerKey === null && every.some((clause) => clause.includes(' UNCHECKED'))) return;
    test(`a handshake of ${sender.id} with other keys gets no answer that the sender would accept`, () => {
      const { signingKey } = sender.makeSecret(randomBytes);
      for (const round of roundsOf({ ...asker, signingKey, answerKey: 'another one' }, id, nowMs)) {
        const refused = (status: number) => ({ status, headers: {}, body: '', bytes: 0, ms: 0 });
        // Some ask on purpose what has to be refused.
        if ([401, 404].some((status) => verdict(round, refused(status)) === null)) continue;
        assert.notEqual(verdict(round, table(round.asked)), null, round.question.what);
      }
    });
  });
}

/** Signed by the senders, or by their own tools: sender, secret, time, request, and the answer it has to get. */
const published: readonly (readonly [
  string,
  string,
  string,
  Readonly<Record<string, string>>,
  string,
  string,
])[] = [
  [
    'slack',
    '8f742231b10e8888abcd99yyyzzz85a5',
    '2018-07-12T18:36:58Z',
    {
      'X-Slack-Signature': 'v0=f9bd80929259f3f6d5fe3a3186c453c89cd1ad4862815a15837584f31c993652',
      'X-Slack-Request-Timestamp': '1531420618',
    },
    '{"token":"Jhj5dZrVaK7ZwHHjRyZWjbDl","challenge":"3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P","type":"url_verification"}',
    '3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P',
  ],
  [
    'zoom',
    'zoom-secret-token',
    '2023-11-14T22:13:20Z',
    {
      'x-zm-signature': 'v0=6df24cfb3e6a961b21f62d3f0e9f0d035ff0e516dcb8be598780ed33270601be',
      'x-zm-request-timestamp': '1700000000',
    },
    '{"event":"endpoint.url_validation","payload":{"plainToken":"qgg8vlvZRS6UYooatFL8Aw"},"event_ts":1700000000000}',
    '{"plainToken":"qgg8vlvZRS6UYooatFL8Aw","encryptedToken":"d9e0d764a78494688ba3f2d5c0ed4ca311394b4834d959759213424d2df961e3"}',
  ],
  [
    'twitch',
    's3cre77890ab',
    '2019-11-16T10:11:13Z',
    {
      'Twitch-Eventsub-Message-Id': 'e76c6bd4-55c9-4987-8304-da1588d8988b',
      'Twitch-Eventsub-Message-Timestamp': '2019-11-16T10:11:12.634234626Z',
      'Twitch-Eventsub-Message-Type': 'webhook_callback_verification',
      'Twitch-Eventsub-Message-Signature':
        'sha256=f0f23217866daaae5e5367206e61546901fa6bd1cd8f64cefcb136e366d64cf2',
    },
    '{"challenge":"pogchamp-kappa-360noscope-vohiyo"}',
    'pogchamp-kappa-360noscope-vohiyo',
  ],
];

for (const [name, secret, at, headers, body, wanted] of published) {
  test(`a published handshake of ${name} gets the published answer, and 401 after its tolerance`, () => {
    const sender = senders.get(name) ?? assert.fail();
    const table = tableOf(sender, secret, null);
    const asked = { method: 'POST', url, headers, body: Buffer.from(body) };
    const answer = table(asked, Date.parse(at));
    assert.deepEqual([answer.status, answer.body, answer.stored], [200, wanted, false]);
    const late = table(asked, Date.parse(at) + ((sender.toleranceS ?? 0) + 60) * 1000);
    assert.deepEqual([late.status, late.stored], [401, false]);
  });
}

/** What the answer to a challenge is worth to somebody who wants to send an event. */
suite('no handshake answer signs an event', () => {
  const oracle = (
    name: string,
    ask: (challenge: string) => HandshakeQuery,
    signatureOf: (answer: HandshakeReply) => string | null,
    event: (body: string, signature: string) => HandshakeQuery,
  ) => {
    const sender = senders.get(name) ?? assert.fail();
    const { table } = setUp(sender);
    for (const body of [
      '{"for_user_id":"2244994945","tweet_create_events":[{"id":1,"text":"forged"}]}',
      '123',
      '-1',
      '1e5',
      'true',
      'null',
      '"a"',
      '[]',
      '0.5',
      ' 1',
      '1 ',
      'hmacsha256={"type":"LEAD_ACTION"}',
      'hmacsha256=1',
      'v0:1700000000:{"event":"meeting.ended"}',
      'v0:1700000000:1',
    ]) {
      const answer = table(ask(body));
      const signature = answer.status === 200 ? signatureOf(answer) : null;
      if (signature === null) continue;
      assert.equal(table(event(body, signature)).stored, false, `${name}: ${body}`);
    }
  };
  const get = (name: string) => (challenge: string) => ({
    method: 'GET',
    url: `${url}?${new URLSearchParams({ [name]: challenge }).toString()}`,
    headers: {},
    body: Buffer.alloc(0),
  });
  const post = (headers: Record<string, string>, body: string): HandshakeQuery => ({
    method: 'POST',
    url,
    headers,
    body: Buffer.from(body),
  });
  const member = (name: string) => (answer: HandshakeReply) =>
    (JSON.parse(answer.body) as Record<string, string>)[name] ?? null;

  test('the answer to a challenge of x is no signature of an event', () =>
    oracle('x', get('crc_token'), member('response_token'), (body, signature) =>
      post({ 'x-twitter-webhooks-signature': signature }, body),
    ));
  test('the answer to a challenge of linkedin is no signature of an event', () =>
    oracle('linkedin', get('challengeCode'), member('challengeResponse'), (body, signature) =>
      post({ 'X-LI-Signature': signature }, body.replace(/^hmacsha256=/, '')),
    ));
  test('the answer to a challenge of zoom is no signature of an event', () =>
    oracle(
      'zoom',
      (plainToken) =>
        post(
          { 'Content-Type': 'application/json' },
          JSON.stringify({ event: 'endpoint.url_validation', payload: { plainToken } }),
        ),
      member('encryptedToken'),
      (body, signature) =>
        post(
          { 'x-zm-signature': `v0=${signature}`, 'x-zm-request-timestamp': '1700000000' },
          body.replace(/^v0:\d+:/, ''),
        ),
    ));
  test("braintree's challenge form never matches an event", () => {
    const sender = senders.get('braintree') ?? assert.fail();
    const { table } = setUp(sender);
    const challenge = '20f9f8ed05f77439fe955c977e4c8a53';
    const answer = table(get('bt_challenge')(challenge));
    assert.equal(answer.status, 200);
    const form = new URLSearchParams({ bt_signature: answer.body, bt_payload: challenge });
    const forged = table(post({}, form.toString()));
    assert.deepEqual([forged.stored, forged.status], [false, 401]);
    for (const other of [`${challenge}0`, 'PG5vdGlmaWNhdGlvbj4K', '', 'g'.repeat(32)])
      assert.equal(table(get('bt_challenge')(other)).status, 405, other);
  });
});

test('a malformed challenge is not echoed in a handshake answer', () => {
  for (const sender of asking) {
    const { asker, table } = setUp(sender);
    for (const hostile of [
      '<script>alert(1)</script>',
      'a\r\nX-Evil: 1',
      'é',
      '\u0000',
      'a'.repeat(1_000),
      `"'`,
      '{"a":1}<',
    ]) {
      const rounds: readonly HandshakeRound[] = roundsOf(asker, id, nowMs, hostile);
      for (const { asked } of rounds) {
        let answer: HandshakeReply;
        try {
          answer = table(asked);
        } catch (error) {
          // No client can send it.
          assert(error instanceof TypeError, sender.id);
          continue;
        }
        const shown = answer.body + JSON.stringify(answer.headers);
        assert(!shown.includes(hostile), `${sender.id}: ${JSON.stringify(hostile)}`);
        assert(!/[<>]/.test(answer.body) || answer.body.startsWith('<'), sender.id);
      }
    }
  }
});
