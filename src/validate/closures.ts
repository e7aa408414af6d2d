/**
 * The closures of the nodes of a tree: headers and variables of the request, calls of functions, values that are the same for every request or shared
 * within one. The compiler (compile.ts) makes them once; a program (program.ts) runs them for each request. Logical operators are in
 * conditional-expressions.ts, comparisons in equality.ts.
 */
import { EvaluationError } from './errors.ts';
import type { Implementation } from './function-table.ts';
import { jsonOf } from './jsonb.ts';
import type { Context, Evaluate, NodeOf } from './node.ts';
import { noRequest } from './program.ts';
import type { HeaderSlots } from './program.ts';
import { allHeaders, headerText, headerValues, pathOf, queryOf, urlOf } from './request-values.ts';
import { timestampOfMs } from './timestamp.ts';
import type { Value } from './types.ts';

/** `headers`: where a request's values are found. */
export function headerOf(node: NodeOf<'header'>, headers: HeaderSlots): Evaluate {
  const { name } = node;
  if (node.type === 'text[]') return ({ request }) => headerValues(request.rawHeaders, name);
  const at = headers.slotOf(name);
  if (node.type === 'text') return ({ headers: values }) => headerText(values[at] ?? null);
  return ({ headers: values }) => {
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

export const isLong = (value: Value): value is string | Buffer =>
  (typeof value === 'string' || Buffer.isBuffer(value)) && value.length > shortMax;

/** An argument of a function. Nobody else is served while an expression is evaluated: one that reads too much raises an error, and so refuses the request. */
export function counted(closure: Evaluate, weight: number): Evaluate {
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
export function computedIn(constants: Context, closure: Evaluate): Evaluate {
  try {
    return always(closure(constants));
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
    if (known !== undefined) return known;
    const value = closure(context);
    context.shared[at] = value;
    return value;
  };
}
