/**
 * Whether the time of a refusal tells how much of a signature was right: 200,000 interleaved checks of one closure
 * whose header is wrong in the first character or in the last; Welch's t stays below 4.5. Another length of what is
 * expected needs another closure, and where closures lie in memory alone moves the mean by a few per cent: there the
 * means may differ by no more than that.
 */
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { test } from 'node:test';
import { type Check, type CheckRequest } from '../../src/flow.ts';
import { loadParser, parseExpression } from '../../src/validate/expression.ts';

const rounds = 200_000;
/** The larger half is what the machine did beside us: a cut at one quantile of all classes together. */
const keptShare = 0.9;

function welch(a: readonly number[], b: readonly number[]): number {
  const moments = (values: readonly number[]): { mean: number; error: number } => {
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
    const squares = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
    return { mean, error: squares / (values.length - 1) / values.length };
  };
  const [left, right] = [moments(a), moments(b)];
  return (left.mean - right.mean) / Math.sqrt(left.error + right.error);
}

/** Deterministic and fast; which class comes next must not be guessable by the branch predictor. */
function* shuffled(seed: number, classes: number): Generator<number> {
  let state = seed;
  for (;;) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    yield (state >>> 16) % classes;
  }
}

interface Attempt {
  readonly check: Check;
  readonly value: string;
}

const copies = 512;

/** The times of each attempt, in ns, tried in random order. */
function measured(attempts: readonly Attempt[], seed: number): readonly (readonly number[])[] {
  // Many copies, mixed: where a string happens to lie in memory is no property of its content.
  const trials = Array.from({ length: copies }, () =>
    attempts.map(({ check, value }, which) => ({ which, check, request: requestWith(value) })),
  ).flat();
  const times: number[][] = attempts.map(() => []);
  const next = shuffled(seed, trials.length);
  for (let round = 0; round < rounds; round++) {
    const trial = trials[next.next().value as number];
    assert.ok(trial);
    const { which, check, request } = trial;
    const start = process.hrtime.bigint();
    const accepted = check(request);
    times[which]?.push(Number(process.hrtime.bigint() - start));
    assert.equal(accepted, false);
  }
  const all = times.flat().sort((a, b) => a - b);
  const cut = all[Math.floor(all.length * keptShare)] ?? Infinity;
  return times.map((values) => values.filter((value) => value <= cut));
}

const body = Buffer.from('{"zen":"Keep it logically awesome."}');
const secret = 'a-secret-token-of-some-length';

/** node:http hands out flat strings; a concatenation would be flattened while the first check reads it. */
function flat(text: string): string {
  return Buffer.from(text, 'latin1').toString('latin1');
}

function requestWith(value: string): CheckRequest {
  return { method: 'POST', target: '/', rawHeaders: ['X', flat(value)], arrivedAtMs: 0, body };
}

function compiled(text: string, key: string): Check {
  return parseExpression(text, { secrets: ['s'] }).compile({
    secrets: new Map([['s', key]]),
    publicUrl: null,
  });
}

const cases = [
  { name: 'secure_compare with a token', text: "secure_compare(headers->>'x', s)", right: secret },
  { name: 'equality with a token', text: "headers->>'x' = s", right: secret },
  { name: 'a token in a list', text: "s = ANY (string_to_array(headers->>'x', ','))", right: secret },
  {
    name: 'equality with an HMAC',
    text: "headers->>'x' = encode(hmac(s, data, 'sha256'), 'hex')",
    right: createHmac('sha256', secret).update(body).digest('hex'),
  },
] as const;

await loadParser();

/** A busy machine may disturb one run; a leak shows in every one. The first run warms up. */
function smallest(measure: (seed: number) => number): number {
  measure(1);
  return Math.min(...[2, 3, 4, 5, 6].map(measure));
}

for (const { name, text, right } of cases) {
  test(`${name}: the place of the difference does not show`, () => {
    const other = (at: number): string => (right[at] === 'a' ? 'b' : 'a');
    const check = compiled(text, secret);
    const values = [other(0) + right.slice(1), right.slice(0, -1) + other(right.length - 1)];
    const attempts = values.map((value) => ({ check, value }));
    const t = smallest((seed) => {
      const [first = [], last = []] = measured(attempts, seed);
      return Math.abs(welch(first, last));
    });
    assert.ok(t < 4.5, `Welch's t: ${t}`);
  });
}

test('the length of a secret does not show', () => {
  const text = "secure_compare(headers->>'x', s)";
  const attempts = [secret, `${secret}x`, secret.slice(0, 5), secret.repeat(4)].map((key) => ({
    check: compiled(text, key),
    value: `b${secret.slice(1)}`,
  }));
  const spread = smallest((seed) => {
    const means = measured(attempts, seed).map(
      (values) => values.reduce((sum, value) => sum + value, 0) / values.length,
    );
    return Math.max(...means) / Math.min(...means) - 1;
  });
  assert.ok(spread < 0.1, `the means differ by ${spread * 100} %`);
});
