import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { test } from 'node:test';
import fc from 'fast-check';
import { keyedHmac } from './functions-checks.ts';

const algorithms = ['md5', 'sha1', 'sha224', 'sha256', 'sha384', 'sha512'];

test('every HMAC algorithm of VALIDATE agrees with node:crypto, for keys and messages of any length', () => {
  const bytes = (maxLength: number) => fc.uint8Array({ maxLength }).map((it) => Buffer.from(it));
  fc.assert(
    fc.property(
      fc.constantFrom(...algorithms),
      bytes(300).filter((key) => key.length > 0),
      fc.array(bytes(6_000), { maxLength: 3 }),
      (algorithm, key, messages) => {
        const made = keyedHmac(key, algorithm);
        for (const message of messages) {
          const expected = createHmac(algorithm, key).update(message).digest();
          assert.deepEqual(made.digest(message), expected);
          assert.equal(made.encoded(message, 'hex'), expected.toString('hex'));
          assert.equal(made.encoded(message, 'base64'), expected.toString('base64'));
        }
      },
    ),
  );
});

test('HMACs of VALIDATE agree with node:crypto at all boundary lengths', () => {
  for (const algorithm of algorithms) {
    for (const keyLength of [1, 63, 64, 65, 127, 128, 129]) {
      const key = Buffer.alloc(keyLength, 7);
      const made = keyedHmac(key, algorithm);
      for (const length of [0, 1, 4_095, 4_096, 4_097]) {
        const message = Buffer.alloc(length, 9);
        assert.equal(
          made.encoded(message, 'hex'),
          createHmac(algorithm, key).update(message).digest('hex'),
          `${algorithm} ${keyLength} ${length}`,
        );
      }
    }
  }
});
