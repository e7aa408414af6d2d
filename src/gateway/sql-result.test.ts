import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { limits } from '../limits.ts';
import { Budget } from './budget.ts';
import { SqlResult } from './sql-result.ts';

const text = { name: 'a', dataTypeID: 25 };
const number = { name: 'n', dataTypeID: 23 };

function made(budget = new Budget(limits.gatewayResultsBytesMax)) {
  return { budget, result: new SqlResult(() => undefined, budget) };
}

function bodyOf(result: SqlResult): { rows: unknown } {
  const pieces = [...result.body()].map((piece) => (typeof piece === 'string' ? Buffer.from(piece) : piece));
  return JSON.parse(Buffer.concat(pieces).toString()) as { rows: unknown };
}

suite('large values', () => {
  // Characters of one to four bytes, escapes, and pairs that lie across the ends of slices.
  const values = ['plain ', '"\\\n\u0001', 'é', '😀', 'x😀'].map((unit) =>
    unit.repeat((3 * 1024 * 1024) / unit.length),
  );

  test('are what they were', async () => {
    const { budget, result } = made();
    result.describe([number, text, text]);
    for (const value of values) assert(result.row(['1', value, 'short']));
    assert(result.row(['2', null, 'last']));
    result.complete('SELECT 6');
    assert.equal(await result.settleLarge(), true);
    const rows = [...values.map((a) => ({ n: 1, a, a_2: 'short' })), { n: 2, a: null, a_2: 'last' }];
    assert.deepEqual(bodyOf(result).rows, rows);
    const bytes = Buffer.concat([...result.body()].map((piece) => Buffer.from(piece))).length;
    assert(Math.abs(result.bytes - bytes) < 1_000, `${result.bytes} are held, ${bytes} sent`);
    result.release();
    assert(budget.take(limits.gatewayResultsBytesMax), 'everything was given back');
  });

  test('are text, whoever forgets to settle them', () => {
    const { result } = made();
    result.describe([text]);
    assert(result.row([values[1] ?? '']));
    result.complete('SELECT 1');
    assert.deepEqual(bodyOf(result).rows, [{ a: values[1] }]);
  });

  test('are refused when their escapes make them too large', async () => {
    const { result } = made();
    result.describe([text]);
    assert(result.row(['\u0001'.repeat(limits.gatewayResultBytesMax / 4)]));
    result.complete('SELECT 1');
    assert.equal(await result.settleLarge(), false);
    const other = made(new Budget(5 * 1024 * 1024));
    other.result.describe([text]);
    assert(other.result.row(['"'.repeat(3 * 1024 * 1024)]));
    assert.equal(await other.result.settleLarge(), false);
    other.result.release();
    assert(other.budget.take(5 * 1024 * 1024));
  });
});
