/** The typed tree, which build.ts builds: equal subtrees are one node; and what a node becomes (compile.ts). */
import type { CheckRequest } from '../types/request.ts';
import { type FunctionRow } from './function-table.ts';
import { type StaticType, type Value } from './types.ts';
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

/** One request under evaluation. */
export interface Context {
  request: CheckRequest;
  /** The values of the headers that the expression names, by their slots. */
  readonly headers: readonly (string | null)[];
  /** Values that several places need; undefined until computed. */
  readonly shared: (Value | undefined)[];
  /** What its functions may still read, in bytes or characters. */
  left: number;
}

export type Evaluate = (context: Context) => Value;

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

/** A constant that may be a shared key: text or bytes, not empty, not NULL. */
export function isKeyConstant(node: Node): boolean {
  if (node.kind !== 'constant') return false;
  const { value } = node;
  return (typeof value === 'string' || Buffer.isBuffer(value)) && value.length > 0;
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
