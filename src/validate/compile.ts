/**
 * Typed tree to closures. Takes an Expression and what is bound in it; returns the program that program.ts runs for each request. Everything that is the
 * same for every request (constants, secrets and what is computed from them, parsed keys) is computed here, once; a value that two places need is computed
 * once per request.
 */
import { limits } from '../config/limits.ts';
import type { RequestCheck } from '../types/request.ts';
import {
  always,
  computedIn,
  counted,
  headerOf,
  isLong,
  looseCall,
  sharedAt,
  strictCall,
  variableOf,
} from './closures.ts';
import { logic } from './conditional-expressions.ts';
import { comparisonOf, isEquality, preparedEquality } from './equality.ts';
import type { FunctionRow, Implementation } from './function-table.ts';
import type { PublishedKeys } from './jwt.ts';
import { childrenOf, constantsOf, reachable } from './node.ts';
import type { Context, Evaluate, Node, NodeOf } from './node.ts';
import { checkOf, HeaderSlots, noRequest, Program, withoutRequest } from './program.ts';
import type { Value } from './types.ts';

/**
 * The check of a table, from an Expression: `checkOf` (program.ts) says what runs of it for each request. With an empty value among those that it depends
 * on, guessed headers would be accepted: it accepts nothing.
 */
export function compileCheck(
  { root, bound }: { readonly root: Node; readonly bound: readonly Node[] },
  values: BoundValues,
): RequestCheck {
  if (bound.some((node) => isEmptyValue(constantValue(node, values)))) return () => false;
  return checkOf(programOf(root, values));
}

export interface BoundValues {
  readonly secrets: ReadonlyMap<string, string>;
  readonly publicUrl: string | null;
  /** The keys that are published at a URL. Absent: none are fetched here. */
  readonly publishedKeys?: ((url: string) => PublishedKeys) | undefined;
}

export function isEmptyValue(value: Value): boolean {
  return value === '' || (Buffer.isBuffer(value) && value.length === 0);
}

/** The value of a node that is the same for every request; null also if it raises an error. */
export function constantValue(node: Node, values: BoundValues): Value {
  try {
    return programOf(node, values).run(noRequest) ?? null;
  } catch {
    return null;
  }
}

/** The value of a node whose parts are constants. Throws EvaluationError. */
export function foldedValue(node: Node, constants: Context): Value {
  return new Compiler(noValues, new HeaderSlots(), null, constants).compile(node).evaluate(constants);
}

const noValues: BoundValues = { secrets: new Map(), publicUrl: null };

/** Wraps the closure of every node as it is created, for EXPLAIN VALIDATE. */
export type Trace = (node: Node, closure: Evaluate) => Evaluate;

export function programOf(root: Node, values: BoundValues, trace: Trace | null = null): Program {
  const headers = HeaderSlots.of(reachable(root));
  const { evaluate, shared } = new Compiler(values, headers, trace).compile(root);
  return new Program(evaluate, headers, shared);
}

class Compiler {
  readonly #values: BoundValues;
  readonly #headers: HeaderSlots;
  readonly #closures = new Map<number, Evaluate>();
  readonly #uses = new Map<number, number>();
  readonly #trace: Trace | null;
  /** In which everything is computed that is the same for every request. */
  readonly #constants: Context;
  #shared = 0;

  constructor(
    values: BoundValues,
    headers: HeaderSlots,
    trace: Trace | null = null,
    constants: Context = withoutRequest(),
  ) {
    this.#values = values;
    this.#headers = headers;
    this.#trace = trace;
    this.#constants = constants;
  }

  /** The closure of a whole tree, and how many shared values its context must have. */
  compile(root: Node): { evaluate: Evaluate; shared: number } {
    this.#count(root);
    return { evaluate: this.#closure(root), shared: this.#shared };
  }

  #count(node: Node): void {
    const uses = (this.#uses.get(node.id) ?? 0) + 1;
    this.#uses.set(node.id, uses);
    if (uses === 1) for (const child of childrenOf(node)) this.#count(child);
  }

  #closure(node: Node): Evaluate {
    const known = this.#closures.get(node.id);
    if (known !== undefined) return known;
    let closure = this.#build(node);
    if (!node.varies && node.kind !== 'constant') closure = computedIn(this.#constants, closure);
    else if (this.#isWorthSharing(node)) closure = sharedAt(this.#shared++, closure);
    if (this.#trace !== null) closure = this.#trace(node, closure);
    this.#closures.set(node.id, closure);
    return closure;
  }

  #isWorthSharing(node: Node): boolean {
    if (node.kind === 'variable') return node.name === 'headers' || node.name === 'query';
    return (this.#uses.get(node.id) ?? 0) > 1 && childrenOf(node).length > 0;
  }

  /** The values of arguments that are the same for every request. */
  #known(args: readonly Node[]): (Value | undefined)[] {
    return args.map((arg) => (arg.varies ? undefined : this.#closure(arg)(this.#constants)));
  }

  #build(node: Node): Evaluate {
    switch (node.kind) {
      case 'constant':
        return always(node.value);
      case 'secret': {
        const value = this.#values.secrets.get(node.name);
        if (value === undefined) throw new Error(`compile() was given no value for the secret ${node.name}`);
        return always(value);
      }
      case 'header':
        return headerOf(node, this.#headers);
      case 'variable':
        return variableOf(node, this.#values.publicUrl);
      case 'call':
        return this.#call(node);
      case 'any':
      case 'distinct':
      case 'nullif':
        return comparisonOf(node, this.#closuresOf(node.args), (arg) => this.#valueOf(arg));
      default:
        return logic(node, this.#closuresOf(childrenOf(node)));
    }
  }

  #closuresOf(nodes: readonly Node[]): Evaluate[] {
    return nodes.map((node) => this.#closure(node));
  }

  #call(node: NodeOf<'call'>): Evaluate {
    const { row } = node;
    const direct = row.name === 'encode' && this.#trace === null ? this.#encoded(node) : null;
    if (direct !== null) return direct;
    const args = node.args.map((arg) => this.#argument(arg, row));
    const implementation = this.#implementation(node);
    return row.strict ? strictCall(implementation, args) : looseCall(implementation, args);
  }

  /** What a function reads is counted if it may be long. JSON takes several times as long to read as anything else. */
  #argument(arg: Node, { result }: FunctionRow): Evaluate {
    const closure = this.#closure(arg);
    if (arg.kind === 'header' || arg.kind === 'secret') return closure;
    if (arg.kind === 'constant' && !isLong(arg.value)) return closure;
    // Without a function for its size a result is short.
    if (arg.kind === 'call' && !arg.row.size) return closure;
    return counted(closure, result === 'jsonb' ? limits.expressionJsonWeight : 1);
  }

  /** What cannot be prepared (an invalid key, an argument that raises an error) raises its error when a request needs it. */
  #implementation({ row, args }: NodeOf<'call'>): Implementation {
    const { publishedKeys } = this.#values;
    if (row.withKeysAt !== null && publishedKeys !== undefined)
      return row.withKeysAt(constantsOf(args), publishedKeys);
    // `=` and `<>`; secure_compare and hmac bring `specialise`.
    if (isEquality(row)) return preparedEquality(row, args, (arg) => this.#valueOf(arg));
    try {
      return row.specialise?.(this.#known(args)) ?? row.implementation;
    } catch {
      return row.implementation;
    }
  }

  /** The value of a node that is the same for every request; null also if it raises an error. */
  #valueOf(node: Node): Value {
    try {
      return this.#closure(node)(this.#constants);
    } catch {
      return null;
    }
  }

  /** encode(hmac(…), 'hex') in one step (functions-checks.ts), if nothing else needs the bytes. */
  #encoded({ args: [inner, format] }: NodeOf<'call'>): Evaluate | null {
    if (inner?.kind !== 'call' || inner.row.encoded === null || format?.kind !== 'constant') return null;
    if ((this.#uses.get(inner.id) ?? 0) > 1 || !inner.row.strict || typeof format.value !== 'string')
      return null;
    try {
      const implementation = inner.row.encoded(this.#known(inner.args), format.value.toLowerCase());
      return implementation === null
        ? null
        : strictCall(
            implementation,
            inner.args.map((arg) => this.#argument(arg, inner.row)),
          );
    } catch {
      return null;
    }
  }
}
