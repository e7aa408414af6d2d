/**
 * Typed tree to closures, and what runs of them for each request: the check, which evaluates a program; the headers that the program names; what it reads
 * of the request; the calls of its functions. Everything that is the same for every request (constants, secrets and what is computed from them, parsed
 * keys) is computed once, by the compiler; a value that two places need is computed once per request. Evaluation is synchronous.
 */
import { limits } from '../config/limits.ts';
import { onlyHeader } from '../kit/header.ts';
import type { CheckRequest, RequestCheck } from '../types/request.ts';
import { logic } from './conditional-expressions.ts';
import { comparisonOf, isEquality, preparedEquality } from './equality.ts';
import { EvaluationError } from './errors.ts';
import type { FunctionRow, Implementation } from './function-table.ts';
import { jsonOf } from './jsonb.ts';
import type { PublishedKeys } from './jwt.ts';
import { childrenOf, constantsOf, reachable } from './node.ts';
import type { Context, Evaluate, Node, NodeOf } from './node.ts';
import { allHeaders, headerText, headerValues, pathOf, queryOf, urlOf } from './request-values.ts';
import { timestampOfMs } from './timestamp.ts';
import type { Value } from './types.ts';

/**
 * The check of a table, from an Expression: this closure runs for each of its requests. Only a request for which it is true passes: NULL and every error
 * refuse. With an empty value among those that it depends on, guessed headers would be accepted: it accepts nothing.
 */
export function compileCheck(
  { root, bound }: { readonly root: Node; readonly bound: readonly Node[] },
  values: BoundValues,
): RequestCheck {
  if (bound.some((node) => isEmptyValue(constantValue(node, values)))) return () => false;
  const program = programOf(root, values);
  return (request) => {
    try {
      return program.run(request) === true;
    } catch {
      return false;
    }
  };
}

/** A compiled tree with space for the values of one request. */
class Program {
  readonly #evaluate: Evaluate;
  readonly #headers: HeaderSlots;
  readonly #context: Context;

  /** `shared`: how many values several places need. */
  constructor(evaluate: Evaluate, headers: HeaderSlots, shared: number) {
    this.#evaluate = evaluate;
    this.#headers = headers;
    this.#context = {
      request: noRequest,
      headers: headers.values,
      shared: Array.from({ length: shared }, () => undefined),
      left: limits.expressionReadBytesMax,
    };
  }

  /** Throws EvaluationError; undefined: a header that the expression names arrived twice. */
  run(request: CheckRequest): Value | undefined {
    const context = this.#context;
    context.request = request;
    context.left = limits.expressionReadBytesMax;
    try {
      return this.#headers.fill(request) ? this.#evaluate(context) : undefined;
    } finally {
      // Nothing of one request is left for the next, or kept alive.
      context.request = noRequest;
      this.#headers.clear();
      context.shared.fill(undefined);
    }
  }
}

/** The headers that an expression names, with their values in the request under evaluation. */
class HeaderSlots {
  readonly names: string[] = [];
  readonly values: (string | null)[] = [];

  slotOf(name: string): number {
    const known = this.names.indexOf(name);
    if (known >= 0) return known;
    this.values.push(null);
    return this.names.push(name) - 1;
  }

  /** false: one of the named headers arrived twice. */
  fill(request: Pick<CheckRequest, 'header' | 'rawHeaders'>): boolean {
    const { names, values } = this;
    for (let slot = 0; slot < names.length; slot++) {
      const value = onlyHeader(request, names[slot] ?? '');
      if (value === undefined) return false;
      values[slot] = value;
    }
    return true;
  }

  /** Of the headers that may arrive once only. */
  static of(nodes: Iterable<Node>): HeaderSlots {
    const slots = new HeaderSlots();
    for (const node of nodes) if (node.kind === 'header' && node.type !== 'text[]') slots.slotOf(node.name);
    return slots;
  }

  clear(): void {
    this.values.fill(null);
  }
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

/** For what is the same for every request: all that is computed in it may read as much as one request. */
export function withoutRequest(): Context {
  return { request: noRequest, headers: [], shared: [], left: limits.expressionReadBytesMax };
}

const noRequest: CheckRequest = {
  method: '',
  target: '',
  rawHeaders: [],
  arrivedAtMs: 0,
  body: Buffer.alloc(0),
};

/** `headers`: where a request's values are found. */
function headerOf(node: NodeOf<'header'>, headers: HeaderSlots): Evaluate {
  const { name } = node;
  if (node.type === 'text[]') return ({ request }) => headerValues(request.rawHeaders, name);
  const at = headers.slotOf(name);
  if (node.type === 'text') return ({ headers: values }) => headerText(values[at] ?? null);
  return ({ headers: values }) => {
    const text = headerText(values[at] ?? null);
    return text === null ? null : jsonOf(text);
  };
}

function variableOf(node: NodeOf<'variable'>, publicUrl: string | null): Evaluate {
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

const shortMax = 4_096;

const isLong = (value: Value): value is string | Buffer =>
  (typeof value === 'string' || Buffer.isBuffer(value)) && value.length > shortMax;

/** An argument of a function. Nobody else is served while an expression is evaluated: one that reads too much raises an error, and so refuses the request. */
function counted(closure: Evaluate, weight: number): Evaluate {
  return (context) => {
    const value = closure(context);
    if (isLong(value)) {
      context.left -= weight * value.length;
      if (context.left < 0) throw readsTooMuch(context);
    }
    return value;
  };
}

function readsTooMuch({ request }: Context): EvaluationError {
  const what =
    request === noRequest
      ? 'the constant parts of the expression read too much'
      : 'the expression reads too much of this request';
  return new EvaluationError('54000', what);
}

/** Computes at once; an error is kept, and raised where the value is needed. */
function computedIn(constants: Context, closure: Evaluate): Evaluate {
  try {
    return always(closure(constants));
  } catch (error) {
    return () => {
      throw error;
    };
  }
}

/** The same for every request. */
function always(value: Value): Evaluate {
  return () => value;
}

/** Computed once a request, and kept at this place of its context. */
function sharedAt(at: number, closure: Evaluate): Evaluate {
  return (context) => {
    const known = context.shared[at];
    if (known !== undefined) return known;
    const value = closure(context);
    context.shared[at] = value;
    return value;
  };
}
