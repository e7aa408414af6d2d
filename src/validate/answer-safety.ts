/**
 * What an UNCHECKED answer may show and sign. Anybody may ask for it, so nothing of the request is returned except
 * through shaped(), no secret of VALIDATE is shown, and nothing is signed that VALIDATE would accept as a signed
 * request.
 *
 * The last rule is proved as follows. If a secret is also a key of VALIDATE, an answer signs one shaped value and
 * nothing else. Each hmac() of VALIDATE with that key has to differ from it, because it signs
 *   - the body alone, and the table takes JSON: then a value that may be a JSON document is not answered;
 *   - a constant with a character that the shape cannot contain; or
 *   - a value that VALIDATE requires to be longer than the shape can be.
 *
 * What cannot be proved is refused. Pure.
 */
import { ExpressionError } from './errors.ts';
import { typeExpression } from './expression.ts';
import { type ShapeName, alphabets } from './functions-answers.ts';
import { type Node, type NodeOf, childrenOf, reachable } from './node.ts';
import { Safety } from './safety.ts';

/** The VALIDATE that guards the same table. */
export interface GuardText {
  readonly expression: string;
  readonly secrets: readonly string[];
  /** What happens to a body that VALIDATE has accepted. */
  readonly format: 'json' | 'form' | 'text' | 'bytes';
  /** The values of the secrets, if they are known. */
  readonly values?: ReadonlyMap<string, string>;
}

/** How VALIDATE uses a secret. `plain`: neither as a key nor in a digest. */
type Use =
  | { readonly as: 'mac'; readonly message: Node; readonly longer: ReadonlyMap<number, number> }
  | { readonly as: 'digest' | 'plain' };

export interface AnswerGuardFacts {
  /** A document that is not JSON never becomes a row. */
  readonly takesJson: boolean;
  readonly uses: (name: string) => readonly Use[];
  /** The shared keys that are literals in it. */
  readonly isKey: (value: unknown) => boolean;
}

/** `values`: the values of the secrets, as far as they are known. */
export function guardOf(
  { expression, secrets, format, values = new Map() }: GuardText,
  own: ReadonlyMap<string, string> = new Map(),
): AnswerGuardFacts {
  // If the values are known, they show which secrets are the same.
  const sameAs = (name: string): readonly string[] => {
    const value = own.get(name);
    return secrets.filter((alias) => (value === undefined ? alias === name : values.get(alias) === value));
  };
  const { root } = typeExpression(expression, { secrets });
  const safety = new Safety();
  safety.proof(root);
  const keys = [...safety.keys].flatMap((node) => (node.kind === 'constant' ? [printed(node.value)] : []));
  const isKey = (value: unknown): boolean => value !== null && keys.includes(printed(value));
  keys.push(...[...values.values()].map(printed));
  const literal = (name: string): Use[] => {
    const value = own.get(name);
    return value !== undefined && sameAs(name).length === 0 && isKey(value) ? [{ as: 'digest' }] : [];
  };
  return {
    takesJson: format === 'json',
    uses: (name) => [...sameAs(name).flatMap((alias) => usesOf(root, alias)), ...literal(name)],
    isKey,
  };
}

function printed(value: unknown): string {
  return Buffer.isBuffer(value) ? value.toString('latin1') : Buffer.from(String(value)).toString('latin1');
}

function holds(root: Node, is: (node: Node) => boolean): boolean {
  for (const node of reachable(root)) if (is(node)) return true;
  return false;
}

const isSecret =
  (name: string) =>
  (node: Node): boolean =>
    node.kind === 'secret' && node.name === name;

function usesOf(root: Node, name: string): Use[] {
  const uses: Use[] = [];
  const seen = new Set<string>();
  let facts = 0;
  const visit = (node: Node, inDigest: boolean, longer: ReadonlyMap<number, number>, mark: number): void => {
    const key = `${node.id} ${inDigest} ${mark}`;
    if (seen.has(key)) return;
    seen.add(key);
    if (isSecret(name)(node)) return void uses.push({ as: inDigest ? 'digest' : 'plain' });
    const { role } = node.kind === 'call' ? node.row : { role: null };
    if (role === 'mac') {
      const [secret, message] = childrenOf(node);
      if (secret === undefined || message === undefined) return;
      // A key that is itself signed from the request could be requested.
      const isMade =
        secret.sender || holds(secret, (part) => part.kind === 'call' && part.row.role === 'mac');
      if (holds(secret, isSecret(name)))
        uses.push(isMade ? { as: 'digest' } : { as: 'mac', message, longer });
      visit(message, true, longer, mark);
      return;
    }
    const isDigest = inDigest || ['hash', 'verify', 'token', 'issued'].includes(role ?? '');
    const known = node.kind === 'and' ? new Map([...longer, ...lengthsOf(node)]) : longer;
    const next = node.kind === 'and' ? ++facts : mark;
    for (const child of childrenOf(node)) visit(child, isDigest, known, next);
  };
  visit(root, false, new Map(), 0);
  return uses;
}

/** Which values a conjunction requires to be longer than so many characters: `length(x) > 64`. */
function lengthsOf(conjunction: Node): [number, number][] {
  return childrenOf(conjunction).flatMap((node): [number, number][] => {
    if (node.kind !== 'call') return [];
    const { name } = node.row;
    const turned = name === '<' || name === '<=';
    const [length, bound] = turned ? [node.args[1], node.args[0]] : [node.args[0], node.args[1]];
    if (!['>', '>=', '<', '<='].includes(name) || length?.kind !== 'call' || bound?.kind !== 'constant')
      return [];
    const [measured] = length.args;
    if (!['length', 'octet_length', 'char_length'].includes(length.row.name) || measured === undefined)
      return [];
    const least = Number(bound.value) - (name.endsWith('=') ? 1 : 0);
    return Number.isFinite(least) ? [[measured.id, least]] : [];
  });
}

/** Checks the condition of an UNCHECKED answer. `proved`: it is true only if a check held. */
export function checkWhen(when: Node, proved: boolean, guard: AnswerGuardFacts | null): void {
  for (const node of reachable(when)) {
    if (node.kind === 'constant' && guard?.isKey(node.value) === true)
      throw new ExpressionError(
        '22023',
        'a key of VALIDATE cannot stand in the WHEN of an UNCHECKED answer',
        node.at,
      );
    if (node.kind !== 'secret') continue;
    if (!proved)
      throw new ExpressionError(
        '22023',
        'an UNCHECKED answer whose WHEN names a secret must compare it',
        node.at,
        { hint: `Write secure_compare(query->>'…', ${node.name}), and in every OR-branch.` },
      );
    const uses = guard?.uses(node.name) ?? [];
    if (uses.length === 0 || onlyInMacs(when, node.name)) continue;
    if (uses.some(({ as }) => as !== 'plain') || comparesUrl(when, node.name))
      throw new ExpressionError(
        '22023',
        `the secret "${node.name}" is one of VALIDATE, and cannot be a verify token`,
        node.at,
        {
          hint: 'A verify token travels in URLs. Make a secret of its own: CREATE SECRET … and ANSWER SECRET ….',
        },
      );
  }
}

/** The condition checks a signature: it shows and signs nothing. */
function onlyInMacs(when: Node, name: string): boolean {
  return usesOf(when, name).every(({ as }) => as === 'mac');
}

function comparesUrl(when: Node, name: string): boolean {
  const isUrl = (node: Node): boolean =>
    node.kind === 'variable' && ['query', 'path', 'url'].includes(node.name);
  const compares = (node: Node): boolean =>
    (node.kind === 'call' || node.kind === 'any') &&
    ['compare', 'compareAny', 'equal', 'unequal'].includes(node.row.role ?? '') &&
    holds(node, isSecret(name)) &&
    holds(node, isUrl);
  return holds(when, compares);
}

/** Returns the values that are signed and must not be JSON documents. */
export function checkOutputs(root: Node, guard: AnswerGuardFacts | null): Node[] {
  const documents: Node[] = [];
  const seen = new Set<string>();
  const visit = (node: Node, inDigest: boolean): void => {
    const key = `${node.id} ${inDigest}`;
    if (seen.has(key)) return;
    seen.add(key);
    if (node.kind === 'constant') {
      if (guard?.isKey(node.value) !== true) return;
      throw new ExpressionError('22023', 'a key of VALIDATE cannot stand in an UNCHECKED answer', node.at);
    }
    if (node.kind === 'secret') {
      if ((guard?.uses(node.name) ?? []).length > 0) throw sharedSecret(node.name, node.at, inDigest);
      return;
    }
    if (node.kind === 'header' || (node.kind === 'variable' && node.name !== 'now')) throw unshaped(node.at);
    if (node.kind === 'call') {
      const { role } = node.row;
      if (role === 'shape') return checkShaped(node);
      if (role === 'mac') return signs(node);
      if (role === 'hash') return node.args.forEach((arg) => visit(arg, true));
    }
    for (const child of childrenOf(node)) visit(child, inDigest);
  };
  const signs = (node: NodeOf<'call'>): void => {
    const [key, message] = node.args;
    if (key === undefined || message === undefined) return;
    if (key.sender) throw new ExpressionError('22023', 'the key of hmac() cannot be of the request', key.at);
    if (!holds(key, ({ kind }) => kind === 'secret'))
      throw new ExpressionError(
        '22023',
        'an UNCHECKED answer signs with a secret, not with a literal',
        key.at,
      );
    visit(message, true);
    for (const part of reachable(key))
      if (part.kind === 'secret') documents.push(...differs(part.name, message, guard, node.at));
  };
  visit(root, false);
  return documents;
}

function unshaped(at: number): ExpressionError {
  return new ExpressionError(
    '22023',
    'an UNCHECKED answer shows and signs values of the request only through shaped()',
    at,
    { hint: "For example shaped(query->>'challenge', 'token', 128)." },
  );
}

function sharedSecret(name: string, at: number, inDigest: boolean): ExpressionError {
  return new ExpressionError(
    '22023',
    inDigest
      ? `the secret "${name}" is one of VALIDATE: an UNCHECKED answer uses it as the key of hmac() over one shaped value, or not at all`
      : `the secret "${name}" is one of VALIDATE, and cannot be shown`,
    at,
  );
}

/** What has the shape is the sender's own: no digest can be passed off as such a value. */
function checkShaped({ args: [value, name, max], at }: NodeOf<'call'>): void {
  if (name?.kind !== 'constant' || max?.kind !== 'constant')
    throw new ExpressionError('22023', 'the shape and the length of shaped() are constants', at);
  const isMade = (node: Node): boolean =>
    node.kind === 'secret' ||
    (node.kind === 'call' && ['mac', 'hash', 'verify', 'token', 'issued'].includes(node.row.role ?? ''));
  if (value !== undefined && holds(value, isMade))
    throw new ExpressionError(
      '22023',
      'in an UNCHECKED answer shaped() takes what the sender sent, with neither a secret nor a digest in it',
      value.at,
    );
}

/** Refuses a message that VALIDATE might accept as a signed request; returns the value that must not be a JSON document. */
function differs(name: string, message: Node, guard: AnswerGuardFacts | null, at: number): Node[] {
  const uses = guard?.uses(name) ?? [];
  if (guard === null || uses.length === 0) return [];
  const shaped = unwrapped(message);
  const refuse = (why: string): never => {
    throw new ExpressionError('22023', `the secret "${name}" is a key of VALIDATE, and ${why}`, at, {
      detail: 'Whoever asks could have a request of his own signed.',
      hint: 'Check the request first (without UNCHECKED), use a narrower shape, or let VALIDATE exclude what is signed here.',
    });
  };
  if (shaped.kind !== 'call' || shaped.row.role !== 'shape')
    return refuse('an UNCHECKED answer signs one shaped value with it, and nothing else');
  const [, shape, max] = shaped.args;
  if (shape?.kind !== 'constant' || max?.kind !== 'constant') return [];
  const alphabet = alphabets[shape.value as ShapeName];
  let isBody = false;
  for (const use of uses) {
    if (use.as !== 'mac') return refuse('VALIDATE uses it for more than hmac()');
    const parts = partsOf(use.message);
    const [only] = parts;
    if (parts.some((part) => part.kind === 'constant' && !alphabet.test(printed(part.value)))) continue;
    if (parts.length === 1 && only !== undefined && (use.longer.get(only.id) ?? -1) >= Number(max.value))
      continue;
    if (parts.length === 1 && only?.kind === 'variable' && only.name === 'payload') {
      if (!guard.takesJson) return refuse('the body that it signs may be any text');
      isBody = true;
      continue;
    }
    return refuse('what this answer signs may be what VALIDATE expects to be signed');
  }
  return isBody ? [shaped] : [];
}

/** Looks through conversions between text and bytes in UTF-8. */
function unwrapped(node: Node): Node {
  if (node.kind !== 'call' || (node.row.name !== 'convert_to' && node.row.name !== 'convert_from'))
    return node;
  const [inner] = node.args;
  return inner === undefined ? node : unwrapped(inner);
}

/** The parts that are joined by `||`, in order. */
function partsOf(node: Node): Node[] {
  const inner = unwrapped(node);
  if (inner.kind === 'call' && inner.row.name === '||') return inner.args.flatMap(partsOf);
  return [inner];
}
