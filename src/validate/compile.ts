/**
 * Typed tree to closures. Everything that is the same for every request (constants, secrets and what is computed from
 * them, parsed keys) is computed once, here; a value that two places need is computed once per request.
 */
import { equalTo } from './constant-time.ts';
import { anyOf, distinctOf, equality, nullifOf } from './equality.ts';
import { EvaluationError } from './errors.ts';
import {
  always,
  computedNow,
  counted,
  HeaderSlots,
  isLong,
  looseCall,
  noContext,
  Program,
  sharedAt,
  strictCall,
} from './closures.ts';
import type { Evaluate } from './closures.ts';
import { logic } from './conditional-expressions.ts';
import { headerOf, variableOf } from './request-values.ts';
import { limits } from '../config/limits.ts';
import { type PublishedKeys, publishedKey, verifyIssuedToken } from './jwt.ts';
import { type Node, type NodeOf, childrenOf, reachable } from './node.ts';
import { type Implementation, type FunctionRow } from './function-table.ts';
import { type Value } from './types.ts';

export interface BoundValues {
  readonly secrets: ReadonlyMap<string, string>;
  readonly publicUrl: string | null;
  /** The keys that are published at a URL. Absent: none are fetched here. */
  readonly publishedKeys?: ((url: string) => PublishedKeys) | undefined;
}

export function programOf(root: Node, values: BoundValues): Program {
  const headers = HeaderSlots.of(reachable(root));
  const { evaluate, shared } = new Compiler(values, headers).compile(root);
  return new Program(evaluate, headers, shared);
}

/** Wraps the closure of every node as it is created, for EXPLAIN VALIDATE. */
export type Trace = (node: Node, closure: Evaluate) => Evaluate;

export class Compiler {
  readonly #values: BoundValues;
  readonly #headers: HeaderSlots;
  readonly #closures = new Map<number, Evaluate>();
  readonly #uses = new Map<number, number>();
  readonly #trace: Trace | null;
  #shared = 0;

  constructor(values: BoundValues, headers: HeaderSlots, trace: Trace | null = null) {
    this.#values = values;
    this.#headers = headers;
    this.#trace = trace;
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
    if (!node.varies && node.kind !== 'constant') closure = computedNow(closure);
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
    return args.map((arg) => (arg.varies ? undefined : this.#closure(arg)(noContext)));
  }

  #build(node: Node): Evaluate {
    switch (node.kind) {
      case 'constant': {
        return always(node.value);
      }
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
        return this.#any(node);
      case 'distinct': {
        const [left, right] = node.args.map((arg) => this.#closure(arg)) as [Evaluate, Evaluate];
        return distinctOf(node, left, right);
      }
      case 'nullif': {
        const [left, right] = node.args.map((arg) => this.#closure(arg)) as [Evaluate, Evaluate];
        return nullifOf(node, left, right);
      }
      default:
        return logic(
          node,
          childrenOf(node).map((child) => this.#closure(child)),
        );
    }
  }

  #call(node: NodeOf<'call'>): Evaluate {
    const { row } = node;
    const direct = row.name === 'encode' && this.#trace === null ? this.#encoded(node) : null;
    if (direct !== null) return direct;
    const args = node.args.map((arg) => this.#argument(arg, row));
    if (row.role === 'issued') return strictCall(this.#issued(node.args), args);
    if (row.role === 'published') return strictCall(this.#published(node.args[0]), args);
    const isEquality = row.role === 'equal' || row.role === 'unequal';
    const implementation = isEquality ? this.#equality(row, node.args) : this.#prepared(row, node.args);
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

  #issued(args: readonly Node[]): Implementation {
    const [, url = '', issuer = '', audience = ''] = args.map((arg) =>
      arg.kind === 'constant' && typeof arg.value === 'string' ? arg.value : '',
    );
    const keys = this.#values.publishedKeys?.(url);
    if (keys === undefined) return nothingFetched;
    return (...[token, , , , now]) =>
      verifyIssuedToken(token as string, keys, { issuer, audience }, Number(now) / 1e6);
  }

  #published(url: Node | undefined): Implementation {
    const text = url?.kind === 'constant' && typeof url.value === 'string' ? url.value : '';
    const keys = this.#values.publishedKeys?.(text);
    return keys === undefined ? nothingFetched : (...[, kid]) => publishedKey(kid as string, keys);
  }

  /** An equality with a secret text that is the same for every request is prepared like secure_compare. */
  #equality(row: FunctionRow, args: readonly Node[]): Implementation {
    const [left, right] = args;
    const isText = row.args[0] === 'text' && args.some((arg) => arg.secret);
    const fixed = !isText
      ? undefined
      : left?.varies === false
        ? left
        : right?.varies === false
          ? right
          : undefined;
    const value = fixed === undefined ? null : this.#valueOf(fixed);
    if (typeof value !== 'string') return equality(row, args);
    const isSame = equalTo(value);
    const isEqual = row.role === 'equal';
    return (a, b) => isSame((fixed === left ? b : a) as string) === isEqual;
  }

  /** The value of a node that is the same for every request; null also if it raises an error. */
  #valueOf(node: Node): Value {
    try {
      return this.#closure(node)(noContext);
    } catch {
      return null;
    }
  }

  /** encode(hmac(…), 'hex') in one step, if nothing else needs the bytes. */
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

  /** What cannot be prepared (an invalid key, an argument that raises an error) raises its error when a request needs it. */
  #prepared(row: FunctionRow, args: readonly Node[]): Implementation {
    if (row.specialise === null) return row.implementation;
    try {
      return row.specialise(this.#known(args)) ?? row.implementation;
    } catch {
      return row.implementation;
    }
  }

  #any(node: NodeOf<'any'>): Evaluate {
    const [left, array] = node.args.map((arg) => this.#closure(arg)) as [Evaluate, Evaluate];
    const isEquality = node.row.role === 'equal' || node.row.role === 'unequal';
    const implementation = isEquality ? this.#equality(node.row, node.args) : equality(node.row, node.args);
    return anyOf(node, left, array, implementation);
  }
}

const nothingFetched: Implementation = () => {
  throw new EvaluationError('0A000', 'no keys are fetched here');
};
