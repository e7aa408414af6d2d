/** Comparison. Text is ordered by code point, as in the locale C.UTF-8. */
import { compareBytes } from './bytea.ts';
import { sameBytes, sameText } from './functions-checks.ts';
import { equalJson } from './jsonb.ts';
import { compareDecimals } from './numeric.ts';
import { compareFloats } from './scalars.ts';
import { type Implementation, type FunctionRow, strict } from './function-table.ts';
import { compareTexts } from './text.ts';
import { type TypeName, type ValueOf } from './types.ts';

type CompareValues<T> = (a: T, b: T) => number;

function bySize(a: bigint | number, b: bigint | number): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Types in PostgreSQL's order, with their comparison. */
export const comparisons: { readonly [T in TypeName]?: CompareValues<ValueOf[T]> } = {
  text: compareTexts,
  bytea: compareBytes,
  bool: (a, b) => Number(a) - Number(b),
  int4: bySize,
  int8: bySize,
  numeric: compareDecimals,
  float8: compareFloats,
  timestamptz: bySize,
  interval: bySize,
};

/** Operators, and whether they are true for a comparison's result. */
const holds: Readonly<Record<string, (order: number) => boolean>> = {
  '=': (order) => order === 0,
  '<>': (order) => order !== 0,
  '<': (order) => order < 0,
  '<=': (order) => order <= 0,
  '>': (order) => order > 0,
  '>=': (order) => order >= 0,
};

const docs: Readonly<Record<string, string>> = {
  '=': 'Equal. In constant time if a secret is compared.',
  '<>': 'Not equal. In constant time if a secret is compared.',
  '<': 'Less.',
  '<=': 'Less or equal.',
  '>': 'Greater.',
  '>=': 'Greater or equal.',
};

function rowsOf<T extends TypeName>(type: T, compare: CompareValues<ValueOf[T]>): FunctionRow[] {
  return Object.entries(holds).map(([name, test]) => {
    const role = name === '=' ? 'equal' : name === '<>' ? 'unequal' : null;
    const implementation = (a: ValueOf[T], b: ValueOf[T]): boolean => test(compare(a, b));
    return strict(
      'operator',
      name,
      [type, type],
      'bool',
      implementation as never,
      'comparison',
      docs[name] ?? '',
      { role },
    );
  });
}

/** Equality in constant time, for comparisons with a secret. */
export function constantTimeEquality(type: TypeName): ((a: never, b: never) => boolean) | null {
  if (type === 'text') return sameText;
  return type === 'bytea' ? sameBytes : null;
}

const same: Implementation = (a, b) => a === b;

export const comparisonRows: readonly FunctionRow[] = [
  ...Object.entries(comparisons).flatMap(([type, compare]) =>
    rowsOf(type as TypeName, compare as CompareValues<unknown>),
  ),
  strict('operator', '=', ['jsonb', 'jsonb'], 'bool', equalJson, 'comparison', 'The same JSON value.', {
    role: 'equal',
  }),
  strict(
    'operator',
    '<>',
    ['jsonb', 'jsonb'],
    'bool',
    (a, b) => !equalJson(a, b),
    'comparison',
    'Different JSON values.',
    { role: 'unequal' },
  ),
].map((row) => (row.role === 'equal' && row.args[0] === 'text' ? { ...row, implementation: same } : row));
