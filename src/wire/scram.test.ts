import assert from 'node:assert/strict';
import { createHash, createHmac, pbkdf2Sync } from 'node:crypto';
import { suite, test } from 'node:test';
import * as fc from 'fast-check';
import { beginScram, makeVerifier, nobodysVerifier, parseVerifier, saltOf, ScramViolation } from './scram.ts';
import type { ScramVerifier } from './scram.ts';
import { anyCharacter } from '../../test/support/characters.ts';

/** The example of RFC 7677 §3. */
const rfc = {
  verifier: makeVerifier('pencil', Buffer.from('W22ZaJ0SNY7soEsUEjb6gQ==', 'base64')),
  nonce: '%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0',
  clientFirst: 'n,,n=user,r=rOprNGfwEbeRWgbNEkqO',
  clientFinal:
    'c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=',
};

const hmac = (key: Buffer, text: string) => createHmac('sha256', key).update(text, 'latin1').digest();

/** The client's side, from the RFC's formulas. */
function clientFinal(password: string, clientFirst: string, challenge: string): string {
  const [, nonce = '', salt = '', count = ''] = /^r=(.*),s=(.*),i=(.*)$/.exec(challenge) ?? [];
  const salted = pbkdf2Sync(password, Buffer.from(salt, 'base64'), Number(count), 32, 'sha256');
  const clientKey = hmac(salted, 'Client Key');
  const withoutProof = `c=${Buffer.from(clientFirst.slice(0, 3)).toString('base64')},r=${nonce}`;
  const message = `${clientFirst.slice(3)},${challenge},${withoutProof}`;
  const signature = hmac(createHash('sha256').update(clientKey).digest(), message);
  const proof = Buffer.from(clientKey.map((byte, i) => byte ^ (signature[i] ?? 0)));
  return `${withoutProof},p=${proof.toString('base64')}`;
}

const fast = (verifier: ScramVerifier, password: string): ScramVerifier => {
  const salted = pbkdf2Sync(password, verifier.salt, 1, 32, 'sha256');
  const storedKey = createHash('sha256').update(hmac(salted, 'Client Key')).digest();
  return { ...verifier, iterations: 1, storedKey, serverKey: hmac(salted, 'Server Key') };
};

suite('the SQL port authenticates by SCRAM-SHA-256', () => {
  test('SCRAM agrees with the example of RFC 7677', () => {
    const exchange = beginScram(rfc.clientFirst, rfc.verifier, rfc.nonce);
    assert.equal(exchange.challenge, `r=rOprNGfwEbeRWgbNEkqO${rfc.nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096`);
    assert.equal(exchange.finish(rfc.clientFinal), 'v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=');
  });

  test('SCRAM admits clients that know the password, and no others', () => {
    const text = fc.string({
      unit: fc.integer({ min: 32, max: 126 }).map((n) => String.fromCharCode(n)),
      minLength: 1,
    });
    fc.assert(
      fc.property(text, text, fc.constantFrom('n', 'y'), (password, tried, flag) => {
        const verifier = fast(rfc.verifier, password);
        const first = `${flag},,n=,r=abc`;
        const exchange = beginScram(first, verifier, 'def');
        const answer = exchange.finish(clientFinal(tried, first, exchange.challenge));
        assert.equal(answer !== null, password === tried);
      }),
    );
  });

  test('SCRAM refuses a proof that differs by one character', () => {
    for (let i = 0; i < rfc.clientFinal.length; i++) {
      const changed = `${rfc.clientFinal.slice(0, i)}${rfc.clientFinal[i] === 'A' ? 'B' : 'A'}${rfc.clientFinal.slice(i + 1)}`;
      const exchange = beginScram(rfc.clientFirst, rfc.verifier, rfc.nonce);
      try {
        assert.equal(exchange.finish(changed), null, changed);
      } catch (error) {
        assert.ok(error instanceof ScramViolation, String(error));
      }
    }
  });

  test('SCRAM treats malformed messages and other mechanisms as protocol violations', () => {
    for (const first of [
      '',
      'n,,',
      'n,,n=user',
      'n,,r=abc',
      'n,,n=user,r=',
      'n,a=admin,n=user,r=abc',
      'n,,m=x,n=user,r=abc',
      'n,,n=user,r=abc,m=x',
      'p=tls-server-end-point,,n=,r=abc',
      'n,,n=user,r=a\u0000',
      `n,,n=,r=${'x'.repeat(2_000)}`,
    ]) {
      assert.throws(() => beginScram(first, rfc.verifier, 'x'), ScramViolation, first);
    }
    for (const final of [
      '',
      'c=biws',
      rfc.clientFinal.replace('biws', 'eSws'),
      rfc.clientFinal.replace('k0,p', 'k1,p'),
      `${rfc.clientFinal},x=y`,
      rfc.clientFinal.replace(/p=.*/, 'p=AAAA'),
    ]) {
      const exchange = beginScram(rfc.clientFirst, rfc.verifier, rfc.nonce);
      assert.throws(() => exchange.finish(final), ScramViolation, final);
    }
    fc.assert(
      fc.property(fc.string({ unit: anyCharacter }), fc.string({ unit: anyCharacter }), (first, final) => {
        try {
          assert.equal(beginScram(first, rfc.verifier, 'x').finish(final), null);
        } catch (error) {
          assert.ok(error instanceof ScramViolation);
        }
      }),
    );
  });

  test('SCRAM verifiers equal those of PostgreSQL', () => {
    const { salt, storedKey, serverKey } = rfc.verifier;
    const b64 = (bytes: Buffer) => bytes.toString('base64');
    const kept = `SCRAM-SHA-256$4096:${b64(salt)}$${b64(storedKey)}:${b64(serverKey)}`;
    assert.deepEqual(parseVerifier(kept), rfc.verifier);
    for (const other of [
      '',
      'md5d41d8cd98f00b204e9800998ecf8427e',
      kept.slice(0, -4),
      kept.replace('256', '1'),
    ])
      assert.equal(parseVerifier(other), null);
  });

  test('SCRAM asks an unknown user with a stable salt, as it asks a known one', () => {
    const key = Buffer.alloc(32, 7);
    const [a, again, b] = ['a', 'a', 'b'].map((user) => nobodysVerifier(user, key));
    assert.deepEqual(a, again);
    assert.notDeepEqual(a?.salt, b?.salt);
    assert.deepEqual(a?.salt, saltOf('a', key));
    assert.equal(a?.iterations, rfc.verifier.iterations);
    assert.equal(a?.salt.length, 16);
  });
});
