/** The reason for a refusal in words: follows what was not true down to the part that was decisive. Pure. */
import { aheadOfClock, outsideTolerance } from '../errors/refusals.ts';
import type { Cause } from '../types/cause.ts';
import type { CheckRequest } from '../types/request.ts';
import { EvaluationError } from './errors.ts';
import { headerText } from './request-values.ts';
import { type Node, childrenOf, reachable } from './node.ts';
import { mask, printValue, quoted } from './print-node.ts';
import { type Value } from './types.ts';

/** The result of one node: its value, or the error that it raised. */
export type NodeResult = { readonly value: Value } | { readonly error: unknown };

/** An expression evaluated once. */
export interface Evaluation {
  readonly root: Node;
  readonly request: CheckRequest;
  readonly results: ReadonlyMap<number, NodeResult>;
  readonly print: (node: Node) => string;
  /** The value, masked if necessary; the message, if the node raised an error. */
  readonly show: (node: Node) => string;
  /** The node's value is a secret, or computed from one. */
  readonly isHidden: (node: Node) => boolean;
  /** The node's value must not be shown, for that reason or another. */
  readonly isMasked: (node: Node) => boolean;
}

/** A larger difference is none of two clocks, but may tell a number that is a key. */
const ageMaxS = 10 * 365 * 86_400;

/**
 * By how much a time that the sender has written differs from the time of arrival, in s, positive if it is older; null: the node is no such
 * difference. It is no credential, and says what has to be done.
 */
export function ageOf(node: Node, results: ReadonlyMap<number, NodeResult>): number | null {
  const result = results.get(node.id);
  if (result === undefined || !('value' in result) || result.value === null || node.kind !== 'call')
    return null;
  if (node.row.name === 'abs') {
    const [of] = node.args;
    return of === undefined ? null : ageOf(of, results);
  }
  const [left, right] = node.args;
  if (node.row.name !== '-' || left === undefined || right === undefined) return null;
  if (!readsClock(left) || readsClock(right) || !right.sender) return null;
  const given = Number(printValue(result.value, node.type, (text) => text));
  // In milliseconds, if the clock is multiplied.
  const isMs = left.kind === 'call' && left.row.name === '*';
  const age = node.type === 'interval' ? Number(result.value) / 1e6 : isMs ? given / 1_000 : given;
  return Math.abs(age) <= ageMaxS ? age : null;
}

/** How far from the clock a comparison lets that difference be, in s; null: no constant says it. */
function limitOf(node: Node): number | null {
  const sides = childrenOf(node);
  const at = sides.find((side) => side.kind === 'constant' && typeof side.value !== 'boolean');
  if (at === undefined || at.kind !== 'constant' || at.value === null || sides.length !== 2) return null;
  const isMs = sides.some((side) =>
    [...reachable(side)].some((part) => part.kind === 'call' && part.row.name === '*' && readsClock(part)),
  );
  const given =
    at.type === 'interval' ? Number(at.value) / 1e6 : Number(printValue(at.value, at.type, (text) => text));
  const limit = Math.abs(isMs && at.type !== 'interval' ? given / 1_000 : given);
  return limit <= ageMaxS ? limit : null;
}

const readsClock = (node: Node): boolean =>
  [...reachable(node)].some((part) => part.kind === 'variable' && part.name === 'now');

function ageText(s: number): string {
  const rounded = Math.round(Math.abs(s));
  return `the timestamp is ${rounded} ${s < 0 ? aheadOfClock : 's old'}`;
}

/** A message of PostgreSQL's may quote the value that it is about. */
export function messageOf(error: unknown, hidden: boolean): string {
  if (!(error instanceof EvaluationError)) return 'XX000: internal error';
  const message = hidden ? error.message.replaceAll(/"[^"]*"/g, `"${mask}"`) : error.message;
  return `${error.sqlstate}: ${message}`;
}

/** How many alternatives of an OR are reported one by one. */
const alternativesMax = 3;

export class Reasons {
  readonly #evaluation: Evaluation;
  /** Of alternatives the first. */
  #cause: Cause | null = null;

  constructor(evaluation: Evaluation) {
    this.#evaluation = evaluation;
  }

  /** Of the reason that was told. */
  get cause(): Cause {
    return this.#cause ?? { kind: 'other' };
  }

  #told(cause: Cause, reason: string): string {
    this.#cause ??= cause;
    return reason;
  }

  /** Why a boolean part is not true. */
  of(node: Node): string {
    const result = this.#evaluation.results.get(node.id);
    if (result === undefined) return `${this.#print(node)} was not evaluated`;
    if ('error' in result) return this.#raised(node, result.error);
    switch (node.kind) {
      case 'and':
        return this.of(node.args.find((arg) => this.#is(arg, false)) ?? this.#notTrue(node)[0] ?? node);
      case 'or':
        return this.#alternatives(this.#notTrue(node));
      case 'case':
      case 'coalesce':
        return this.#chosen(node);
      default:
    }
    return result.value === null ? this.#unknown(node) : this.#false(node);
  }

  #print(node: Node): string {
    return this.#evaluation.print(node);
  }

  #value(node: Node): Value | undefined {
    const result = this.#evaluation.results.get(node.id);
    return result !== undefined && 'value' in result ? result.value : undefined;
  }

  #is(node: Node, value: Value): boolean {
    return this.#value(node) === value;
  }

  #notTrue(node: Node): readonly Node[] {
    const { results } = this.#evaluation;
    return childrenOf(node).filter((child) => results.has(child.id) && !this.#is(child, true));
  }

  #alternatives(nodes: readonly Node[]): string {
    const reasons = [...new Set(nodes.map((node) => this.of(node)))];
    const told = reasons.slice(0, alternativesMax).join('; and ');
    return reasons.length > alternativesMax ? `${told}; and ${reasons.length - alternativesMax} more` : told;
  }

  /** The branch that was taken is the last part that was evaluated. */
  #chosen(node: Node): string {
    const { results } = this.#evaluation;
    const taken = childrenOf(node).findLast((child) => results.has(child.id));
    if (taken === undefined || taken.type !== 'bool' || this.#is(taken, true) || taken.kind === 'constant') {
      return `${this.#print(node)} is ${this.#evaluation.show(node)}`;
    }
    return this.of(taken);
  }

  /** The innermost part that raised the error. */
  #raised(node: Node, error: unknown): string {
    const { results } = this.#evaluation;
    const inner = childrenOf(node).find((child) => {
      const result = results.get(child.id);
      return result !== undefined && 'error' in result && result.error === error;
    });
    if (inner !== undefined) return this.#raised(inner, error);
    const hidden = [node, ...childrenOf(node)].some((part) => this.#evaluation.isMasked(part));
    return this.#told({ kind: 'error' }, `${this.#print(node)} raised ${messageOf(error, hidden)}`);
  }

  /** NULL: usually because something that the sender should have sent is missing. */
  #unknown(node: Node): string {
    const names = (parts: Iterable<Node>): string[] =>
      [...parts]
        .sort((a, b) => a.at - b.at)
        .flatMap((part) => (part.kind === 'header' && this.#is(part, null) ? [part.name] : []));
    // Of a header that coalesce() replaces, nothing depends. An array is not NULL, but may hold one that does.
    const decisive = names(this.#nullParts(node));
    const missing = decisive.length > 0 ? decisive : names(reachable(node));
    if (missing.length > 0) {
      const [header = ''] = missing;
      return this.#told({ kind: 'missing', header }, missing.map(missingHeader).join(', and '));
    }
    const cause = this.#nullLeaf(node);
    if (cause.kind === 'variable' && cause.name === 'url') {
      return this.#told(
        { kind: 'url' },
        'url is NULL: the public address is not known (HEADGATE_PUBLIC_URL)',
      );
    }
    return isToken(cause)
      ? this.#told({ kind: 'token' }, `the token does not verify: ${this.#print(cause)} is NULL`)
      : `${this.#print(cause)} is NULL`;
  }

  /** The node, and what is NULL below it without anything between that is not. */
  #nullParts(node: Node): Set<Node> {
    const found = new Set([node]);
    for (const part of found)
      for (const child of childrenOf(part)) if (this.#is(child, null)) found.add(child);
    return found;
  }

  #nullLeaf(node: Node): Node {
    const inner = childrenOf(node).find((child) => this.#is(child, null));
    return inner === undefined ? node : this.#nullLeaf(inner);
  }

  #false(node: Node): string {
    if (node.kind === 'test' && node.test === 'true' && !node.negated) return this.of(node.args[0]);
    if (node.kind === 'any') return this.#comparison(node, node.args);
    if (node.kind === 'call') {
      const { role } = node.row;
      if (role === 'verify')
        return this.#told(
          { kind: 'signature' },
          `the signature does not verify: ${this.#print(node)} is false`,
        );
      if (role === 'compare' || role === 'compareAny' || role === 'equal')
        return this.#comparison(node, node.args);
    }
    return this.#plain(node);
  }

  #plain(node: Node): string {
    const { show } = this.#evaluation;
    const operands = childrenOf(node).filter((child) => child.kind !== 'constant');
    const values = operands.map((child) => `${this.#print(child)} is ${show(child)}`);
    const fact = `${this.#print(node)} is false${values.length === 0 ? '' : ` (${values.join(', ')})`}`;
    if (!readsClock(node)) return fact;
    // A token is verified as of now, too: what was wrong with it is not known.
    const token = [...reachable(node)].find((part) => isToken(part));
    if (token !== undefined && this.#is(token, null)) return this.#unknown(token);
    const age = [...reachable(node)]
      .map((part) => ageOf(part, this.#evaluation.results))
      .find((it) => it !== null);
    const limit = limitOf(node);
    const known = {
      ...this.#signature(),
      ...(age === null || age === undefined ? {} : { ageS: age }),
      ...(limit === null ? {} : { limitS: limit }),
    };
    return this.#told(
      { kind: (age ?? 0) < 0 ? 'ahead' : 'clock', ...known },
      `${outsideTolerance}: ${age === undefined ? '' : `${ageText(age ?? 0)}; `}${fact}`,
    );
  }

  /** What had become of the signature when something else was decisive. */
  #signature(): Pick<Cause, 'signature'> {
    const { root, results } = this.#evaluation;
    const parts = [...reachable(root)];
    if (parts.some((part) => isDigest(part) && results.has(part.id)))
      return parts.some((part) => this.#is(part, true) && [...reachable(part)].some(isDigest))
        ? { signature: 'right' }
        : {};
    return parts.some(isDigest) ? { signature: 'not looked at' } : {};
  }

  /** One side came from the sender, the other is what the owner expects. */
  #comparison(node: Node, [left, right]: readonly Node[]): string {
    const { isHidden } = this.#evaluation;
    const sides = [left, right].filter((side) => side !== undefined);
    const expected = sides.find((side) => isHidden(side) || this.#leaves(side).some(isHidden));
    const sent = sides.find((side) => side !== expected && side.sender);
    if (expected === undefined || sent === undefined) return this.#plain(node);
    const headers = this.#leaves(sent).flatMap((leaf) => (leaf.kind === 'header' ? [leaf.name] : []));
    const where = headers.length > 0 ? `header '${headers.join("', '")}'` : this.#print(sent);
    const [only] = headers;
    if (headers.length === 1 && only !== undefined && this.#header(only) === '')
      return this.#told({ kind: 'empty', header: only }, `header '${only}' is empty`);
    const of = headers.length === 1 && only !== undefined ? { header: only } : {};
    const prefix = this.#expectedPrefix(expected);
    const value = this.#value(sent);
    if (prefix !== null && typeof value === 'string' && !value.startsWith(prefix)) {
      return this.#told(
        { kind: 'prefix', ...of },
        `the signature differs: ${where} does not begin with ${quoted(prefix)}`,
      );
    }
    const wanted = this.#value(expected);
    if (isBrokenAlike(value, wanted))
      return this.#told(
        { kind: 'signature', ...of },
        `the signature differs only in line breaks: ${this.#print(expected)} has one after 76 characters, as encode(…, 'base64') of PostgreSQL writes it; write replace(encode(…, 'base64'), E'\\n', '')`,
      );
    const isSignature = [...reachable(expected)].some(isDigest);
    return this.#told(
      { kind: isSignature ? 'signature' : 'key', ...of },
      isSignature
        ? `the signature differs: ${where} is not ${this.#print(expected)} (another secret, or other bytes than those that were signed)`
        : `the key differs: ${where} is not ${this.#print(expected)}`,
    );
  }

  #header(name: string): string | null {
    const { rawHeaders } = this.#evaluation.request;
    const at = rawHeaders.findIndex((received, i) => i % 2 === 0 && received.toLowerCase() === name);
    return at < 0 ? null : headerText(rawHeaders[at + 1] ?? '');
  }

  /** The publicly known part of the expected value: `sha256=` before a digest. */
  #expectedPrefix(node: Node): string | null {
    if (node.kind === 'constant') {
      return typeof node.value === 'string' && node.value !== '' && !this.#evaluation.isHidden(node)
        ? node.value
        : null;
    }
    const [first] = childrenOf(node);
    return node.kind === 'call' && node.row.name === '||' && first !== undefined
      ? this.#expectedPrefix(first)
      : null;
  }

  /** The parts below a node that have no parts themselves. */
  #leaves(node: Node): readonly Node[] {
    return [...reachable(node)].filter((part) => childrenOf(part).length === 0);
  }
}

/** Equal but for the line breaks, which only one of them has. */
function isBrokenAlike(sent: Value | undefined, expected: Value | undefined): boolean {
  if (typeof sent !== 'string' || typeof expected !== 'string') return false;
  return !sent.includes('\n') && expected.includes('\n') && expected.replaceAll('\n', '') === sent;
}

function isDigest(node: Node): boolean {
  return node.kind === 'call' && (node.row.role === 'mac' || node.row.role === 'hash');
}

function missingHeader(name: string): string {
  const lower = name.toLowerCase();
  if (name === lower) return `header '${name}' is missing`;
  return `header '${name}' is never found, because names are in lower case here: write '${lower}'`;
}

function isToken(node: Node): boolean {
  return node.kind === 'call' && (node.row.role === 'token' || node.row.role === 'issued');
}
