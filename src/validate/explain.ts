/**
 * Why a request is accepted or not: an expression is evaluated once, and every step is recorded. Takes the expression's
 * text, its secrets and a request; returns the verdict of the very closure that guards the table, the reason in words
 * and the steps in the order of evaluation. Contains no secret, and nothing that is computed from one or compared as a
 * key, except booleans and NULL. Pure.
 */
import type { Cause } from '../types/cause.ts';
import type { CheckRequest, WhyNot } from '../types/request.ts';
import { limits } from '../config/limits.ts';
import { type BoundValues, Compiler, type Trace, unset } from './compile.ts';
import { type Evaluation, Reasons, type NodeResult, ageOf, messageOf } from './explain-reason.ts';
import {
  constantValue,
  isEmptyValue,
  keyConstants,
  parseExpression,
  reachable,
  typeExpression,
} from './expression.ts';
import { HeaderSlots } from './headers.ts';
import { type Node, childrenOf } from './node.ts';
import { NodePrinter, type Scrub, mask, printBody, printValue } from './print-node.ts';
import { Safety } from './safety.ts';

export interface Explanation {
  readonly accepted: boolean;
  /** false: it depends on what was not kept. */
  readonly known?: false;
  /** Why, in one line. */
  readonly reason: string;
  /** The same for programs; absent if it was accepted, or is not known. */
  readonly cause?: Cause;
  readonly steps: readonly { readonly expression: string; readonly value: string }[];
}

/**
 * Why a stranger's request is refused, in one line. The contents of its headers and its query string are not shown:
 * they may be a credential, and for another system. Evaluates once, as below.
 */
export function explainRefusal(text: string, values: BoundValues, request: CheckRequest): WhyNot {
  const { reason, cause } = explainExpression(text, values, request, new Privacy(request));
  return { reason, cause: cause ?? { kind: 'other' } };
}

/**
 * Evaluates once; `loadParser` must have resolved. Throws ExpressionError if the text is not a VALIDATE expression.
 * `privacy`: which parts of the request are not shown; absent: the caller has described the request itself. `notKept`: headers that the
 * request had, and whose values are not known.
 */
export function explainExpression(
  text: string,
  values: BoundValues,
  request: CheckRequest,
  privacy?: Privacy,
  notKept: readonly string[] = [],
): Explanation {
  const scope = { secrets: [...values.secrets.keys()] };
  const accepted = parseExpression(text, scope).compile(values)(request);
  const { root, payloadName } = typeExpression(text, scope);
  const safety = new Safety();
  safety.proof(root);
  const secrecy = new Secrecy(keyConstants(root, safety));
  const printer = new NodePrinter(payloadName, (constant) => secrecy.isHidden(constant));
  const empty = [...safety.bound].find((node) => isEmptyValue(constantValue(node, values)));
  const doubled = doubledHeader(root, request);
  const results = empty === undefined && doubled === null ? traced(root, values, request) : new Map();
  const scrub = scrubber(root, values, results, secrecy);
  const isMasked = (node: Node) =>
    secrecy.isHidden(node) || (privacy?.isPrivate(node) === true && ageOf(node, results) === null);
  const unkept = new Unkept(notKept);
  const evaluation: Evaluation = {
    root,
    request,
    results,
    print: (node) => printer.print(node),
    show: (node) =>
      unkept.isUnknown(node, results.get(node.id))
        ? 'not kept'
        : shown(node, results.get(node.id), isMasked(node), scrub),
    isMasked,
    isHidden: (node) => secrecy.isHidden(node),
  };
  let reason = 'the expression is true';
  let cause: Cause | undefined;
  if (doubled !== null) {
    cause = { kind: 'twice', header: doubled };
    reason = `header '${doubled}' arrived twice: which one the sender signed is not known`;
  } else if (empty !== undefined) reason = `the key ${printer.print(empty)} is empty`;
  else if (!accepted) {
    const decisive = unkept.decisive(root, results);
    const reasons = new Reasons(evaluation);
    if (decisive !== null) {
      reason = reasons.of(decisive);
      cause = reasons.cause;
    } else
      return {
        accepted,
        known: false,
        reason: `${unkept.names(root)} not kept: whether the check accepts the request is not known`,
        steps: stepsOf(evaluation),
      };
  }
  const steps = stepsOf(evaluation);
  return cause === undefined ? { accepted, reason, steps } : { accepted, reason, cause, steps };
}

/** Headers that the request had, and whose values are not known any more. */
class Unkept {
  readonly #names: ReadonlySet<string>;

  constructor(names: readonly string[]) {
    this.#names = new Set(names.map((name) => name.toLowerCase()));
  }

  /** It needs one of them: what it was at the arrival is not known. */
  #needs(node: Node): boolean {
    if (this.#names.size === 0) return false;
    return [...reachable(node)].some(
      (part) =>
        (part.kind === 'header' && this.#names.has(part.name)) ||
        (part.kind === 'variable' && part.name === 'headers'),
    );
  }

  isUnknown(node: Node, result: NodeResult | undefined): boolean {
    return result !== undefined && !('value' in result && result.value === true) && this.#needs(node);
  }

  /** The part that refuses the request whatever these headers held; null: there is none. */
  decisive(root: Node, results: ReadonlyMap<number, NodeResult>): Node | null {
    if (!this.#needs(root)) return root;
    if (root.kind !== 'and') return null;
    const refuses = (node: Node): boolean => {
      const result = results.get(node.id);
      return result !== undefined && 'value' in result && result.value === false && !this.#needs(node);
    };
    return root.args.find(refuses) ?? null;
  }

  names(root: Node): string {
    const needed = [...reachable(root)].flatMap((part) =>
      part.kind === 'header' && this.#names.has(part.name) ? [part.name] : [],
    );
    const names = needed.length === 0 ? [...this.#names] : [...new Set(needed)];
    return `header${names.length === 1 ? '' : 's'} '${names.join("', '")}' ${names.length === 1 ? 'was' : 'were'}`;
  }
}

/** Times are shown, so that a wrong clock can be seen. */
const moment = /^\d{1,13}$/;

/** Which parts of an expression reveal what a stranger has sent outside the body. */
class Privacy {
  readonly #request: CheckRequest;
  readonly #private = new Map<number, boolean>();

  constructor(request: CheckRequest) {
    this.#request = request;
  }

  isPrivate(node: Node): boolean {
    return node.type !== 'bool' && this.#tells(node);
  }

  #tells(node: Node): boolean {
    const known = this.#private.get(node.id);
    if (known !== undefined) return known;
    const tells = this.#isSource(node) || childrenOf(node).some((child) => this.#tells(child));
    this.#private.set(node.id, tells);
    return tells;
  }

  #isSource(node: Node): boolean {
    if (node.kind === 'variable') return ['headers', 'query', 'url'].includes(node.name);
    if (node.kind !== 'header') return false;
    const { rawHeaders } = this.#request;
    const at = rawHeaders.findIndex((name, i) => i % 2 === 0 && name.toLowerCase() === node.name);
    return !(node.name.includes('time') && moment.test(rawHeaders[at + 1] ?? ''));
  }
}

/** Which parts of an expression must not be shown. */
class Secrecy {
  readonly #keys: ReadonlySet<Node>;
  readonly #literals: ReadonlySet<number>;
  readonly #derived = new Map<number, boolean>();

  constructor(keys: ReadonlySet<Node>) {
    this.#keys = keys;
    this.#literals = new Set([...keys].flatMap((key) => (key.kind === 'constant' ? [...key.literals] : [])));
  }

  isHidden(node: Node): boolean {
    return (node.kind === 'constant' || node.type !== 'bool') && this.#isDerived(node);
  }

  /** From a secret, from an HMAC, or from a literal that is a key. The claims of a token were written by its sender. */
  #isDerived(node: Node): boolean {
    const known = this.#derived.get(node.id);
    if (known !== undefined) return known;
    const isPublic = node.kind === 'call' && (node.row.role === 'token' || node.row.role === 'verify');
    const derived =
      node.kind === 'constant'
        ? this.#keys.has(node) || [...node.literals].some((at) => this.#literals.has(at))
        : node.secret || (!isPublic && childrenOf(node).some((child) => this.#isDerived(child)));
    this.#derived.set(node.id, derived);
    return derived;
  }
}

/** Evaluates; returns the result of each node. A node without a result was not needed. */
function traced(root: Node, values: BoundValues, request: CheckRequest): Map<number, NodeResult> {
  const results = new Map<number, NodeResult>();
  const trace: Trace = (node, closure) => (context) => {
    try {
      const value = closure(context);
      results.set(node.id, { value });
      return value;
    } catch (error) {
      results.set(node.id, { error });
      throw error;
    }
  };
  const headers = HeaderSlots.of(reachable(root));
  headers.fill(request);
  const { evaluate, shared } = new Compiler(values, headers, trace).compile(root);
  // Parts that are the same for every request were computed while compiling; only now is it seen whether this request needs them.
  results.delete(root.id);
  try {
    evaluate({ request, headers, shared: Array.from({ length: shared }, () => unset) });
  } catch {
    // The error is among the results.
  }
  return results;
}

function doubledHeader(root: Node, { rawHeaders }: CheckRequest): string | null {
  const received = rawHeaders.filter((_, at) => at % 2 === 0).map((name) => name.toLowerCase());
  for (const node of reachable(root)) {
    if (node.kind !== 'header' || node.type === 'text[]') continue;
    if (received.indexOf(node.name) !== received.lastIndexOf(node.name)) return node.name;
  }
  return null;
}

/** The minimum length, in characters, of a value computed from a key that is removed from other values. */
const scrubbedCharsMin = 4;

/** A request that is accepted may contain the key itself: it is removed from every value. */
function scrubber(
  root: Node,
  values: BoundValues,
  results: ReadonlyMap<number, NodeResult>,
  secrecy: Secrecy,
): Scrub {
  const keys = new Set(values.secrets.values());
  for (const node of reachable(root)) {
    if (node.varies || !secrecy.isHidden(node)) continue;
    const result = results.get(node.id);
    const value = node.kind === 'constant' ? node.value : result && 'value' in result ? result.value : null;
    const text = Buffer.isBuffer(value) ? value.toString('utf8') : value;
    if (typeof text === 'string' && text.length >= scrubbedCharsMin) keys.add(text);
  }
  keys.delete('');
  const longestFirst = [...keys].sort((a, b) => b.length - a.length);
  return (text) => longestFirst.reduce((left, key) => left.replaceAll(key, mask), text);
}

function shown(node: Node, result: NodeResult | undefined, hidden: boolean, scrub: Scrub): string {
  if (result === undefined) return 'not evaluated';
  if ('error' in result) return `ERROR ${messageOf(result.error, hidden)}`;
  const { value } = result;
  if (value === null) return 'NULL';
  if (hidden) return mask;
  if (node.kind === 'variable' && ['payload', 'encoded_body'].includes(node.name))
    return printBody(value as Buffer, scrub);
  return printValue(value, node.type, scrub);
}

/** In the order of evaluation: what a step needs is listed before it. What several steps need is listed once. */
function stepsOf({ root, results, print, show }: Evaluation): Explanation['steps'] {
  const steps: { expression: string; value: string }[] = [];
  const seen = new Set<number>();
  let left = 0;
  const visit = (node: Node): void => {
    if (seen.has(node.id) || (node.kind === 'constant' && node !== root)) return;
    seen.add(node.id);
    if (results.has(node.id)) for (const child of childrenOf(node)) visit(child);
    if (steps.length < limits.explainStepsMax) steps.push({ expression: print(node), value: show(node) });
    else left++;
  };
  visit(root);
  if (left > 0) steps.push({ expression: `… ${left} more steps`, value: '' });
  return steps;
}
