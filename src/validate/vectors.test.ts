import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type RequestCheck, type CheckRequest } from '../types/request.ts';
import { type Vector, publicUrlOf, requestOf, vectors } from '../../test/support/vectors.ts';
import { compileCheck } from './compile.ts';
import { type Expression, loadParser, parseExpression } from './expression.ts';

await loadParser();

function checkOf(expression: Expression, vector: Vector, secret: string): RequestCheck {
  return compileCheck(expression, { secrets: new Map([['s', secret]]), publicUrl: publicUrlOf(vector) });
}

/** Other than the given text in its last character that counts. */
function changed(text: string): string {
  return text.startsWith('{')
    ? text.replaceAll(/":\s*"(.)/g, (whole) => `${whole.slice(0, -1)}x`)
    : `${text.slice(0, -3)}xyz`;
}

for (const vector of vectors) {
  test(`the signed test vector ${vector.id} is accepted, and refused after any change`, () => {
    const expression = parseExpression(vector.expression, { secrets: ['s'] });
    const request = requestOf(vector);
    const check = checkOf(expression, vector, vector.secret);
    assert.equal(check(request), true);
    assert.equal(checkOf(expression, vector, changed(vector.secret))(request), false, 'wrong secret');
    if (expression.payloadName !== null) {
      const longer: CheckRequest = { ...request, body: Buffer.concat([request.body, Buffer.from('x')]) };
      assert.equal(check(longer), false, 'changed body');
    }
    for (const name of expression.headersRead) refusesWithout(check, request, name);
    assert.equal(check(request), true, 'and still accepted');
  });
}

function refusesWithout(check: RequestCheck, request: CheckRequest, name: string): void {
  const at = request.rawHeaders.findIndex((part, i) => i % 2 === 0 && part.toLowerCase() === name);
  const value = request.rawHeaders[at + 1] ?? '';
  const withValue = (...parts: string[]): CheckRequest => ({
    ...request,
    rawHeaders: [...request.rawHeaders.slice(0, at), ...parts, ...request.rawHeaders.slice(at + 2)],
  });
  assert.equal(check(withValue()), false, `${name} missing`);
  assert.equal(check(withValue(name, '')), false, `${name} empty`);
  assert.equal(check(withValue(name, value, name, value)), false, `${name} doubled`);
  // In a list of signatures the first one stays whole.
  const isList = value.split(/h1=|v1[=,]/).length > 2;
  if (!isList) assert.equal(check(withValue(name, value.slice(0, -1))), false, `${name} truncated`);
  if (value.length > 3)
    assert.equal(check(withValue(name, value.slice(0, 3))), false, `${name}: its prefix only`);
  assert.equal(check(withValue(name, `\xff${value}`)), false, `${name} with a byte that is no UTF-8`);
}
