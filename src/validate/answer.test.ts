import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import type { AnswerText } from '../types/answers.ts';
import type { CheckRequest } from '../types/request.ts';
import { AnswerError, parseAnswer } from './answer.ts';
import { type GuardText } from './answer-safety.ts';
import { loadParser } from './expression.ts';

before(loadParser);

const nothing: AnswerText = {
  unchecked: true,
  when: "method = 'GET'",
  status: null,
  type: null,
  headers: [],
  body: null,
};
const secrets = ['s', 't'];
const x: GuardText = {
  expression:
    "secure_compare(headers->>'x-twitter-webhooks-signature', 'sha256=' || encode(hmac(s, payload, 'sha256'), 'base64'))",
  secrets: ['s'],
  format: 'json',
};
const values = {
  secrets: new Map([
    ['s', 'Convoy'],
    ['t', 'a verify token'],
  ]),
  publicUrl: 'https://h.example',
};

function request(change: Partial<CheckRequest> & { target?: string } = {}): CheckRequest {
  const body = change.body ?? Buffer.alloc(0);
  return { method: 'GET', target: '/webhook/dev/public/t', rawHeaders: [], arrivedAtMs: 0, ...change, body };
}

function ask(text: Partial<AnswerText>, asked: Partial<CheckRequest>, guard: GuardText | null = null) {
  return parseAnswer({ ...nothing, ...text }, { secrets, guard })
    .compileRule(values)
    .answer(request(asked));
}

function refusal(text: Partial<AnswerText>, guard: GuardText | null = null): AnswerError {
  try {
    parseAnswer({ ...nothing, ...text }, { secrets, guard });
  } catch (error) {
    assert.ok(error instanceof AnswerError);
    return error;
  }
  throw new Error('it was not refused');
}

const query = (text: string) => ({ target: `/webhook/dev/public/t?${text}` });
const crc = (shape: string) =>
  `json_object('response_token', 'sha256=' || encode(hmac(s, convert_to(${shape}, 'UTF8'), 'sha256'), 'base64'))`;
const crcToken = crc("shaped(query->>'crc_token', 'token', 128)");

test('an ANSWER echoes the challenge in the requested form', () => {
  const echo = { body: "shaped(query->>'challenge', 'token', 128)" };
  assert.deepEqual(ask(echo, query('challenge=abc')), {
    status: 200,
    type: 'text/plain; charset=utf-8',
    headers: [],
    body: 'abc',
  });
  assert.equal(ask(echo, { ...query('challenge=abc'), method: 'POST' }), null);
  assert.equal(ask(echo, query('challenge=<b>')), null);
  assert.equal(ask(echo, query('other=1')), null);
  const plain = { body: "shaped(query->>'validationToken', 'plain', 256)" };
  const graph = ask(plain, query('validationToken=Validation%3A+Testing%20client'));
  assert.equal(graph?.body, 'Validation: Testing client');
});

test("an ANSWER signs X's challenge, and nothing that could be an event", () => {
  const text = { type: 'application/json', body: crcToken };
  assert.equal(
    ask(text, query('crc_token=uzwcfYtzr9'), x)?.body,
    '{"response_token":"sha256=HXvxTdsfShG6k2zC9NVANwFquJBdOugRYHax2vNiiOo="}',
  );
  for (const document of ['123', '-1', '1e5', 'true', 'null', '{}', '%22a%22', '[]', '{"a":1}', ''])
    assert.equal(ask(text, query(`crc_token=${document}`), x), null, document);
  // Without a key in common a number is a challenge like any other.
  assert.notEqual(
    ask(text, query('crc_token=123'), {
      ...x,
      expression: x.expression.replace('hmac(s', "hmac('other key'"),
    }),
    null,
  );
});

test('a forbidden UNCHECKED answer is refused at its position', () => {
  const refused = (text: Partial<AnswerText>, message: RegExp, guard: GuardText | null = x) => {
    const error = refusal(text, guard);
    assert.match(error.message, message);
    return error;
  };
  const error = refused({ body: "'a' || (query->>'challenge')" }, /only through shaped\(\)/);
  assert.deepEqual([error.part, error.position], ['body', 8]);
  assert.equal(refused({ headers: [{ name: 'X-A', value: "headers->>'x-b'" }] }, /shaped/).part, 0);
  // The oracles: X, Zoom, LinkedIn, Braintree, Wrike.
  refused({ body: crc("query->>'crc_token'") }, /shaped/);
  const zoom = {
    ...x,
    expression:
      "secure_compare(headers->>'z', encode(hmac(s, 'v0:' || (headers->>'t') || ':' || payload::text, 'sha256'), 'hex'))".replace(
        "'v0:' || (headers->>'t') || ':' || payload::text",
        "convert_to('v0:' || (headers->>'t') || ':' || convert_from(payload, 'UTF8'), 'UTF8')",
      ),
  };
  const signed = (value: string) => `encode(hmac(s, convert_to(${value}, 'UTF8'), 'sha256'), 'hex')`;
  const plain = "convert_from(payload, 'UTF8')::jsonb #>> '{payload,plainToken}'";
  refused({ when: "method = 'POST' AND headers->>'a' = 'b'", body: signed(plain) }, /shaped/, zoom);
  refused({ body: signed(`shaped(${plain}, 'plain', 128)`) }, /may be what VALIDATE expects/, zoom);
  parseAnswer({ ...nothing, body: signed(`shaped(${plain}, 'token', 128)`) }, { secrets, guard: zoom });
  const linkedIn = {
    ...x,
    expression:
      "secure_compare(headers->>'x-li-signature', encode(hmac(s, 'hmacsha256='::bytea || payload, 'sha256'), 'hex'))".replace(
        "'hmacsha256='::bytea",
        "convert_to('hmacsha256=', 'UTF8')",
      ),
  };
  refused({ body: signed("query->>'challengeCode'") }, /shaped/, linkedIn);
  refused(
    { body: signed("shaped(query->>'challengeCode', 'token', 128)") },
    /may be what VALIDATE expects/,
    linkedIn,
  );
  parseAnswer(
    { ...nothing, body: signed("shaped(query->>'challengeCode', 'uuid', 36)") },
    { secrets, guard: linkedIn },
  );
  const payload = "form(payload)->>'bt_payload'";
  const mac = `secure_compare(split_part(form(payload)->>'bt_signature', '|', 2), encode(hmac(sha1(convert_to(s, 'UTF8')), convert_to(${payload}, 'UTF8'), 'sha1'), 'hex'))`;
  const braintree: GuardText = { expression: mac, secrets: ['s'], format: 'form' };
  const challenge =
    "encode(hmac(sha1(convert_to(s, 'UTF8')), convert_to(shaped(query->>'bt_challenge', 'hex', 32), 'UTF8'), 'sha1'), 'hex')";
  refused({ body: challenge }, /may be what VALIDATE expects/, braintree);
  const excluded = { ...braintree, expression: `length(${payload}) > 64 AND ${mac}` };
  parseAnswer({ ...nothing, body: challenge }, { secrets, guard: excluded });
  refused({ body: challenge }, /may be what VALIDATE expects/, {
    ...braintree,
    expression: `length(${payload}) > 31 AND ${mac}`,
  });
  refused({ body: challenge }, /may be what VALIDATE expects/, {
    ...braintree,
    expression: `(length(${payload}) > 64 OR headers->>'a' = 'b') AND ${mac}`,
  });
  refused({ headers: [{ name: 'X-Hook-Secret', value: signed("headers->>'x-hook-secret'") }] }, /shaped/);
  // Other formats take any text, a JWT is a text of a token's form, a derived key can be asked for.
  refused({ body: crcToken }, /may be any text/, { ...x, format: 'text' });
  refused({ body: crcToken }, /for more than hmac/, {
    ...x,
    expression: "jwt_verify(headers->>'authorization', s) IS NOT NULL",
  });
  refused({ body: crcToken }, /for more than hmac/, {
    ...x,
    expression:
      "secure_compare(headers->>'a', encode(hmac(hmac(s, convert_to(headers->>'b', 'UTF8'), 'sha256'), payload, 'sha256'), 'hex'))",
  });
  refused({ body: crc("shaped(query->>'a', 'token', 9) || '1'") }, /one shaped value/);
  // Secrets and keys.
  refused({ body: 's' }, /cannot be shown/);
  refused({ body: "md5(s || shaped(query->>'a', 'hex', 9))" }, /over one shaped value/);
  refused({ body: "shaped(s, 'token', 128)" }, /neither a secret nor a digest/);
  refused(
    { body: "encode(hmac('a literal', convert_to(shaped(query->>'a', 'hex', 9), 'UTF8'), 'sha256'), 'hex')" },
    /with a secret, not with a literal/,
  );
  refused({ body: "encode(hmac(query->>'k', payload, 'sha256'), 'hex')" }, /cannot be of the request/);
  const literal = {
    ...x,
    expression:
      "secure_compare(headers->>'a', encode(sha256(convert_to('a literal key' || (headers->>'b'), 'UTF8')), 'hex'))",
    secrets: [],
  };
  refused(
    { body: "encode(sha256(convert_to('a literal key' || shaped(query->>'a', 'hex', 9), 'UTF8')), 'hex')" },
    /a key of VALIDATE/,
    literal,
  );
  refused({ when: "method = 'GET' AND query->>'a' = 'a literal key'" }, /a key of VALIDATE/, literal);
  // Verify tokens.
  refused({ when: "query->>'v' = 'x' OR left(t, 1) = 'a'" }, /must compare it/);
  refused({ when: "secure_compare(query->>'v', t) OR method = 'GET'" }, /must compare it/);
  refused({ when: "secure_compare(query->>'v', s)" }, /cannot be a verify token/);
  const token = { ...x, expression: "secure_compare(headers->>'authorization', s)" };
  refused({ when: "secure_compare(query->>'v', s)" }, /cannot be a verify token/, token);
  parseAnswer(
    { ...nothing, when: "secure_compare(headers->>'authorization', s)" },
    { secrets, guard: token },
  );
  // Forms.
  refused({ body: "shaped(query->>'a', 'token', (query->>'n')::int)" }, /constants/);
  refused({ body: "shaped(query->>'a', 'word', 9)" }, /no such shape/);
  refused({ body: "shaped(query->>'a', 'token', 513)" }, /from 1 to 512/);
  refused({ type: 'text/xml', body: "shaped(query->>'a', 'token', 9)" }, /cannot hold values/);
  refused({ type: 'text/html' }, /TYPE is one of/);
  refused({ status: 301 }, /STATUS is one of/);
  refused({ status: 204, body: "'a'" }, /has no BODY/);
  refused({ when: 'true' }, /the same for every request/);
  refused({ when: "headers->>'a'" }, /boolean/);
  refused({ body: '1' }, /takes a text/);
  refused({ body: "json_object('a')" }, /does not exist/);
  refused({ body: "json_object('a', 'b', 'c')" }, /one is missing/);
  refused({ when: null }, /UNCHECKED needs WHEN/);
  for (const name of [
    'Location',
    'Set-Cookie',
    'Access-Control-Allow-Origin',
    'content-length',
    'Refresh',
    'a b',
  ])
    refused({ headers: [{ name, value: "'x'" }] }, /header/);
});

test('an ANSWER compares the verify token in constant time', () => {
  const text = {
    when: "method = 'GET' AND query->>'hub.mode' = 'subscribe' AND secure_compare(query->>'hub.verify_token', t)",
    body: "shaped(query->>'hub.challenge', 'token', 128)",
  };
  const url = (token: string) =>
    query(`hub.mode=subscribe&hub.verify_token=${token}&hub.challenge=1158201444`);
  assert.equal(ask(text, url('a+verify+token'), x)?.body, '1158201444');
  assert.equal(ask(text, url('another'), x), null);
  assert.equal(ask(text, url('a+verify+token&hub.verify_token=another'), x), null);
});

test("an ANSWER's methods are derived from its condition", () => {
  const methods = (when: string) => {
    const known = parseAnswer({ ...nothing, when }, { secrets, guard: null }).compileRule(values).methods;
    return known === null ? null : [...known];
  };
  assert.deepEqual(methods("method = 'GET' AND query->>'a' = 'b'"), ['GET']);
  assert.deepEqual(methods("method IN ('GET', 'HEAD') AND query->>'a' = 'b'"), ['GET', 'HEAD']);
  assert.equal(methods("method = 'GET' OR query->>'a' = 'b'"), null);
  assert.equal(methods("headers->>'a' = 'b'"), null);
});

test('an ANSWER ignores hostile challenges', () => {
  const echo = { body: "shaped(query->>'c', 'token', 128)" };
  const json = {
    body: "json_object('challenge', shaped(convert_from(payload, 'UTF8')::jsonb->>'challenge', 'plain', 128))",
  };
  const hostile = [
    '<script>',
    '%3Cscript%3E',
    '%0d%0aSet-Cookie:a=b',
    '%0a',
    '%00',
    '%ff',
    '%ed%a0%80',
    'a'.repeat(129),
    '"',
    '%27',
    '\\',
    '%E2%80%A8',
    '%F0%9F%98%80',
    'a b',
    'a%20b',
    '%20',
    '%09',
    ';',
    '{}',
    '[]',
    '(',
    '$',
    '%24%7Bx%7D',
    '..%2f%40',
    '%C3%A9',
  ];
  for (const challenge of hostile) assert.equal(ask(echo, query(`c=${challenge}`)), null, challenge);
  assert.equal(ask(echo, query('c[]=a')), null);
  assert.equal(ask(echo, query('C=a')), null);
  const bodies = [
    '{"challenge":"\\ud800"}',
    '{"challenge":"<b>"}',
    '{"challenge":"a\\u0000"}',
    '{"challenge":["a"]}',
    '{"challenge":{"a":1}}',
    '{"challenge":null}',
    '{"challenge":"\\n"}',
    '{"challenge":"\\""}',
    '{',
    '',
    'null',
    '[]',
    '{"Challenge":"a"}',
    '\xff',
  ];
  for (const body of bodies) assert.equal(ask(json, { body: Buffer.from(body, 'latin1') }), null, body);
  assert.equal(ask(json, { body: Buffer.from('{"challenge":"a","challenge":"b&c"}') }), null);
  assert.equal(ask(json, { body: Buffer.from('{"challenge":"a b"}') })?.body, '{"challenge":"a b"}');
});

test('an ANSWER is bounded in size, with printable headers', () => {
  const header = (value: string) => ({
    headers: [{ name: 'X-A', value }],
    when: "headers->>'x-a' IS NOT NULL",
    unchecked: false,
  });
  const of = (value: string) => ask(header("headers->>'x-a'"), { rawHeaders: ['x-a', value] });
  assert.deepEqual(of('abc')?.headers, ['X-A', 'abc']);
  for (const value of ['a\r\nb: c', 'a\nb', 'a\u0000', '\u00e9', 'a'.repeat(257), ' a', ''])
    assert.equal(of(value), null, value);
  assert.equal(
    ask({ unchecked: false, body: "headers->>'x'" }, { rawHeaders: ['x', 'a'.repeat(513)] }),
    null,
  );
  assert.equal(ask({ unchecked: false, body: "headers->>'x'" }, { rawHeaders: ['x', 'a', 'X', 'b'] }), null);
});

test('the answer to a committed request is computed before the commit', () => {
  const text = { ...nothing, unchecked: false, when: null };
  const scope = { secrets, guard: x };
  assert.deepEqual(
    parseAnswer(
      {
        ...text,
        status: 201,
        type: 'text/xml',
        body: "'<Response/>'",
        headers: [
          { name: 'X-Id', value: "headers->>'x-id'" },
          { name: 'X-B', value: "'b'" },
        ],
      },
      scope,
    ).committed(),
    {
      status: 201,
      type: 'text/xml; charset=utf-8',
      headers: ['X-B', 'b'],
      echoes: [{ name: 'X-Id', header: 'x-id' }],
      body: '<Response/>',
    },
  );
  assert.match(refusalOf({ ...text, body: "headers->>'a'" }), /BODY is a constant/);
  assert.match(
    refusalOf({ ...text, headers: [{ name: 'A', value: "query->>'a'" }] }),
    /a header of the request/,
  );
  assert.match(refusalOf({ ...text, status: 404 }), /STATUS is one of 200, 201, 202, 204/);
  function refusalOf(given: AnswerText): string {
    try {
      parseAnswer(given, scope);
    } catch (error) {
      return (error as Error).message;
    }
    return 'taken';
  }
});

test('a key that is a literal in the condition of an ANSWER is found for masking', () => {
  const parsed = parseAnswer(
    { ...nothing, unchecked: false, when: "secure_compare(query->>'v', 'the token') AND method = 'GET'" },
    { secrets, guard: null },
  );
  assert.deepEqual(parsed.secretLiterals.get('when'), [{ start: 28, end: 39 }]);
});
