import assert from 'node:assert/strict';
import { createHmac, generateKeyPairSync, sign } from 'node:crypto';
import { test } from 'node:test';
import { printJson } from './jsonb.ts';
import { tokenKeys, verifyToken } from './jwt.ts';

const now = 1_700_000_000;

function encoded(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url');
}

type Signer = (data: Buffer) => Buffer;

function token(header: object, claims: object, signer: Signer): string {
  const signed = `${encoded(header)}.${encoded(claims)}`;
  return `${signed}.${signer(Buffer.from(signed)).toString('base64url')}`;
}

function verified(text: string, key: string): string | null {
  const claims = verifyToken(text, tokenKeys(key), now);
  return claims === null ? null : printJson(claims);
}

const hs =
  (key: string, hash = 'sha256'): Signer =>
  (data) =>
    createHmac(hash, key).update(data).digest();
const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 });
const ec = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const ed = generateKeyPairSync('ed25519');
const pem = (key: typeof rsa.publicKey): string => key.export({ type: 'spki', format: 'pem' }).toString();
const jwk = (key: typeof rsa.publicKey, kid?: string): object => ({
  ...key.export({ format: 'jwk' }),
  ...(kid === undefined ? {} : { kid }),
});

const signers = {
  RS256: { key: rsa.publicKey, sign: (data: Buffer) => sign('sha256', data, rsa.privateKey) },
  RS512: { key: rsa.publicKey, sign: (data: Buffer) => sign('sha512', data, rsa.privateKey) },
  ES256: {
    key: ec.publicKey,
    sign: (data: Buffer) => sign('sha256', data, { key: ec.privateKey, dsaEncoding: 'ieee-p1363' }),
  },
  EdDSA: { key: ed.publicKey, sign: (data: Buffer) => sign(null, data, ed.privateKey) },
} as const;

test('JWTs of every algorithm verify with PEM, JWK and JWK set', () => {
  for (const hash of ['256', '384', '512']) {
    assert.equal(verified(token({ alg: `HS${hash}` }, { a: 1 }, hs('k', `sha${hash}`)), 'k'), '{"a": 1}');
  }
  for (const [alg, { key, sign }] of Object.entries(signers)) {
    const text = token({ alg, kid: 'one' }, { a: 1 }, sign);
    assert.equal(verified(text, pem(key)), '{"a": 1}', alg);
    assert.equal(verified(text, JSON.stringify(jwk(key))), '{"a": 1}', alg);
    const set = { keys: [jwk(rsa.publicKey, 'other'), jwk(key, 'one')] };
    assert.equal(verified(text, JSON.stringify(set)), '{"a": 1}', alg);
    const others = { keys: [jwk(rsa.publicKey, 'x'), jwk(ec.publicKey, 'y')] };
    assert.equal(verified(text, JSON.stringify(others)), null, `${alg}: no such kid`);
  }
});

test("a JWT's algorithm follows from the key", () => {
  const publicPem = pem(rsa.publicKey);
  assert.equal(
    verified(token({ alg: 'HS256' }, {}, hs(publicPem)), publicPem),
    null,
    'the public key as an HMAC key',
  );
  assert.equal(verified(`${encoded({ alg: 'none' })}.${encoded({})}.`, 'k'), null);
  assert.equal(verified(`${encoded({ alg: 'none' })}.${encoded({})}.AA`, 'k'), null);
  assert.equal(verified(token({ alg: 'ES256' }, {}, signers.RS256.sign), publicPem), null);
  assert.equal(verified(token({ alg: 'PS256' }, {}, signers.RS256.sign), publicPem), null);
  assert.equal(verified(token({ alg: 'hs256' }, {}, hs('k')), 'k'), null);
});

test('expired, early, malformed and altered JWTs give NULL', () => {
  const good = token({ alg: 'HS256' }, { exp: now + 1, nbf: now }, hs('k'));
  assert.notEqual(verified(good, 'k'), null);
  for (const claims of [{ exp: now }, { nbf: now + 1 }, { exp: String(now + 9) }, { nbf: null }]) {
    assert.equal(verified(token({ alg: 'HS256' }, claims, hs('k')), 'k'), null, JSON.stringify(claims));
  }
  assert.equal(verified(token({ alg: 'HS256', crit: ['b64'] }, {}, hs('k')), 'k'), null);
  for (const text of [
    '',
    '.',
    '..',
    'a.b',
    `${good}.x`,
    `${good}=`,
    ` ${good}`,
    good.slice(0, -1),
    `${good}A`,
  ]) {
    assert.equal(verified(text, 'k'), null, text);
  }
  assert.equal(verified(good, 'other'), null);
  assert.throws(() => tokenKeys(''));
  assert.throws(() => tokenKeys('-----BEGIN PUBLIC KEY-----\nzz\n-----END PUBLIC KEY-----'));
});

test('a public key in an unknown form is never used as an HMAC key for a JWT', () => {
  const spki = (key: typeof rsa.publicKey) => key.export({ type: 'spki', format: 'der' }).toString('base64');
  const bare = spki(ec.publicKey);
  const wrapped = bare.replaceAll(/(.{40})/g, '$1\n');
  const texts = [
    bare,
    wrapped,
    `${bare}\n`,
    Buffer.from(bare, 'base64').toString('base64url'),
    spki(rsa.publicKey),
    spki(ed.publicKey),
    rsa.publicKey.export({ type: 'pkcs1', format: 'der' }).toString('base64'),
    JSON.stringify([bare]),
    JSON.stringify([jwk(ec.publicKey)]),
    JSON.stringify({ key: jwk(ec.publicKey) }),
    JSON.stringify({ keys: [] }),
    '{}',
  ];
  for (const text of texts) assert.throws(() => tokenKeys(text), /no public key/, text);
  // A random text may look similar.
  for (const text of ['MII', 'MIIBIjANBgkqhkiG9w0BAQEF', '[k', Buffer.alloc(32, 0x30).toString('base64')])
    assert.equal(verified(token({ alg: 'HS256' }, { a: 1 }, hs(text)), text), '{"a": 1}', text);
});

test('unknown keys of a JWK set are ignored', () => {
  const set = {
    keys: [{ kty: 'AKP', alg: 'ML-DSA-44', kid: 'new' }, { kty: 'EC' }, jwk(ec.publicKey, 'one')],
  };
  const { sign: signer } = signers.ES256;
  assert.equal(
    verified(token({ alg: 'ES256', kid: 'one' }, { a: 1 }, signer), JSON.stringify(set)),
    '{"a": 1}',
  );
  assert.throws(() => tokenKeys(JSON.stringify({ keys: set.keys.slice(0, 2) })), /no public key/);
});
