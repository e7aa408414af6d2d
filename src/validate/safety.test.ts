import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compileCheck } from './compile.ts';
import { ExpressionError, loadParser, parseExpression } from './expression.ts';

await loadParser();

const scope = { secrets: ['s', 's2'] };

const hook = "encode(hmac(s, data, 'sha256'), 'hex')";
const sig = "headers->>'x'";

const safe: readonly string[] = [
  `secure_compare(${sig}, s)`,
  `secure_compare(s, ${sig})`,
  `secure_compare(${sig}, 'Bearer tok')`,
  `secure_compare(${sig}, 'Bearer ' || 'tok')`,
  `secure_compare(${sig}, 'Bearer ' || s)`,
  `secure_compare(${sig}, concat('Bearer ', s))`,
  `secure_compare(${sig}, 'sha256=' || ${hook})`,
  `secure_compare(${sig}, encode(hmac('literal key', data, 'sha256'), 'hex'))`,
  `${sig} = encode(hmac('literal key', data, 'sha256'), 'hex')`,
  `${sig} = ${hook}`,
  `${hook} = ANY (string_to_array(${sig}, ','))`,
  `${sig} = ANY (ARRAY[s, s2])`,
  `${sig} IN (s, s2)`,
  `NOT (${sig} <> s)`,
  `NOT (${sig} NOT IN (s, s2))`,
  `NOT (s <> ALL (string_to_array(${sig}, ',')))`,
  `secure_compare_any(${sig}, ARRAY['a', 'b'])`,
  `secure_compare_any(${sig}, '{a,b}')`,
  `secure_compare_any(${hook}, string_to_array(${sig}, ' '))`,
  `secure_compare(${sig}, CASE WHEN method = 'POST' THEN ${hook} END)`,
  `secure_compare(${sig}, CASE WHEN method = 'POST' THEN ${hook} ELSE s END)`,
  `CASE WHEN secure_compare(${sig}, s) THEN true ELSE false END`,
  `CASE WHEN method = 'POST' THEN secure_compare(${sig}, s) END`,
  `coalesce(secure_compare(${sig}, s), false)`,
  `secure_compare(${sig}, s) IS TRUE`,
  `(secure_compare(${sig}, s) IS NOT TRUE) IS FALSE`,
  `secure_compare(${sig}, s) AND (method = 'POST' OR true)`,
  `secure_compare(${sig}, s) OR secure_compare(${sig}, s2)`,
  `secure_compare(${sig}, encode(sha256(convert_to('client secret' || method || url, 'UTF8') || data), 'hex'))`,
  `secure_compare(${sig}, left(${hook}, 16))`,
  `secure_compare(${sig}, left('sha256=' || ${hook}, 20))`,
  `secure_compare(${sig}, right('sha256=' || ${hook}, 64))`,
  `secure_compare(${sig}, substr(${hook}, 33, 32))`,
  `secure_compare(${sig}, right(left('sha256=' || ${hook}, 40), 20))`,
  `secure_compare(${sig}, 'v1,' || rtrim(translate(encode(hmac(s, data, 'sha256'), 'base64'), '+/', '-_'), '='))`,
  `secure_compare(${sig}, translate('v1,' || encode(hmac(s, data, 'sha256'), 'base64'), '+/', '-_'))`,
  `secure_compare(${sig}, replace(encode(hmac(s, data, 'sha512'), 'base64'), E'\\n', ''))`,
  `secure_compare(${sig}, upper(left(md5(s || path), 16)))`,
  `secure_compare(${sig}, split_part(s, ':', 2))`,
  `secure_compare(${sig}, s::jsonb->>'key')`,
  `jwt_verify(${sig}, s) IS NOT NULL`,
  `jwt_verify(${sig}, s)->>'sub' = 'me'`,
  `(jwt_verify(${sig}, s)->>'n')::int > 5`,
  `ed25519_verify(decode(s, 'hex'), data, decode(${sig}, 'hex'))`,
  `rsa_verify(s, data, decode(${sig}, 'hex'), CASE method WHEN 'POST' THEN 'sha1' ELSE 'sha256' END)`,
  `rsa_pss_verify(s, data, decode(${sig}, 'hex'), 'sha256')`,
  `rsa_verify(jwks_key('https://h/jwks', headers->>'kid'), data, decode(${sig}, 'hex'), 'sha256')`,
  `ed25519_verify(jwks_key('https://h/jwks', 'one'), data, decode(${sig}, 'hex'))`,
];

const unsafe: readonly string[] = [
  'true',
  `jwks_key('https://h/jwks', ${sig}) IS NOT NULL`,
  `secure_compare(${sig}, encode(jwks_key('https://h/jwks', headers->>'kid'), 'hex'))`,
  `rsa_verify(coalesce(jwks_key('https://h/jwks', headers->>'kid'), decode(headers->>'key', 'hex')), data, decode(${sig}, 'hex'), 'sha256')`,
  `rsa_verify(jwks_key('https://h/jwks', headers->>'kid'), 'text'::bytea, decode('00', 'hex'), 'sha256')`,
  `secure_compare(${sig}, s) OR true`,
  `secure_compare(${sig}, s) OR method = 'POST'`,
  `secure_compare(${sig}, s) OR ${sig} IS NULL`,
  `${sig} = 'key'`,
  `${sig} IN ('key', 'other key')`,
  `${sig} IN (s, 'key')`,
  `${sig} = ANY (ARRAY[s, 'key'])`,
  `s = ANY (ARRAY[s2])`,
  `secure_compare(${sig}, headers->>'y')`,
  `secure_compare('a', 'a')`,
  'secure_compare(s, s)',
  `secure_compare(${sig}, '')`,
  `secure_compare(${sig}, NULL) OR true`,
  `secure_compare(${sig}, coalesce(headers->>'y', s))`,
  `secure_compare(${sig}, CASE WHEN method = 'POST' THEN ${hook} ELSE 'none' END)`,
  `secure_compare(${sig}, CASE WHEN method = 'POST' THEN s ELSE headers->>'y' END)`,
  `secure_compare(${sig}, greatest(s, headers->>'y'))`,
  `secure_compare(${sig}, left(s, (headers->>'n')::int))`,
  `secure_compare(${sig}, replace(s, headers->>'y', ''))`,
  `secure_compare(${sig}, split_part(s, headers->>'y', 1))`,
  `secure_compare(${sig}, s::jsonb->>(headers->>'y'))`,
  `secure_compare(${sig}, left(${hook}, 4))`,
  `secure_compare(${sig}, left((headers->>'y') || s, 8))`,
  `secure_compare(${sig}, left((headers->>'y') || ${hook}, 8))`,
  `secure_compare(${sig}, right(${hook} || (headers->>'y'), 8))`,
  `secure_compare(${sig}, right(s || (headers->>'y'), 8))`,
  `secure_compare(${sig}, left('sha256=' || ${hook}, 14))`,
  `secure_compare(${sig}, substr(${hook}, 60, 64))`,
  `${sig} = substr(${hook}, 65, 8)`,
  `${sig} = translate(${hook}, '0123456789abcdef', '')`,
  `secure_compare(${sig}, translate(${hook}, '0123456789abcdef', '0000000000000000'))`,
  `secure_compare(${sig}, btrim(${hook} || 'zz', '0123456789abcdef'))`,
  `secure_compare(${sig}, ('{"a": "known", "k": "' || ${hook} || '"}')::jsonb->>'a')`,
  `secure_compare(${sig}, split_part(${hook}, 'a', 9))`,
  `secure_compare(${sig}, concat('Bearer ', s::jsonb->>'key'))`,
  `secure_compare(${sig}, encode(hmac(headers->>'k', data, 'sha256'), 'hex'))`,
  `secure_compare(${sig}, encode(hmac('', data, 'sha256'), 'hex'))`,
  `secure_compare(${sig}, encode(sha256(data), 'hex'))`,
  `secure_compare(${sig}, encode(sha256(data || 'long constant'), 'hex'))`,
  `secure_compare(encode(hmac(s, convert_to(${sig}, 'UTF8'), 'sha256'), 'hex'), encode(hmac(s, data, 'sha256'), 'hex'))`,
  `NOT secure_compare(${sig}, s)`,
  `secure_compare(${sig}, s) = false`,
  `secure_compare(${sig}, s) IS FALSE`,
  `secure_compare(${sig}, s) IS NOT TRUE`,
  `secure_compare(${sig}, s) IS NULL`,
  `secure_compare(${sig}, s) IS NOT NULL`,
  `${sig} <> s`,
  `${sig} NOT IN (s, s2)`,
  `s <> ALL (string_to_array(${sig}, ','))`,
  `s = ALL (string_to_array(${sig}, ','))`,
  `s < ANY (string_to_array(${sig}, ','))`,
  `${sig} IS DISTINCT FROM s`,
  `coalesce(secure_compare(${sig}, s), true)`,
  `CASE WHEN secure_compare(${sig}, s) THEN true ELSE true END`,
  `CASE WHEN method = 'POST' THEN secure_compare(${sig}, s) ELSE true END`,
  `CASE secure_compare(${sig}, s) WHEN false THEN true END`,
  `length(s) > 3`,
  `starts_with(s, ${sig})`,
  `s LIKE '%'`,
  `${sig} < s`,
  `length(${sig}) = length(s)`,
  `jwt_verify(${sig}, s) IS NULL`,
  `jwt_verify(${sig}, headers->>'k') IS NOT NULL`,
  `coalesce(jwt_verify(${sig}, s)->>'sub', headers->>'y') = 'me'`,
  `ed25519_verify(decode(headers->>'k', 'hex'), data, decode(${sig}, 'hex'))`,
  `ed25519_verify(decode(s, 'hex'), decode('00', 'hex'), decode('00', 'hex'))`,
  `now() > '2024-01-01'`,
];

function outcome(text: string): string {
  try {
    parseExpression(text, scope);
    return 'taken';
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error;
    return error.sqlstate;
  }
}

test('a VALIDATE expression with a signature check on every path to TRUE is accepted', () => {
  assert.deepEqual(
    safe.filter((text) => outcome(text) !== 'taken'),
    [],
  );
});

test('a VALIDATE expression that a sender without the secret can make TRUE is refused', () => {
  assert.deepEqual(
    unsafe.filter((text) => outcome(text) !== '22023'),
    [],
  );
});

test('VALIDATE reads control characters in and between literals as PostgreSQL does', () => {
  for (let code = 1; code < 32; code++) {
    const character = String.fromCharCode(code);
    const key = `'Bearer a${character}long random key'`;
    const text = `secure_compare(headers->>'authorization'${code === 11 ? character : ''}, ${key})`;
    const literals = parseExpression(text, { secrets: [] }).secretLiterals;
    assert.deepEqual(
      literals.map(({ start, end }) => text.slice(start, end)),
      [key],
      `character ${code}`,
    );
  }
});

test('the safety check of VALIDATE names literals that carry the key, and no others', () => {
  const masked = (text: string): string[] =>
    parseExpression(text, { secrets: [] }).secretLiterals.map(({ start, end }) => text.slice(start, end));
  assert.deepEqual(masked(`secure_compare(${sig}, 'Bearer ' || E'to\\'k')`), ["'Bearer '", "E'to\\'k'"]);
  assert.deepEqual(masked(`secure_compare('é' || (${sig}), $k$tok$k$)`), ['$k$tok$k$']);
  const github = (key: string): string =>
    `secure_compare(${sig}, 'sha256=' || encode(hmac(${key}, data, 'sha256'), 'hex'))`;
  assert.deepEqual(masked(github("'my key'")), ["'my key'"]);
  assert.deepEqual(masked(github("decode('6b', 'hex')")), ["'6b'", "'hex'"]);
  assert.deepEqual(masked(github("'my'\n  'key'")), ["'my'\n  'key'"]);
  assert.deepEqual(masked(`secure_compare_any(${sig}, ARRAY['k1', 'k2']) AND headers->>'v' = '1'`), [
    "'k1'",
    "'k2'",
  ]);
});

test('an always-empty operand makes a VALIDATE check refuse every request', () => {
  const request = {
    method: 'POST',
    target: '/',
    rawHeaders: ['x', ''],
    arrivedAtMs: 0,
    body: Buffer.alloc(0),
  };
  for (const [text, secret] of [
    [`secure_compare(${sig}, s)`, ''],
    [`${sig} = s`, ''],
    [`${sig} = split_part(s, ':', 2)`, 'nocolon'],
    [`${sig} = ANY (ARRAY[s])`, ''],
    [`decode(${sig}, 'hex') = decode(s, 'base64')`, ''],
    [`${sig} = s::jsonb->>'key'`, '{"key":""}'],
    [`${sig} = replace(s, 'whsec_', '') || (headers->>'x')`, 'whsec_'],
  ] as const) {
    const check = compileCheck(parseExpression(text, { secrets: ['s'] }), {
      secrets: new Map([['s', secret]]),
      publicUrl: null,
    });
    assert.equal(check(request), false, text);
  }
});
