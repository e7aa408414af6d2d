/** Arithmetic. An overflow raises, as in PostgreSQL. */
import { EvaluationError } from './errors.ts';
import * as decimal from './numeric.ts';
import { checkedFloat, checkedInt4, checkedInt8 } from './scalars.ts';
import { type FunctionRow, functionsOf, operatorsOf } from './function-table.ts';

const fn = functionsOf('numbers');
const op = operatorsOf('numbers');

function divisionByZero(): EvaluationError {
  return new EvaluationError('22012', 'division by zero');
}

/** Integer products reach 2^62, beyond a double's exact range. */
function multiplyInt4(a: number, b: number): number {
  return checkedInt4(BigInt(a) * BigInt(b));
}

function divideInt4(a: number, b: number): number {
  if (b === 0) throw divisionByZero();
  return checkedInt4(Math.trunc(a / b)) + 0;
}

function remainderInt4(a: number, b: number): number {
  if (b === 0) throw divisionByZero();
  return (a % b) + 0;
}

function divideInt8(a: bigint, b: bigint): bigint {
  if (b === 0n) throw divisionByZero();
  return checkedInt8(a / b);
}

function remainderInt8(a: bigint, b: bigint): bigint {
  if (b === 0n) throw divisionByZero();
  return a % b;
}

function isInfinite(a: number, b: number): boolean {
  return !Number.isFinite(a) || !Number.isFinite(b);
}

function multiplyFloat(a: number, b: number): number {
  return checkedFloat(a * b, isInfinite(a, b), a === 0 || b === 0 || isInfinite(a, b));
}

function divideFloat(a: number, b: number): number {
  if (b === 0 && !Number.isNaN(a)) throw divisionByZero();
  return checkedFloat(a / b, isInfinite(a, a), a === 0 || isInfinite(b, b));
}

const [plus, minus, times, over, rest] = [
  'Sum.',
  'Difference.',
  'Product.',
  'Quotient.',
  'Remainder.',
] as const;

export const numberRows: readonly FunctionRow[] = [
  op('+', ['int4', 'int4'], 'int4', (a, b) => checkedInt4(a + b), plus),
  op('+', ['int8', 'int8'], 'int8', (a, b) => checkedInt8(a + b), plus),
  op('+', ['numeric', 'numeric'], 'numeric', decimal.addDecimals, plus),
  op('+', ['float8', 'float8'], 'float8', (a, b) => checkedFloat(a + b, isInfinite(a, b), true), plus),
  op('-', ['int4', 'int4'], 'int4', (a, b) => checkedInt4(a - b), minus),
  op('-', ['int8', 'int8'], 'int8', (a, b) => checkedInt8(a - b), minus),
  op(
    '-',
    ['numeric', 'numeric'],
    'numeric',
    (a, b) => decimal.addDecimals(a, decimal.negateDecimal(b)),
    minus,
  ),
  op('-', ['float8', 'float8'], 'float8', (a, b) => checkedFloat(a - b, isInfinite(a, b), true), minus),
  op('*', ['int4', 'int4'], 'int4', multiplyInt4, times),
  op('*', ['int8', 'int8'], 'int8', (a, b) => checkedInt8(a * b), times),
  op('*', ['numeric', 'numeric'], 'numeric', decimal.multiplyDecimals, times),
  op('*', ['float8', 'float8'], 'float8', multiplyFloat, times),
  op('/', ['int4', 'int4'], 'int4', divideInt4, over),
  op('/', ['int8', 'int8'], 'int8', divideInt8, over),
  op('/', ['numeric', 'numeric'], 'numeric', decimal.divideDecimals, over),
  op('/', ['float8', 'float8'], 'float8', divideFloat, over),
  op('%', ['int4', 'int4'], 'int4', remainderInt4, rest),
  op('%', ['int8', 'int8'], 'int8', remainderInt8, rest),
  op('%', ['numeric', 'numeric'], 'numeric', decimal.remainderDecimals, rest),
  op('-', ['int4'], 'int4', (a) => checkedInt4(0 - a), 'Negation.'),
  op('-', ['int8'], 'int8', (a) => checkedInt8(-a), 'Negation.'),
  op('-', ['numeric'], 'numeric', decimal.negateDecimal, 'Negation.'),
  op('-', ['float8'], 'float8', (a) => -a, 'Negation.'),
  op('+', ['int4'], 'int4', (a) => a, 'The number itself.'),
  op('+', ['int8'], 'int8', (a) => a, 'The number itself.'),
  op('+', ['numeric'], 'numeric', (a) => a, 'The number itself.'),
  op('+', ['float8'], 'float8', (a) => a, 'The number itself.'),
  fn('abs', ['int4'], 'int4', (a) => checkedInt4(Math.abs(a)), 'Absolute value.'),
  fn('abs', ['int8'], 'int8', (a) => checkedInt8(a < 0n ? -a : a), 'Absolute value.'),
  fn('abs', ['numeric'], 'numeric', decimal.absoluteDecimal, 'Absolute value.'),
  fn('abs', ['float8'], 'float8', (a) => Math.abs(a), 'Absolute value.'),
];
