import assert from 'node:assert/strict';
import { before, suite, test } from 'node:test';
import { limits } from '../config/limits.ts';
import { publicUrlOf, requestOf, vectors } from '../../test/support/vectors.ts';
import type { CheckRequest } from '../types/request.ts';
import { explainExpression } from './explain.ts';
import { loadParser } from './expression.ts';

const noRequest: CheckRequest = {
  method: 'POST',
  target: '/webhook/dev/public/t',
  rawHeaders: [],
  arrivedAtMs: 1_700_000_000_000,
  body: Buffer.from('{}'),
};
const secret = 'a key of 20 letters!';
const explain = (text: string, headers: Record<string, string>, body = '{}') =>
  explainExpression(
    text,
    { secrets: new Map([['s', secret]]), publicUrl: null },
    {
      ...noRequest,
      rawHeaders: Object.entries(headers)
        .flat()
        .map((text) => Buffer.from(text).toString('latin1')),
      body: Buffer.from(body),
    },
  );
const valuesOf = ({ steps }: ReturnType<typeof explain>) =>
  Object.fromEntries(steps.map(({ expression, value }) => [expression, value]));

before(loadParser);

suite('EXPLAIN VALIDATE shows the steps of a check', () => {
  test('EXPLAIN VALIDATE of every test vector ends with the verdict and shows no secret', () => {
    for (const vector of vectors) {
      const values = { secrets: new Map([['s', vector.secret]]), publicUrl: publicUrlOf(vector) };
      const request = requestOf(vector);
      const good = explainExpression(vector.expression, values, request);
      assert(good.accepted, `${vector.id}: ${good.reason}`);
      assert.equal(good.steps.at(-1)?.value, 'true', vector.id);
      // A secret of two letters stands in names of headers by chance.
      const isTelling = vector.secret.length >= 8;
      assert(
        !isTelling || !JSON.stringify(good).includes(JSON.stringify(vector.secret).slice(1, -1)),
        vector.id,
      );

      // Without what the sender computed, nothing that is shown would help to compute it.
      const bare = {
        ...request,
        rawHeaders: request.rawHeaders.map((text, i) => (i % 2 === 0 ? text : '0')),
      };
      const refused = explainExpression(vector.expression, values, bare);
      // The one whose signature stands in the body.
      if (refused.accepted) continue;
      assert(refused.reason.length > 0);
      const shown = JSON.stringify(refused);
      for (const [at, value] of request.rawHeaders.entries()) {
        const told =
          at % 2 === 0 || value.length < 16 || (vector.expression + request.body.toString()).includes(value);
        assert(told || !shown.includes(value), `${vector.id}: ${value}`);
      }
    }
  });

  test('EXPLAIN VALIDATE names a missing header only if the check fails because of it', () => {
    const text = `secure_compare(headers->>'sig', encode(hmac(s, convert_to(coalesce(headers->>'optional', '') || (headers->>'at'), 'UTF8'), 'sha256'), 'hex'))`;
    assert.equal(explain(text, { sig: 'x' }).reason, "header 'at' is missing");
    assert.equal(explain(text, {}).reason, "header 'sig' is missing, and header 'at' is missing");
  });

  test('EXPLAIN VALIDATE masks a secret in the values of a request, in clear and inside other text', () => {
    const explained = explain(`secure_compare(headers->>'authorization', 'Bearer ' || s)`, {
      Authorization: `Bearer ${secret}`,
    });
    assert(explained.accepted);
    assert.equal(valuesOf(explained)[`headers->>'authorization'`], `'********'`);
    const basic = explain(
      `secure_compare(split_part(convert_from(decode(headers->>'a', 'base64'), 'UTF8'), ':', 2), s)`,
      { a: Buffer.from(`user:${secret}`).toString('base64') },
      JSON.stringify({ secret }),
    );
    assert(basic.accepted);
    assert(!JSON.stringify(basic).includes(secret));
    assert(!JSON.stringify(basic.steps).includes(Buffer.from(secret).toString('hex')));
  });

  test('EXPLAIN VALIDATE masks lengths, parts and casts of a secret, and shows comparisons and NULL', () => {
    const explained = explain(
      `length(s) > 10 AND left(s, 2) <> 'zz' AND nullif(s, 'x') IS NOT NULL AND secure_compare(headers->>'h', s)`,
      {},
    );
    assert.deepEqual(valuesOf(explained), {
      s: '********',
      'length(s)': '********',
      'length(s) > 10': 'true',
      'left(s, 2)': '********',
      "left(s, 2) <> '********'": 'true',
      "nullif(s, 'x')": '********',
      "nullif(s, 'x') IS NOT NULL": 'true',
      "headers->>'h'": 'NULL',
      "secure_compare(headers->>'h', s)": 'NULL',
      [explained.steps.at(-1)?.expression ?? '']: 'NULL',
    });
    assert.equal(explained.reason, "header 'h' is missing");
  });

  test('EXPLAIN VALIDATE marks untaken branches and does not evaluate them', () => {
    const text = `CASE WHEN headers->>'v' = '1' THEN secure_compare(headers->>'a', s) ELSE secure_compare(headers->>'b', md5(s)) END`;
    const values = valuesOf(explain(text, { v: '1', a: 'no' }));
    assert.equal(values["secure_compare(headers->>'b', md5(s))"], 'not evaluated');
    assert.equal(values["headers->>'b'"], undefined);
    assert.match(explain(text, { v: '1', a: 'no' }).reason, /^the key differs: header 'a' is not s$/);
    assert.match(explain(text, { v: '2' }).reason, /^header 'b' is missing$/);
    const either = `secure_compare(headers->>'a', s) OR secure_compare(headers->>'b', s)`;
    assert.equal(
      explain(either, { a: 'no' }).reason,
      "the key differs: header 'a' is not s; and header 'b' is missing",
    );
  });

  test('EXPLAIN VALIDATE says where an error is, and shows invalid text as bytes and control characters escaped', () => {
    const text = `secure_compare(convert_from(decode(headers->>'a', 'base64'), 'UTF8'), s)`;
    assert.match(explain(text, { a: '*' }).reason, /^decode\(headers->>'a', 'base64'\) raised 22023: /);
    assert.match(explain(text, { a: '/w==' }).reason, /^convert_from\(.* raised 22021: /);
    assert.equal(valuesOf(explain(text, { a: 'a\tb' }))["headers->>'a'"], `E'a\\tb'`);
    assert.match(explain(`secure_compare(headers->>'X-A', s)`, {}).reason, /write 'x-a'$/);
    const long = explain(`secure_compare(headers->>'a', s)`, { a: '😀'.repeat(limits.explainTextCharsMax) });
    const value = long.steps[0]?.value ?? '';
    assert(
      value.length < limits.explainTextCharsMax + 50 && !/[\ud800-\udbff](?![\udc00-\udfff])/.test(value),
    );
  });

  test('EXPLAIN VALIDATE bounds the output for a small text with a large tree', () => {
    let nested = `headers->>'a'`;
    for (let i = 0; i < 20; i++) nested = `CASE ${nested} WHEN '1' THEN '2' WHEN '3' THEN '4' ELSE '5' END`;
    const explained = explain(`secure_compare(${nested}, s)`, { a: '1' });
    assert(explained.steps.length < 200);
    const many = Array.from({ length: 600 }, (_, i) => `headers->>'h${i}' = s`).join(' OR ');
    const { steps } = explain(many, { h0: 'x' });
    assert(steps.length <= limits.explainStepsMax + 1);
    assert.match(steps.at(-1)?.expression ?? '', /^… \d+ more steps$/);
  });
});
