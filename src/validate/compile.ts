/**
 * Typed tree to closures. Everything that is the same for every request (constants, secrets and what is computed from
 * them, parsed keys) is computed once, here; a value that two places need is computed once per request.
 */
import { type CheckRequest } from '../types/request.ts';
import { checkItems, equalTo } from './constant-time.ts';
import { EvaluationError } from './errors.ts';
import { comparisons, constantTimeEquality } from './functions-comparison.ts';
import { type HeaderSlots, allHeaders, headerText, headerValues } from './headers.ts';
import { jsonOf } from './jsonb.ts';
import { type PublishedKeys, publishedKey, verifyIssuedToken } from './jwt.ts';
import { type Node, type NodeOf, childrenOf } from './node.ts';
import { type Implementation, type FunctionRow } from './function-table.ts';
import { pathOf, queryOf, urlOf } from './target.ts';
import { timestampOfMs } from './timestamp.ts';
import { type Value } from './types.ts';

export interface BoundValues {
  readonly secrets: ReadonlyMap<string, string>;
  readonly publicUrl: string | null;
  /** The keys that are published at a URL. Absent: none are fetched here. */
  readonly publishedKeys?: ((url: string) => PublishedKeys) | undefined;
}

/** One request under evaluation. The compiler creates one per expression; evaluation is synchronous. */
export interface Context {
  request: CheckRequest;
  readonly headers: HeaderSlots;
  /** Values that several places need; `unset` until computed. */
  readonly shared: (Value | typeof unset)[];
}

export const unset: unique symbol = Symbol('unset');
export type Evaluate = (context: Context) => Value;
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
    else if (this.#isWorthSharing(node)) closure = this.#share(closure);
    if (this.#trace !== null) closure = this.#trace(node, closure);
    this.#closures.set(node.id, closure);
    return closure;
  }

  #isWorthSharing(node: Node): boolean {
    if (node.kind === 'variable') return node.name === 'headers' || node.name === 'query';
    return (this.#uses.get(node.id) ?? 0) > 1 && childrenOf(node).length > 0;
  }

  #share(closure: Evaluate): Evaluate {
    const at = this.#shared++;
    return (context) => {
      const known = context.shared[at];
      if (known !== unset && known !== undefined) return known;
      const value = closure(context);
      context.shared[at] = value;
      return value;
    };
  }

  /** The values of arguments that are the same for every request. */
  #known(args: readonly Node[]): (Value | undefined)[] {
    return args.map((arg) => (arg.varies ? undefined : this.#closure(arg)(noContext)));
  }

  #build(node: Node): Evaluate {
    switch (node.kind) {
      case 'constant': {
        const { value } = node;
        return () => value;
      }
      case 'secret': {
        const value = this.#values.secrets.get(node.name);
        if (value === undefined) throw new Error(`compile() was given no value for the secret ${node.name}`);
        return () => value;
      }
      case 'header':
        return this.#header(node);
      case 'variable':
        return this.#variable(node);
      case 'call':
        return this.#call(node);
      case 'any':
        return this.#any(node);
      case 'distinct': {
        const equal = equality(node.row, node.args);
        const [left, right] = node.args.map((arg) => this.#closure(arg)) as [Evaluate, Evaluate];
        const { negated } = node;
        return (context) => {
          const [a, b] = [left(context), right(context)];
          const same = a === null || b === null ? a === b : equal(a, b);
          return (same === true) === negated;
        };
      }
      case 'nullif': {
        const equal = equality(node.row, node.args);
        const [left, right] = node.args.map((arg) => this.#closure(arg)) as [Evaluate, Evaluate];
        return (context) => {
          const [a, b] = [left(context), right(context)];
          return a !== null && b !== null && equal(a, b) === true ? null : a;
        };
      }
      default:
        return logic(
          node,
          childrenOf(node).map((child) => this.#closure(child)),
        );
    }
  }

  #header(node: NodeOf<'header'>): Evaluate {
    const { name } = node;
    if (node.type === 'text[]') return ({ request }) => headerValues(request.rawHeaders, name);
    const at = this.#headers.slotOf(name);
    if (node.type === 'text') return ({ headers }) => headerText(headers.values[at] ?? null);
    return ({ headers }) => {
      const text = headerText(headers.values[at] ?? null);
      return text === null ? null : jsonOf(text);
    };
  }

  #variable(node: NodeOf<'variable'>): Evaluate {
    const { publicUrl } = this.#values;
    switch (node.name) {
      case 'headers':
        return ({ request }) => allHeaders(request.rawHeaders);
      case 'payload':
        return ({ request }) => request.body;
      case 'encoded_body':
        return ({ request }) => request.encodedBody ?? request.body;
      case 'method':
        return ({ request }) => request.method;
      case 'path':
        return ({ request }) => pathOf(request.target);
      case 'query':
        return ({ request }) => queryOf(request.target);
      case 'url':
        return publicUrl === null ? () => null : ({ request }) => urlOf(publicUrl, request.target);
      default:
        return ({ request }) => timestampOfMs(request.arrivedAtMs);
    }
  }

  #call(node: NodeOf<'call'>): Evaluate {
    const { row } = node;
    const direct = row.name === 'encode' && this.#trace === null ? this.#encoded(node) : null;
    if (direct !== null) return direct;
    const args = node.args.map((arg) => this.#closure(arg));
    if (row.role === 'issued') return strictCall(this.#issued(node.args), args);
    if (row.role === 'published') return strictCall(this.#published(node.args[0]), args);
    const isEquality = row.role === 'equal' || row.role === 'unequal';
    const implementation = isEquality ? this.#equality(row, node.args) : this.#prepared(row, node.args);
    return row.strict ? strictCall(implementation, args) : looseCall(implementation, args);
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
            inner.args.map((arg) => this.#closure(arg)),
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

  /** `left op ANY (array)`: true as soon as one item matches; if a secret is involved, every item is compared. */
  #any(node: NodeOf<'any'>): Evaluate {
    const [left, array] = node.args.map((arg) => this.#closure(arg)) as [Evaluate, Evaluate];
    const guarded = node.args.some((arg) => arg.secret);
    const isEquality = node.row.role === 'equal' || node.row.role === 'unequal';
    const implementation = isEquality ? this.#equality(node.row, node.args) : equality(node.row, node.args);
    const { all } = node;
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
}

const noContext = {} as Context;

/** Computes at once; an error is kept, and raised where the value is needed. */
function computedNow(closure: Evaluate): Evaluate {
  try {
    const value = closure(noContext);
    return () => value;
  } catch (error) {
    return raising(error);
  }
}

function raising(error: unknown): Evaluate {
  return () => {
    throw error;
  };
}

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
  return (
    (row.role === 'equal' || row.role === 'unequal' ? secretEquality(row, args) : null) ?? row.implementation
  );
}

/** All arguments are evaluated, in order, before any is tested for NULL: an error in any of them is raised. */
function strictCall(implementation: Implementation, args: readonly Evaluate[]): Evaluate {
  const [first, second, third] = args;
  if (first === undefined) return () => implementation();
  if (second === undefined) {
    return (context) => {
      const a = first(context);
      return a === null ? null : implementation(a);
    };
  }
  if (third === undefined) {
    return (context) => {
      const a = first(context);
      const b = second(context);
      return a === null || b === null ? null : implementation(a, b);
    };
  }
  if (args.length === 3) {
    return (context) => {
      const a = first(context);
      const b = second(context);
      const c = third(context);
      return a === null || b === null || c === null ? null : implementation(a, b, c);
    };
  }
  return (context) => {
    const values = args.map((arg) => arg(context));
    return values.includes(null) ? null : implementation(...values);
  };
}

function looseCall(implementation: Implementation, args: readonly Evaluate[]): Evaluate {
  return (context) => implementation(...args.map((arg) => arg(context)));
}

/** AND, OR, NOT, CASE, COALESCE, IS …, GREATEST, LEAST and ARRAY over closures. */
function logic(node: Node, args: readonly Evaluate[]): Evaluate {
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

const nothingFetched: Implementation = () => {
  throw new EvaluationError('0A000', 'no keys are fetched here');
};
