import assert from 'node:assert/strict';
import { createPublicKey, randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { exportJWK, generateKeyPair, SignJWT } from 'jose';
import type { CryptoKey, JWK } from 'jose';
import { limits } from '../config/limits.ts';
import { Refused } from '../errors/refusals.ts';
import { printJson } from './jsonb.ts';
import { publishedKey, verifyIssuedToken } from './jwt.ts';
import { KeySets } from './key-sets.ts';

const url = 'https://login.example.com/jwks';
const issued = { issuer: 'https://login.example.com/', audience: 'me' };

interface Pair {
  readonly privateKey: CryptoKey;
  readonly jwk: JWK;
}

async function pair(kid: string, alg = 'RS256', more: JWK = {}): Promise<Pair> {
  const { publicKey, privateKey } = await generateKeyPair(alg, { extractable: true });
  return { privateKey, jwk: { ...(await exportJWK(publicKey)), kid, ...more } };
}

const token = (
  { privateKey, jwk }: Pair,
  {
    alg = 'RS256',
    kid = jwk.kid,
    claims = {},
  }: { alg?: string; kid?: string | undefined; claims?: object } = {},
) =>
  new SignJWT({ iss: issued.issuer, aud: 'me', exp: 2_000_000_000, ...claims })
    .setProtectedHeader(kid === undefined ? { alg } : { alg, kid })
    .sign(privateKey);

/** Sets whose network is `answer`. */
function sets(answer: () => Promise<string> | string, hosts = ['login.example.com:443']) {
  let nowMs = 1_000_000;
  const calls: string[] = [];
  const told: string[] = [];
  const fetch = async (from: URL) => {
    calls.push(from.href);
    return Buffer.from(await answer());
  };
  const context = {
    clock: () => nowMs,
    limits,
    observe: ({ kind }: { readonly kind: string }) => void told.push(kind),
  };
  const all = new KeySets(hosts, context, fetch);
  return { all, calls, told, pass: (ms: number) => void (nowMs += ms) };
}

const claimsOf = (all: KeySets, text: string) => {
  const claims = verifyIssuedToken(text, all.open(url), issued, 1_900_000_000);
  return claims === null ? null : (JSON.parse(printJson(claims)) as { iss: string }).iss;
};

const setOf = (...keys: readonly JWK[]) => JSON.stringify({ keys });

const settled = () => new Promise((resolve) => setImmediate(resolve));

test('JWTs signed by jose verify by the published key that their kid names, with its algorithm only', async () => {
  const [rsa, ec, ed, named] = await Promise.all([
    pair('rsa'),
    pair('ec', 'ES256'),
    pair('ed', 'EdDSA'),
    pair('named', 'RS512', { alg: 'RS512', use: 'sig' }),
  ]);
  const { all } = sets(() => setOf(rsa.jwk, ec.jwk, ed.jwk, named.jwk));
  await all.of([url])?.ready();
  assert.equal(claimsOf(all, await token(rsa)), issued.issuer);
  assert.equal(claimsOf(all, await token(ec, { alg: 'ES256' })), issued.issuer);
  assert.equal(claimsOf(all, await token(ed, { alg: 'EdDSA' })), issued.issuer);
  assert.equal(claimsOf(all, await token(ed, { alg: 'Ed25519' })), issued.issuer);
  assert.equal(claimsOf(all, await token(named, { alg: 'RS512' })), issued.issuer);
  const head = (alg: string) => Buffer.from(JSON.stringify({ alg, kid: 'rsa' })).toString('base64url');
  const [, payload = ''] = (await token(rsa)).split('.');
  const secret = new TextEncoder().encode(JSON.stringify(rsa.jwk));
  for (const [why, text] of [
    ['another key of the set', await token(rsa, { kid: 'ec' })],
    ['no kid, and several keys', await token({ ...rsa, jwk: { kty: 'RSA' } })],
    ['no signature', `${head('none')}.${payload}.`],
    [
      'an HMAC with the public key',
      await new SignJWT({ iss: issued.issuer, aud: 'me', exp: 2_000_000_000 })
        .setProtectedHeader({ alg: 'HS256', kid: 'rsa' })
        .sign(secret),
    ],
    [
      'a public key of its own',
      `${Buffer.from(JSON.stringify({ alg: 'RS256', kid: 'rsa', jwk: named.jwk })).toString('base64url')}.${payload}.${(await token(named, { alg: 'RS512' })).split('.')[2]}`,
    ],
    ['another issuer', await token(rsa, { claims: { iss: 'https://login.example.com' } })],
    ['another audience', await token(rsa, { claims: { aud: ['you', 'they'] } })],
    ['no audience', await token(rsa, { claims: { aud: undefined } })],
    ['no end', await token(rsa, { claims: { exp: undefined } })],
    ['its end was before', await token(rsa, { claims: { exp: 1_899_999_999 } })],
    ['its begin is ahead', await token(rsa, { claims: { nbf: 1_900_000_001 } })],
  ] as const)
    assert.equal(claimsOf(all, text), null, why);
  assert.equal(claimsOf(all, await token(rsa, { claims: { aud: ['you', 'me'] } })), issued.issuer);
});

test('published keys with another algorithm or for encryption, and secret keys, verify no JWT', async () => {
  const good = await pair('good', 'RS256', { alg: 'RS256' });
  const other = await pair('other', 'RS256', { use: 'enc' });
  const { all } = sets(() => setOf(good.jwk, other.jwk, { kty: 'oct', k: 'AAAA', kid: 'oct' }));
  await all.of([url])?.ready();
  assert.equal(claimsOf(all, await token(good)), issued.issuer);
  assert.equal(claimsOf(all, await token(other)), null);
  const secret = { privateKey: new Uint8Array([0, 0, 0]) as never, jwk: { kty: 'oct', kid: 'oct' } };
  assert.equal(claimsOf(all, await token(secret, { alg: 'HS256' })), null);
});

test('unknown key names in JWTs cause one fetch of the key set a minute, which finds a new key', async () => {
  const [old, fresh] = await Promise.all([pair('old'), pair('new')]);
  let published = setOf(old.jwk);
  const { all, calls, pass } = sets(() => published);
  const keys = all.of([url]);
  await keys?.ready();
  assert.equal(keys?.ready(), null);
  published = setOf(old.jwk, fresh.jwk);
  for (let i = 0; i < 1_000; i++) {
    assert.equal(claimsOf(all, await token(fresh, { kid: `invented ${i % 10}` })), null);
    assert.equal(await keys?.renewed(), false);
  }
  assert.equal(calls.length, 1);
  pass(limits.jwksPauseMs);
  assert.equal(claimsOf(all, await token(fresh)), null);
  assert.equal(await keys?.renewed(), true);
  assert.equal(claimsOf(all, await token(fresh)), issued.issuer);
  // A token that is wrong, but whose key is known, causes none.
  pass(limits.jwksPauseMs);
  assert.equal(claimsOf(all, `${(await token(fresh)).slice(0, -8)}AAAAAAAA`), null);
  assert.equal(await keys?.renewed(), false);
  assert.equal(calls.length, 2);
});

test('jwks_key() finds a published key by its name, and an unknown name has the set fetched once a minute', async () => {
  const [old, fresh] = await Promise.all([pair('old'), pair('new', 'EdDSA')]);
  let published = setOf(old.jwk);
  const { all, calls, pass } = sets(() => published);
  const keys = all.of([url]);
  await keys?.ready();
  const spki = ({ jwk }: Pair) =>
    createPublicKey({ key: jwk as never, format: 'jwk' }).export({ type: 'spki', format: 'der' });
  assert.deepEqual(publishedKey('old', all.open(url)), spki(old));
  assert.equal(await keys?.renewed(), false);
  published = setOf(fresh.jwk);
  pass(limits.jwksPauseMs);
  for (const name of ['new', '', 'OLD', 'constructor', 'x'.repeat(100_000)])
    assert.equal(publishedKey(name, all.open(url)), null, name.slice(0, 20));
  assert.equal(await keys?.renewed(), true);
  assert.deepEqual(publishedKey('new', all.open(url)), spki(fresh));
  assert.equal(publishedKey('old', all.open(url)), null, 'one that is not published any more');
  assert.equal(await keys?.renewed(), false);
  assert.equal(calls.length, 2);
});

test('published RSA keys beyond the bound on bits are ignored', async () => {
  const good = await pair('good');
  const n = Buffer.concat([Buffer.from([0x81]), randomBytes(limits.jwksRsaBitsMax / 8)]);
  const long = { kty: 'RSA', kid: 'long', e: 'AQAB', n: n.toString('base64url') };
  const { all } = sets(() => setOf(long, good.jwk));
  await all.of([url])?.ready();
  assert.equal(publishedKey('long', all.open(url)), null);
  assert.equal(claimsOf(all, await token(good)), issued.issuer);
});

test('old published keys are used while they are fetched again, and for a day if that fails', async () => {
  const one = await pair('one');
  let answer: () => string = () => setOf(one.jwk);
  const { all, calls, told, pass } = sets(() => answer());
  const keys = all.of([url]);
  await keys?.ready();
  answer = () => {
    throw new Error('down');
  };
  pass(limits.jwksFreshMs + 1);
  assert.equal(keys?.ready(), null);
  await settled();
  assert.deepEqual(told, ['jwks.fetched', 'jwks.failed']);
  assert.equal(keys?.ready(), null);
  assert.equal(calls.length, 2);
  assert.equal(claimsOf(all, await token(one)), issued.issuer);
  pass(limits.jwksStaleMs);
  await assert.rejects(
    async () => keys?.ready(),
    (error) => error instanceof Refused && error.refusal.code === 'table_unusable',
  );
  assert.throws(() => all.open(url).current(), /down/);
  answer = () => setOf(one.jwk);
  pass(limits.jwksEmptyPauseMs);
  await keys?.ready();
  assert.equal(claimsOf(all, await token(one)), issued.issuer);
});

test('waiting requests share one fetch of a key set, and a malformed set yields no keys', async () => {
  let made!: (text: string) => void;
  const { all, calls, pass } = sets(() => new Promise((resolve) => (made = resolve)));
  const keys = all.of([url]);
  const waiting = [keys?.ready(), keys?.ready(), all.of([url])?.ready()].flatMap((it) => it ?? []);
  assert.equal(waiting.length, 3);
  assert.equal(calls.length, 1);
  made(setOf((await pair('one')).jwk));
  await Promise.all(waiting);
  for (const text of [
    '',
    '[]',
    '{}',
    '{"keys":[]}',
    '{"keys":[{"kty":"oct","k":"AAAA"}]}',
    setOf(...Array.from({ length: limits.jwksKeysMax + 1 }, () => ({ kty: 'RSA' }))),
  ]) {
    const bad = sets(() => text);
    await assert.rejects(async () => bad.all.of([url])?.ready(), Refused, text.slice(0, 40));
  }
  pass(0);
});

test('key sets are fetched only from listed hosts, over plain URLs', () => {
  const { all } = sets(() => '', ['login.example.com:443', '127.0.0.1:8080']);
  for (const good of [url, 'https://login.example.com:443/x?y=z', 'http://127.0.0.1:8080/'])
    assert.equal(all.problem([good]), null);
  for (const bad of [
    'https://login.example.com:444/',
    'http://login.example.com/',
    'https://evil.example/?login.example.com:443',
    'https://login.example.com@evil.example/',
    'https://user@login.example.com/',
    'https://login.example.com/#x',
    'file:///etc/passwd',
    'no url',
  ]) {
    assert.notEqual(all.problem([url, bad]), null, bad);
    assert.throws(() => all.open(bad), /not|no URL/, bad);
  }
});

test('a bounded number of key sets is kept, and the least recently used is evicted', async () => {
  const one = await pair('one');
  const { all, calls } = sets(() => setOf(one.jwk));
  for (let i = 0; i <= limits.jwksKeptMax; i++) await all.of([`${url}?${i}`])?.ready();
  await all.of([`${url}?${limits.jwksKeptMax}`])?.ready();
  assert.equal(calls.length, limits.jwksKeptMax + 1);
  await all.of([`${url}?0`])?.ready();
  assert.equal(calls.length, limits.jwksKeptMax + 2);
});
