import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { test } from 'node:test';
import { type CheckRequest } from '../types/request.ts';
import { limits } from '../config/limits.ts';
import { explainRefusal } from './explain.ts';
import { compileCheck } from './compile.ts';
import { ExpressionError, loadParser, parseExpression } from './expression.ts';

await loadParser();

const scope = { secrets: ['s'] };
const check = "secure_compare(headers->>'x', s)";

function request(rawHeaders: readonly string[], body = ''): CheckRequest {
  return {
    method: 'POST',
    target: '/hook?a=1&b=%20',
    rawHeaders,
    arrivedAtMs: 1_700_000_000_000,
    body: Buffer.from(body),
  };
}

function accepts(text: string, of: CheckRequest, secret = 'key', publicUrl: string | null = null): boolean {
  return compileCheck(parseExpression(text, scope), { secrets: new Map([['s', secret]]), publicUrl })(of);
}

function refusal(text: string): { sqlstate: string; at: number | null; message: string; hint: string } {
  try {
    parseExpression(text, scope);
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error;
    return { sqlstate: error.sqlstate, at: error.position, message: error.message, hint: error.hint ?? '' };
  }
  assert.fail(`taken: ${text}`);
}

test('every error of a VALIDATE expression has its position and the known alternatives', () => {
  const cases: readonly (readonly [string, string, string | null, RegExp])[] = [
    ['', '42601', '', /one boolean expression/],
    [`${check} AND`, '42601', '', /end of input/],
    [`${check} AS x`, '42601', 'AS', /syntax error/],
    [`${check}; SELECT 1`, '42601', ';', /syntax error/],
    [`ALL ${check}`, '42601', 'ALL', /syntax error/],
    [`'é☃𝒳' = foo(s)`, '42883', 'foo', /function foo\(text\) is not known/],
    [`${check} AND length(1) = 1`, '42883', 'length', /function length\(integer\) does not exist/],
    [`${check} AND s + 1 = 2`, '42883', '+', /operator does not exist: text \+ integer/],
    [`${check} AND s ~ 'x'`, '42883', '~', /operator ~ is not known/],
    [`${check} AND data = payload`, '42703', 'payload', /unknown names: data, payload/],
    [`${check} AND t.a IS NULL`, '42703', 't.a', /t.a is not known/],
    [`${check} AND (SELECT true)`, '0A000', '(SELECT', /a subquery is not known/],
    [`${check} AND s::uuid IS NULL`, '0A000', 'uuid', /type uuid is not known/],
    [`${check} AND s::varchar(3) = 'x'`, '0A000', 'varchar', /is not known/],
    [`${check} AND substring(s from 'a.') = 'x'`, '0A000', 'substring', /regular expressions/],
    [`${check} AND s LIKE (headers->>'x')`, '0A000', 'LIKE', /must be a constant/],
    [`${check} AND 1/0 = 1`, '22012', '/0', /division by zero/],
    [`${check} AND s = '\\xzz'::bytea`, '22023', "'\\xzz", /hexadecimal/],
    [`${check} AND hmac(s, data, 'sha257') = data`, '22023', 'hmac', /no such hash/],
    [`${check} AND length(s)`, '42804', null, /must be of type boolean/],
    ['length(s)', '42804', 'length', /must be boolean/],
    [`${check} AND repeat(headers->>'x', length(s)) = s`, '54000', 'repeat', /grow too large/],
    [`${check} AND replace(headers->>'x', 'a', headers->>'y') = s`, '54000', 'replace', /grow too large/],
    [
      `${check} AND string_to_array(convert_from(data, 'UTF8'), ',') IS NULL`,
      '54000',
      'string_to_array',
      /grow/,
    ],
    [`${check} AND repeat('a', 2000000000) = s`, '54000', 'repeat', /constant parts/],
    [
      `${check} AND length(${'repeat('.repeat(3)}'a', 1000), 1000), 30) || '') = 1`,
      '54000',
      null,
      /constant/,
    ],
    [`${check} AND ${'repeat('.repeat(3)}s, 1000), 1000), 1000) = s`, '54000', null, /grow/],
    [`${'1+'.repeat(5000)}1 = 1`, '54001', null, /nested deeper/],
    [`${'NOT '.repeat(300)}${check}`, '54001', null, /nested deeper than 200/],
    [`${check} AND '${'x'.repeat(17_000)}' = s`, '54000', null, /longer than/],
    [`${check} AND s = 'a\0b'`, '42601', '\0', /NUL/],
  ];
  for (const [text, sqlstate, place, message] of cases) {
    const found = refusal(text);
    assert.equal(found.sqlstate, sqlstate, `${text.slice(0, 80)}: ${found.message}`);
    assert.match(found.message, message);
    if (place === '') assert.ok(found.at === text.length || found.at === 0, text);
    else if (place !== null)
      assert.equal(text.slice(found.at ?? -1).startsWith(place), true, `${text} at ${found.at}`);
  }
  assert.match(refusal('foo(s)').hint, /known here: .*secure_compare/);
  assert.match(refusal("hmac(s, data) = ''").hint, /hmac\(text, bytea, text\) → bytea/);
  assert.match(refusal("s::uuid = ''").hint, /known types: text/);
});

test('a parsed VALIDATE expression lists the headers and the payload that it reads', () => {
  const github = parseExpression(
    "secure_compare(headers->>'b', s) AND headers#>>'{a}' = '1' AND sha256(body) IS NOT NULL",
    scope,
  );
  assert.deepEqual(
    [github.headersRead, github.payloadName, github.readsAllHeaders],
    [['a', 'b'], 'body', false],
  );
  const all = parseExpression(`${check} AND headers::text <> ''`, scope);
  assert.deepEqual([all.headersRead, all.payloadName, all.readsAllHeaders], [['x'], null, true]);
  assert.equal(
    parseExpression(`secure_compare(headers->>'x', "Body Bytes"::text || s)`, scope).payloadName,
    'Body Bytes',
  );
  assert.throws(() => parseExpression('true', { secrets: ['headers'] }), /hides the request headers/);
});

test('VALIDATE warns about a header name that is not in lower case, which never matches', () => {
  const expression = parseExpression("secure_compare(headers->>'X-Sig', s)", scope);
  assert.deepEqual(expression.warnings, [
    "header name 'X-Sig' is not in lower case and can never match: write 'x-sig'",
  ]);
  assert.equal(
    accepts("secure_compare(headers->>'X-Sig', s)", request(['X-Sig', 'key', 'x-sig', 'key'])),
    false,
  );
});

test('a secret that is compared without secure_compare gets a notice, and nothing else does', () => {
  const noticed = (text: string) => parseExpression(text, scope).notices.length;
  for (const text of [
    "headers->>'x' = s",
    "NOT headers->>'x' <> s",
    "headers->>'x' IN (s, s || 'b')",
    "encode(hmac('key', payload, 'sha256'), 'hex') = headers->>'x'",
    "secure_compare(headers->>'x', s) AND headers->>'y' IS DISTINCT FROM s",
  ])
    assert.equal(noticed(text), 1, text);
  for (const text of [
    "secure_compare(headers->>'x', s)",
    "secure_compare(headers->>'x', s) AND headers->>'y' = 'push' AND s <> ''",
    "lower(left(headers->>'authorization', 7)) = 'bearer ' AND secure_compare(substr(headers->>'authorization', 8), s)",
  ])
    assert.equal(noticed(text), 0, text);
  const unlike = parseExpression("headers->>'x' = s", scope);
  assert.deepEqual(unlike.warnings, []);
});

test('VALIDATE warns about base64 with a line break, and accepts the signature once the break is removed', () => {
  const encoded = (algorithm: string) => `encode(hmac(s, payload, '${algorithm}'), 'base64')`;
  const warned = (text: string) =>
    parseExpression(`secure_compare(headers->>'x', ${text})`, scope).warnings.join();
  assert.match(warned(encoded('sha512')), /^encode\(…, 'base64'\) writes a line break after 76 characters/);
  assert.match(warned(`'v1=' || ${encoded('SHA512')}`), /line break/);
  const joined = `replace(${encoded('sha512')}, E'\\n', '')`;
  for (const text of [
    encoded('sha256'),
    encoded('sha384'),
    `encode(hmac(s, payload, 'sha512'), 'hex')`,
    joined,
  ])
    assert.equal(warned(text), '', text);
  // Node's base64 has no line breaks, as every sender's.
  const proof = createHmac('sha512', 'key').update('').digest('base64');
  assert.equal(accepts(`secure_compare(headers->>'x', ${joined})`, request(['X', proof])), true);
  assert.equal(accepts(`secure_compare(headers->>'x', ${encoded('sha512')})`, request(['X', proof])), false);
});

test('a VALIDATE expression finds headers in any case and reads them as UTF-8', () => {
  assert.equal(accepts(check, request(['Host', 'h', 'X', 'key'])), true);
  assert.equal(accepts(check, request(['X', 'key', 'x', 'key'])), false, 'doubled');
  assert.equal(accepts(check, request(['X', 'key', 'x', ''])), false, 'doubled, one empty');
  assert.equal(
    accepts(`${check} OR secure_compare(headers->>'y', s)`, request(['x', 'key', 'y', '1', 'Y', '2'])),
    false,
  );
  assert.equal(
    accepts(check, request(['x', Buffer.from('Schlüssel').toString('latin1')]), 'Schlüssel'),
    true,
  );
  assert.equal(accepts(check, request(['x', 'Schl\xfcssel']), 'Schlüssel'), false, 'latin1 is not UTF-8');
  assert.equal(accepts(check, request([])), false);
  const listed = "secure_compare_any(headers->>'x', ARRAY[s, s])";
  for (const text of [check, listed]) {
    assert.equal(accepts(text, request(['x', 'key'])), true);
    assert.equal(accepts(text, request(['x', '']), ''), false, 'an empty secret');
  }
});

test('the variable headers of VALIDATE has lower-case names without repetition', () => {
  const text = `${check} AND headers::text = '{"x": "key", "a-b": "\u2603"}'`;
  assert.equal(accepts(text, request(['X', 'key', 'A-B', '\xe2\x98\x83'])), true);
  assert.equal(
    accepts(`${check} AND headers ->> lower(headers->>'x') = 'v'`, request(['x', 'key', 'KEY', 'v'])),
    true,
  );
  assert.equal(
    accepts(`${check} AND headers IS NOT NULL`, request(['x', 'key', 'via', '1', 'Via', '2'])),
    false,
  );
});

test('a VALIDATE expression reads method, path, query, url and now()', () => {
  const of = request(['x', 'key']);
  assert.equal(
    accepts(
      `${check} AND method = 'POST' AND path = '/hook' AND query->>'a' = '1' AND query->>'b' = ' '`,
      of,
    ),
    true,
  );
  assert.equal(
    accepts(`${check} AND url = 'https://h.example/hook?a=1&b=%20'`, of, 'key', 'https://h.example'),
    true,
  );
  assert.equal(accepts(`${check} AND url IS NULL`, of), true);
  assert.equal(
    accepts(`${check} AND extract(epoch from now()) = 1700000000 AND now() = to_timestamp(1700000000)`, of),
    true,
  );
});

test('BETWEEN in a VALIDATE expression includes both bounds', () => {
  const inside = (value: number) =>
    accepts(`${check} AND (headers->>'n')::int BETWEEN 2 AND 4`, request(['x', 'key', 'n', String(value)]));
  assert.deepEqual([1, 2, 3, 4, 5].map(inside), [false, true, true, true, false]);
  const outside = `${check} AND (headers->>'n')::int NOT BETWEEN 2 AND 4`;
  const isOutside = (value: number) => accepts(outside, request(['x', 'key', 'n', String(value)]));
  assert.deepEqual([1, 2, 3, 4, 5].map(isOutside), [true, false, false, false, true]);
});

test('a VALIDATE expression reads form bodies', () => {
  const body = 'b=2&a=%C3%A9+x&b=1&a=%C3%A9+x&c&=v&%';
  const of = request(['x', 'key'], body);
  assert.equal(accepts(`${check} AND form_sorted(data) = 'v%aé xb1b2c'`, of), true);
  assert.equal(
    accepts(`${check} AND form(data)->>'b' = '1' AND form(data)->>'a' = 'é x' AND form(data)->>'c' = ''`, of),
    true,
  );
  assert.equal(accepts(`${check} AND form(data) IS NOT NULL`, request(['x', 'key'], 'a=%00')), false);
  assert.equal(
    accepts(`${check} AND form(data)->>'__proto__' = 'x'`, request(['x', 'key'], '__proto__=x')),
    true,
  );
});

test('an evaluation error of VALIDATE refuses the request, also beside a check that holds', () => {
  const of = request(['x', 'key', 'n', 'seven'], '{');
  for (const text of [
    `((headers->>'n')::int = 7 AND ${check}) OR ${check}`,
    `coalesce((headers->>'n')::int = 7 AND ${check}, ${check})`,
    `${check} AND convert_from(data, 'UTF8')::jsonb IS NOT NULL`,
    `CASE WHEN (headers->>'n')::bool THEN ${check} ELSE ${check} END`,
  ]) {
    assert.equal(accepts(text, of), false, text);
  }
  assert.equal(accepts(check, of), true);
});

test('VALIDATE computes an HMAC that is used twice once, in every encoding', () => {
  for (const algorithm of ['md5', 'sha1', 'sha224', 'sha256', 'sha384', 'sha512']) {
    for (const format of ['hex', 'base64'] as const) {
      const mac = createHmac(algorithm, 'key').update('body').digest(format);
      const text = `secure_compare(headers->>'x', replace(encode(hmac(s, data, '${algorithm}'), '${format}'), E'\\n', ''))`;
      assert.equal(accepts(text, request(['x', mac], 'body')), true, `${algorithm} ${format}`);
      const twice = `${text} AND length(hmac(s, data, '${algorithm}')) > 8`;
      assert.equal(accepts(twice, request(['x', mac], 'body')), true, `${algorithm} ${format} twice`);
    }
  }
});

test('one compiled VALIDATE serves successive requests and keeps nothing of them', () => {
  const compiled = compileCheck(
    parseExpression(
      `${check} AND convert_from(data, 'UTF8')::jsonb->>'a' = convert_from(data, 'UTF8')::jsonb->>'b'`,
      scope,
    ),
    { secrets: new Map([['s', 'key']]), publicUrl: null },
  );
  const good = request(['x', 'key'], '{"a":"1","b":"1"}');
  const bad = request(['x', 'key'], '{"a":"1","b":"2"}');
  assert.deepEqual([good, bad, good, request([], '{"a":"1","b":"1"}'), good].map(compiled), [
    true,
    false,
    true,
    false,
    true,
  ]);
});

test('a VALIDATE expression that would read a long body too often refuses it, and judges a short one', () => {
  const keys = Array.from({ length: 20 }, (_, n) => `k${n}`);
  const branch = (key: string) =>
    `secure_compare(headers->>'x', encode(hmac('${key}', payload, 'sha256'), 'hex'))`;
  const json = "(convert_from(payload, 'UTF8')::jsonb->>'a' = 'b' AND secure_compare(headers->>'x', s))";
  const signed = (body: string, key: string) =>
    request(['x', createHmac('sha256', key).update(body).digest('hex')], body);
  const all = keys.map(branch).join(' OR ');
  // The largest body that is taken unless a setting says otherwise.
  const largest = 'a'.repeat(limits.bodyBytesMax);
  assert.equal(accepts(branch('k0'), signed(largest, 'k0')), true);
  assert.equal(accepts(json, request(['x', 'key'], `{"a":"b","c":"${largest.slice(20)}"}`)), true);
  assert.equal(accepts(all, signed(largest.slice(0, 1_000_000), 'k19')), true);
  assert.equal(accepts(all, signed(largest, 'k0')), true, 'it stops at the first that holds');
  assert.equal(accepts(all, signed(largest, 'k19')), false);
  const why = explainRefusal(all, { secrets: new Map(), publicUrl: null }, signed(largest, 'k19'));
  assert.match(why.reason, /reads too much of this request/);
});

test('constant parts together read no more than one request', () => {
  /** Each of the items is compared with the value, of which `bytes` are read. */
  const compared = (value: string, bytes: number, share: number) => {
    const number = Math.ceil((limits.expressionReadBytesMax / bytes) * share);
    const items = Array.from({ length: number }, (_, i) => `'\\x${i.toString(16).padStart(4, '0')}'`);
    return `${check} AND convert_to(${value}, 'UTF8') NOT IN (${items.join(', ')})`;
  };
  const literal = (share: number) => compared("repeat('a', 1000000)", 1_000_000, share);
  const { sqlstate, message } = refusal(literal(1.1));
  assert.equal(sqlstate, '54000');
  assert.match(message, /constant parts .* read too much/);
  assert.equal(accepts(literal(0.4), request(['x', 'key'])), true);
  // What is made of a secret is computed when its table is read; the check accepts nothing then.
  const secret = 'k'.repeat(limits.secretBytesMax);
  const ofSecret = (share: number) => compared('repeat(s, 16)', secret.length * 16, share);
  assert.equal(accepts(ofSecret(0.4), request(['x', secret]), secret), true);
  assert.equal(accepts(ofSecret(1.1), request(['x', secret]), secret), false);
});
