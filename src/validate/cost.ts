/**
 * The cost bound of an expression: every step is linear in what it reads and writes, so sizes are bounded relative to the request body, and no request can
 * make an expression slow or large. Takes its tree; refuses what cannot be bounded. Pure.
 */
import { limits } from '../config/limits.ts';
import { ExpressionError } from './errors.ts';
import { smallSize, sumSizes } from './function-table.ts';
import type { SizeBound } from './function-table.ts';
import { childrenOf, constantsOf } from './node.ts';
import type { Node } from './node.ts';
import { printedType } from './types.ts';
import type { Value } from './types.ts';

/** Header names, `\u00XX` escapes and quotes: what JSON adds to the headers. */
const jsonGrowth = 7;

/** Refuses an expression that a request could make expensive. */
export function checkCost(root: Node): void {
  const sizes = new Map<number, SizeBound>();
  let work: SizeBound = { base: 0, body: 0 };
  const visit = (node: Node): SizeBound => {
    const known = sizes.get(node.id);
    if (known !== undefined) return known;
    const parts = childrenOf(node).map(visit);
    const size = sizeOf(node, parts);
    sizes.set(node.id, size);
    if (size.body > limits.expressionValueBodiesMax || size.base > limits.expressionValueBytesMax) {
      throw new ExpressionError('54000', `this ${printedType[node.type]} may grow too large`, node.at, {
        hint: `A value may be up to ${limits.expressionValueBodiesMax} times as long as the request body, plus ${limits.expressionValueBytesMax} bytes; counts and lengths must be constants.`,
      });
    }
    work = sumSizes([work, size, ...parts]);
    return size;
  };
  visit(root);
  if (work.body > limits.expressionWorkBodiesMax || work.base > limits.expressionWorkBytesMax) {
    throw new ExpressionError('54000', 'the expression does too much work', null, {
      hint: `All steps together may read and write ${limits.expressionWorkBodiesMax} times the request body.`,
    });
  }
}

/** In UTF-8 bytes, or approximately for values that are small anyway. */
function constantSize(value: Value): number {
  if (typeof value === 'string') return Buffer.byteLength(value);
  if (Buffer.isBuffer(value)) return value.length;
  return limits.expressionCharsMax;
}

/** How large the value of a constant part may be that is about to be computed, in bytes. */
export function sizeOfConstant(node: Node): number {
  const parts = childrenOf(node).map((part) => sizeOf(part, []));
  return sizeOf(node, parts).base;
}

function sizeOf(node: Node, parts: readonly SizeBound[]): SizeBound {
  switch (node.kind) {
    case 'constant':
      return { base: constantSize(node.value), body: 0 };
    case 'secret':
      return { base: limits.secretBytesMax, body: 0 };
    case 'header':
      return { base: limits.headersBytesMax, body: 0 };
    case 'variable':
      if (node.name === 'payload') return { base: 0, body: 1 };
      // What is compressed is as long as its content, or longer for a sender who wants that, up to the bound of all bodies.
      if (node.name === 'encoded_body') return { base: limits.expressionEncodedBytesMax, body: 1 };
      return { base: limits.headersBytesMax * jsonGrowth, body: 0 };
    case 'call': {
      return node.row.size?.(parts, constantsOf(node.args)) ?? smallSize;
    }
    case 'and':
    case 'or':
    case 'not':
    case 'any':
    case 'test':
    case 'distinct':
      return smallSize;
    case 'array':
      return sumSizes(parts);
    default:
      return parts.reduce(
        (most, part) => ({ base: Math.max(most.base, part.base), body: Math.max(most.body, part.body) }),
        smallSize,
      );
  }
}
