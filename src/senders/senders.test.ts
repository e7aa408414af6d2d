import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { suite, test } from 'node:test';
import type { CheckRequest } from '../types/request.ts';
import { compileCheck } from '../validate/compile.ts';
import { loadParser, parseExpression } from '../validate/expression.ts';
import { bareIdentifier } from '../kit/sql-text.ts';
import type { SecretKeys, Sender } from './sender.ts';
import {
  changeOf,
  expandSender,
  expressionOf,
  formerCheck,
  nearestSenders,
  senderNamed,
  senderOf,
  senders,
  sendersOf,
  signedRequest,
} from './senders.ts';
import type { SignedRequest } from './senders.ts';

await loadParser();

const publicUrl = 'https://hooks.example.com';
const url = `${publicUrl}/webhook/dev/public/events`;
const nowMs = Date.UTC(2026, 2, 4, 5, 6, 7, 89);

/** The same bytes for the same seed: keys that differ and come again. */
function randomFrom(seed: string): (size: number) => Buffer {
  let count = 0;
  return (size) => createHash('shake256', { outputLength: size }).update(`${seed}${count++}`).digest();
}

const made = new Map<string, SecretKeys>();

/** Those of RSA take a tenth of a second to make. */
function keysOf(sender: Sender, seed = 'one'): SecretKeys {
  const of = `${sender.id} ${seed}`;
  const known = made.get(of);
  if (known !== undefined) return known;
  let keys = sender.makeSecret(randomFrom(seed));
  // The pairs of RSA that a run keeps come again, and no two in a row are the same (scripts/test-process.cjs).
  if (seed !== 'one' && keys.secret === keysOf(sender).secret) keys = sender.makeSecret(randomFrom(seed));
  made.set(of, keys);
  return keys;
}

function requestOf(sender: Sender, keys: SecretKeys, atMs = nowMs, id = 'a1b2c3d4e5f60718293a4b5c6d7e8f90') {
  const body = Buffer.from(sender.example({ id, nowMs: atMs }));
  return signedRequest(sender, { method: 'POST', url, body, nowMs: atMs, signingKey: keys.signingKey, id });
}

type Lines = readonly (readonly [string, string])[];

function received(sent: SignedRequest, lines: Lines = Object.entries(sent.headers)): CheckRequest {
  return {
    method: sent.method,
    target: sent.url.slice(publicUrl.length),
    rawHeaders: lines.flatMap(([name, value]) => [name, Buffer.from(value).toString('latin1')]),
    arrivedAtMs: nowMs,
    body: sent.body,
  };
}

function checkOf(sender: Sender, secret: string) {
  const parsed = parseExpression(expressionOf(sender, 's'), { secrets: ['s'] });
  return compileCheck(parsed, { secrets: new Map([['s', secret]]), publicUrl });
}

/** What is left of a signature when its last value is cut off. */
const prefixOf = (value: string) => value.replace(/[\w+/-]{16,}={0,2}"?(?=$|, t=\d+$)/, '');

/** Another letter or digit in the place of the last one. */
function changedByte(body: Buffer): Buffer {
  const text = body.toString('latin1');
  const at = text.search(/[a-z0-9][^a-z0-9]*$/);
  const other = text[at] === '1' ? '2' : '1';
  return Buffer.from(text.slice(0, at) + other + text.slice(at + 1), 'latin1');
}

for (const sender of senders.values()) {
  suite(`the expression of sender ${sender.id} is correct`, () => {
    const keys = keysOf(sender);
    const check = checkOf(sender, keys.secret);
    const sent = requestOf(sender, keys);

    test(`the check of sender ${sender.id} can be written out as SQL without warnings`, () => {
      const parsed = parseExpression(expressionOf(sender, 'my secret'), { secrets: ['my secret'] });
      assert.deepEqual(parsed.secretLiterals, []);
      assert.deepEqual(parsed.warnings, []);
      assert([null, 'payload'].includes(parsed.payloadName));
      const read = parsed.headersRead.toSorted();
      assert.deepEqual(read, [...new Set(sender.headers.map((name) => name.toLowerCase()))].toSorted());
      assert.equal(sender.signsUrl, /\burl\b/.test(expressionOf(sender, 's')));
    });

    test(`a signed request of sender ${sender.id} is accepted`, () => {
      assert.equal(check(received(sent)), true);
      assert.equal(check(received(requestOf(sender, keys, nowMs, '00000000000000000000000000000001'))), true);
    });

    test(`the check of sender ${sender.id} refuses a wrong secret`, () => {
      assert.equal(checkOf(sender, keysOf(sender, 'two').secret)(received(sent)), false);
      assert.equal(check(received(requestOf(sender, keysOf(sender, 'two')))), false);
    });

    test(`a changed body byte of sender ${sender.id} is ${sender.signsBody ? 'refused' : 'not noticed, as its page says'}`, () => {
      const changed = { ...received(sent), body: changedByte(sent.body) };
      assert.notDeepEqual(changed.body, sent.body);
      if (sender.signsBody) assert.equal(check(changed), false);
      else if (sender.signatureHeader !== null) assert.equal(check(changed), true);
    });

    if (sender.toleranceS !== null) {
      const toleranceMs = sender.toleranceS * 1000;
      test(`a stale signature of sender ${sender.id} is refused, and one within the tolerance is accepted`, () => {
        assert.equal(check(received(requestOf(sender, keys, nowMs - toleranceMs + 1000))), true);
        assert.equal(check(received(requestOf(sender, keys, nowMs - toleranceMs - 2000))), false);
      });
    }

    const { signed, lastS, afterS = [] } = sender.retries ?? {};
    const steps = [...afterS, ...(lastS === undefined ? [] : [lastS])];
    if (steps.length > 0)
      test(`the retries of sender ${sender.id} are accepted at each step of its schedule`, () => {
        const within = (step: number) => signed !== 'unsaid' || step <= (sender.toleranceS ?? Infinity);
        for (const step of steps.filter(within)) {
          const at = signed === 'anew' ? nowMs : nowMs - step * 1000;
          assert.equal(check(received(requestOf(sender, keys, at))), true, `after ${step} s`);
        }
      });
    if (signed === 'as at first')
      assert(lastS !== undefined, `${sender.id}: its window follows from its last attempt`);

    if (sender.signatureHeader !== null) {
      const name = sender.signatureHeader;
      test(`a missing, empty, repeated, truncated or prefix-only signature of sender ${sender.id} is refused`, () => {
        const value = sent.headers[name] ?? '';
        assert.notEqual(value, '');
        const others = Object.entries(sent.headers).filter(([other]) => other !== name);
        const refused = (...lines: Lines) =>
          assert.equal(check(received(sent, [...others, ...lines])), false, JSON.stringify(lines));
        assert.equal(check(received(sent, [...others, [name, value]])), true);
        refused();
        refused([name, '']);
        if (!sender.repeatsSignature) refused([name, value], [name, value]);
        refused([name, value.slice(0, -2)]);
        assert.notEqual(prefixOf(value), value);
        refused([name, prefixOf(value)]);
      });
      for (const other of sender.headers.filter((header) => header !== name && header in sent.headers)) {
        test(`a request of sender ${sender.id} without ${other} is refused`, () => {
          assert.equal(
            check(
              received(
                sent,
                Object.entries(sent.headers).filter(([it]) => it !== other),
              ),
            ),
            false,
          );
        });
      }
    }

    test(`another body is refused for sender ${sender.id} unless its check reads headers only`, () => {
      const headersOnly = !/\bpayload\b/.test(expressionOf(sender, 's'));
      for (const body of ['', '{}', '[]', '\u0000', '{"signature":null}'])
        assert.equal(check({ ...received(sent), body: Buffer.from(body) }), headersOnly, body);
    });
  });
}

suite('signatures in the body are checked', () => {
  const fields: readonly (readonly [string, RegExp])[] = [
    ['mailgun', /("signature":")([0-9a-f]{64})/],
    ['adyen', /("hmacSignature":")([^"]+)/],
    ['aws_sns', /("Signature":")([^"]+)/],
    ['figma', /("passcode":")([^"]+)/],
    ['braintree', /(bt_signature=[0-9a-f]+%7C)([0-9a-f]+)/],
  ];
  for (const [id, place] of fields) {
    test(`an empty or truncated body signature of sender ${id} is refused`, () => {
      const sender = senders.get(id);
      assert(sender);
      const keys = keysOf(sender);
      const sent = received(requestOf(sender, keys));
      const check = checkOf(sender, keys.secret);
      const text = sent.body.toString();
      const value = place.exec(text)?.[2] ?? assert.fail('the signature is found');
      for (const other of ['', value.slice(0, -1), value.slice(0, 4)]) {
        const body = Buffer.from(text.replace(place, (_, before: string) => before + other));
        assert.equal(check({ ...sent, body }), false, other);
      }
    });
  }
  for (const [id, from, to] of [
    ['mailgun', /"timestamp":"(\d+)"/, '"timestamp":"1"'],
    ['adyen', /"value":1130/, '"value":1131'],
    ['aws_sns', /"Subject":"[^"]*",/, ''],
  ] as const) {
    test(`a changed signed field in the body of sender ${id} is refused`, () => {
      const sender = senders.get(id);
      assert(sender);
      const keys = keysOf(sender);
      const sent = received(requestOf(sender, keys));
      const body = Buffer.from(sent.body.toString().replace(from, to));
      assert.notDeepEqual(body, sent.body);
      assert.equal(checkOf(sender, keys.secret)({ ...sent, body }), false);
    });
  }
});

for (const id of ['svix_ed25519', 'standard_webhooks_ed25519']) {
  test(`a list of signatures by the old and the new key of ${id} is accepted by either key, in any order`, () => {
    const sender = senders.get(id) ?? assert.fail();
    const name = sender.signatureHeader ?? assert.fail();
    const [old, young] = [keysOf(sender, 'one'), keysOf(sender, 'two')];
    const stranger = keysOf(sender, 'three');
    const sent = requestOf(sender, old);
    const others = Object.entries(sent.headers).filter(([other]) => other !== name);
    const [first, second] = [sent.headers[name] ?? '', requestOf(sender, young).headers[name] ?? ''];
    for (const list of [`${first} ${second}`, `${second} ${first}`, `v1,AAAA ${second} v1,BBBB ${first}`]) {
      const request = received(sent, [...others, [name, list]]);
      for (const { secret } of [old, young]) assert.equal(checkOf(sender, secret)(request), true, list);
      assert.equal(checkOf(sender, stranger.secret)(request), false, list);
    }
  });
}

test('at least 50 senders exist, with names that SQL accepts unquoted', () => {
  assert(senders.size >= 50, String(senders.size));
  for (const id of senders.keys()) assert.match(id, /^[a-z][a-z0-9_]*$/);
});

test('USING quotes the name of the secret where necessary, and an unknown sender has no expression', () => {
  const start = `secure_compare(headers->>'x-gitlab-token', `;
  assert.equal(expandSender('gitlab', 'key'), `${start}key)`);
  assert.equal(expandSender('gitlab', 'Key "1"'), `${start}"Key ""1""")`);
  assert.equal(expandSender('gitlab', 'user'), `${start}"user")`);
  assert.equal(expandSender('gitlap', 'key'), null);
  assert.equal(nearestSenders('gitlap')[0], 'gitlab');
  assert.equal(nearestSenders('standardwebhooks')[0], 'standard_webhooks');
  assert.equal(nearestSenders('stripe_events')[0], 'stripe');
  assert.deepEqual(nearestSenders('zzzzzzzz'), []);
});

test("each trusted delivery id has a source, and no alias is another sender's name", () => {
  for (const { id, delivery, aliases, events } of senders.values()) {
    if (delivery.kind !== 'unverified') assert(delivery.from, id);
    if (delivery.kind === 'known' && 'ofEach' in delivery.id) assert(events, id);
    for (const alias of aliases) {
      assert(!senders.has(alias), `${id}: ${alias}`);
      assert.equal(senderNamed(alias)?.id, id, alias);
    }
  }
});

test('the entry of a sender with a key pair declares it', () => {
  for (const sender of senders.values()) {
    const { secret, signingKey } = keysOf(sender);
    assert.equal(sender.paired, secret !== signingKey, sender.id);
  }
});

test('a sender is recognised by its check, with one secret or with two during a change', () => {
  for (const sender of senders.values()) {
    const [one, other] = [expressionOf(sender, 's'), expressionOf(sender, 'New key')];
    const found = senderOf(one, ['s']);
    assert.equal(found === null ? null : expressionOf(found, 's'), one, sender.id);
    assert.equal(senderOf(`(${one})\nOR (${other})`, ['s', 'New key']), found, sender.id);
  }
  // Some sign alike: a secret may be named after the one that is meant. Otherwise no brand is claimed where any sender may be.
  const of = (id: string, secret: string): string | undefined =>
    senderOf(expandSender(id, secret) ?? assert.fail(id), [secret])?.id;
  assert.equal(of('clio', 'clio_events_secret'), 'clio');
  assert.equal(of('wrike', 'wrike'), 'wrike');
  assert.equal(of('auth0', 'auth0_secret'), 'auth0');
  assert.equal(of('auth0', 'token_secret'), 'bearer');
  assert.equal(of('postmark', 'secret'), 'basic_auth');
  assert.equal(senderOf('true', ['s']), null);
  assert.equal(senderOf('', []), null);
});

/** The checks of all senders of commit 1a358ccb, with `:secret` for the secret's name. */
const checksOfBefore = JSON.parse(
  readFileSync(new URL('../../../test/former-checks.json', import.meta.url), 'utf8'),
) as Readonly<Record<string, string>>;

test("a check made by an earlier entry of a sender is recognised as the sender's, with the later changes", () => {
  let changed = 0;
  for (const [id, text] of Object.entries(checksOfBefore)) {
    const sender = senders.get(id) ?? assert.fail(`${id} is no sender any more`);
    for (const secrets of [['s'], ['s', 'New key']]) {
      const names = secrets.map((name) => text.replaceAll(':secret', () => bareIdentifier(name)));
      const before = names.length === 1 ? names.join('') : names.map((it) => `(${it})`).join('\nOR ');
      const now = secrets.map((name) => expressionOf(sender, name));
      const isSame = before === (now.length === 1 ? now.join('') : now.map((it) => `(${it})`).join('\nOR '));
      assert(sendersOf(before, secrets).includes(sender), id);
      const found = senderOf(before, secrets) ?? assert.fail(id);
      const said = formerCheck(found, before, secrets);
      if (isSame) assert.equal(said, null, id);
      // Some senders of before had the check that another one has now.
      else if (found === sender) assert.match(said ?? '', /^USING \w+ stood for another check until/, id);
      if (!isSame && secrets.length === 1) {
        changed++;
        assert.match(
          changeOf(id) ?? '',
          new RegExp(`^USING ${id} stood for another check until .*; since then: `),
        );
      }
      parseExpression(before, { secrets });
    }
  }
  assert(changed >= 32, String(changed));
});
