/**
 * Builds typed nodes: converts types where PostgreSQL does so implicitly, and computes constant parts. A constant part
 * that raises an error is refused when the table is created, with its position. And the static cost bound of the whole: every step is linear
 * in what it reads and writes, so sizes are bounded relative to the request body, and no request can make an expression slow or large. What
 * cannot be bounded is refused.
 */
import { limits } from '../config/limits.ts';
import { Compiler } from './compile.ts';
import { EvaluationError, ExpressionError } from './errors.ts';
import { castRow } from './functions.ts';
import { HeaderSlots } from './program.ts';
import { childrenOf, constantsOf, Nodes } from './node.ts';
import type { Node, NodeDraft } from './node.ts';
import { smallSize, sumSizes } from './function-table.ts';
import type { FunctionRow, SizeBound } from './function-table.ts';
import { printedType } from './types.ts';
import type { StaticType, TypeName, Value } from './types.ts';

const noValues = { secrets: new Map<string, string>(), publicUrl: null };

export class Builder {
  readonly nodes = new Nodes();
  #foldedBytes = 0;

  constant(value: Value, type: StaticType, at: number, literals: Iterable<number> = []): Node {
    // A constant that only gets another type shares its set: of a list of equal ones, none is copied for each of them.
    const shared = literals instanceof Set ? (literals as Set<number>) : new Set(literals);
    return this.nodes.make({ kind: 'constant', value, literals: shared }, type, at);
  }

  /** A node, or the constant that it evaluates to. */
  make(shape: NodeDraft, type: StaticType, at: number): Node {
    const node = this.nodes.make(shape, type, at);
    const parts = childrenOf(node);
    const isConstant = parts.length > 0 && parts.every(({ kind }) => kind === 'constant') && !isStable(node);
    return isConstant ? this.#fold(node) : node;
  }

  call(row: FunctionRow, args: readonly Node[], at: number): Node {
    // A strict function of a constant NULL is NULL, whatever errors its other arguments would raise.
    if (row.strict && args.some((arg) => arg.kind === 'constant' && arg.value === null)) {
      return this.constant(null, row.result, at, literalsOf(args));
    }
    this.#prepare(row, args, at);
    return this.make({ kind: 'call', row, args }, row.result, at);
  }

  /** Refuses invalid constant names and keys. */
  #prepare(row: FunctionRow, args: readonly Node[], at: number): void {
    const known = constantsOf(args);
    if (row.specialise === null || known.every((value) => value === undefined)) return;
    raisedAt(at, () => row.specialise?.(known));
  }

  #fold(node: Node): Node {
    this.#foldedBytes += sizeOfConstant(node);
    if (this.#foldedBytes > limits.expressionFoldedBytesMax) {
      throw new ExpressionError('54000', 'the constant parts of the expression are too large', node.at, {
        hint: `Together they may have ${limits.expressionFoldedBytesMax} bytes.`,
      });
    }
    const value = raisedAt(node.at, () =>
      new Compiler(noValues, new HeaderSlots()).compile(node).evaluate({} as never),
    );
    return this.constant(value, node.type, node.at, literalsOf(childrenOf(node)));
  }

  /** The value as `type`, if PostgreSQL converts implicitly; the caller has made sure that it does. */
  coerce(node: Node, type: TypeName): Node {
    if (node.type === type) return node;
    if (node.type !== 'unknown') return this.cast(node, type, node.at);
    if (node.kind !== 'constant') return node;
    if (node.value === null) return this.constant(null, type, node.at, node.literals);
    const text = this.constant(node.value, 'text', node.at, node.literals);
    if (type === 'text') return text;
    // A bare literal is read while the statement is parsed, whatever its type's input function is called.
    const cast = this.cast(text, type, node.at);
    return cast.kind === 'constant' ? cast : this.#fold(cast);
  }

  cast(node: Node, type: TypeName, at: number): Node {
    if (node.type === type) return node;
    if (node.type === 'unknown') return this.coerce(node, type);
    const row = castRow(node.type, type);
    if (row === undefined) {
      throw new ExpressionError(
        '42846',
        `cannot cast type ${printedType[node.type]} to ${printedType[type]}`,
        at,
      );
    }
    return this.call(row, [node], at);
  }
}

/** Where the constants among these were written. */
function literalsOf(nodes: readonly Node[]): Iterable<number> {
  const sets = nodes.flatMap((node) => (node.kind === 'constant' ? [node.literals] : []));
  const [only] = sets;
  return sets.length === 1 && only !== undefined ? only : sets.flatMap((set) => [...set]);
}

function isStable(node: Node): boolean {
  return node.kind === 'call' && node.row.stable;
}

/** An error in a constant part belongs to the statement that contains it. */
function raisedAt<T>(at: number, compute: () => T): T {
  try {
    return compute();
  } catch (error) {
    if (error instanceof EvaluationError) throw new ExpressionError(error.sqlstate, error.message, at);
    throw error;
  }
}

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
function sizeOfConstant(node: Node): number {
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
