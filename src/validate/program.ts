/**
 * What runs of a VALIDATE expression for each request: the check, the program that it evaluates, and the headers that the program names. compile.ts
 * has made them when the table was read; the closures that a program consists of are in closures.ts, equality.ts and conditional-expressions.ts.
 * Evaluation is synchronous.
 */
import { limits } from '../config/limits.ts';
import { onlyHeader } from '../kit/header.ts';
import type { CheckRequest, RequestCheck } from '../types/request.ts';
import type { Context, Evaluate, Node } from './node.ts';
import type { Value } from './types.ts';

/**
 * The check of a table: this closure runs for each of its requests. Only a request for which the program is true passes: NULL and every error refuse.
 *
 * For example, of `secure_compare(headers->>'x-hub-signature-256', 'sha256=' || encode(hmac(key, payload, 'sha256'), 'hex'))` these run:
 * `HeaderSlots.fill` reads the header; the closure of `encode(hmac(…))` computes the HMAC of the body as hex (two digests: what depends on the key alone
 * was computed when the table was read); that of `||` puts the prefix before it; that of `secure_compare` compares both texts in constant time. Without
 * the header the result is NULL, which refuses.
 */
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

/** For what is the same for every request: all that is computed in it may read as much as one request. */
export function withoutRequest(): Context {
  return { request: noRequest, headers: [], shared: [], left: limits.expressionReadBytesMax };
}

export const noRequest: CheckRequest = {
  method: '',
  target: '',
  rawHeaders: [],
  arrivedAtMs: 0,
  body: Buffer.alloc(0),
};
