/**
 * Builds typed nodes. Equal subtrees are one node (hash-consing), so that what an expression says twice is computed once; types are converted where
 * PostgreSQL does so implicitly; and subtrees of constants are computed, as PostgreSQL's planner does. A constant part that raises an error is refused
 * when the table is created, with its position.
 */
import { limits } from '../config/limits.ts';
import { printTextArray } from './arrays.ts';
import { foldedValue } from './compile.ts';
import { sizeOfConstant } from './cost.ts';
import { EvaluationError, ExpressionError } from './errors.ts';
import { castRow } from './functions.ts';
import type { FunctionRow } from './function-table.ts';
import { JsonValue } from './jsonb.ts';
import { childrenOf, constantsOf, isPublicCall } from './node.ts';
import type { Node, NodeDraft } from './node.ts';
import { Decimal, printDecimal } from './numeric.ts';
import { withoutRequest } from './program.ts';
import { printedType } from './types.ts';
import type { StaticType, TypeName, Value } from './types.ts';

export class Builder {
  readonly #byKey = new Map<string, Node>();
  #foldedBytes = 0;
  /** Bounds what the constant parts read together. */
  readonly #constants = withoutRequest();

  constant(value: Value, type: StaticType, at: number, literals: Iterable<number> = []): Node {
    // A constant that only gets another type shares its set: of a list of equal ones, none is copied for each of them.
    const shared = literals instanceof Set ? (literals as Set<number>) : new Set(literals);
    return this.#node({ kind: 'constant', value, literals: shared }, type, at);
  }

  /** The node with that shape: the existing one, or a new one. */
  #node(shape: NodeDraft, type: StaticType, at: number): Node {
    const key = keyOf(shape, type);
    const known = this.#byKey.get(key);
    if (known !== undefined) {
      // A constant remembers every literal it came from: all of them are masked if one is a key.
      if (known.kind === 'constant' && shape.kind === 'constant' && known.literals !== shape.literals)
        for (const at of shape.literals) known.literals.add(at);
      return known;
    }
    const { kind } = shape;
    const read = kind === 'header' || kind === 'variable';
    const clock = shape.kind === 'variable' && shape.name === 'now';
    const node = {
      ...shape,
      id: this.#byKey.size,
      type,
      at,
      varies: read || isFetched(shape) || some(shape, 'varies'),
      sender: (read && !clock) || some(shape, 'sender'),
      secret: kind === 'secret' || isSecretCall(shape) || (some(shape, 'secret') && !isPublicCall(shape)),
    } as Node;
    this.#byKey.set(key, node);
    return node;
  }

  /** A node, or the constant that it evaluates to. */
  make(shape: NodeDraft, type: StaticType, at: number): Node {
    const node = this.#node(shape, type, at);
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
    const value = raisedAt(node.at, () => foldedValue(node, this.#constants));
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

const rowIds = new Map<FunctionRow, number>();

/** A number that identifies a row. */
function idOf(row: FunctionRow): number {
  const known = rowIds.get(row);
  if (known !== undefined) return known;
  rowIds.set(row, rowIds.size);
  return rowIds.size - 1;
}

function printedValue(value: Value): string {
  if (value === null) return 'null';
  if (Buffer.isBuffer(value)) return value.toString('hex');
  if (value instanceof JsonValue) return value.text.slice(value.start, value.end);
  if (value instanceof Decimal) return printDecimal(value);
  return typeof value === 'object' ? printTextArray(value) : Object.is(value, -0) ? '-0' : String(value);
}

/** What makes two nodes the same. */
function keyOf(shape: NodeDraft, type: StaticType): string {
  const ids = 'args' in shape ? shape.args.map(({ id }) => id).join(',') : '';
  switch (shape.kind) {
    case 'constant':
      return `constant ${type} ${shape.value === null ? 'null' : 'value'} ${printedValue(shape.value)}`;
    case 'header':
    case 'variable':
    case 'secret':
      return `${shape.kind} ${type} ${shape.name}`;
    case 'call':
      return `call ${idOf(shape.row)} ${ids}`;
    case 'case':
      return `case ${ids}`;
    case 'test':
      return `test ${shape.test} ${shape.negated} ${ids}`;
    case 'any':
      return `any ${idOf(shape.row)} ${shape.all} ${ids}`;
    case 'distinct':
      return `distinct ${idOf(shape.row)} ${shape.negated} ${ids}`;
    case 'nullif':
      return `nullif ${idOf(shape.row)} ${ids}`;
    default:
      return `${shape.kind} ${type} ${ids}`;
  }
}

function some(shape: NodeDraft, fact: 'varies' | 'sender' | 'secret'): boolean {
  return 'args' in shape && shape.args.some((arg) => arg[fact]);
}

/** An HMAC is secret whatever its key is: a literal key is secret, too. */
function isSecretCall(shape: NodeDraft): boolean {
  return shape.kind === 'call' && shape.row.role === 'mac';
}

/** What is fetched may be another value at the next request. */
function isFetched(shape: NodeDraft): boolean {
  return shape.kind === 'call' && shape.row.role === 'published';
}
