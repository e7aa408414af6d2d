/** Functions for building answers: JSON with escaping, and values of the request that have a shape. Available in every expression. */
import { limits } from '../config/limits.ts';
import { EvaluationError } from './errors.ts';
import { type Implementation, type FunctionRow, functionsOf, smallSize, sumSizes } from './function-table.ts';
import { type Value } from './types.ts';

const fn = functionsOf('answers');

/** What each shape accepts. None of it is markup, ends a JSON string, or contains a line break. */
const shapes = {
  uuid: /^[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$/,
  hex: /^[0-9A-Fa-f]+$/,
  digits: /^[0-9]+$/,
  token: /^[A-Za-z0-9._~+/=-]+$/,
  plain: /^[\x20-\x7e]+$/,
} as const;

export type ShapeName = keyof typeof shapes;

/** Every character that a shape may contain: others cannot be in its value. */
export const alphabets: { readonly [name in ShapeName]: RegExp } = {
  uuid: /^[0-9A-Fa-f-]*$/,
  hex: /^[0-9A-Fa-f]*$/,
  digits: /^[0-9]*$/,
  token: /^[A-Za-z0-9._~+/=-]*$/,
  plain: /^[\x20-\x7e]*$/,
};

function shapeName(name: string): ShapeName {
  if (Object.hasOwn(shapes, name)) return name as ShapeName;
  throw new EvaluationError('22023', `no such shape: known are ${Object.keys(shapes).join(', ')}`);
}

function shapeLength(max: number): number {
  if (max >= 1 && max <= limits.answerBodyBytesMax) return max;
  throw new EvaluationError('22023', `shaped() takes a length from 1 to ${limits.answerBodyBytesMax}`);
}

function shaped(value: string, name: string, max: number): string | null {
  const shape = shapeName(name);
  if (value.length > shapeLength(max) || !shapes[shape].test(value)) return null;
  return shape === 'plain' && /[<>&"'\\]/.test(value) ? null : value;
}

/** Refuses an invalid shape or length when the expression is created. */
function known([, name, max]: readonly (Value | undefined)[]): Implementation | null {
  if (typeof name === 'string') shapeName(name);
  if (typeof max === 'number') shapeLength(max);
  return null;
}

/** Escaped as by JSON.stringify, and without anything that looks like markup. */
function quoted(text: string): string {
  return JSON.stringify(text).replaceAll(/[<>&\u2028\u2029]/g, escaped);
}

function escaped(char: string): string {
  return `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

function paired(count: number): void {
  if (count % 2 !== 0)
    throw new EvaluationError('22023', 'json_object() takes names and values in turn: one is missing');
}

function jsonObject(...texts: readonly string[]): string {
  paired(texts.length);
  const members: string[] = [];
  for (let at = 0; at < texts.length; at += 2)
    members.push(`${quoted(texts[at] ?? '')}:${quoted(texts[at + 1] ?? '')}`);
  return `{${members.join(',')}}`;
}

export const answerRows: readonly FunctionRow[] = [
  fn(
    'json_object',
    ['text', 'text'],
    'text',
    jsonObject as (name: string, value: string) => string,
    'A JSON object of alternating names and values, all of them texts, in that order; everything is escaped. Not the function of this name in PostgreSQL.',
    {
      variadic: true,
      specialise: (args) => {
        paired(args.length);
        return null;
      },
      size: (args) => {
        const all = sumSizes(args);
        return { base: all.base * 6 + 8 * args.length, body: all.body * 6 };
      },
    },
  ),
  fn(
    'shaped',
    ['text', 'text', 'int4'],
    'text',
    shaped,
    'The text if it has that shape and at most that many characters, otherwise NULL. Shapes: `uuid`; `hex`; `digits`; `token`: letters, digits and `._~+/=-`; `plain`: printable ASCII except `<>&"\'\\`.',
    { role: 'shape', specialise: known, size: () => smallSize },
  ),
];
