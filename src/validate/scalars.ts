/** Input and output of boolean, integer, bigint and double precision, as in PostgreSQL's input and output functions. */
import { EvaluationError, invalidInput, outOfRange, unsupported } from './errors.ts';

const space = /^[ \t\n\v\f\r]+|[ \t\n\v\f\r]+$/g;
/** Longer texts are neither a number nor a boolean; a regular expression must not run over a whole body. */
const textCharsMax = 4096;

function trimmed(text: string, type: string): string {
  if (text.length > textCharsMax) throw unsupported(`a very long text as ${type}`);
  return text.replace(space, '');
}

export function parseBoolean(text: string): boolean {
  const word = trimmed(text, 'boolean').toLowerCase();
  if (word !== '') {
    if ('true'.startsWith(word) || 'yes'.startsWith(word) || word === 'on' || word === '1') return true;
    if (
      'false'.startsWith(word) ||
      'no'.startsWith(word) ||
      word === 'of' ||
      word === 'off' ||
      word === '0'
    ) {
      return false;
    }
  }
  throw invalidInput('boolean');
}

const integerForm = /^([+-]?)(\d+(?:_\d+)*|0[xX](?:_?[0-9a-fA-F])+|0[oO](?:_?[0-7])+|0[bB](?:_?[01])+)$/;

const int8Min = -(2n ** 63n);
const int8Max = 2n ** 63n - 1n;

export function parseInt8(text: string): bigint {
  // The usual input: up to 15 plain digits.
  if (text.length <= 15 && isPlainDigits(text)) return BigInt(Number(text));
  return checkedInt8(parseInteger(text, 'bigint'));
}

export function parseInt4(text: string): number {
  return checkedInt4(parseInteger(text, 'integer'));
}

function isPlainDigits(text: string): boolean {
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code < 48 || code > 57) return false;
  }
  return text.length > 0;
}

function parseInteger(text: string, type: string): bigint {
  const parts = integerForm.exec(trimmed(text, type));
  if (parts === null) throw invalidInput(type);
  const magnitude = BigInt((parts[2] ?? '').replaceAll('_', '').toLowerCase());
  return parts[1] === '-' ? -magnitude : magnitude;
}

export function checkedInt8(value: bigint): bigint {
  if (value < int8Min || value > int8Max) throw outOfRange('bigint');
  return value;
}

export function checkedInt4(value: bigint | number): number {
  if (value < -2147483648 || value > 2147483647) throw outOfRange('integer');
  return Number(value);
}

const floatForm = /^([+-]?)(?:(\d+\.?\d*|\.\d+)(?:[eE]([+-]?\d+))?|(inf|infinity|nan))$/i;

export function parseFloat8(text: string): number {
  const word = trimmed(text, 'double precision');
  const parts = floatForm.exec(word);
  if (parts === null) {
    // strtod() also reads hexadecimal floats and "nan(…)".
    if (/^[+-]?(0x|nan\()/i.test(word)) throw unsupported('an unusual spelling of a double precision');
    throw invalidInput('double precision');
  }
  if (parts[4] !== undefined) {
    if (parts[4].toLowerCase() === 'nan') return Number.NaN;
    return parts[1] === '-' ? -Infinity : Infinity;
  }
  const value = Number(word);
  if (!Number.isFinite(value) || (value === 0 && /[1-9]/.test(parts[2] ?? '')))
    throw outOfRange('double precision');
  return value;
}

/**
 * JavaScript's shortest digits may be exactly halfway to the neighbouring double (and are read back by the rule for
 * ties); PostgreSQL then prints one more digit. Only integers beyond 2^53 can be halfway with so few digits.
 */
function isOnBoundary(value: number): boolean {
  const magnitude = Math.abs(value);
  if (magnitude < 2 ** 53) return false;
  const [digits = '', exponent = ''] = magnitude.toExponential().replace('.', '').split('e');
  const printed = BigInt(digits.padEnd(Number(exponent) + 1, '0'));
  const exact = BigInt(magnitude);
  const bits = new DataView(new ArrayBuffer(8));
  bits.setFloat64(0, magnitude);
  const word = bits.getBigUint64(0);
  bits.setBigUint64(0, printed > exact ? word + 1n : word - 1n);
  const neighbour = bits.getFloat64(0);
  return printed !== exact && Number.isFinite(neighbour) && printed * 2n === exact + BigInt(neighbour);
}

/** The shortest digits that read back as the same double, formatted as PostgreSQL does. */
export function printFloat8(value: number): string {
  if (Number.isNaN(value)) return 'NaN';
  if (!Number.isFinite(value)) return value > 0 ? 'Infinity' : '-Infinity';
  if (value === 0) return Object.is(value, -0) ? '-0' : '0';
  if (isOnBoundary(value)) throw unsupported('printing this double precision');
  const [mantissa = '', exponentText = ''] = value.toExponential().split('e');
  const exponent = Number(exponentText);
  if (exponent < -4 || exponent >= 15) {
    const digits = Math.abs(exponent).toString().padStart(2, '0');
    return `${mantissa}e${exponent < 0 ? '-' : '+'}${digits}`;
  }
  const sign = value < 0 ? '-' : '';
  const digits = mantissa.replace('-', '').replace('.', '');
  if (exponent < 0) return `${sign}0.${'0'.repeat(-exponent - 1)}${digits}`;
  if (digits.length <= exponent + 1) return sign + digits.padEnd(exponent + 1, '0');
  return `${sign}${digits.slice(0, exponent + 1)}.${digits.slice(exponent + 1)}`;
}

/** NaN equals itself and is greater than everything else. */
export function compareFloats(a: number, b: number): number {
  if (Number.isNaN(a)) return Number.isNaN(b) ? 0 : 1;
  if (Number.isNaN(b)) return -1;
  return a < b ? -1 : a > b ? 1 : 0;
}

/** A result of a finite computation that is infinite, or zero although no operand was zero, is an error. */
export function checkedFloat(result: number, infinite: boolean, zero: boolean): number {
  if (!Number.isFinite(result) && !Number.isNaN(result) && !infinite) throw outOfRange('double precision');
  if (result === 0 && !zero) throw new EvaluationError('22003', 'value out of range: underflow');
  return result;
}

/** C's rint(): half to even. */
export function roundHalfEven(value: number): number {
  const floor = Math.floor(value);
  const rest = value - floor;
  if (rest < 0.5) return floor;
  if (rest > 0.5) return floor + 1;
  return floor % 2 === 0 ? floor : floor + 1;
}
