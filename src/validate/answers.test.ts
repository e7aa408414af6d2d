import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { compileAnswers } from './answers.ts';
import { loadParser } from './expression.ts';

before(loadParser);

type Given = Parameters<typeof compileAnswers>;
const compile = (clauses: Given[0], guard: Given[1]) => compileAnswers(clauses, guard, null);
const signs = (key: string) =>
  `encode(hmac(${key}, convert_to(shaped(query->>'c', 'token', 99), 'UTF8'), 'sha256'), 'hex')`;
const clause = (body: string, values: Record<string, string>, when = "method = 'GET'") => ({
  place: 1,
  unchecked: true,
  when,
  status: null,
  type: null,
  headers: [],
  body,
  values: new Map(Object.entries(values)),
});
const guard = (
  expression: string,
  values: Record<string, string> = {},
  format: 'json' | 'form' = 'json',
) => ({ expression, format, secrets: new Map(Object.entries(values)) });
const check = "secure_compare(headers->>'x', encode(hmac(s, payload, 'sha256'), 'hex'))";

function problem(...args: [ReturnType<typeof clause>, ReturnType<typeof guard> | null]): string {
  const { answers, problems } = compile([args[0]], args[1]);
  assert.equal(answers.unchecked.length + problems.length, 1);
  return problems.join('');
}

test('an ANSWER may not show a key of VALIDATE under another name, and secrets are compared by value', () => {
  const used = guard(check, { s: 'value' }, 'form');
  assert.match(
    problem(clause(signs('t'), { t: 'value' }), used),
    /^ANSWER 1: the secret "t" is a key of VALIDATE/,
  );
  assert.equal(problem(clause(signs('t'), { t: 'another' }), used), '');
  // Two that are called the same may be in two schemas.
  assert.equal(problem(clause(signs('s'), { s: 'another' }), used), '');
  assert.match(problem(clause('t', { t: 'value' }), used), /cannot be shown/);
});

test('an ANSWER may not use a secret that is a literal key of VALIDATE, nor a literal that is its secret', () => {
  const literal = guard(check.replace('hmac(s', "hmac('the literal key'"));
  assert.match(problem(clause(signs('t'), { t: 'the literal key' }), literal), /for more than hmac/);
  assert.equal(problem(clause(signs('t'), { t: 'another' }), literal), '');
  const digest = "encode(sha256(convert_to('the value' || shaped(query->>'c', 'hex', 9), 'UTF8')), 'hex')";
  assert.match(problem(clause(digest, {}), guard(check, { s: 'the value' })), /a key of VALIDATE/);
  assert.equal(problem(clause(digest, {}), guard(check, { s: 'another' })), '');
  const token = "method = 'GET' AND secure_compare(query->>'v', t)";
  assert.match(problem(clause("'a'", { t: 'the literal key' }, token), literal), /cannot be a verify token/);
});

test('compiled ANSWER clauses tell those by POST, after VALIDATE and after the commit, beside an unusable one', () => {
  const post = { ...clause("'a'", {}, "method = 'POST' AND query->>'a' = 'b'"), unchecked: false };
  const get = clause("'a'", {});
  const committed = { ...get, unchecked: false, when: null, status: 204, body: null };
  assert.equal(compile([get, committed], guard(check, { s: 'v' })).answers.asksByPost, false);
  const all = compile([get, { ...get, body: 'nonsense(1)' }, post, committed], guard(check, { s: 'v' }));
  assert.deepEqual(
    [
      all.answers.unchecked.length,
      all.answers.checked.length,
      all.answers.asksByPost,
      all.answers.committed?.status,
    ],
    [1, 1, true, 204],
  );
  assert.equal(all.problems.length, 1);
  assert.deepEqual(compile([post], null).answers.checked, []);
});
