/** Requests that other code signed, by the senders' documentation, put to the expressions of `USING`: accepted, tampered, stale, repeated. */
import assert from 'node:assert/strict';
import { KeyObject, createHash, createHmac, sign } from 'node:crypto';
import { test } from 'node:test';
import { CompactSign, SignJWT, exportJWK, generateKeyPair } from 'jose';
import { documented } from '../../test/support/documented-signers.ts';
import { documentedMore } from '../../test/support/documented-more.ts';
import type { Documented } from '../../test/support/documented-signers.ts';
import { compileCheck } from '../validate/compile.ts';
import { loadParser, parseExpression } from '../validate/expression.ts';
import { publishedTokenKeys } from '../validate/jwt.ts';
import { publishedSignature } from '../validate/reference.ts';
import { detachedSignature, messageSignature, oauthToken } from './custom-checks.ts';
import { senderPage } from './sender-page.ts';
import { expressionOf, senders } from './senders.ts';
import { mostUsed, openFacts, witnessTable } from './verifiers-page.ts';

await loadParser();

const publicUrl = 'https://hooks.example.com';
const path = '/webhook/dev/public/events';
const nowMs = Date.UTC(2026, 10, 27, 1, 2, 3, 456);
const json = '{"id":"evt_1","name":"Zoë ☕","amount":1999}';

for (const [name, { secret, make, staleAfterS, whole, body = json }] of Object.entries({
  ...documented,
  ...documentedMore,
})) {
  const refused = `${whole === false ? '' : 'tampered or '}${staleAfterS === undefined ? '' : 'stale or '}signed with another secret`;
  test(`a documented request of ${name} is accepted, and refused if ${refused}`, () => {
    const sender = senders.get(name.split(' ')[0] ?? '') ?? assert.fail(name);
    const parsed = parseExpression(expressionOf(sender, 's'), { secrets: ['s'] });
    const checkWith = (key: string) => compileCheck(parsed, { secrets: new Map([['s', key]]), publicUrl });
    const check = checkWith(secret);
    const received = ({ headers, body: sent, query = '' }: Documented, atMs = nowMs) => ({
      method: 'POST',
      target: path + query,
      rawHeaders: Object.entries(headers).flatMap(([header, value]) => [header, value]),
      arrivedAtMs: atMs,
      body: Buffer.from(sent),
    });
    const at = (ms: number) => make({ secret, ms, body, url: publicUrl + path });
    const sent = at(nowMs);
    assert.equal(check(received(sent)), true, 'as documented');
    const middle = Math.floor(secret.length / 2);
    const other = secret.startsWith('-----')
      ? null
      : `${secret.slice(0, middle)}${secret[middle] === 'A' ? 'B' : 'A'}${secret.slice(middle + 1)}`;
    if (other !== null) assert.equal(checkWith(other)(received(sent)), false, 'another secret');
    if (whole !== false)
      assert.equal(
        check(
          received({
            ...sent,
            body: sent.body.replace(/[a-z0-9](?=[^a-z0-9]*$)/, (it) => (it === '1' ? '2' : '1')),
          }),
        ),
        false,
        'tampered',
      );
    if (staleAfterS !== undefined) {
      assert.equal(check(received(at(nowMs - staleAfterS * 1000 + 2000))), true, 'just in time');
      assert.equal(check(received(at(nowMs - staleAfterS * 1000 - 2000))), false, 'stale');
    }
    // After a refusal of ours it comes again, at each step of its schedule: signed anew, or as it was.
    const { signed, afterS = [], lastS } = sender.retries ?? {};
    for (const step of [...afterS, ...(lastS === undefined ? [] : [lastS])]) {
      const later = nowMs + step * 1000;
      if (signed === 'anew') assert.equal(check(received(at(later), later)), true, `anew after ${step} s`);
      else if (signed === 'as at first' || step <= (sender.toleranceS ?? Infinity))
        assert.equal(check(received(sent, later)), true, `as it was after ${step} s`);
      else {
        assert.equal(check(received(sent, later)), false);
        assert.match(
          senderPage(sender),
          /Whether it signs anew then is not documented\. A signature is valid for/,
        );
      }
    }
  });
}

test('the list of the 40 most used senders has 40 senders, each with checked evidence for its facts', () => {
  assert.equal(new Set(mostUsed).size, 40);
  assert.deepEqual(openFacts(senders), []);
  assert.equal(witnessTable(senders).trim().split('\n').length, senders.size + 2);
});

test("the signature of RFC 9421's example B.2.5 is accepted by a check, and refused after a change", () => {
  const key = 'uzvJfB4u3N0Jy4T7NZ75MDVcr8zSTInedJtkgcu46YW4XByzNJjxBdtjUkdJPBtbmHhIDi6pcl8jsasjlTMtDQ==';
  const text = `secure_compare(headers->>'signature', 'sig-b25=:' || encode(hmac(decode(key, 'base64'), convert_to(
    '"date": ' || (headers->>'date') || E'\\n"@authority": ' || (headers->>'host')
    || E'\\n"content-type": ' || (headers->>'content-type')
    || E'\\n"@signature-params": ' || substr(headers->>'signature-input', 9), 'UTF8'), 'sha256'), 'base64') || ':')`;
  const check = compileCheck(parseExpression(text, { secrets: ['key'] }), {
    secrets: new Map([['key', key]]),
    publicUrl,
  });
  const ask = (date: string) =>
    check({
      method: 'POST',
      target: '/foo',
      rawHeaders: [
        'Host',
        'example.com',
        'Date',
        date,
        'Content-Type',
        'application/json',
        'Signature-Input',
        'sig-b25=("date" "@authority" "content-type");created=1618884473;keyid="test-shared-secret"',
        'Signature',
        'sig-b25=:pxcQw6G3AjtMBQjwo8XzkZf/bws5LelbaMk5rGIGtE8=:',
      ],
      arrivedAtMs: nowMs,
      body: Buffer.from(''),
    });
  assert.equal(ask('Tue, 20 Apr 2021 02:07:55 GMT'), true);
  assert.equal(ask('Tue, 20 Apr 2021 02:07:56 GMT'), false);
});

test('the documented check for RFC 9421 covers method, path, body and time', () => {
  const check = compileCheck(parseExpression(messageSignature, { secrets: ['key'] }), {
    secrets: new Map([['key', 'shared']]),
    publicUrl,
  });
  const ask = (change: { body?: string; list?: string; ms?: number; method?: string } = {}) => {
    const digest = `sha-256=:${createHash('sha256').update(json).digest('base64')}:`;
    const list = change.list ?? '("@method" "@path" "content-digest")';
    const params = `${list};created=${Math.floor((change.ms ?? nowMs) / 1000)};keyid="k"`;
    const base = `"@method": POST\n"@path": ${path}\n"content-digest": ${digest}\n"@signature-params": ${params}`;
    const signature = createHmac('sha256', 'shared').update(base).digest('base64');
    const headers = [
      'Content-Digest',
      digest,
      'Signature-Input',
      `sig1=${params}`,
      'Signature',
      `sig1=:${signature}:`,
    ];
    const { body = json, method = 'POST' } = change;
    return check({ method, target: path, rawHeaders: headers, arrivedAtMs: nowMs, body: Buffer.from(body) });
  };
  assert.equal(ask(), true);
  assert.equal(ask({ body: '{}' }), false);
  assert.equal(ask({ method: 'PUT' }), false);
  assert.equal(ask({ list: '("@method" "@path")' }), false);
  assert.equal(ask({ ms: nowMs - 301_000 }), false);
});

test('an OAuth token is accepted from the right issuer for the right audience, and refused otherwise', async () => {
  const { privateKey, publicKey } = await generateKeyPair('RS256');
  const stranger = await generateKeyPair('RS256');
  const keys = JSON.stringify({ keys: [{ ...(await exportJWK(publicKey)), kid: 'k1', alg: 'RS256' }] });
  const check = compileCheck(parseExpression(oauthToken, { secrets: [] }), {
    secrets: new Map(),
    publicUrl,
    publishedKeys: () => ({ current: () => publishedTokenKeys(keys), missed: () => undefined }),
  });
  const ask = async (issuer: string, audience: string, key = privateKey) => {
    const token = await new SignJWT({})
      .setProtectedHeader({ alg: 'RS256', kid: 'k1' })
      .setIssuer(issuer)
      .setAudience(audience)
      .setExpirationTime(Math.floor(nowMs / 1000) + 300)
      .sign(key);
    const rawHeaders = ['Authorization', `Bearer ${token}`];
    return check({ method: 'POST', target: path, rawHeaders, arrivedAtMs: nowMs, body: Buffer.from(json) });
  };
  assert.equal(await ask('https://login.example.com/', publicUrl), true);
  assert.equal(await ask('https://elsewhere.example.com/', publicUrl), false);
  assert.equal(await ask('https://login.example.com/', 'https://other.example.com'), false);
  assert.equal(await ask('https://login.example.com/', publicUrl, stranger.privateKey), false);
});

/** Keys of two names, as their owner publishes them, and a third that it does not. */
async function publishedPairs(alg: string) {
  const [one, two, stranger] = await Promise.all(
    ['one', 'two', 'stranger'].map(async (kid) => {
      const { publicKey, privateKey } = await generateKeyPair(alg, { extractable: true });
      return { kid, privateKey, jwk: { ...(await exportJWK(publicKey)), kid, alg } };
    }),
  );
  assert(one && two && stranger);
  const text = JSON.stringify({ keys: [one.jwk, two.jwk] });
  const missed: string[] = [];
  const publishedKeys = (url: string) => ({
    current: () => publishedTokenKeys(text),
    missed: () => void missed.push(url),
  });
  return { one, two, stranger, publishedKeys, missed };
}

test('a ShipEngine signature by a published key is accepted, and refused for another key, body or time', async () => {
  const { one, two, stranger, publishedKeys, missed } = await publishedPairs('RS256');
  const check = compileCheck(parseExpression(publishedSignature, { secrets: [] }), {
    secrets: new Map(),
    publicUrl,
    publishedKeys,
  });
  const ask = (
    { kid, privateKey } = one,
    change: { body?: string; kid?: string | null; ms?: number } = {},
  ) => {
    const time = new Date(change.ms ?? nowMs).toISOString();
    const signature = sign('sha256', Buffer.from(`${time}.${json}`), KeyObject.from(privateKey));
    const named = change.kid === undefined ? kid : change.kid;
    const headers = {
      'X-ShipEngine-Timestamp': time,
      'X-ShipEngine-RSA-SHA256-Signature': signature.toString('base64'),
      ...(named === null ? {} : { 'X-ShipEngine-RSA-SHA256-Key-ID': named }),
    };
    const rawHeaders = Object.entries(headers).flat();
    const body = Buffer.from(change.body ?? json);
    return check({ method: 'POST', target: path, rawHeaders, arrivedAtMs: nowMs, body });
  };
  assert.equal(ask(), true);
  assert.equal(ask(two), true);
  assert.deepEqual(missed, []);
  assert.equal(ask(stranger), false, 'a key that is not published');
  assert.deepEqual(missed, ['https://api.shipengine.com/jwks']);
  assert.equal(ask(stranger, { kid: 'one' }), false, 'under the name of one that is');
  assert.equal(ask(one, { kid: 'two' }), false);
  assert.equal(ask(one, { kid: null }), false);
  assert.equal(ask(one, { body: '{}' }), false);
  assert.equal(ask(one, { ms: nowMs - 301_000 }), false);
  assert.equal(ask(one, { ms: nowMs + 301_000 }), false);
});

test('a published key can be named in VALIDATE itself, and other keys are refused', async () => {
  const { one, two, publishedKeys } = await publishedPairs('Ed25519');
  const text = `ed25519_verify(jwks_key('https://h.example/jwks', 'one'), payload, decode(headers->>'x-signature', 'base64'))`;
  const check = compileCheck(parseExpression(text, { secrets: [] }), {
    secrets: new Map(),
    publicUrl,
    publishedKeys,
  });
  for (const [pair, wanted] of [
    [one, true],
    [two, false],
  ] as const) {
    const signature = sign(null, Buffer.from(json), KeyObject.from(pair.privateKey)).toString('base64');
    const rawHeaders = ['X-Signature', signature];
    const request = { method: 'POST', target: path, rawHeaders, arrivedAtMs: nowMs };
    assert.equal(check({ ...request, body: Buffer.from(json) }), wanted);
  }
});

test('a detached Fireblocks signature made by jose is accepted, and refused for another key, body or header', async () => {
  const { one, two, stranger, publishedKeys } = await publishedPairs('RS512');
  const check = compileCheck(parseExpression(detachedSignature, { secrets: [] }), {
    secrets: new Map(),
    publicUrl,
    publishedKeys,
  });
  const signed = async ({ kid, privateKey } = one, body = json) => {
    const whole = await new CompactSign(Buffer.from(body))
      .setProtectedHeader({ alg: 'RS512', kid })
      .sign(privateKey);
    const [head = '', , signature = ''] = whole.split('.');
    return `${head}..${signature}`;
  };
  const ask = (value: string, body = json) => {
    const rawHeaders = ['Fireblocks-Webhook-Signature', value];
    return check({
      method: 'POST',
      target: path,
      rawHeaders,
      arrivedAtMs: nowMs,
      body: Buffer.from(body),
    });
  };
  for (const body of [json, `${json} `, `${json}  `, 'x'.repeat(100_000)])
    assert.equal(ask(await signed(one, body), body), true, `${body.length}`);
  assert.equal(ask(await signed(two)), true);
  assert.equal(ask(await signed(stranger)), false);
  assert.equal(ask(await signed({ ...stranger, kid: 'one' })), false);
  assert.equal(ask(await signed(), '{}'), false);
  assert.equal(ask((await signed()).slice(0, -3)), false);
  for (const value of ['', '..', 'e30..', '!!..!!', `${await signed()}.`.slice(1)])
    assert.equal(ask(value), false, value);
});
