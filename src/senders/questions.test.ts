/** The senders' side of their handshakes, checked against what they publish: what is asked, and which answers are accepted. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { eventPlaces } from './events.ts';
import { withText } from './send-changes.ts';
import { roundsOf, verdict } from './send-handshake.ts';
import type { HandshakeReply, Sender } from './sender.ts';
import { senders } from './senders.ts';

const id = 'a1b2c3d4e5f60718293a4b5c6d7e8f90';
const nowMs = 1_700_000_000_000;
const known = (name: string): Sender => senders.get(name) ?? assert.fail(name);

interface Given {
  readonly signingKey?: string;
  readonly answerKey?: string;
  readonly challenge?: string;
  readonly url?: string;
}

function roundsFor(name: string, { signingKey, answerKey = 'second', challenge, url }: Given = {}) {
  const sender = known(name);
  const target = url ?? 'https://h.example/webhook/dev/public/t';
  const key = signingKey ?? sender.makeSecret((size) => Buffer.alloc(size, 7)).signingKey;
  const asker = {
    sender,
    url: target,
    signedUrl: target,
    signingKey: key,
    answerKey,
    headers: new Map<string, string>(),
  };
  return roundsOf(asker, id, nowMs, challenge);
}

const answer = (change: Partial<HandshakeReply>): HandshakeReply => ({
  status: 200,
  headers: {},
  body: '',
  bytes: 200,
  ms: 5,
  ...change,
});
const text = (body: string) => answer({ headers: { 'content-type': 'text/plain; charset=utf-8' }, body });
const json = (value: object) =>
  answer({ headers: { 'content-type': 'application/json' }, body: JSON.stringify(value) });

/** Sender, what it is given, the right answer, and what a receiver without the key or in a hurry would say. */
const published: readonly (readonly [string, Given, HandshakeReply, HandshakeReply])[] = [
  [
    'zoom',
    { signingKey: 'zoom-secret-token', challenge: 'qgg8vlvZRS6UYooatFL8Aw' },
    json({
      plainToken: 'qgg8vlvZRS6UYooatFL8Aw',
      encryptedToken: 'd9e0d764a78494688ba3f2d5c0ed4ca311394b4834d959759213424d2df961e3',
    }),
    json({ plainToken: 'qgg8vlvZRS6UYooatFL8Aw', encryptedToken: '' }),
  ],
  [
    'x',
    { signingKey: 'Convoy', challenge: 'uzwcfYtzr9' },
    json({ response_token: 'sha256=HXvxTdsfShG6k2zC9NVANwFquJBdOugRYHax2vNiiOo=' }),
    json({ response_token: 'HXvxTdsfShG6k2zC9NVANwFquJBdOugRYHax2vNiiOo=' }),
  ],
  [
    'linkedin',
    { signingKey: 'linkedin-client-secret', challenge: '890e4665-4dfe-4ab1-b689-ed553bceeed0' },
    json({
      challengeCode: '890e4665-4dfe-4ab1-b689-ed553bceeed0',
      challengeResponse: 'e9567c49fee6d803311de224f2be5dc1b7f61cae1810ae05866223f4caa1724f',
    }),
    json({ challengeCode: '890e4665-4dfe-4ab1-b689-ed553bceeed0' }),
  ],
  [
    'ebay',
    {
      challenge: '71745723-d031-455c-bfa5-f90d11b4f20a',
      answerKey: '71745723-d031-455c-bfa5-f90d11b4f20ahttp://www.testendpoint.com/webhook',
    },
    json({ challengeResponse: '048de9ffd0e35021fefc0388d5c52e0f475324f582f3778ca81a53354ccbbc97' }),
    text('{"challengeResponse":"048de9ffd0e35021fefc0388d5c52e0f475324f582f3778ca81a53354ccbbc97"}'),
  ],
  [
    'braintree',
    {
      signingKey: '{"public_key":"integration_public_key","private_key":"integration_private_key"}',
      challenge: '20f9f8ed05f77439fe955c977e4c8a53',
      answerKey: 'integration_public_key',
    },
    text('integration_public_key|d9b899556c966b3f06945ec21311865d35df3ce4'),
    text('d9b899556c966b3f06945ec21311865d35df3ce4'),
  ],
  ['meta', { challenge: '1158201444' }, text('1158201444'), text('"1158201444"')],
  ['dropbox', { challenge: 'abc' }, text('abc'), json({ challenge: 'abc' })],
  ['okta', { challenge: 'abc' }, json({ verification: 'abc' }), text('abc')],
  ['discord', {}, answer({ status: 204 }), answer({ status: 200, body: '{"rows":1}' })],
  ['discord_interactions', {}, json({ type: 1 }), answer({ status: 204 })],
  ['xero', {}, answer({}), answer({ body: '{"rows":1}' })],
  ['onfleet', { challenge: 'abc' }, text('abc'), { ...text('abc'), status: 204 }],
  [
    'azure_event_grid',
    { challenge: 'abc' },
    json({ validationResponse: 'abc' }),
    { ...json({ validationResponse: 'abc' }), status: 202 },
  ],
  [
    'ringcentral',
    { challenge: 'theirs' },
    answer({ headers: { 'validation-token': 'theirs' } }),
    answer({ headers: { 'validation-token': 'theirs' }, bytes: 1025 }),
  ],
  [
    'strava',
    { challenge: 'abc' },
    json({ 'hub.challenge': 'abc' }),
    { ...json({ 'hub.challenge': 'abc' }), ms: 2_001 },
  ],
];

suite('headgate send judges handshake answers as the senders do', () => {
  for (const [name, given, right, wrong] of published) {
    test(`headgate send accepts the published handshake answer of ${name}, and refuses others`, () => {
      const [round = assert.fail('it asks nothing')] = roundsFor(name, given);
      assert.equal(verdict(round, right), null);
      assert.notEqual(verdict(round, wrong), null);
      assert.notEqual(verdict(round, answer({ status: 405 })), null);
    });
  }
});

test("the signature of zoom's handshake is the published one", () => {
  const zoom = roundsFor('zoom', { signingKey: 'zoom-secret-token', challenge: 'qgg8vlvZRS6UYooatFL8Aw' });
  assert.equal(
    zoom[0]?.asked.headers['x-zm-signature'],
    'v0=6df24cfb3e6a961b21f62d3f0e9f0d035ff0e516dcb8be598780ed33270601be',
  );
});

test("Microsoft Graph's validation token is sent encoded in the query, and its answer has to be decoded", () => {
  const [round = assert.fail()] = roundsFor('microsoft_graph', { challenge: 'Validation: Testing client' });
  assert.match(round.asked.url, /\?validationToken=Validation%3A%20Testing%20client$/);
  assert.equal(round.asked.body.length, 0);
  assert.equal(verdict(round, text('Validation: Testing client')), null);
  assert.notEqual(verdict(round, text('Validation%3A%20Testing%20client')), null);
});

test('every handshake question has a sender, a description and a judged answer', () => {
  for (const sender of senders.values()) {
    if (sender.questions.length === 0) continue;
    assert.notEqual(sender.handshake, null, sender.id);
    for (const round of roundsFor(sender.id)) {
      assert.match(round.question.what, /^(by|for|with) /, sender.id);
      assert(URL.canParse(round.asked.url));
      assert.equal(round.asked.method === 'POST' || round.asked.body.length === 0, true, sender.id);
      assert.notEqual(verdict(round, answer({ status: 500 })), null, sender.id);
      assert.notEqual(verdict(round, answer({ status: 302 })), null, sender.id);
    }
  }
});

test("USING supplies each sender's ANSWER clauses, with a second secret where one is named", () => {
  const names = { secret: 'k', answer: 'second' };
  for (const { id, answers, answerSecret, questions } of senders.values()) {
    const all = answers(names);
    for (const clause of all)
      assert.match(
        clause,
        /^ANSWER( SECRET second| SECRET k(?= UNCHECKED WHEN [^]* LEARN k = ))?( UNCHECKED)?( WHEN |\n| STATUS| TYPE| HEADER)/,
        id,
      );
    assert.equal(
      all.some((clause) => clause.includes('SECRET second')),
      answerSecret !== null,
      id,
    );
    const without = answers({ secret: 'k', answer: null });
    assert(
      without.every((clause) => !/\bnull\b|second/.test(clause)),
      id,
    );
    const asks = all.filter((clause) => clause.includes(' WHEN '));
    if (id !== 'xero') assert.equal(asks.length > 0, questions.length > 0, id);
  }
});

test("the event name is at its stated place in each sender's example", () => {
  for (const [name, place] of Object.entries(eventPlaces)) {
    const { example, eventHeaders } = known(name);
    const draft = { method: 'POST', url: 'http://h/', body: Buffer.alloc(0), nowMs, signingKey: 'k', id };
    if ('header' in place) assert(place.header in eventHeaders(draft), name);
    else
      assert.match(
        withText(example({ id, nowMs }), place.field, 'any:thing') ?? '',
        /"any:thing"|=any%3Athing/,
        name,
      );
  }
});
