/**
 * The typed tree. Equal subtrees are one node (hash-consing), so that what an expression says twice is computed once,
 * and subtrees of constants are computed while the tree is built, as PostgreSQL's planner does.
 */
import { printDecimal } from './numeric.ts';
import { type FunctionRow } from './function-table.ts';
import { type StaticType, type Value } from './types.ts';
import { printTextArray } from './arrays.ts';
import { Decimal } from './numeric.ts';
import { JsonValue } from './jsonb.ts';
import { type TestWord } from './syntax.ts';

export type VariableName =
  | 'headers'
  | 'payload'
  | 'method'
  | 'path'
  | 'query'
  | 'url'
  | 'now'
  | 'encoded_body';

interface NodeFacts {
  readonly id: number;
  readonly type: StaticType;
  /** Its position in the text; the first one, if there are several. */
  readonly at: number;
  /** Depends on the request, including its time. */
  readonly varies: boolean;
  /** Depends on what the sender chose. */
  readonly sender: boolean;
  /** Depends on a bound secret, or on an HMAC. */
  readonly secret: boolean;
}

export interface TypedBranch {
  readonly when: Node;
  readonly result: Node;
}

export type Node = NodeFacts &
  (
    | {
        readonly kind: 'constant';
        readonly value: Value;
        /** The positions of the string literals in it. */ readonly literals: Set<number>;
      }
    /** Of type text[]: all its values; otherwise the only one. */
    | { readonly kind: 'header'; readonly name: string }
    | { readonly kind: 'variable'; readonly name: VariableName }
    | { readonly kind: 'secret'; readonly name: string }
    | { readonly kind: 'call'; readonly row: FunctionRow; readonly args: readonly Node[] }
    | {
        readonly kind: 'and' | 'or' | 'coalesce' | 'greatest' | 'least' | 'array';
        readonly args: readonly Node[];
      }
    | { readonly kind: 'not'; readonly args: readonly [Node] }
    | {
        readonly kind: 'case';
        readonly args: readonly Node[];
        readonly branches: readonly TypedBranch[];
        readonly otherwise: Node;
      }
    | {
        readonly kind: 'test';
        readonly test: TestWord;
        readonly negated: boolean;
        readonly args: readonly [Node];
      }
    | {
        readonly kind: 'any';
        readonly row: FunctionRow;
        readonly all: boolean;
        readonly args: readonly [Node, Node];
      }
    | {
        readonly kind: 'distinct';
        readonly row: FunctionRow;
        readonly negated: boolean;
        readonly args: readonly [Node, Node];
      }
    | { readonly kind: 'nullif'; readonly row: FunctionRow; readonly args: readonly [Node, Node] }
  );

export type NodeOf<K extends Node['kind']> = Extract<Node, { kind: K }>;
/** A node as it is requested: the facts are filled in. */
export type NodeDraft = Node extends infer N ? (N extends Node ? Omit<N, keyof NodeFacts> : never) : never;

export function childrenOf(node: Node): readonly Node[] {
  return 'args' in node ? node.args : [];
}

/** undefined: it is no constant. */
export function constantOf(node: Node | undefined): unknown {
  return node?.kind === 'constant' ? node.value : undefined;
}

/** The values of those that are constants; undefined for the others. */
export function constantsOf(nodes: readonly Node[]): (Value | undefined)[] {
  return nodes.map((node) => (node.kind === 'constant' ? node.value : undefined));
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

/** The sender wrote the claims of a token and the signature: they do not reveal the key. */
export function isPublicCall(shape: NodeDraft): boolean {
  return shape.kind === 'call' && ['token', 'issued', 'verify'].includes(shape.row.role ?? '');
}

/** The node and all below it, each once. */
export function* reachable(root: Node): Generator<Node> {
  const seen = new Set<number>();
  const waiting = [root];
  for (let node = waiting.pop(); node !== undefined; node = waiting.pop()) {
    if (seen.has(node.id)) continue;
    seen.add(node.id);
    yield node;
    waiting.push(...childrenOf(node));
  }
}

export class Nodes {
  readonly #byKey = new Map<string, Node>();

  /** The node with that shape: the existing one, or a new one. */
  make(shape: NodeDraft, type: StaticType, at: number): Node {
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

  all(): readonly Node[] {
    return [...this.#byKey.values()];
  }
}
