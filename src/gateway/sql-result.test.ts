import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { limits } from '../config/limits.ts';
import { uniqueNames } from './row-text.ts';
import { ResultMemory, SqlResult } from './sql-result.ts';

const text = { name: 'a', dataTypeID: 25 };
const number = { name: 'n', dataTypeID: 23 };

function made(bytesMax?: number) {
  const memory = new ResultMemory(bytesMax);
  return { memory, budget: memory.all, result: new SqlResult(() => undefined, memory) };
}

function bodyOf(result: SqlResult): { rows: unknown } {
  const pieces = [...result.body()].map((piece) => (typeof piece === 'string' ? Buffer.from(piece) : piece));
  return JSON.parse(Buffer.concat(pieces).toString()) as { rows: unknown };
}

suite('SQL over HTTP bounds the memory of results', () => {
  // Characters of one to four bytes, escapes, and pairs that lie across the ends of slices.
  const values = ['plain ', '"\\\n\u0001', 'é', '😀', 'x😀'].map((unit) =>
    unit.repeat((3 * 1024 * 1024) / unit.length),
  );

  test('large SQL result values are returned unchanged', async () => {
    const { budget, result } = made();
    result.describe([number, text, text]);
    for (const value of values) assert(result.row(['1', value, 'short']));
    assert(result.row(['2', null, 'last']));
    result.complete('SELECT 6');
    assert.equal(await result.settleLarge(), true);
    const rows = [...values.map((a) => ({ n: 1, a, a_2: 'short' })), { n: 2, a: null, a_2: 'last' }];
    assert.deepEqual(bodyOf(result).rows, rows);
    const bytes = Buffer.concat([...result.body()].map((piece) => Buffer.from(piece))).length;
    assert(Math.abs(result.bytes - bytes) < 2_000, `${result.bytes} are held, ${bytes} sent`);
    result.release();
    assert(budget.take(limits.gatewayResultsBytesMax), 'everything was given back');
  });

  test('large SQL result values are returned as text even without a final settling', () => {
    const { result } = made();
    result.describe([text]);
    assert(result.row([values[1] ?? '']));
    result.complete('SELECT 1');
    assert.deepEqual(bodyOf(result).rows, [{ a: values[1] }]);
  });

  test('large SQL result values are refused if escaping makes them too large', async () => {
    const { result } = made();
    result.describe([text]);
    assert(result.row(['\u0001'.repeat(limits.gatewayResultBytesMax / 4)]));
    result.complete('SELECT 1');
    assert.equal(await result.settleLarge(), false);
    assert.equal(result.refused, 'result_too_large');
    const other = made(5 * 1024 * 1024);
    other.result.describe([text]);
    assert(other.result.row(['"'.repeat(3 * 1024 * 1024)]));
    other.result.complete('SELECT 1');
    assert.equal(await other.result.settleLarge(), false);
    assert.equal(other.result.refused, 'results_full', 'it may be sent again');
    other.result.release();
    assert(other.budget.take(5 * 1024 * 1024));
  });
});

test("result memory beyond a request's share leaves room for others and is released", () => {
  const memory = new ResultMemory();
  const value = 'x'.repeat(1024 * 1024);
  const filled = () => {
    const result = new SqlResult(() => undefined, memory);
    result.describe([text]);
    let rows = 0;
    while (rows < 60 && result.row([value])) rows++;
    return { result, rows };
  };
  const large = [filled(), filled(), filled()];
  assert.deepEqual(
    large.map(({ rows }) => rows >= 15),
    [true, true, true],
  );
  assert.deepEqual(
    large.map(({ result }) => result.overflowed && result.refused),
    [false, 'results_full', 'results_full'],
  );
  for (const { result } of large) result.release();
  assert.deepEqual([memory.all.held, memory.beyond.held], [0, 0]);
});

test('result memory counts statements without rows and column descriptions, and few writes send them', () => {
  const memory = new ResultMemory();
  const filled = (one: (result: SqlResult) => boolean) => {
    const result = new SqlResult(() => undefined, memory);
    let statements = 0;
    while (statements < 1_000_000 && one(result)) statements++;
    return { result, statements };
  };
  const wide = Array.from({ length: 1_600 }, () => ({ name: 'a'.repeat(63), dataTypeID: 23 }));
  const [done, selected] = [
    filled((it) => it.complete('INSERT 0 1')),
    filled((it) => it.describe(wide) && it.complete('SELECT 0')),
  ];
  assert.ok(done.statements > 100_000 && done.statements < 400_000, `${done.statements} statements`);
  assert.ok(selected.statements > 50 && selected.statements < 500, `${selected.statements} statements`);
  assert.equal(done.result.refused, 'result_too_large');
  assert.ok([...done.result.body()].length < 500);
  for (const { result } of [done, selected]) result.release();
  assert.deepEqual([memory.all.held, memory.beyond.held], [0, 0]);
});

test('duplicate result columns get distinct names in linear time', () => {
  const fields = Array.from({ length: 100_000 }, () => number);
  assert.equal(new Set(uniqueNames(fields)).size, fields.length);
  assert.deepEqual(uniqueNames(['a', 'a', 'a_2', 'a', 'a_2'].map((name) => ({ name, dataTypeID: 23 }))), [
    'a',
    'a_3',
    'a_2',
    'a_4',
    'a_2_2',
  ]);
});

test('requests waiting for result memory get it in turn, except those that have left', () => {
  const { budget } = made(100);
  assert(budget.take(90));
  const called: string[] = [];
  budget.whenRoom(50, () => called.push('first'));
  const leave = budget.whenRoom(5, () => called.push('left'));
  budget.whenRoom(5, () => called.push('last'));
  leave();
  budget.give(20);
  assert.deepEqual(called, []);
  budget.give(30);
  assert.deepEqual(called, ['first', 'last']);
});
