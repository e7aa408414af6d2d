/** Bytes to text and back. */
import { byteFormat, bytesToText, decodeBytes, encodeBytes, textToBytes } from './bytea.ts';
import { substringBytes } from './text.ts';
import { checkedInt4 } from './scalars.ts';
import {
  checkName,
  type FunctionRow,
  functionsOf,
  operatorsOf,
  sumSizes,
  timesSize,
} from './function-table.ts';
import { type Value } from './types.ts';

const fn = functionsOf('bytes');
const op = operatorsOf('bytes');

/** A format that is written in the expression is looked up once. */
function withFormat(make: (format: ReturnType<typeof byteFormat>) => (value: Value) => Value) {
  return ([, format]: readonly (Value | undefined)[]) =>
    typeof format === 'string' ? make(byteFormat(format)) : null;
}

const keeps = { carries: 0 } as const;

export const byteRows: readonly FunctionRow[] = [
  fn(
    'encode',
    ['bytea', 'text'],
    'text',
    (data, format) => encodeBytes(data, byteFormat(format)),
    'Bytes as hex, base64 (a line break after every 76 characters) or escape.',
    {
      ...keeps,
      specialise: withFormat((format) => (data) => encodeBytes(data as Buffer, format)),
      size: (parts, [, format]) => timesSize(format === 'base64' || format === 'hex' ? 2 : 4)(parts),
    },
  ),
  fn(
    'decode',
    ['text', 'text'],
    'bytea',
    (text, format) => decodeBytes(text, byteFormat(format)),
    'The bytes of hex, base64 (padded) or escape.',
    {
      ...keeps,
      specialise: withFormat((format) => (text) => decodeBytes(text as string, format)),
      size: timesSize(1),
    },
  ),
  fn(
    'convert_to',
    ['text', 'text'],
    'bytea',
    textToBytes,
    "The bytes of a text in an encoding, which must be 'UTF8'.",
    {
      ...keeps,
      specialise: checkName((name) => textToBytes('', name), 1),
      size: timesSize(1),
    },
  ),
  fn(
    'convert_from',
    ['bytea', 'text'],
    'text',
    bytesToText,
    "The text that the bytes encode; the encoding must be 'UTF8'. Bytes that are not UTF-8 raise an error.",
    {
      ...keeps,
      specialise: checkName((name) => bytesToText(Buffer.alloc(0), name), 1),
      size: timesSize(1),
    },
  ),
  op('||', ['bytea', 'bytea'], 'bytea', (a, b) => Buffer.concat([a, b]), 'Concatenation of bytes.', {
    carries: 'any',
    size: sumSizes,
  }),
  ...(['substr', 'substring'] as const).map((name) =>
    fn(
      name,
      ['bytea', 'int4', 'int4'],
      'bytea',
      substringBytes,
      'Bytes from a position, counted from 1, for a length.',
      { ...keeps, size: timesSize(1) },
    ),
  ),
  ...(['substr', 'substring'] as const).map((name) =>
    fn(
      name,
      ['bytea', 'int4'],
      'bytea',
      (data, start) => data.subarray(Math.max(start - 1, 0)),
      'Bytes from a position on.',
      { ...keeps, size: timesSize(1) },
    ),
  ),
  fn('length', ['bytea'], 'int4', (data) => checkedInt4(data.length), 'Number of bytes.'),
  fn('octet_length', ['bytea'], 'int4', (data) => checkedInt4(data.length), 'Number of bytes.'),
  fn(
    'octet_length',
    ['text'],
    'int4',
    (text) => Buffer.byteLength(text),
    'Number of bytes of a text in UTF-8.',
  ),
];
