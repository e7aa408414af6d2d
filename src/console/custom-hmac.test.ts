import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { findTool } from '../../test/support/tools.ts';
import { emptyForm, expressionOf, isHmacForm, problemOf, readRequest } from './custom-hmac.ts';
import type { HmacForm } from './custom-hmac.ts';
import { tryHmac } from './try-hmac.ts';

const secret = 'a shared secret';
const body = '{"sku":"MUG-01","left":41}';
const nowMs = 1_795_612_154_000;
const time = '1795612150';

const timed: HmacForm = {
  ...emptyForm,
  header: 'x-shop-signature',
  prefix: 'sha256=',
  signed: [{ kind: 'header', name: 'x-shop-time' }, { kind: 'text', text: '.' }, { kind: 'body' }],
  timeHeader: 'x-shop-time',
};

const trial = (form: HmacForm, signature: string, at = time) => ({
  form,
  secret,
  request: {
    headers: [
      ['X-Shop-Signature', signature],
      ['x-shop-time', at],
    ] as const,
    body: Buffer.from(body).toString('base64'),
  },
});

/** The witness: OpenSSL. */
function signedBy(text: string, algorithm = 'sha256'): string {
  const openssl = findTool('openssl') ?? 'openssl';
  const out = execFileSync(openssl, ['dgst', `-${algorithm}`, '-hmac', secret], { input: text });
  return /([0-9a-f]+)\s*$/.exec(out.toString())?.[1] ?? '';
}

test('the custom HMAC form accepts an OpenSSL signature and names what differs', (t) => {
  if (findTool('openssl') === null) return t.skip('openssl is missing');
  const right = `sha256=${signedBy(`${time}.${body}`)}`;
  const { steps, fits } = tryHmac(trial(timed, right), nowMs);
  assert.deepEqual(
    steps.map(({ ok, text }) => [ok, text]),
    [
      [true, 'x-shop-time is 4 s old'],
      [true, 'x-shop-signature begins with sha256='],
      [true, 'the signature is right'],
    ],
  );
  assert.equal(fits, null);
  const late = tryHmac(trial(timed, right), nowMs + 400_000).steps[0];
  assert.deepEqual(late, { ok: false, text: 'x-shop-time is 404 s old; the limit is 300' });
  const bare = tryHmac(trial(timed, `sha256=${signedBy(body)}`), nowMs);
  assert.equal(bare.steps.at(-1)?.ok, false);
  assert.deepEqual(bare.fits?.signed, [{ kind: 'body' }]);
  // Its time would be anybody's.
  assert.equal(bare.fits?.timeHeader, '');
  const other = tryHmac(trial({ ...timed, prefix: '', encoding: 'base64' }, right), nowMs).fits;
  assert.deepEqual(other, timed);
  assert.equal(
    tryHmac(trial({ ...timed, algorithm: 'sha1' }, `sha256=${signedBy('other')}`), nowMs).fits,
    null,
  );
  assert.equal(tryHmac(trial({ ...timed, header: 'x-none' }, right), nowMs).steps.at(-1)?.ok, false);
  const algorithms = ['sha1', 'sha384', 'sha512'] as const;
  for (const algorithm of algorithms)
    assert.equal(tryHmac(trial(timed, signedBy(body, algorithm)), nowMs).fits?.algorithm, algorithm);
});

test('the custom HMAC form gives valid SQL for any input', () => {
  assert.equal(
    expressionOf(timed, 's'),
    `abs(extract(epoch from now()) - (headers->>'x-shop-time')::bigint) <= 300
  AND secure_compare(headers->>'x-shop-signature',
    'sha256=' || encode(hmac(s, convert_to((headers->>'x-shop-time') || '.', 'UTF8') || payload, 'sha256'), 'hex'))`,
  );
  const evil: HmacForm = {
    ...emptyForm,
    prefix: "'; DROP TABLE x; --",
    signed: [{ kind: 'text', text: "'" }, { kind: 'body' }],
  };
  assert.match(
    expressionOf(evil, 's'),
    /'''; DROP TABLE x; --' \|\| encode\(hmac\(s, convert_to\('''', 'UTF8'\) \|\| payload/,
  );
});

test('the custom HMAC form refuses settings that leave the body or the time unsigned, and malformed messages', () => {
  assert.equal(problemOf(timed), null);
  assert.match(problemOf({ ...timed, signed: [{ kind: 'text', text: 'x' }] }) ?? '', /body must be signed/);
  assert.match(problemOf({ ...timed, signed: [{ kind: 'body' }] }) ?? '', /time is not signed/);
  assert.match(problemOf({ ...timed, header: 'a b' }) ?? '', /Name the header/);
  assert(isHmacForm(JSON.parse(JSON.stringify(timed))));
  const wrong = [
    null,
    {},
    { ...timed, algorithm: 'md5' },
    { ...timed, encoding: 'latin1' },
    { ...timed, signed: [{ kind: 'header', name: 'x y' }] },
    { ...timed, signed: Array.from({ length: 9 }, () => ({ kind: 'body' })) },
    { ...timed, ageS: '300; DROP' },
    { ...timed, header: "x' || '" },
  ];
  for (const it of wrong) assert.equal(isHmacForm(it), false, JSON.stringify(it));
});

test('the console reads a pasted request from a curl command or from headers, an empty line and a body', () => {
  const wanted = {
    headers: [
      ['x-a', "it's"],
      ['content-type', 'application/json'],
    ],
    body: '{"a":"b c"}',
  };
  const plain = `POST /webhook HTTP/1.1\r\nX-A: it's\r\nContent-Type: application/json\r\n\r\n{"a":"b c"}`;
  assert.deepEqual(readRequest(plain), wanted);
  const curl = `curl -X POST \\\n  -H "X-A: it's" --header 'Content-Type: application/json' --data-raw '{"a":"b c"}' http://x/`;
  assert.deepEqual(readRequest(curl), wanted);
  assert.deepEqual(readRequest('').headers, []);
});
