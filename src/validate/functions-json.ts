/** JSONB. */
import { limits } from '../config/limits.ts';
import { atPath, element, jsonAsText, member } from './jsonb.ts';
import { type FunctionRow, type SizeBound, operatorsOf, timesSize } from './function-table.ts';

const op = operatorsOf('json');

/** Text from a document is bounded, whatever the document is. */
const textSize = (): SizeBound => ({ base: limits.expressionJsonCharsMax, body: 0 });

const keepsValue = { carries: 0, size: timesSize(1) } as const;
const keepsText = { carries: 0, size: textSize } as const;

export const jsonRows: readonly FunctionRow[] = [
  op('||', ['jsonb', 'jsonb'], 'jsonb', () => null, '', {
    refused: 'joining JSON values is not known in VALIDATE expressions; cast to text to print one',
  }),
  op('->', ['jsonb', 'text'], 'jsonb', member, 'The member of that name.', keepsValue),
  op('->', ['jsonb', 'int4'], 'jsonb', element, 'The element of that number, counted from 0.', keepsValue),
  op(
    '->>',
    ['jsonb', 'text'],
    'text',
    (value, key) => jsonAsText(member(value, key)),
    'The member of that name as text.',
    keepsText,
  ),
  op(
    '->>',
    ['jsonb', 'int4'],
    'text',
    (value, index) => jsonAsText(element(value, index)),
    'The element of that number as text.',
    keepsText,
  ),
  op('#>', ['jsonb', 'text[]'], 'jsonb', atPath, "The value at a path: data #> '{a,0,b}'.", keepsValue),
  op(
    '#>>',
    ['jsonb', 'text[]'],
    'text',
    (value, path) => jsonAsText(atPath(value, path)),
    'The value at a path as text.',
    keepsText,
  ),
];
