import assert from 'node:assert/strict';
import { test } from 'node:test';
import { holdsTable } from '../../test/support/state-table.ts';
import { limits } from '../config/limits.ts';
import { Conditions } from './conditions.ts';
import type { AlertCondition } from './conditions.ts';
import { Growth } from './alerts.ts';
import type { AlertRule } from './rules.ts';

const rule: AlertRule = { name: 'HeadgateX', severity: 'warning', holdMs: 100, wrong: () => [] };

/** One condition, on a clock that is moved by hand. */
class Bench {
  readonly #conditions = new Conditions();
  #nowMs = 0;
  #toTell: readonly AlertCondition[] = [];

  look(isSo: boolean, laterMs: number): this {
    this.#nowMs += laterMs;
    const wrong = isSo ? [{ labels: { table: 't' }, says: 'x' }] : [];
    this.#toTell = this.#conditions.step([{ rule, wrong }], this.#nowMs);
    return this;
  }

  tell(): this {
    this.#conditions.told(this.#toTell);
    return this;
  }

  /** What there is to tell now, and then, once that was told, in a long while without it. */
  get said(): string {
    const of = (conditions: readonly AlertCondition[]) => conditions.map(({ state }) => state).join() || '–';
    const now = of(this.#toTell);
    this.tell().look(false, 1);
    const then = of(this.look(false, limits.alertClearMs).#toTell);
    return `${now}, then ${then}`;
  }
}

test('an alert condition reports as its state table says', async () => {
  const pending = () => new Bench().look(true, 1);
  const firing = () => pending().look(true, 100);
  const told = () => firing().tell();
  const long = limits.alertClearMs;
  await holdsTable(
    {
      none: {
        seen: '–, then –',
        'seen for long': 'firing, then over',
        gone: '–, then –',
        'gone for long': '–, then –',
      },
      pending: {
        seen: '–, then –',
        'seen for long': 'firing, then over',
        gone: '–, then –',
        'gone for long': '–, then –',
      },
      'firing, not told': {
        seen: 'firing, then over',
        'seen for long': 'firing, then over',
        gone: 'clearing, then over',
        'gone for long': '–, then –',
      },
      'firing, told': {
        seen: '–, then over',
        'seen for long': '–, then over',
        gone: '–, then over',
        'gone for long': 'over, then –',
      },
      'clearing, told': {
        seen: '–, then over',
        'seen for long': '–, then over',
        gone: '–, then over',
        'gone for long': 'over, then –',
      },
      'over, not told': {
        seen: '–, then over',
        'seen for long': '–, then over',
        gone: 'over, then –',
        'gone for long': 'over, then –',
      },
      'over, told': {
        seen: '–, then –',
        'seen for long': 'firing, then over',
        gone: '–, then –',
        'gone for long': '–, then –',
      },
    },
    {
      none: () => new Bench(),
      pending,
      'firing, not told': firing,
      'firing, told': told,
      'clearing, told': () => told().look(false, 1),
      'over, not told': () => told().look(false, 1).look(false, long),
      'over, told': () => told().look(false, 1).look(false, long).tell(),
    },
    {
      seen: (bench) => bench.look(true, 1).said,
      'seen for long': (bench) => bench.look(true, 1).look(true, 100).said,
      gone: (bench) => bench.look(false, 1).said,
      'gone for long': (bench) => bench.look(false, 1).look(false, long).said,
    },
  );
});

test('the growth of a counter in an alert is that of its window, survives a reset to zero, and is bounded in names', () => {
  const growth = new Growth();
  const grown = (value: number, nowMs: number) => growth.grown('a', value, 1_000, nowMs);
  assert.equal(grown(0, 0), 0);
  assert.equal(grown(5, 100), 5, 'seen for the first time');
  assert.equal(grown(8, 600), 8);
  assert.equal(grown(8, 1_150), 3, 'the first five are older');
  assert.equal(grown(8, 1_700), 0);
  assert.equal(grown(2, 1_800), 2, 'begun anew');
  // However often it is looked, an even growth is that of a window, but for a part of 64.
  for (let i = 0; i < 100_000; i++) {
    const by = grown(2 + i, 2_000 + i);
    if (i > 2_000) assert.ok(by >= 1_000 * (1 - 2 / 64) && by <= 1_000 * (1 + 2 / 64), `${i}: ${by}`);
  }
  for (let i = 0; i < limits.alertCountsMax; i++) growth.grown(`b${i}`, 1, 1_000, 0);
  assert.equal(growth.grown('one more', 1, 1_000, 0), 0);
});
