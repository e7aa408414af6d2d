/** Text. Characters are code points, as in a UTF-8 database. */
import { formObject, formSorted } from './form.ts';

import { jsonOf } from './jsonb.ts';
import {
  type FunctionRow,
  type SizeBound,
  functionsOf,
  loose,
  operatorsOf,
  smallSize,
  sumSizes,
  timesSize,
} from './function-table.ts';
import * as text from './text.ts';
import { type Value } from './types.ts';

const fn = functionsOf('text');
const op = operatorsOf('text');

const keeps = { carries: 0, size: timesSize(1) } as const;
const regular = {
  refused: 'regular expressions are not known in VALIDATE expressions; split_part() takes a text apart',
} as const;

/** Every occurrence of a part of known length may grow to the replacement's length. */
function replacedSize(
  [source = smallSize, , to = smallSize]: readonly SizeBound[],
  known: readonly (Value | undefined)[],
): SizeBound {
  const from = known[1];
  const partChars = typeof from === 'string' && from !== '' ? from.length : 1;
  const growth = Math.max((to.base + to.body * Number.MAX_SAFE_INTEGER) / partChars, 1);
  return { base: source.base * growth, body: source.body * growth };
}

function repeatedSize(
  [source = smallSize]: readonly SizeBound[],
  known: readonly (Value | undefined)[],
): SizeBound {
  const count = typeof known[1] === 'number' ? Math.max(known[1], 1) : Infinity;
  return { base: source.base * count, body: source.body * count };
}

/** A list is for headers: items cost more than their characters. */
function listSize([source = smallSize]: readonly SizeBound[]): SizeBound {
  return { base: source.base * 8, body: source.body === 0 ? 0 : Infinity };
}

function compiledLike(negated: boolean) {
  return (known: readonly (Value | undefined)[]) => {
    const pattern = known[1];
    if (typeof pattern !== 'string') return null;
    const matches = text.compileLike(pattern);
    return (value: Value) => matches(value as string) !== negated;
  };
}

export const textRows: readonly FunctionRow[] = [
  op(
    '||',
    ['text', 'text'],
    'text',
    (a, b) => a + b,
    'Concatenation of texts. One side may have another type and is converted to text.',
    { carries: 'any', size: sumSizes },
  ),
  loose(
    'concat',
    ['text'],
    'text',
    (...parts) => parts.filter((part) => part !== null).join(''),
    'text',
    'Concatenation of all arguments, converted to text; NULLs are left out.',
    { variadic: true, stable: true, size: sumSizes },
  ),
  fn(
    'lower',
    ['text'],
    'text',
    text.lower,
    'Lower case, only for ASCII; other characters raise an error.',
    keeps,
  ),
  fn(
    'upper',
    ['text'],
    'text',
    text.upper,
    'Upper case, only for ASCII; other characters raise an error.',
    keeps,
  ),
  ...(['btrim', 'ltrim', 'rtrim'] as const).flatMap((name) => {
    const ends = name === 'btrim' ? 'both' : name === 'ltrim' ? 'left' : 'right';
    const where = ends === 'both' ? 'at both ends; also trim()' : `on the ${ends}`;
    return [
      fn(name, ['text'], 'text', (value) => text.trim(value, ' ', ends), `Without spaces ${where}.`, keeps),
      fn(
        name,
        ['text', 'text'],
        'text',
        (value, set) => text.trim(value, set, ends),
        `Without the given characters ${where}.`,
        keeps,
      ),
    ];
  }),
  fn('replace', ['text', 'text', 'text'], 'text', text.replace, 'Every occurrence of a part replaced.', {
    carries: 0,
    size: replacedSize,
  }),
  fn(
    'translate',
    ['text', 'text', 'text'],
    'text',
    text.translate,
    'Characters replaced one by one; those without a counterpart are dropped.',
    {
      carries: 0,
      // ASCII takes the place of a character without more bytes.
      size: (parts, [, , to]) => timesSize(typeof to === 'string' && /^[ -~]*$/.test(to) ? 1 : 4)(parts),
    },
  ),
  ...(['substr', 'substring'] as const).flatMap((name) => [
    fn(
      name,
      ['text', 'int4', 'int4'],
      'text',
      text.substring,
      'Characters from a position, counted from 1, for a length.',
      keeps,
    ),
    fn(name, ['text', 'int4'], 'text', text.substringFrom, 'Characters from a position on.', keeps),
  ]),
  fn('substring', ['text', 'text'], 'text', () => null, '', regular),
  fn('substring', ['text', 'text', 'text'], 'text', () => null, '', regular),
  fn(
    'left',
    ['text', 'int4'],
    'text',
    text.left,
    'The first characters; with a negative number, all but the last.',
    keeps,
  ),
  fn(
    'right',
    ['text', 'int4'],
    'text',
    text.right,
    'The last characters; with a negative number, all but the first.',
    keeps,
  ),
  fn(
    'split_part',
    ['text', 'text', 'int4'],
    'text',
    text.splitPart,
    'The field of that number, counted from 1 (from the end if negative); empty where there is none.',
    { carries: 0, size: timesSize(1) },
  ),
  loose(
    'string_to_array',
    ['text', 'text'],
    'text[]',
    (value, delimiter) => (value === null ? null : text.stringToArray(value, delimiter, null)),
    'text',
    'The parts between delimiters.',
    { size: listSize },
  ),
  loose(
    'string_to_array',
    ['text', 'text', 'text'],
    'text[]',
    (value, delimiter, nulls) => (value === null ? null : text.stringToArray(value, delimiter, nulls)),
    'text',
    'The parts between delimiters; those equal to the third argument are NULL.',
    { size: listSize },
  ),
  fn('length', ['text'], 'int4', text.characters, 'Number of characters.'),
  fn(
    'strpos',
    ['text', 'text'],
    'int4',
    text.position,
    'Where a part begins, counted from 1; 0 if it does not occur.',
  ),
  fn('position', ['text', 'text'], 'int4', text.position, "Where a part begins: position('b' in 'abc').", {}),
  fn(
    'starts_with',
    ['text', 'text'],
    'bool',
    (value, start) => value.startsWith(start),
    'Whether the text begins with another.',
  ),
  fn(
    'repeat',
    ['text', 'int4'],
    'text',
    text.repeat,
    'The text a number of times; the number must be a constant.',
    { size: repeatedSize },
  ),
  op(
    '~~',
    ['text', 'text'],
    'bool',
    (value, pattern) => text.compileLike(pattern)(value),
    'LIKE, with a constant pattern: `%` is any text, `_` one character.',
    { role: 'pattern', specialise: compiledLike(false) },
  ),
  op('!~~', ['text', 'text'], 'bool', (value, pattern) => !text.compileLike(pattern)(value), 'NOT LIKE.', {
    role: 'pattern',
    specialise: compiledLike(true),
  }),
  fn(
    'form',
    ['bytea'],
    'jsonb',
    (body) => jsonOf(formObject(body)),
    'The fields of a form body, also of multipart/form-data; of several fields with the same name, the last. A file is an object of its name, type and size.',
    { size: timesSize(6) },
  ),
  fn(
    'form_sorted',
    ['bytea'],
    'text',
    formSorted,
    'The concatenated names and values of a form body, sorted by name and value, each pair once (Twilio, Mandrill). A form with files raises an error.',
    { size: timesSize(1) },
  ),
];
