/**
 * What runs for each request, in this order: the check, which evaluates a program; the headers that the program names; what it reads of the
 * request; the calls of its functions. compile.ts puts the closures together: each takes a request under evaluation and returns a value.
 */
import type { CheckRequest, RequestCheck } from '../types/request.ts';
import { onlyHeader } from '../kit/header.ts';
import { limits } from '../config/limits.ts';
import { EvaluationError } from './errors.ts';
import type { Implementation } from './function-table.ts';
import { jsonOf } from './jsonb.ts';
import type { Node, NodeOf } from './node.ts';
import { allHeaders, headerText, headerValues, pathOf, queryOf, urlOf } from './request-values.ts';
import { timestampOfMs } from './timestamp.ts';
import type { Value } from './types.ts';

/** Only a request for which it is true passes: NULL and every error refuse. */
export function checkOf(program: Program): RequestCheck {
  return (request) => {
    try {
      return program.run(request) === true;
    } catch {
      return false;
    }
  };
}

/** A compiled tree with space for the values of one request. */
export class Program {
  readonly #context: Context;
  readonly #evaluate: Evaluate;

  /** `shared`: how many values several places need. */
  constructor(evaluate: Evaluate, headers: HeaderSlots, shared: number) {
    this.#evaluate = evaluate;
    this.#context = {
      request: noRequest,
      headers,
      shared: Array.from({ length: shared }, () => unset),
      left: limits.expressionReadBytesMax,
    };
  }

  /** Throws EvaluationError; undefined: a header that the expression names arrived twice. */
  run(request: CheckRequest): Value | undefined {
    const context = this.#context;
    context.request = request;
    context.left = limits.expressionReadBytesMax;
    try {
      return context.headers.fill(request) ? this.#evaluate(context) : undefined;
    } finally {
      // Nothing of one request is left for the next, or kept alive.
      context.request = noRequest;
      context.headers.clear();
      context.shared.fill(unset);
    }
  }
}

/** The headers that an expression names, with their values in the request under evaluation. */
export class HeaderSlots {
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

/** One request under evaluation. The compiler creates one per expression; evaluation is synchronous. */
export interface Context {
  request: CheckRequest;
  readonly headers: HeaderSlots;
  /** Values that several places need; `unset` until computed. */
  readonly shared: (Value | typeof unset)[];
  /** What its functions may still read, in bytes or characters. */
  left: number;
}

const unset: unique symbol = Symbol('unset');
export type Evaluate = (context: Context) => Value;
export const noContext = {} as Context;

export const noRequest: CheckRequest = {
  method: '',
  target: '',
  rawHeaders: [],
  arrivedAtMs: 0,
  body: Buffer.alloc(0),
};

/** `headers`: where a request's values are found. */
export function headerOf(node: NodeOf<'header'>, headers: HeaderSlots): Evaluate {
  const { name } = node;
  if (node.type === 'text[]') return ({ request }) => headerValues(request.rawHeaders, name);
  const at = headers.slotOf(name);
  if (node.type === 'text') return ({ headers: { values } }) => headerText(values[at] ?? null);
  return ({ headers: { values } }) => {
    const text = headerText(values[at] ?? null);
    return text === null ? null : jsonOf(text);
  };
}

export function variableOf(node: NodeOf<'variable'>, publicUrl: string | null): Evaluate {
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
export function strictCall(implementation: Implementation, args: readonly Evaluate[]): Evaluate {
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

export function looseCall(implementation: Implementation, args: readonly Evaluate[]): Evaluate {
  return (context) => implementation(...args.map((arg) => arg(context)));
}

const shortMax = 4_096;

export const isLong = (value: Value): boolean =>
  (typeof value === 'string' || Buffer.isBuffer(value)) && value.length > shortMax;

/** An argument of a function. Nobody else is served while an expression is evaluated: one that reads too much raises an error, and so refuses the request. */
export function counted(closure: Evaluate, weight: number): Evaluate {
  return (context) => {
    const value = closure(context);
    if ((typeof value === 'string' || Buffer.isBuffer(value)) && value.length > shortMax) {
      context.left -= weight * value.length;
      if (context.left < 0)
        throw new EvaluationError('54000', 'the expression reads too much of this request');
    }
    return value;
  };
}

/** Computes at once; an error is kept, and raised where the value is needed. */
export function computedNow(closure: Evaluate): Evaluate {
  try {
    return always(closure(noContext));
  } catch (error) {
    return () => {
      throw error;
    };
  }
}

/** The same for every request. */
export function always(value: Value): Evaluate {
  return () => value;
}

/** Computed once a request, and kept at this place of its context. */
export function sharedAt(at: number, closure: Evaluate): Evaluate {
  return (context) => {
    const known = context.shared[at];
    if (known !== unset && known !== undefined) return known;
    const value = closure(context);
    context.shared[at] = value;
    return value;
  };
}
