/**
 * What runs for each request: the closures that a compiled expression consists of, and what they read of a request: its headers, read directly from it
 * or from the alternating names and values as node:http received them, and its target. Each takes a request under evaluation and returns a value;
 * they know no tree.
 */
import { isUtf8 } from 'node:buffer';
import type { CheckRequest, RequestCheck } from '../types/request.ts';
import { EvaluationError } from './errors.ts';
import { comparisons } from './functions-comparison.ts';
import { jsonOf } from './jsonb.ts';
import type { JsonValue } from './jsonb.ts';
import type { Node, NodeOf } from './node.ts';
import type { Implementation } from './function-table.ts';
import { timestampOfMs } from './timestamp.ts';
import type { Value } from './types.ts';
import { queryObject } from './form.ts';
import { limits } from '../config/limits.ts';

/** Up to the question mark, not decoded. */
function pathOf(target: string): string {
  const at = target.indexOf('?');
  return at < 0 ? target : target.slice(0, at);
}

/** The fields after the question mark, decoded; of several with the same name, the last. */
function queryOf(target: string): JsonValue {
  const at = target.indexOf('?');
  return jsonOf(queryObject(at < 0 ? '' : target.slice(at + 1)));
}

/** As the sender calls it: the public address, followed by path and query as received. */
function urlOf(publicUrl: string, target: string): string {
  return (publicUrl.endsWith('/') ? publicUrl.slice(0, -1) : publicUrl) + target;
}

/** Whether a name as received is `wanted`, which is already in lower case. */
function isNamed(received: string, wanted: string): boolean {
  if (received.length !== wanted.length) return false;
  for (let i = 0; i < wanted.length; i++) {
    const code = received.charCodeAt(i);
    const lower = code >= 65 && code <= 90 ? code + 32 : code;
    if (lower !== wanted.charCodeAt(i)) return false;
  }
  return true;
}

/** The headers that an expression names, found in one pass over the request's. */
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
    const { header } = request;
    if (header !== undefined) {
      for (let slot = 0; slot < names.length; slot++) {
        const value = header(names[slot] ?? '');
        if (value === undefined) return false;
        values[slot] = value;
      }
      return true;
    }
    const { rawHeaders } = request;
    values.fill(null);
    for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
      const received = rawHeaders[at] ?? '';
      for (let slot = 0; slot < names.length; slot++) {
        if (!isNamed(received, names[slot] ?? '')) continue;
        if (values[slot] !== null) return false;
        values[slot] = rawHeaders[at + 1] ?? '';
      }
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

/**
 * A header's value as text. node:http returns each byte as one character; the bytes are read as UTF-8, and invalid
 * bytes raise an error, as in convert_from().
 */
export function headerText(value: string | null): string | null {
  if (value === null) return null;
  for (let i = 0; i < value.length; i++) {
    if (value.charCodeAt(i) >= 0x80) return decoded(value);
  }
  return value;
}

function decoded(value: string): string {
  const bytes = Buffer.from(value, 'latin1');
  if (!isUtf8(bytes)) throw new EvaluationError('22021', 'a header is not UTF-8');
  return bytes.toString('utf8');
}

/** All values of one header; null: it is absent. */
function headerValues(rawHeaders: readonly string[], name: string): readonly string[] | null {
  const values: string[] = [];
  for (let at = 0; at + 1 < rawHeaders.length; at += 2)
    if (isNamed(rawHeaders[at] ?? '', name)) values.push(headerText(rawHeaders[at + 1] ?? '') ?? '');
  return values.length === 0 ? null : values;
}

/** All headers as one JSON object with lower-case names. Any header that arrived twice raises an error, because it is read, too. */
function allHeaders(rawHeaders: readonly string[]): JsonValue {
  const object = Object.create(null) as Record<string, string>;
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = (rawHeaders[at] ?? '').toLowerCase();
    if (name in object) throw new EvaluationError('22023', 'a header arrived twice');
    object[name] = headerText(rawHeaders[at + 1] ?? '') ?? '';
  }
  return jsonOf(object);
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

export function emptyContext(headers: HeaderSlots, shared: number): Omit<Context, 'request'> {
  return {
    headers,
    shared: Array.from({ length: shared }, () => unset),
    left: limits.expressionReadBytesMax,
  };
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

/** A compiled tree with space for the values of one request. */
export class Program {
  readonly #context: Context;
  readonly #evaluate: Evaluate;

  /** `shared`: how many values several places need. */
  constructor(evaluate: Evaluate, headers: HeaderSlots, shared: number) {
    this.#evaluate = evaluate;
    this.#context = { ...emptyContext(headers, shared), request: noRequest };
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

/** Computes at once; an error is kept, and raised where the value is needed. */
export function computedNow(closure: Evaluate): Evaluate {
  try {
    return always(closure(noContext));
  } catch (error) {
    return raising(error);
  }
}

function raising(error: unknown): Evaluate {
  return () => {
    throw error;
  };
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

/** AND, OR, NOT, CASE, COALESCE, IS …, GREATEST, LEAST and ARRAY over closures. */
export function logic(node: Node, args: readonly Evaluate[]): Evaluate {
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
