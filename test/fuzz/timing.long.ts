/**
 * Does the time of a refusal tell how close a guess was? 200,000 evaluations of compiled checks, their kinds in random
 * order: the first byte wrong, the last byte wrong, every byte wrong, the length wrong. Welch's t must stay below 4.5
 * (the bound of dudect, https://eprint.iacr.org/2016/1123). As there, the slowest measurements are cropped, at several
 * shares, because they are the machine's doing and not the code's.
 *
 * How long a text the sender sends shows in the time, and the sender knows it anyway. What must not show is whether
 * that length is the right one. So the same two texts go to two checks, one of which expects the first length and one
 * the second: the time that being right adds is the difference of the differences, and its t is held to the same bound.
 */
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { before, test } from 'node:test';
import type { Check, CheckRequest } from '../../src/flow.ts';
import { loadParser, parseExpression } from '../../src/validate/expression.ts';
import { seededRandom } from '../support/random.ts';

const evaluations = 200_000;
const warmUps = 20_000;
const tMax = 4.5;
/** A leak is there every time; what other programs do on this machine is not. */
const attemptsMax = 3;
const closures = 64;
/** Shares of the measurements of each kind that are kept: the fastest ones. */
const shares = [1, 0.99, 0.95, 0.9, 0.75, 0.5];

const secret = "It's a Secret to Everybody";
const body = Buffer.from('{"zen": "Keep it logically awesome."}'.padEnd(200));
const token = 'k3y-0123456789abcdef0123456789abcdef';
const digest = createHmac('sha256', secret).update(body).digest('hex');

/** `plus` and `minus` are kinds by index: the sum of the means of the ones less that of the others is to be 0. */
interface Contrast {
  readonly name: string;
  readonly plus: readonly number[];
  readonly minus: readonly number[];
}

const contrastsOfPlace: readonly Contrast[] = [
  { name: 'first byte wrong, last byte wrong', plus: [0], minus: [1] },
  { name: 'first byte wrong, every byte wrong', plus: [0], minus: [2] },
  { name: 'last byte wrong, every byte wrong', plus: [1], minus: [2] },
];
const contrasts: readonly Contrast[] = [
  ...contrastsOfPlace,
  { name: 'length right, length wrong', plus: [2, 4], minus: [3, 5] },
];

/** Each with what it expects, and beside it one that expects a byte less. */
const subjects = [
  {
    name: 'an HMAC in hexadecimal, the GitHub expression',
    // Everybody knows how long such a signature is; only what is in it is secret.
    contrasts: contrastsOfPlace,
    long: {
      check: compiled(`secure_compare(headers->>'x-signature', 'sha256=' || ${hmac()})`),
      right: `sha256=${digest}`,
    },
    short: {
      check: compiled(`secure_compare(headers->>'x-signature', 'sha256' || ${hmac()})`),
      right: `sha256${digest}`,
    },
  },
  {
    name: 'a shared token',
    contrasts,
    long: { check: compiled(`secure_compare(headers->>'x-signature', s)`, token), right: token },
    short: {
      check: compiled(`secure_compare(headers->>'x-signature', s)`, token.slice(1)),
      right: token.slice(1),
    },
  },
  {
    name: 'a shared token, compared with =',
    contrasts,
    long: { check: compiled(`headers->>'x-signature' = s`, token), right: token },
    short: { check: compiled(`headers->>'x-signature' = s`, token.slice(1)), right: token.slice(1) },
  },
];

function hmac(): string {
  return `encode(hmac(s, data, 'sha256'), 'hex')`;
}

function compiled(text: string, value = secret): () => Check {
  return () =>
    parseExpression(text, { secrets: ['s'] }).compile({ secrets: new Map([['s', value]]), publicUrl: null });
}

const other = (char: string): string => (char === '0' ? '1' : '0');
const firstWrong = (right: string): string => other(right.charAt(0)) + right.slice(1);
const lastWrong = (right: string): string => right.slice(0, -1) + other(right.slice(-1));
const allWrong = (right: string): string => Array.from(right, other).join('');

/** One kind of evaluation, and the times it took, in ns. */
interface Kind {
  readonly checks: readonly Check[];
  readonly signature: string;
  readonly times: number[];
}

before(loadParser);

for (const { name, long, short, contrasts } of subjects) {
  test(`${name}: time does not tell how close a guess was`, (t) => {
    assert(long.check()(requestOf(long.right)) && short.check()(requestOf(short.right)));
    const make = (): readonly Kind[] => {
      // Many of each, as where one closure lies in memory would otherwise be measured with what it expects.
      const a = Array.from({ length: closures }, () => long.check());
      const b = Array.from({ length: closures }, () => short.check());
      return [
        kind(a, firstWrong(long.right)),
        kind(a, lastWrong(long.right)),
        kind(a, allWrong(long.right)),
        kind(a, allWrong(short.right)),
        kind(b, allWrong(short.right)),
        kind(b, allWrong(long.right)),
      ];
    };
    const { seed, random } = seededRandom();
    let worst = { name: '', t: Infinity };
    for (let attempt = 1; attempt <= attemptsMax && worst.t >= tMax; attempt++) {
      const kinds = make();
      measure(kinds, random);
      worst = worstOf(kinds, contrasts);
      t.diagnostic(`seed ${seed}, attempt ${attempt}: |t| at most ${worst.t.toFixed(2)} (${worst.name})`);
    }
    assert(worst.t < tMax, `${worst.name}: |t| = ${worst.t.toFixed(2)}, seed ${seed}`);
  });
}

/** Stops at the first difference, as `===` may; a turn is long enough to be seen by this clock. */
const naive =
  (right: string): Check =>
  ({ rawHeaders }) => {
    const given = rawHeaders[1] ?? '';
    if (given.length !== right.length) return false;
    for (let i = 0; i < right.length; i++) if (given.charCodeAt(i) !== right.charCodeAt(i)) return false;
    return true;
  };

test('the same measurement finds a comparison that stops at the first difference', (t) => {
  const { seed, random } = seededRandom();
  const [a, b] = [naive(token), naive(token.slice(1))];
  for (const contrast of contrasts) {
    const kinds = [firstWrong(token), lastWrong(token), allWrong(token), lastWrong(token.slice(1))].map(
      (text) => kind([a], text),
    );
    kinds.push(kind([b], lastWrong(token.slice(1))), kind([b], lastWrong(token)));
    measure(kinds, random);
    // The first and every byte wrong are the same to it: it looks at no more than one.
    if (contrast.name === 'first byte wrong, every byte wrong') continue;
    const found = worstOf(kinds, [contrast]);
    t.diagnostic(`seed ${seed}: |t| = ${found.t.toFixed(1)} (${found.name})`);
    assert(found.t > tMax, `${found.name}: |t| = ${found.t.toFixed(2)}, seed ${seed}`);
  }
});

function kind(checks: readonly Check[], signature: string): Kind {
  return { checks, signature, times: [] };
}

function requestOf(signature: string): CheckRequest {
  // Flat, as node:http makes header values: a cut or joined text is kept in other forms, which take longer.
  const value = Buffer.from(signature, 'latin1').toString('latin1');
  return {
    method: 'POST',
    target: '/webhook/dev/public/t',
    rawHeaders: ['X-Signature', value],
    arrivedAtMs: 1_700_000_000_000,
    body,
  };
}

/** The kinds take turns at random, so that all meet the same machine. */
function measure(kinds: readonly Kind[], random: () => number): void {
  let accepted = 0;
  for (let i = -warmUps; i < evaluations; i++) {
    const chosen = kinds[Math.floor(random() * kinds.length)];
    assert(chosen !== undefined);
    const { checks, signature, times } = chosen;
    const check = checks[Math.floor(random() * checks.length)];
    assert(check !== undefined);
    // New for each evaluation: where one request lies in memory would otherwise be measured with its kind.
    const request = requestOf(signature);
    const start = process.hrtime.bigint();
    if (check(request)) accepted++;
    const took = Number(process.hrtime.bigint() - start);
    if (i >= 0) times.push(took);
  }
  assert.equal(accepted, 0);
}

function worstOf(kinds: readonly Kind[], wanted: readonly Contrast[]): { name: string; t: number } {
  const sorted = kinds.map(({ times }) => times.toSorted((a, b) => a - b));
  let worst = { name: '', t: 0 };
  for (const share of shares) {
    const kept = sorted.map((times) => moments(times.slice(0, Math.ceil(times.length * share))));
    for (const contrast of wanted) {
      const t = Math.abs(welch(kept, contrast));
      if (t > worst.t) worst = { name: `${contrast.name}; ${share * 100} % kept`, t };
    }
  }
  return worst;
}

interface Moments {
  readonly mean: number;
  /** The variance of the mean. */
  readonly spread: number;
}

/** A difference of means in units of its own uncertainty. */
function welch(all: readonly Moments[], { plus, minus }: Contrast): number {
  let [difference, spread] = [0, 0];
  for (const [sign, indexes] of [
    [1, plus],
    [-1, minus],
  ] as const) {
    for (const index of indexes) {
      difference += sign * (all[index]?.mean ?? NaN);
      spread += all[index]?.spread ?? NaN;
    }
  }
  return spread === 0 ? 0 : difference / Math.sqrt(spread);
}

function moments(list: readonly number[]): Moments {
  const mean = list.reduce((sum, value) => sum + value, 0) / list.length;
  const variance = list.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (list.length - 1);
  return { mean, spread: variance / list.length };
}
