/**
 * Equality and the constructs that rest on it: IS DISTINCT FROM, NULLIF, ANY and ALL. Takes a node and the closures of its arguments; returns its
 * closure. If a secret is involved, values are compared in constant time, and every item of a list is.
 */
import type { Evaluate } from './closures.ts';
import { checkItems } from './constant-time.ts';
import type { FunctionRow, Implementation } from './function-table.ts';
import { constantTimeEquality } from './functions-comparison.ts';
import type { Node, NodeOf } from './node.ts';

function secretEquality(row: FunctionRow, args: readonly Node[]): Implementation | null {
  const type = row.args[0];
  if (type === undefined || !args.some((arg) => arg.secret)) return null;
  const same = constantTimeEquality(type);
  if (same === null) return null;
  return row.role === 'equal'
    ? (a, b) => same(a as never, b as never)
    : (a, b) => !same(a as never, b as never);
}

export function equality(row: FunctionRow, args: readonly Node[]): Implementation {
  return (
    (row.role === 'equal' || row.role === 'unequal' ? secretEquality(row, args) : null) ?? row.implementation
  );
}

export function distinctOf(
  { row, args, negated }: NodeOf<'distinct'>,
  left: Evaluate,
  right: Evaluate,
): Evaluate {
  const equal = equality(row, args);
  return (context) => {
    const [a, b] = [left(context), right(context)];
    const same = a === null || b === null ? a === b : equal(a, b);
    return (same === true) === negated;
  };
}

export function nullifOf({ row, args }: NodeOf<'nullif'>, left: Evaluate, right: Evaluate): Evaluate {
  const equal = equality(row, args);
  return (context) => {
    const [a, b] = [left(context), right(context)];
    return a !== null && b !== null && equal(a, b) === true ? null : a;
  };
}

/** `left op ANY (array)`: true as soon as one item matches; if a secret is involved, every item is compared. */
export function anyOf(
  { all, args }: NodeOf<'any'>,
  left: Evaluate,
  array: Evaluate,
  implementation: Implementation,
): Evaluate {
  const guarded = args.some((arg) => arg.secret);
  return (context) => {
    const value = left(context);
    const items = array(context) as readonly (string | null)[] | null;
    if (items === null) return null;
    if (items.length === 0) return all;
    if (value === null) return null;
    if (guarded) checkItems(items);
    let result: boolean | null = all;
    for (const item of items) {
      const holds = item === null ? null : implementation(value, item);
      if (holds === null) result = result === !all ? result : null;
      else if (holds !== all) {
        result = !all;
        if (!guarded) return result;
      }
    }
    return result;
  };
}
