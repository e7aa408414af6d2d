/**
 * Equality and the constructs that rest on it: IS DISTINCT FROM, NULLIF, ANY and ALL. Takes a node and the closures of its arguments; returns its
 * closure. If a secret is involved, values are compared in constant time, and every item of a list is.
 */
import { checkItems, equalTo } from './functions-checks.ts';
import type { FunctionRow, Implementation } from './function-table.ts';
import { constantTimeEquality } from './functions-comparison.ts';
import type { Evaluate, Node, NodeOf } from './node.ts';
import type { Value } from './types.ts';

function secretEquality(row: FunctionRow, args: readonly Node[]): Implementation | null {
  const type = row.args[0];
  if (type === undefined || !args.some((arg) => arg.secret)) return null;
  const same = constantTimeEquality(type);
  if (same === null) return null;
  return row.role === 'equal'
    ? (a, b) => same(a as never, b as never)
    : (a, b) => !same(a as never, b as never);
}

function equality(row: FunctionRow, args: readonly Node[]): Implementation {
  return (isEquality(row) ? secretEquality(row, args) : null) ?? row.implementation;
}

export const isEquality = ({ role }: FunctionRow): boolean => role === 'equal' || role === 'unequal';

/**
 * The same, and an equality with a secret text that is the same for every request is prepared like secure_compare. `valueOf`: of an argument that does not
 * vary; null also if it raises an error.
 */
export function preparedEquality(
  row: FunctionRow,
  args: readonly Node[],
  valueOf: (node: Node) => Value,
): Implementation {
  const [left, right] = args;
  const isText = isEquality(row) && row.args[0] === 'text' && args.some((arg) => arg.secret);
  const fixed = isText ? [left, right].find((arg) => arg?.varies === false) : undefined;
  const value = fixed === undefined ? null : valueOf(fixed);
  if (typeof value !== 'string') return equality(row, args);
  const isSame = equalTo(value);
  const isEqual = row.role === 'equal';
  return (a, b) => isSame((fixed === left ? b : a) as string) === isEqual;
}

/** `args`: the closures of the node's arguments. */
export function comparisonOf(
  node: NodeOf<'any' | 'distinct' | 'nullif'>,
  args: readonly Evaluate[],
  valueOf: (node: Node) => Value,
): Evaluate {
  const [left, right] = args as [Evaluate, Evaluate];
  if (node.kind === 'any') return anyOf(node, left, right, preparedEquality(node.row, node.args, valueOf));
  return node.kind === 'distinct' ? distinctOf(node, left, right) : nullifOf(node, left, right);
}

function distinctOf({ row, args, negated }: NodeOf<'distinct'>, left: Evaluate, right: Evaluate): Evaluate {
  const equal = equality(row, args);
  return (context) => {
    const [a, b] = [left(context), right(context)];
    const same = a === null || b === null ? a === b : equal(a, b);
    return (same === true) === negated;
  };
}

function nullifOf({ row, args }: NodeOf<'nullif'>, left: Evaluate, right: Evaluate): Evaluate {
  const equal = equality(row, args);
  return (context) => {
    const [a, b] = [left(context), right(context)];
    return a !== null && b !== null && equal(a, b) === true ? null : a;
  };
}

/** `left op ANY (array)`: true as soon as one item matches; if a secret is involved, every item is compared. */
function anyOf(
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
