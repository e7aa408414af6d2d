/**
 * PostgreSQL's `numeric`, as long as it is finite and has at most `limits.expressionDigitsMax` digits: an integer and
 * the number of its digits after the decimal point. Results are exact, with the display scale that PostgreSQL gives
 * them; NaN, infinities and longer numbers raise an error.
 */
import { limits } from '../config/limits.ts';
import { EvaluationError, invalidInput, outOfRange, unsupported } from './errors.ts';

export class Decimal {
  readonly coefficient: bigint;
  readonly scale: number;

  constructor(coefficient: bigint, scale: number) {
    this.coefficient = coefficient;
    this.scale = scale;
  }
}

const powers: bigint[] = [1n];

export function powerOfTen(exponent: number): bigint {
  for (let n = powers.length; n <= exponent; n++) powers.push((powers[n - 1] ?? 1n) * 10n);
  return powers[exponent] ?? 1n;
}

/** 10^digitsMax: the coefficient of a result is always smaller. */
let coefficientEnd: bigint | null = null;

function bounded(coefficient: bigint, scale: number): Decimal {
  coefficientEnd ??= powerOfTen(limits.expressionDigitsMax);
  const magnitude = coefficient < 0n ? -coefficient : coefficient;
  if (magnitude >= coefficientEnd || scale > limits.expressionDigitsMax) {
    throw unsupported(`a numeric of more than ${limits.expressionDigitsMax} digits`);
  }
  return new Decimal(coefficient, scale);
}

const decimalForm = /^[ \t\n\v\f\r]*([+-]?)(\d+(?:\.\d*)?|\.\d+)(?:[eE]([+-]?\d+))?[ \t\n\v\f\r]*$/;
/** Other spellings that PostgreSQL accepts as a numeric: not a number, infinite, other bases, digit groups. */
const exoticForm =
  /^[ \t\n\v\f\r]*[+-]?(?:nan|inf|infinity|0[xob][0-9a-f_]+|[\d_.]+(?:e[+-]?[\d_]+)?)[ \t\n\v\f\r]*$/i;
/** The longest text that is examined as a number; a regular expression must not run over a whole body. */
const textCharsMax = 4096;

export function parseDecimal(text: string): Decimal {
  if (text.length > textCharsMax) throw unsupported('a very long text as numeric');
  const parts = decimalForm.exec(text);
  if (parts === null) {
    throw exoticForm.test(text) ? unsupported('an unusual spelling of a numeric') : invalidInput('numeric');
  }
  return decimalFromParts(parts[1] === '-', parts[2] ?? '', parts[3] ?? '');
}

/** From the digits of a checked literal: `12.50`, exponent `-3`. */
export function decimalFromParts(negative: boolean, mantissa: string, exponentText: string): Decimal {
  const exponent = exponentText === '' ? 0 : Number(exponentText);
  const point = mantissa.indexOf('.');
  const digits = point < 0 ? mantissa : mantissa.slice(0, point) + mantissa.slice(point + 1);
  const fraction = point < 0 ? 0 : mantissa.length - point - 1;
  if (digits.length > limits.expressionDigitsMax || Math.abs(exponent) > limits.expressionDigitsMax) {
    throw unsupported(`a numeric of more than ${limits.expressionDigitsMax} digits`);
  }
  const magnitude = BigInt(digits);
  const coefficient = negative ? -magnitude : magnitude;
  const scale = fraction - exponent;
  return scale >= 0 ? bounded(coefficient, scale) : bounded(coefficient * powerOfTen(-scale), 0);
}

export function printDecimal({ coefficient, scale }: Decimal): string {
  if (scale === 0) return coefficient.toString();
  const negative = coefficient < 0n;
  const digits = (negative ? -coefficient : coefficient).toString().padStart(scale + 1, '0');
  const point = digits.length - scale;
  return `${negative ? '-' : ''}${digits.slice(0, point)}.${digits.slice(point)}`;
}

/** Division of integers, rounding half away from zero. */
function divideRounded(dividend: bigint, divisor: bigint): bigint {
  const negative = dividend < 0n !== divisor < 0n;
  const n = dividend < 0n ? -dividend : dividend;
  const d = divisor < 0n ? -divisor : divisor;
  const quotient = (2n * n + d) / (2n * d);
  return negative ? -quotient : quotient;
}

function rescaled(value: Decimal, scale: number): bigint {
  return value.coefficient * powerOfTen(scale - value.scale);
}

export function compareDecimals(a: Decimal, b: Decimal): number {
  const scale = Math.max(a.scale, b.scale);
  const left = rescaled(a, scale);
  const right = rescaled(b, scale);
  return left < right ? -1 : left > right ? 1 : 0;
}

export function addDecimals(a: Decimal, b: Decimal): Decimal {
  const scale = Math.max(a.scale, b.scale);
  return bounded(rescaled(a, scale) + rescaled(b, scale), scale);
}

export function negateDecimal(a: Decimal): Decimal {
  return new Decimal(-a.coefficient, a.scale);
}

export function absoluteDecimal(a: Decimal): Decimal {
  return a.coefficient < 0n ? negateDecimal(a) : a;
}

export function multiplyDecimals(a: Decimal, b: Decimal): Decimal {
  return bounded(a.coefficient * b.coefficient, a.scale + b.scale);
}

function divisionByZero(): EvaluationError {
  return new EvaluationError('22012', 'division by zero');
}

/** The weight and value of the first base-10000 digit, as PostgreSQL stores a numeric. */
function leadingDigit(value: Decimal): { weight: number; digit: number } {
  if (value.coefficient === 0n) return { weight: 0, digit: 0 };
  const digits = absoluteDecimal(value).coefficient.toString();
  const integerDigits = digits.length - value.scale;
  const weight = Math.ceil(integerDigits / 4) - 1;
  const first = integerDigits - weight * 4;
  return { weight, digit: Number(digits.slice(0, first).padEnd(first, '0')) };
}

/** PostgreSQL's select_div_scale: at least 16 significant digits, and no fewer than the operands display. */
function quotientScale(a: Decimal, b: Decimal): number {
  const left = leadingDigit(a);
  const right = leadingDigit(b);
  const weight = left.weight - right.weight - (left.digit <= right.digit ? 1 : 0);
  return Math.min(Math.max(16 - weight * 4, a.scale, b.scale, 0), 1000);
}

export function divideDecimals(a: Decimal, b: Decimal): Decimal {
  if (b.coefficient === 0n) throw divisionByZero();
  const scale = quotientScale(a, b);
  const shift = scale - a.scale + b.scale;
  const dividend = shift >= 0 ? a.coefficient * powerOfTen(shift) : a.coefficient;
  const divisor = shift >= 0 ? b.coefficient : b.coefficient * powerOfTen(-shift);
  return bounded(divideRounded(dividend, divisor), scale);
}

export function remainderDecimals(a: Decimal, b: Decimal): Decimal {
  if (b.coefficient === 0n) throw divisionByZero();
  const scale = Math.max(a.scale, b.scale);
  return bounded(rescaled(a, scale) % rescaled(b, scale), scale);
}

export function decimalToInteger(value: Decimal): bigint {
  return value.scale === 0 ? value.coefficient : divideRounded(value.coefficient, powerOfTen(value.scale));
}

export function decimalToFloat(value: Decimal): number {
  const float = Number(printDecimal(value));
  if (!Number.isFinite(float) || (float === 0 && value.coefficient !== 0n))
    throw outOfRange('double precision');
  return float === 0 ? 0 : float;
}

/** PostgreSQL converts through 15 significant decimal digits (`%.15g`), ties to even. */
export function decimalFromFloat(float: number): Decimal {
  if (!Number.isFinite(float)) throw unsupported('a numeric that is not finite');
  if (float === 0) return new Decimal(0n, 0);
  const { coefficient, scale } = exactDecimal(Math.abs(float));
  const digits = coefficient.toString();
  const drop = digits.length - 15;
  let kept = coefficient;
  let keptScale = scale;
  if (drop > 0) {
    const unit = powerOfTen(drop);
    kept = coefficient / unit;
    const twice = (coefficient % unit) * 2n;
    if (twice > unit || (twice === unit && kept % 2n === 1n)) kept += 1n;
    keptScale -= drop;
  }
  while (keptScale > 0 && kept % 10n === 0n) {
    kept /= 10n;
    keptScale--;
  }
  if (keptScale < 0) {
    kept *= powerOfTen(-keptScale);
    keptScale = 0;
  }
  return bounded(float < 0 ? -kept : kept, keptScale);
}

/** A positive double is an integer times a power of two: written as a decimal without rounding. */
function exactDecimal(float: number): { coefficient: bigint; scale: number } {
  const bits = new DataView(new ArrayBuffer(8));
  bits.setFloat64(0, float);
  const word = bits.getBigUint64(0);
  const exponentBits = Number(word >> 52n) & 0x7ff;
  const fraction = word & 0xf_ffff_ffff_ffffn;
  const mantissa = exponentBits === 0 ? fraction : fraction | 0x10_0000_0000_0000n;
  const exponent = (exponentBits === 0 ? 1 : exponentBits) - 1075;
  if (exponent >= 0) return { coefficient: mantissa << BigInt(exponent), scale: 0 };
  return { coefficient: mantissa * 5n ** BigInt(-exponent), scale: -exponent };
}
