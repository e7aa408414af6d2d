import assert from 'node:assert/strict';
import { randomBytes, randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { createSealing } from '../secrets/sealing.ts';
import { openCheck, sealCheck } from './seals.ts';

const deps = createSealing(randomBytes(32));
const check = { expression: `f(s, 'key')`, shown: `f(s, '********')`, payload: 'data', secrets: ['s'] };
const sealId = randomUUID();
const row = {
  payload: 'data',
  expression: check.shown,
  sealed_expression: sealCheck(check, sealId, deps),
  seal_id: sealId,
  secrets: [{ alias: 's' }],
};

test('a check is opened from its sealed form only, and altered columns beside it are refused', () => {
  assert.equal(openCheck(row, deps), check.expression);
  const open = { ...check, shown: check.expression, payload: null };
  const plain = { ...row, expression: check.expression, sealed_expression: sealCheck(open, sealId, deps) };
  assert.equal(openCheck({ ...plain, payload: 'other' }, deps), check.expression);
  for (const lie of [
    { expression: `substr(s, 1, 1) = headers->>'x'` },
    { payload: 'other' },
    { secrets: [{ alias: 's' }, { alias: 'rootsec' }] },
    { secrets: [{ alias: 'rootsec' }] },
    { secrets: [] },
    { sealed_expression: null, seal_id: null },
    { sealed_expression: deps.seal(JSON.stringify(check), `secret:s:${sealId}`) },
    { seal_id: randomUUID() },
  ])
    assert.throws(() => openCheck({ ...row, ...lie }, deps), Error, JSON.stringify(lie));
});
