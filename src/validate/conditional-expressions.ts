/**
 * Logical operators and conditional expressions: AND, OR, NOT, CASE, COALESCE, IS …, GREATEST, LEAST, and ARRAY. Takes a node and the closures of its
 * arguments; returns its closure. AND, OR, CASE and COALESCE evaluate their arguments in order, and no more of them than they need.
 */
import { EvaluationError } from './errors.ts';
import { comparisons } from './functions-comparison.ts';
import type { Evaluate, Node, NodeOf } from './node.ts';
import type { Value } from './types.ts';

export function logic(node: Node, args: readonly Evaluate[]): Evaluate {
  switch (node.kind) {
    case 'and':
    case 'or':
      return connective(args, node.kind === 'or');
    case 'not':
      return (context) => {
        const value = args[0]?.(context) ?? null;
        return value === null ? null : value === false;
      };
    case 'coalesce':
      return (context) => {
        for (const arg of args) {
          const value = arg(context);
          if (value !== null) return value;
        }
        return null;
      };
    case 'case':
      return (context) => {
        for (let at = 0; at + 1 < args.length; at += 2) {
          if (args[at]?.(context) === true) return args[at + 1]?.(context) ?? null;
        }
        return args.at(-1)?.(context) ?? null;
      };
    case 'test':
      return tested(node, args[0] ?? (() => null));
    case 'greatest':
    case 'least':
      return extreme(node, args);
    case 'array':
      return (context) => args.map((arg) => arg(context)) as (string | null)[];
    default:
      throw new EvaluationError('XX000', `no code for ${node.kind}`);
  }
}

/** Three-valued AND (`decisive` false) and OR (true): the decisive value ends it, otherwise NULL takes precedence. */
function connective(args: readonly Evaluate[], decisive: boolean): Evaluate {
  return (context) => {
    let result: boolean | null = !decisive;
    for (const arg of args) {
      const value = arg(context);
      if (value === decisive) return decisive;
      if (value === null) result = null;
    }
    return result;
  };
}

function tested({ test, negated }: NodeOf<'test'>, arg: Evaluate): Evaluate {
  const wanted = test === 'true' ? true : test === 'false' ? false : null;
  return (context) => (arg(context) === wanted) !== negated;
}

function extreme(node: Node, args: readonly Evaluate[]): Evaluate {
  const compare = comparisons[node.type as 'text'] as ((a: Value, b: Value) => number) | undefined;
  const sign = node.kind === 'greatest' ? 1 : -1;
  return (context) => {
    let chosen: Value = null;
    for (const arg of args) {
      const value = arg(context);
      if (value === null) continue;
      if (chosen === null || (compare?.(value, chosen) ?? 0) * sign > 0) chosen = value;
    }
    return chosen;
  };
}
