/** Casts: `x::type` and `CAST(x AS type)`. */
import { parseTextArray, printTextArray } from './arrays.ts';
import { parseBytea, printBytea } from './bytea.ts';
import { limits } from '../config/limits.ts';
import { EvaluationError } from './errors.ts';
import { type JsonValue, jsonNumber, kindOf, parseJson, printJson } from './jsonb.ts';
import * as decimal from './numeric.ts';
import * as scalars from './scalars.ts';
import { type FunctionRow, type SizeBound, strict, timesSize } from './function-table.ts';
import { parseInterval, parseTimestamp, printTimestamp } from './timestamp.ts';
import { type TypeName, type ValueOf } from './types.ts';

function cast<F extends TypeName, T extends TypeName>(
  from: F,
  to: T,
  implementation: (value: ValueOf[F]) => ValueOf[T] | null,
  doc = '',
  size: ((args: readonly SizeBound[]) => SizeBound) | null = null,
  carries = false,
): FunctionRow {
  return strict('cast', to, [from] as const, to, implementation as never, 'casts', doc, {
    size,
    carries: carries ? 0 : null,
  });
}

/** What depends on a session's settings in PostgreSQL is computed for each request. */
const stableCast: typeof cast = (...args) => ({ ...cast(...args), stable: true });

function floatToInteger(value: number): bigint {
  if (!Number.isFinite(value)) throw new EvaluationError('22003', 'integer out of range');
  return BigInt(scalars.roundHalfEven(value));
}

/** JSON null is NULL, as in PostgreSQL 18; a value of another kind raises an error. */
function jsonScalar<T>(value: JsonValue, kinds: readonly string[], read: () => T): T | null {
  const kind = kindOf(value);
  if (kind === 'null') return null;
  if (!kinds.includes(kind)) throw new EvaluationError('22023', `cannot cast jsonb ${kind}`);
  return read();
}

function jsonDecimal<T>(value: JsonValue, read: (number: decimal.Decimal) => T): T | null {
  return jsonScalar(value, ['number'], () => read(jsonNumber(value)));
}

const printedJsonSize = (): SizeBound => ({ base: limits.expressionJsonCharsMax, body: 0 });

const { checkedInt4: int4, checkedInt8: int8 } = scalars;

export const castRows: readonly FunctionRow[] = [
  cast('text', 'bytea', parseBytea, String.raw`\x… or the escape form.`, timesSize(1), true),
  cast('text', 'jsonb', parseJson, 'A JSON document.', timesSize(1), true),
  cast('text', 'bool', scalars.parseBoolean),
  cast('text', 'int4', scalars.parseInt4),
  cast('text', 'int8', scalars.parseInt8),
  cast(
    'text',
    'numeric',
    decimal.parseDecimal,
    `Up to ${limits.expressionDigitsMax} digits; NaN and infinity raise an error.`,
  ),
  cast('text', 'float8', scalars.parseFloat8),
  stableCast(
    'text',
    'timestamptz',
    parseTimestamp,
    'ISO 8601, UTC if no zone is given; other formats raise an error.',
  ),
  cast('text', 'interval', parseInterval, 'Like 5 minutes: microseconds to weeks.'),
  stableCast('text', 'text[]', parseTextArray, 'Like {a,b}: one dimension.', timesSize(8)),
  cast('bytea', 'text', printBytea, String.raw`\x…`, timesSize(2), true),
  cast('jsonb', 'text', printJson, '', printedJsonSize, true),
  cast('bool', 'text', String),
  cast('int4', 'text', String),
  cast('int8', 'text', String),
  cast('numeric', 'text', decimal.printDecimal),
  cast('float8', 'text', scalars.printFloat8),
  stableCast('timestamptz', 'text', printTimestamp, 'ISO 8601 in UTC.'),
  stableCast('text[]', 'text', printTextArray, '', timesSize(2)),
  cast('int4', 'int8', BigInt),
  cast('int4', 'numeric', (value) => new decimal.Decimal(BigInt(value), 0)),
  cast('int4', 'float8', (value) => value),
  cast('int4', 'bool', (value) => value !== 0),
  cast('bool', 'int4', Number),
  cast('int8', 'int4', int4),
  cast('int8', 'numeric', (value) => new decimal.Decimal(value, 0)),
  cast('int8', 'float8', Number),
  cast('numeric', 'int4', (value) => int4(decimal.decimalToInteger(value)), 'Rounded.'),
  cast('numeric', 'int8', (value) => int8(decimal.decimalToInteger(value)), 'Rounded.'),
  cast('numeric', 'float8', decimal.decimalToFloat),
  cast('float8', 'int4', (value) => int4(floatToInteger(value)), 'Rounded.'),
  cast('float8', 'int8', (value) => int8(floatToInteger(value)), 'Rounded.'),
  cast('float8', 'numeric', decimal.decimalFromFloat, '15 digits.'),
  cast('jsonb', 'bool', (value) => jsonScalar(value, ['true', 'false'], () => kindOf(value) === 'true')),
  cast('jsonb', 'int4', (value) => jsonDecimal(value, (number) => int4(decimal.decimalToInteger(number)))),
  cast('jsonb', 'int8', (value) => jsonDecimal(value, (number) => int8(decimal.decimalToInteger(number)))),
  cast('jsonb', 'numeric', (value) => jsonDecimal(value, (number) => number)),
  cast('jsonb', 'float8', (value) => jsonDecimal(value, decimal.decimalToFloat)),
];

/** How concat() prints: with output functions, which for boolean differ from the cast to text. */
export const booleanOutput: FunctionRow = cast('bool', 'text', (value) => (value ? 't' : 'f'));
