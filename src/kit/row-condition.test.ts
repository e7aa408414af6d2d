import assert from 'node:assert/strict';
import { test } from 'node:test';
import { rowConditionProblem } from './row-condition.ts';

test('a row condition of comparisons, literals and common functions is accepted', () => {
  for (const good of [
    'done_at IS NOT NULL',
    `"Done, at" is not null and (attempts > 3 or data->>'state' = 'sent')`,
    `run_after < now() - interval '7 days'`,
    `coalesce(done, false)`,
    `state in ('done', 'dead') and not (n between 1 and 2)`,
    `case when done then true else attempts >= 10 end`,
    `(data->>'n')::int = 1`,
    `data @> '{"a":1}'`,
  ])
    assert.equal(rowConditionProblem(good), null, good);
});

test('a row condition that could run code or hold more than a condition is refused', () => {
  for (const bad of [
    '',
    ' ',
    'true); drop table t; --',
    'true -- x',
    'true /* x */',
    'f(x)',
    '"f"(x)',
    'public.f',
    'pg_read_file (x)',
    '(select 1) = 1',
    'exists (select 1)',
    `'a' ~ 'b'`,
    'a operator(public.=) b',
    'cast(a as text) = b',
    '$1 = 1',
    `E'\\x' = a`,
    `'a\\' = b`,
    `$$x$$ = a`,
    'a = b)',
    '(a = b',
    'a; b',
    'a collate "x" = b',
    'x'.repeat(1_001),
  ])
    assert.notEqual(rowConditionProblem(bad), null, bad);
});
