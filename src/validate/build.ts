/**
 * Builds typed nodes: converts types where PostgreSQL does so implicitly, and computes constant parts. A constant part
 * that raises an error is refused when the table is created, with its position.
 */
import { limits } from '../config/limits.ts';
import { Compiler } from './compile.ts';
import { sizeOfConstant } from './cost.ts';
import { EvaluationError, ExpressionError } from './errors.ts';
import { castRow } from './functions.ts';
import { HeaderSlots } from './closures.ts';
import { type Node, Nodes, type NodeDraft, childrenOf } from './node.ts';
import { type FunctionRow } from './function-table.ts';
import { type StaticType, type TypeName, type Value, printedType } from './types.ts';

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
    const known = args.map((arg) => (arg.kind === 'constant' ? arg.value : undefined));
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
