/**
 * Why a request is accepted or not: an expression is evaluated once, and every step is recorded. Takes the expression's
 * text, its secrets and a request; returns the verdict of the very closure that guards the table, the reason in words
 * and the steps in the order of evaluation. Contains no secret, and nothing that is computed from one or compared as a
 * key, except booleans and NULL. Pure.
 */
import type { Cause } from '../types/cause.ts';
import type { RequestCheck, CheckRequest, WhyNot } from '../types/request.ts';
import { limits } from '../config/limits.ts';
import {
  type BoundValues,
  compileCheck,
  constantValue,
  isEmptyValue,
  programOf,
  type Trace,
} from './compile.ts';
import { type Evaluation, Reasons, type NodeResult, ageOf, messageOf } from './explain-reason.ts';
import { parseExpression, typeExpression } from './expression.ts';
import { type Node, childrenOf, isPublicCall, reachable } from './node.ts';
import { NodePrinter, type Scrub, mask, printBody, printValue } from './print-node.ts';
import { Safety } from './safety.ts';
import { keyConstants } from './secret-literals.ts';

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
  const { reason, cause } = new Explainer(text, values).explainStranger(request);
  return { reason, cause: cause ?? { kind: 'other' } };
}

/** Parts of a request besides its headers that may not have been kept. */
export type RequestPart = 'method' | 'path' | 'query' | 'body' | 'encoded_body';

/** What is not known of a request any more: headers that it had, or may have had, and other parts. */
export interface PartsNotKept {
  readonly headers: readonly string[];
  readonly parts: readonly RequestPart[];
}

const allKept: PartsNotKept = { headers: [], parts: [] };

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
  return new Explainer(text, values).explain(request, privacy, { headers: notKept, parts: [] });
}

export type Verdict = 'accepted' | 'refused' | 'unknown';

/** An expression, to be explained for many requests. */
export class Explainer {
  readonly #values: BoundValues;
  readonly #check: RequestCheck;
  readonly #root: Node;
  readonly #payloadName: string | null;
  readonly #secrecy: Secrecy;
  /** A key that is empty, so that no request is accepted. */
  readonly #empty: Node | undefined;

  /** `loadParser` must have resolved. Throws ExpressionError. */
  constructor(text: string, values: BoundValues) {
    const scope = { secrets: [...values.secrets.keys()] };
    this.#values = values;
    this.#check = compileCheck(parseExpression(text, scope), values);
    const { root, payloadName } = typeExpression(text, scope);
    const safety = new Safety();
    safety.proof(root);
    this.#root = root;
    this.#payloadName = payloadName;
    this.#secrecy = new Secrecy(keyConstants(root, safety));
    this.#empty = [...safety.bound].find((node) => isEmptyValue(constantValue(node, values)));
  }

  /** What `explain` says, at less cost: `unknown`, if it depends on what was not kept. */
  verdict(request: CheckRequest, notKept: PartsNotKept): Verdict {
    const root = this.#root;
    if (this.#empty !== undefined || doubledHeader(root, request) !== null) return 'refused';
    if (!new Unkept(notKept, new Map()).needs(root)) return this.#check(request) ? 'accepted' : 'refused';
    if (root.kind !== 'and' && root.kind !== 'or') return 'unknown';
    return new Unkept(notKept, traced(root, this.#values, request)).verdict(root);
  }

  /** Why nothing is known. */
  unknownBecause(notKept: PartsNotKept): string {
    return `${new Unkept(notKept, new Map()).names(this.#root)} not kept`;
  }

  /** As `explain`, without headers and query strings of strangers. */
  explainStranger(request: CheckRequest, notKept: PartsNotKept = allKept): Explanation {
    return this.explain(request, new Privacy(request), notKept);
  }

  explain(request: CheckRequest, privacy?: Privacy, notKept: PartsNotKept = allKept): Explanation {
    const [root, values, secrecy, empty] = [this.#root, this.#values, this.#secrecy, this.#empty];
    const printer = new NodePrinter(this.#payloadName, (constant) => secrecy.isHidden(constant));
    const doubled = doubledHeader(root, request);
    const results = empty === undefined && doubled === null ? traced(root, values, request) : new Map();
    const scrub = scrubber(root, values, results, secrecy);
    const isMasked = (node: Node) =>
      secrecy.isHidden(node) || (privacy?.isPrivate(node) === true && ageOf(node, results) === null);
    const unkept = new Unkept(notKept, results);
    const evaluation: Evaluation = {
      root,
      request,
      results,
      print: (node) => printer.print(node),
      show: (node) =>
        unkept.isUnknown(node) ? 'not kept' : shown(node, results.get(node.id), isMasked(node), scrub),
      isMasked,
      isHidden: (node) => secrecy.isHidden(node),
    };
    const steps = () => stepsOf(evaluation);
    if (doubled !== null) {
      const reason = `header '${doubled}' arrived twice: which one the sender signed is not known`;
      return { accepted: false, reason, cause: { kind: 'twice', header: doubled }, steps: steps() };
    }
    if (empty !== undefined)
      return { accepted: false, reason: `the key ${printer.print(empty)} is empty`, steps: steps() };
    const kept = !unkept.needs(root);
    const verdict = kept ? (this.#check(request) ? 'accepted' : 'refused') : unkept.verdict(root);
    if (verdict === 'accepted') return { accepted: true, reason: 'the expression is true', steps: steps() };
    if (verdict === 'unknown') {
      const reason = `${unkept.names(root)} not kept: whether the check accepts the request is not known`;
      return { accepted: false, known: false, reason, steps: steps() };
    }
    const reasons = new Reasons(evaluation);
    const reason = reasons.of(unkept.decisive(root));
    const { cause } = reasons;
    return { accepted: false, reason, ...(cause === undefined ? {} : { cause }), steps: steps() };
  }
}

/** What an expression says although some of what it reads is not known any more. */
class Unkept {
  readonly #headers: ReadonlySet<string>;
  readonly #parts: readonly RequestPart[];
  readonly #variables: ReadonlySet<string>;
  readonly #results: ReadonlyMap<number, NodeResult>;

  constructor({ headers, parts }: PartsNotKept, results: ReadonlyMap<number, NodeResult>) {
    this.#headers = new Set(headers.map((name) => name.toLowerCase()));
    this.#parts = parts;
    this.#variables = new Set([
      ...(headers.length > 0 ? ['headers'] : []),
      ...parts.flatMap((part) => variablesOf[part]),
    ]);
    this.#results = results;
  }

  /** It needs one of them: what it was at the arrival is not known. */
  needs(node: Node): boolean {
    if (this.#variables.size === 0) return false;
    return [...reachable(node)].some(
      (part) =>
        (part.kind === 'header' && this.#headers.has(part.name)) ||
        (part.kind === 'variable' && this.#variables.has(part.name)),
    );
  }

  isUnknown(node: Node): boolean {
    const result = this.#results.get(node.id);
    return result !== undefined && !('value' in result && result.value === true) && this.needs(node);
  }

  /**
   * `accepted`, `refused`: whatever they held. An error in what is evaluated first refuses, so an OR is true only if nothing before its true part
   * is in doubt.
   */
  verdict(node: Node): Verdict {
    if (!this.needs(node)) {
      const result = this.#results.get(node.id);
      if (result === undefined) return 'unknown';
      return 'value' in result && result.value === true ? 'accepted' : 'refused';
    }
    if (node.kind !== 'and' && node.kind !== 'or') return 'unknown';
    const verdicts = node.args.map((arg) => this.verdict(arg));
    const all = (verdict: 'accepted' | 'refused') => verdicts.every((it) => it === verdict);
    if (node.kind === 'and')
      return verdicts.includes('refused') ? 'refused' : all('accepted') ? 'accepted' : 'unknown';
    const sure = verdicts.indexOf('accepted');
    if (sure >= 0 && !node.args.slice(0, sure).some((arg) => this.needs(arg))) return 'accepted';
    return all('refused') ? 'refused' : 'unknown';
  }

  /** Of an expression that is refused: the part that refuses it whatever they held. */
  decisive(root: Node): Node {
    if (!this.needs(root) || root.kind !== 'and') return root;
    const part = root.args.find((arg) => this.verdict(arg) === 'refused');
    return part === undefined ? root : this.decisive(part);
  }

  names(root: Node): string {
    const read = [...reachable(root)];
    const headers = new Set(
      read.flatMap((part) => (part.kind === 'header' && this.#headers.has(part.name) ? [part.name] : [])),
    );
    const readsAll = read.some((part) => part.kind === 'variable' && part.name === 'headers');
    const named = readsAll && headers.size === 0 ? [...this.#headers] : [...headers];
    const parts = this.#parts.filter((it) =>
      read.some((part) => part.kind === 'variable' && variablesOf[it].includes(part.name)),
    );
    const all = [
      ...(named.length === 0 ? [] : [`header${named.length === 1 ? '' : 's'} '${named.join("', '")}'`]),
      ...parts.map((part) => `the ${part}`),
    ];
    return `${all.join(' and ')} ${named.length + parts.length === 1 ? 'was' : 'were'}`;
  }
}

/** The names of an expression that read a part of the request. */
const variablesOf: Readonly<Record<RequestPart, readonly string[]>> = {
  method: ['method'],
  path: ['path', 'url'],
  query: ['query', 'url'],
  body: ['payload', 'encoded_body'],
  encoded_body: ['encoded_body'],
};

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
    const isPublic = isPublicCall(node);
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
  const program = programOf(root, values, trace);
  // Parts that are the same for every request were computed while compiling; only now is it seen whether this request needs them.
  results.delete(root.id);
  try {
    program.run(request);
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
