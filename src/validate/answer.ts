/**
 * ANSWER clauses: what a request is answered with instead of being stored, and what a committed one is answered with.
 * Takes the texts of one clause, the names in scope and the VALIDATE of the table; returns an `Answer`, which compiles
 * to a synchronous closure; refuses (AnswerError, when the table is created or altered) what does not have an exact
 * meaning here, and what would let strangers have something signed or shown (answer-safety.ts). Touches nothing.
 */
import type {
  AnswerPart,
  CompiledAnswer,
  AnswerText,
  CommittedAnswer,
  HandshakeAnswer,
} from '../types/answers.ts';
import type { CheckRequest } from '../types/request.ts';
import { limits } from '../config/limits.ts';
import { type AnswerGuardFacts, type GuardText, checkOutputs, checkWhen, guardOf } from './answer-safety.ts';
import { type BoundValues, constantValue, isEmptyValue, programOf } from './compile.ts';
import { EvaluationError, ExpressionError } from './errors.ts';
import { typeExpression } from './expression.ts';
import { type Node, reachable } from './node.ts';
import { Safety } from './safety.ts';
import { keyConstants, literalRanges } from './secret-literals.ts';

export type AnswerType = 'text/plain' | 'application/json' | 'text/xml';

export class AnswerError extends ExpressionError {
  readonly part: AnswerPart;

  constructor(part: AnswerPart, { sqlstate, message, position, hint, detail }: ExpressionError) {
    super(sqlstate, message, position, {
      ...(hint === undefined ? {} : { hint }),
      ...(detail === undefined ? {} : { detail }),
    });
    this.part = part;
  }
}

export interface AnswerScope {
  /** Names of the secrets, as folded identifiers. */
  readonly secrets: readonly string[];
  /** null: the table has no VALIDATE, or it is not known. */
  readonly guard: GuardText | null;
  /** The values of the secrets; absent: secrets of the guard are the same if their names are. */
  readonly values?: ReadonlyMap<string, string>;
}

export interface ParsedAnswer {
  readonly payloadName: string | null;
  /** Names of the secrets that it reads. */
  readonly secretsRead: readonly string[];
  /** Those of them that the answer is computed from. */
  readonly secretsShown: readonly string[];
  /** String literals that contain a shared key, by the part that they are in. */
  readonly secretLiterals: ReadonlyMap<
    AnswerPart,
    readonly { readonly start: number; readonly end: number }[]
  >;
  /** Only for a clause with WHEN. */
  compileRule(values: BoundValues): CompiledAnswer;
  committed(): CommittedAnswer;
}

const types: { readonly [type in AnswerType]: string } = {
  'text/plain': 'text/plain; charset=utf-8',
  'application/json': 'application/json',
  'text/xml': 'text/xml; charset=utf-8',
};
const committedStatuses = [200, 201, 202, 204];
const statuses = [...committedStatuses, 403, 404];

/** Headers that only Headgate sets in an answer, or that would have an effect at the other end. */
const foreignHeaders =
  /^(?:access-control-.*|age|alt-svc|authorization|cache-control|clear-site-data|connection|content-.*|cross-origin-.*|date|expect|host|keep-alive|link|location|origin.*|permissions-policy|proxy-.*|referrer-policy|refresh|report.*|sec-.*|server|set-cookie.*|strict-transport-security|te|timing-allow-origin|trailer|transfer-encoding|upgrade|vary|www-authenticate|x-content-type-options|x-frame-options)$/;

/** Parses, types and checks one clause; `loadParser` must have resolved. */
export function parseAnswer(text: AnswerText, scope: AnswerScope): ParsedAnswer {
  const parts = typeParts(text, scope);
  checkFixed(text);
  checkLearn(text, parts, scope);
  const when = parts.when?.root ?? null;
  const outputs = [...parts.headers, ...(parts.body === null ? [] : [parts.body])];
  for (const { part, root } of outputs) checkText(part, root);
  if (when === null) for (const { part, root } of outputs) checkConstant(part, root);
  const guard = scope.guard === null ? null : guardOf(scope.guard, scope.values);
  const safety = new Safety();
  if (when !== null) inPart('when', () => checkCondition(when, text, guard, safety));
  const signed: Node[] = [];
  for (const { part, root } of outputs) {
    inPart(part, () => {
      if (part === 'body' && text.type === 'text/xml' && root.sender)
        throw new ExpressionError('22023', "TYPE 'text/xml' cannot hold values of the request", root.at);
      if (text.unchecked) signed.push(...checkOutputs(root, guard));
    });
  }
  const all = [parts.when, ...outputs, parts.learn].filter((part) => part !== null);
  const read = all.flatMap(({ root }) => secretsIn(root));
  return {
    payloadName: payloadOf(all),
    secretsRead: [...new Set(text.learn === undefined ? read : [...read, text.learn.secret])],
    secretsShown: [...new Set(outputs.flatMap(({ root }) => secretsIn(root)))],
    secretLiterals: new Map(
      all.map(({ part, root, source }) => [part, literalRanges(source, keyConstants(root, safety))]),
    ),
    compileRule: (values) => {
      if (when === null) throw new Error('a clause without WHEN is no rule');
      const bound = [...safety.bound].some((node) => isEmptyValue(constantValue(node, values)));
      return { methods: methodsOf(when), answer: bound ? () => null : rule(text, parts, signed, values) };
    },
    committed: () => committedAnswer(text, parts),
  };
}

interface Part {
  readonly part: AnswerPart;
  readonly source: string;
  readonly root: Node;
  readonly payloadName: string | null;
}

interface AnswerExpressions {
  readonly when: Part | null;
  readonly headers: readonly Part[];
  readonly body: Part | null;
  readonly learn: Part | null;
}

function typeParts({ when, headers, body, learn }: AnswerText, { secrets }: AnswerScope): AnswerExpressions {
  const typed = (part: AnswerPart, source: string): Part =>
    inPart(part, () => ({ part, source, ...typeExpression(source, { secrets }) }));
  return {
    when: when === null ? null : typed('when', when),
    headers: headers.map(({ value }, index) => typed(index, value)),
    body: body === null ? null : typed('body', body),
    learn: learn === undefined ? null : typed('learn', learn.value),
  };
}

function inPart<T>(part: AnswerPart, make: () => T): T {
  try {
    return make();
  } catch (error) {
    if (error instanceof ExpressionError && !(error instanceof AnswerError))
      throw new AnswerError(part, error);
    throw error;
  }
}

function refuse(part: AnswerPart, message: string, hint?: string): never {
  const more = hint === undefined ? {} : { hint };
  throw new AnswerError(part, new ExpressionError('22023', message, part === 'status' ? null : 0, more));
}

/** Checks what is not an expression. */
function checkFixed({ when, unchecked, status, type, headers, body }: AnswerText): void {
  const known = when === null ? committedStatuses : statuses;
  if (status !== null && !known.includes(status)) refuse('status', `STATUS is one of ${known.join(', ')}`);
  if (status === 204 && body !== null) refuse('body', 'an answer of STATUS 204 has no BODY');
  if (type !== null && !Object.hasOwn(types, type))
    refuse('type', `TYPE is one of ${Object.keys(types).join(', ')}`);
  if (unchecked && when === null) refuse('status', 'UNCHECKED needs WHEN');
  if (headers.length > limits.answerHeadersMax)
    refuse(limits.answerHeadersMax, `an answer has at most ${limits.answerHeadersMax} headers`);
  headers.forEach(({ name }, index) => {
    if (!/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}$/.test(name)) refuse(index, 'this is no name of a header');
    if (foreignHeaders.test(name.toLowerCase()))
      refuse(index, `the header ${name} is not an answer's to set`);
  });
}

/** What is learned comes from a stranger: it must have a shape, and nothing else in the clause may depend on a secret. */
function checkLearn(
  { learn, unchecked }: AnswerText,
  parts: AnswerExpressions,
  { secrets }: AnswerScope,
): void {
  if (learn === undefined || parts.learn === null) return;
  const { root } = parts.learn;
  if (!unchecked)
    refuse('learn', 'LEARN needs UNCHECKED: there is no key yet that a request could be checked by');
  if (!secrets.includes(learn.secret)) refuse('learn', `there is no secret "${learn.secret}" here to learn`);
  if (root.kind !== 'call' || root.row.role !== 'shape')
    refuse(
      'learn',
      'LEARN takes a shaped value',
      "For example shaped(headers->>'x-hook-secret', 'token', 128).",
    );
  const all = [parts.when, parts.body, parts.learn, ...parts.headers];
  if (all.some((part) => part !== null && secretsIn(part.root).length > 0))
    refuse('learn', 'beside LEARN an answer reads no secret');
  inPart('learn', () => checkOutputs(root, null));
}

function checkText(part: AnswerPart, { type, at, kind, ...node }: Node): void {
  inPart(part, () => {
    if (type !== 'text')
      throw new ExpressionError('42804', `${part === 'body' ? 'BODY' : 'HEADER'} takes a text`, at);
    const value = kind === 'constant' && 'value' in node ? node.value : undefined;
    if (value === null) throw new ExpressionError('22004', 'this is always NULL', at);
    const max = part === 'body' ? limits.answerBodyBytesMax : limits.answerHeaderCharsMax;
    if (typeof value === 'string' && Buffer.byteLength(value) > max)
      throw new ExpressionError('54000', `this is longer than ${max} bytes`, at);
    if (part !== 'body' && typeof value === 'string' && !isHeaderValue(value))
      throw new ExpressionError('22023', 'the value of a header is printable ASCII', at);
  });
}

/** Computed in advance: the answer to a committed request costs nothing. */
function checkConstant(part: AnswerPart, root: Node): void {
  if (root.kind === 'constant' || (part !== 'body' && root.kind === 'header')) return;
  refuse(
    part,
    part === 'body'
      ? 'without WHEN the BODY is a constant'
      : "without WHEN a HEADER is a constant, or a header of the request: headers->>'…'",
  );
}

function checkCondition(when: Node, text: AnswerText, guard: AnswerGuardFacts | null, safety: Safety): void {
  if (when.type !== 'bool') throw new ExpressionError('42804', 'the WHEN condition must be boolean', when.at);
  if (!when.sender)
    throw new ExpressionError('22023', 'the WHEN condition is the same for every request', when.at);
  const proved = safety.proof(when).whenTrue;
  if (text.unchecked) checkWhen(when, proved, guard);
}

function payloadOf(parts: readonly Part[]): string | null {
  const [first, second] = [...new Set(parts.flatMap(({ payloadName }) => payloadName ?? []))];
  if (second === undefined) return first ?? null;
  const part = parts.find(({ payloadName }) => payloadName === second)?.part ?? 'body';
  return refuse(part, `one name stands for the body of the request: ${first ?? ''} or ${second}`);
}

function secretsIn(root: Node): string[] {
  return [...reachable(root)].flatMap((node) => (node.kind === 'secret' ? [node.name] : []));
}

/** The methods that the condition allows, as far as its conjunction shows; null: any. */
function methodsOf(when: Node): ReadonlySet<string> | null {
  const conjuncts = when.kind === 'and' ? when.args : [when];
  for (const node of conjuncts) {
    if ((node.kind !== 'call' && node.kind !== 'any') || node.row.role !== 'equal') continue;
    if (node.kind === 'any' && node.all) continue;
    const isMethod = (arg: Node | undefined) => arg?.kind === 'variable' && arg.name === 'method';
    const other = isMethod(node.args[0]) ? node.args[1] : isMethod(node.args[1]) ? node.args[0] : undefined;
    const items = other?.kind === 'array' ? other.args : other === undefined ? [] : [other];
    if (items.length === 0 || !items.every(({ kind }) => kind === 'constant')) continue;
    const values: readonly unknown[] = items.flatMap((item) => (item.kind === 'constant' ? item.value : []));
    return new Set(values.filter((value) => typeof value === 'string'));
  }
  return null;
}

/** NULL, an error or a value that an answer may not contain: no match. */
function rule(
  text: AnswerText,
  { when, headers, body, learn }: AnswerExpressions,
  signed: readonly Node[],
  values: BoundValues,
): CompiledAnswer['answer'] {
  if (when === null) return () => null;
  const condition = programOf(when.root, values);
  const named = headers.map(({ root }, index) => ({
    name: text.headers[index]?.name ?? '',
    program: programOf(root, values),
  }));
  const content = body === null ? null : programOf(body.root, values);
  const secret = learn === null ? null : programOf(learn.root, values);
  const documents = signed.map((node) => programOf(node, values));
  const status = text.status ?? 200;
  const type = typeOf(text);
  const made = (request: CheckRequest): HandshakeAnswer | null => {
    if (condition.run(request) !== true) return null;
    if (documents.some((program) => mayBeDocument(program.run(request)))) return null;
    const own: string[] = [];
    let bytes = 0;
    for (const { name, program } of named) {
      const value = program.run(request);
      if (typeof value !== 'string' || !isHeaderValue(value)) return null;
      own.push(name, value);
      bytes += name.length + value.length + 4;
    }
    const shown = content === null ? '' : content.run(request);
    if (typeof shown !== 'string') return null;
    const latin1 = Buffer.from(shown, 'utf8').toString('latin1');
    if (latin1.length > limits.answerBodyBytesMax) return null;
    if (bytes + latin1.length > limits.answerOwnBytesMax) return null;
    if (secret === null) return { status, type, headers: own, body: latin1 };
    const learned = secret.run(request);
    if (typeof learned !== 'string' || learned.length < limits.learnedBytesMin) return null;
    return { status, type, headers: own, body: latin1, learned };
  };
  return (request) => {
    try {
      return made(request);
    } catch (error) {
      if (error instanceof EvaluationError || error instanceof RangeError) return null;
      throw error;
    }
  };
}

/** Whether a table of format json might take the value for a document. Reads numbers more leniently than JSON does. */
function mayBeDocument(value: unknown): boolean {
  if (typeof value !== 'string') return true;
  if (
    /^[-+]?[0-9.]*(?:[eE][-+]?[0-9]*)?$/.test(value) ||
    /^[-+]?(?:true|false|null|nan|inf(?:inity)?)$/i.test(value)
  )
    return true;
  try {
    JSON.parse(value);
    return true;
  } catch {
    return false;
  }
}

function isHeaderValue(value: string): boolean {
  return (
    value.length <= limits.answerHeaderCharsMax && /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/.test(value)
  );
}

function typeOf({ type, body }: AnswerText): string | null {
  if (type !== null) return types[type as AnswerType];
  return body === null ? null : types['text/plain'];
}

function committedAnswer(text: AnswerText, { headers, body }: AnswerExpressions): CommittedAnswer {
  const constant = (root: Node | undefined): string =>
    root?.kind === 'constant' && typeof root.value === 'string' ? root.value : '';
  const own: string[] = [];
  const echoes: { name: string; header: string }[] = [];
  headers.forEach(({ root }, index) => {
    const name = text.headers[index]?.name ?? '';
    if (root.kind === 'header') echoes.push({ name, header: root.name });
    else own.push(name, constant(root));
  });
  return {
    status: text.status ?? 200,
    type: typeOf(text),
    headers: own,
    echoes,
    body: Buffer.from(constant(body?.root), 'utf8').toString('latin1'),
  };
}
