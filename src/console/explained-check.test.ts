/** Steps of EXPLAIN VALIDATE in words, for the rows that PostgreSQL's own statement gives (test/e2e/console-refused.extended.test.ts). */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { stepsInWords } from './explained-check.ts';

const words = (rows: readonly (readonly [string, string])[]) =>
  stepsInWords(rows.map(([expression, value]) => ({ expression, value }))).map(
    ({ kind, what, detail }) => `${kind}: ${what}${detail === '' ? '' : `: ${detail}`}`,
  );

test('the console words the headers, the clock and the signature of a check, each in a row of its own', () => {
  const header = `headers->>'x-signature'`;
  const signature = `secure_compare(${header}, encode(hmac(shop_secret, payload, 'sha256'), 'hex'))`;
  assert.deepEqual(
    words([
      [header, `'0''0'`],
      [signature, 'false'],
    ]),
    [
      `good: The request has the header x-signature: 0'0`,
      'bad: The signature is that of the request with shop_secret: It differs',
    ],
  );
  assert.deepEqual(
    words([
      [header, 'NULL'],
      [signature, 'NULL'],
    ]),
    [
      'bad: The request has no header x-signature',
      'open: The signature is that of the request with shop_secret: Not known: a value that it needs is missing',
    ],
  );
  assert.deepEqual(
    words([
      [header, 'not kept'],
      [header, 'not kept'],
      [signature, 'not kept'],
    ]),
    [
      'open: The header x-signature: It was not kept, because it may be a credential: what depends on it is not known',
      'open: The signature is that of the request with shop_secret: Not known: a header was not kept',
    ],
  );
  const age = `abs(extract('epoch', now()) - (headers->>'x-time')::bigint::numeric)`;
  assert.deepEqual(
    words([
      [age, '423.718000'],
      [`${age} <= 300`, 'false'],
      [signature, 'not evaluated'],
    ]),
    [
      'bad: The time is at most 300 s from this machine’s clock: 424 s, when the request arrived',
      'open: The signature is that of the request with shop_secret: Not looked at: a step before was decisive',
    ],
  );
  assert.deepEqual(words([[`secure_compare(${header}, token)`, 'true']]), [
    'good: What was sent is what the secret holds',
  ]);
  // A quoted name, and what has no words.
  assert.deepEqual(
    words([[`secure_compare(${header}, encode(hmac("New ""key""", payload, 'md5'), 'hex'))`, 'true']]),
    ['good: The signature is that of the request with "New ""key"""'],
  );
  assert.deepEqual(
    words([
      [`starts_with(${header}, 'sha256=')`, 'false'],
      ['1 + 1', '2'],
    ]),
    [],
  );
});
