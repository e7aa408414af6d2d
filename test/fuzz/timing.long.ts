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
import type { RequestCheck, CheckRequest } from '../../src/types/request.ts';
import { compileCheck } from '../../src/validate/compile.ts';
import { loadParser, parseExpression } from '../../src/validate/expression.ts';
import { seededRandom } from '../support/random.ts';

const evaluations = 200_000;
const warmUps = 50_000;
const tMax = 4.5;
/** A leak is there every time; what other programs do on this machine is not. */
const attemptsMax = 3;
/** Shares of the measurements of each kind that are kept: the fastest ones. */
const shares = [1, 0.99, 0.95, 0.9];
/** Copies of each text, and of each check: where one lies in memory shows in the time, and is no property of it. */
const copies = 512;
const checkCopies = 32;

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

const places: readonly Contrast[] = [
  { name: 'first byte wrong, last byte wrong', plus: [0], minus: [1] },
  { name: 'first byte wrong, every byte wrong', plus: [0], minus: [2] },
  { name: 'last byte wrong, every byte wrong', plus: [1], minus: [2] },
];
const placesAndLength: readonly Contrast[] = [
  ...places,
  { name: 'length right, length wrong', plus: [2, 4], minus: [3, 5] },
];

/** Each with what it expects, and beside it one that expects a byte less. */
const subjects = [
  {
    name: 'an HMAC in hexadecimal, the GitHub expression',
    // Everybody knows how long such a signature is; what it consists of is the secret.
    contrasts: places,
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
    contrasts: placesAndLength,
    long: { check: compiled(`secure_compare(headers->>'x-signature', s)`, token), right: token },
    short: {
      check: compiled(`secure_compare(headers->>'x-signature', s)`, token.slice(1)),
      right: token.slice(1),
    },
  },
  {
    name: 'a shared token, compared with =',
    contrasts: placesAndLength,
    long: { check: compiled(`headers->>'x-signature' = s`, token), right: token },
    short: { check: compiled(`headers->>'x-signature' = s`, token.slice(1)), right: token.slice(1) },
  },
  {
    name: 'a shared token in a list',
    contrasts: placesAndLength,
    long: { check: compiled(`s = ANY (string_to_array(headers->>'x-signature', ','))`, token), right: token },
    short: {
      check: compiled(`s = ANY (string_to_array(headers->>'x-signature', ','))`, token.slice(1)),
      right: token.slice(1),
    },
  },
];

function hmac(): string {
  return `encode(hmac(s, data, 'sha256'), 'hex')`;
}

function compiled(text: string, value = secret): () => RequestCheck {
  return () =>
    compileCheck(parseExpression(text, { secrets: ['s'] }), {
      secrets: new Map([['s', value]]),
      publicUrl: null,
    });
}

const other = (char: string): string => (char === '0' ? '1' : '0');
const firstWrong = (right: string): string => other(right.charAt(0)) + right.slice(1);
const lastWrong = (right: string): string => right.slice(0, -1) + other(right.slice(-1));
const allWrong = (right: string): string => Array.from(right, other).join('');

/** One evaluation, and the times that those of its kind took, in ns. */
interface Trial {
  readonly check: RequestCheck;
  readonly request: CheckRequest;
  readonly times: number[];
}

before(loadParser);

for (const { name, contrasts, long, short } of subjects) {
  test(`the time to check ${name} does not depend on how close a guess is`, (t) => {
    const { seed, random } = seededRandom();
    const copiesOf = (make: () => RequestCheck) => Array.from({ length: checkCopies }, make);
    const [a, b] = [copiesOf(long.check), copiesOf(short.check)];
    assert(a.every((check) => check(requestOf(long.right))));
    assert(b.every((check) => check(requestOf(short.right))));
    const kinds: readonly KindOf[] = [
      [a, firstWrong(long.right)],
      [a, lastWrong(long.right)],
      [a, allWrong(long.right)],
      [a, allWrong(short.right)],
      [b, allWrong(short.right)],
      [b, allWrong(long.right)],
    ];
    let worst = { name: '', t: Infinity };
    for (let attempt = 1; attempt <= attemptsMax && worst.t >= tMax; attempt++) {
      worst = worstOf(measured(kinds, random), contrasts);
      t.diagnostic(`seed ${seed}, attempt ${attempt}: |t| at most ${worst.t.toFixed(2)} (${worst.name})`);
    }
    assert(worst.t < tMax, `${worst.name}: |t| = ${worst.t.toFixed(2)}, seed ${seed}`);
  });
}

/** Stops at the first difference, as `===` may; a turn is long enough to be seen by this clock. */
const naive =
  (right: string): RequestCheck =>
  ({ rawHeaders }) => {
    const given = rawHeaders[1] ?? '';
    if (given.length !== right.length) return false;
    for (let i = 0; i < right.length; i++) if (given.charCodeAt(i) !== right.charCodeAt(i)) return false;
    return true;
  };

test('the timing measurement detects a comparison that stops at the first difference', (t) => {
  const { seed, random } = seededRandom();
  const [a, b] = [[naive(token)], [naive(token.slice(1))]];
  const kinds: readonly KindOf[] = [
    [a, firstWrong(token)],
    [a, lastWrong(token)],
    [a, allWrong(token)],
    [a, lastWrong(token.slice(1))],
    [b, lastWrong(token.slice(1))],
    [b, lastWrong(token)],
  ];
  const times = measured(kinds, random);
  for (const contrast of placesAndLength) {
    // The first and every byte wrong are the same to it: it looks at no more than one.
    if (contrast.name === 'first byte wrong, every byte wrong') continue;
    const found = worstOf(times, [contrast]);
    t.diagnostic(`seed ${seed}: |t| = ${found.t.toFixed(1)} (${found.name})`);
    assert(found.t > tMax, `${found.name}: |t| = ${found.t.toFixed(2)}, seed ${seed}`);
  }
});

type KindOf = readonly [checks: readonly RequestCheck[], signature: string];

/**
 * All kinds, `copies` of each, in one list in random order: the garbage collector lays out what it keeps in the order in
 * which it finds it, and what lies on one page has one and the same speed.
 */
function trialsOf(
  each: readonly KindOf[],
  times: readonly number[][],
  random: () => number,
): readonly Trial[] {
  return Array.from({ length: copies * each.length }, () => {
    const at = Math.floor(random() * each.length);
    const [checks, signature] = each[at] ?? [[], ''];
    return { check: anyOf(checks, random), request: requestOf(signature), times: times[at] ?? [] };
  });
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

/** The times of each kind. The kinds take turns at random, so that all meet the same machine. */
function measured(kinds: readonly KindOf[], random: () => number): readonly (readonly number[])[] {
  const all = kinds.map((): number[] => []);
  const trials = trialsOf(kinds, all, random);
  let accepted = 0;
  for (let i = -warmUps; i < evaluations; i++) {
    const { check, request, times } = anyOf(trials, random);
    const start = process.hrtime.bigint();
    if (check(request)) accepted++;
    const took = Number(process.hrtime.bigint() - start);
    if (i >= 0) times.push(took);
  }
  assert.equal(accepted, 0);
  return all;
}

function anyOf<T>(items: readonly T[], random: () => number): T {
  const item = items[Math.floor(random() * items.length)];
  assert(item !== undefined);
  return item;
}

function worstOf(
  times: readonly (readonly number[])[],
  wanted: readonly Contrast[],
): { name: string; t: number } {
  const sorted = times.map((list) => list.toSorted((a, b) => a - b));
  let worst = { name: '', t: 0 };
  for (const share of shares) {
    const kept = sorted.map((list) => moments(list, share));
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

/**
 * Of the fastest `share` of a sorted list. The cut moves with the list, which its variance has to know: it is that of the
 * list with everything behind the cut moved onto it (K. K. Yuen, Biometrika 61, 1974).
 */
function moments(sorted: readonly number[], share: number): Moments {
  const kept = sorted.slice(0, Math.ceil(sorted.length * share));
  const cut = kept.at(-1) ?? 0;
  const average = (list: readonly number[]) => list.reduce((sum, value) => sum + value, 0) / list.length;
  const moved = sorted.map((value) => Math.min(value, cut));
  const center = average(moved);
  const variance = moved.reduce((sum, value) => sum + (value - center) ** 2, 0) / (moved.length - 1);
  return { mean: average(kept), spread: variance / (share ** 2 * sorted.length) };
}
