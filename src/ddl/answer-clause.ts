/**
 * ANSWER [SECRET t, …] [UNCHECKED] WHEN condition [LEARN name = text] [STATUS n] [TYPE '…'] [HEADER 'name' = text]… [BODY
 * text], the clause without WHEN, and after USING: ANSWER SECRET t, which names the sender's second secret, and ANSWER NONE.
 * Takes tokens, returns clauses, and turns these into the values that the catalog stores: each is parsed and judged against the VALIDATE of
 * its table, shown with every key masked, and sealed as a whole. Refuses what does not belong there, and what the expressions' own parser
 * refuses, with its position. Uses only the seal and the ids that it is given.
 */
import { Cursor, StatementError } from './cursor.ts';
import { encodeText, maskLiterals } from './literals.ts';
import type { Name } from './cursor.ts';
import { expressionSource, optionWords } from './validate-clause.ts';
import type { ExpressionSource, ValidateClause } from './validate-clause.ts';
import { splitStatements } from './scanner.ts';
import { expandAnswers } from '../senders/senders.ts';
import type { Caution } from '../senders/senders.ts';
import type { GuardText } from '../validate/answer-safety.ts';
import type { AnswerFacts, DdlContext } from './statement-context.ts';
import { limits } from '../config/limits.ts';
import { sealAnswer } from '../catalog/seals.ts';
import type { AnswerPart, AnswerText } from '../types/answers.ts';

export interface AnswerClause {
  readonly secrets: readonly Name[];
  readonly unchecked: boolean;
  readonly when: ExpressionSource | null;
  readonly status: { readonly value: number; readonly start: number } | null;
  readonly type: { readonly value: string; readonly start: number } | null;
  readonly headers: readonly { readonly name: string; readonly value: ExpressionSource }[];
  readonly body: ExpressionSource | null;
  /** The secret that takes the value that comes, while it has none. */
  readonly learn: { readonly secret: string; readonly value: ExpressionSource } | null;
  /** Where the clause begins; for a sender's own clause, the position of the sender's name. */
  readonly start: number;
  /** Further secrets that it may read besides those that it names: the sender's second one. */
  readonly known: readonly Name[];
  /** Its positions are not positions in the client's text. */
  readonly bySender: boolean;
}

interface Written {
  readonly clauses: readonly AnswerClause[];
  readonly none: boolean;
  /** The sender's second secret. */
  readonly secret: Name | null;
}

/** Is an ANSWER next? */
export function answerFollows(cursor: Cursor): boolean {
  return cursor.peek() === 'answer';
}

/** What a statement says about answers. */
export interface AnswerClauses {
  readonly clauses: readonly AnswerClause[];
  /** The warning for the owner; null: none. */
  readonly caution: Caution | null;
}

/**
 * From the first ANSWER to the end of the statement, with the clauses that USING brings; null: the statement says
 * nothing about answers, and the table keeps the ones it has.
 */
export function parseAnswers(cursor: Cursor, validate: ValidateClause | null): AnswerClauses | null {
  const sender = validate?.sender ?? null;
  if (sender === null && !answerFollows(cursor)) {
    cursor.expectEnd();
    return null;
  }
  const { clauses, none, secret } = written(cursor, sender !== null);
  cursor.expectEnd();
  if (validate === null || sender === null) return { clauses: checked(clauses), caution: null };
  if (none) return { clauses: checked(clauses), caution: null };
  const { caution, own } = brought(validate, sender, secret);
  // Clauses written here come first, and one without WHEN replaces the sender's answer to a committed request.
  const all = [...clauses, ...own.filter(({ when }) => when !== null)];
  const committed = [...clauses, ...own].find(({ when }) => when === null) ?? emptyAnswer(validate.start);
  return { clauses: checked(all.includes(committed) ? all : [...all, committed]), caution };
}

/** An empty 200 is right for almost all senders, and wrong for none. */
function emptyAnswer(start: number): AnswerClause {
  const status = { value: 200, start };
  return {
    secrets: [],
    unchecked: false,
    when: null,
    status,
    type: null,
    headers: [],
    body: null,
    learn: null,
    start,
    known: [],
    bySender: true,
  };
}

function written(cursor: Cursor, using: boolean): Written {
  const clauses: AnswerClause[] = [];
  let none = false;
  let secret: Name | null = null;
  while (answerFollows(cursor)) {
    const start = cursor.offset;
    cursor.expect('answer');
    if (using && !none && clauses.length === 0 && cursor.accept('none')) {
      none = true;
      continue;
    }
    const secrets = parseSecrets(cursor);
    const [only] = secrets;
    const ends = cursor.atEnd || answerFollows(cursor);
    if (ends && using && !none && secret === null && secrets.length === 1 && only !== undefined)
      secret = only;
    else clauses.push(parseClause(cursor, secrets, start));
  }
  return { clauses, none, secret };
}

function parseSecrets(cursor: Cursor): Name[] {
  const secrets: Name[] = [];
  if (!cursor.accept('secret')) return secrets;
  do {
    const secret = cursor.qualifiedName(2);
    if (secrets.some(({ name }) => name === secret.name))
      throw new StatementError('42712', `the name "${secret.name}" is already taken in ANSWER`, secret.start);
    if (secrets.push(secret) > limits.answerSecretsMax)
      throw new StatementError(
        '54000',
        `an ANSWER names at most ${limits.answerSecretsMax} secrets`,
        secrets[0]?.start ?? null,
      );
  } while (cursor.accept(','));
  return secrets;
}

const form =
  "The form is: ANSWER [SECRET name] [UNCHECKED] WHEN condition [LEARN name = text] [STATUS n] [TYPE '...'] [HEADER 'name' = text] [BODY text].";

function parseClause(cursor: Cursor, secrets: readonly Name[], start: number): AnswerClause {
  const unchecked = cursor.accept('unchecked');
  const when = cursor.accept('when') ? expressionSource(cursor, optionWords) : null;
  if (unchecked && when === null) cursor.unexpected(form);
  let status: AnswerClause['status'] = null;
  let type: AnswerClause['type'] = null;
  let body: ExpressionSource | null = null;
  let learn: AnswerClause['learn'] = null;
  const headers: { name: string; value: ExpressionSource }[] = [];
  while (!cursor.atEnd && !answerFollows(cursor)) {
    const at = cursor.offset;
    if (status === null && cursor.accept('status')) status = { value: numberOf(cursor), start: at };
    else if (type === null && cursor.accept('type')) type = { value: literalOf(cursor), start: at };
    else if (cursor.accept('header')) {
      const name = literalOf(cursor);
      cursor.expect('=');
      headers.push({ name, value: expressionSource(cursor, optionWords) });
    } else if (learn === null && cursor.accept('learn')) {
      const secret = cursor.identifier();
      cursor.expect('=');
      learn = { secret, value: expressionSource(cursor, optionWords) };
    } else if (body === null && cursor.accept('body')) body = expressionSource(cursor, optionWords);
    else cursor.unexpected(form);
  }
  const isEmpty = when === null && status === null && type === null && body === null && headers.length === 0;
  if (isEmpty) cursor.unexpected(form);
  return { secrets, unchecked, when, status, type, headers, body, learn, start, known: [], bySender: false };
}

function numberOf(cursor: Cursor): number {
  const { token } = cursor;
  const raw = token?.kind === 'number' ? cursor.raw(token) : '';
  if (!/^[0-9]{3}$/.test(raw)) cursor.unexpected();
  cursor.take();
  return Number(raw);
}

function literalOf(cursor: Cursor): string {
  return cursor.literal(false) ?? cursor.unexpected();
}

function brought(
  { secrets, start }: ValidateClause,
  sender: string,
  second: Name | null,
): { own: readonly AnswerClause[]; caution: Caution | null } {
  const [first] = secrets;
  if (first === undefined) return { own: [], caution: null };
  const { clauses, takesSecret, caution } = expandAnswers(sender, first.name, second?.name ?? null);
  if (second !== null && !takesSecret)
    throw new StatementError('22023', `the answers of ${sender} need no secret`, second.start);
  const known = second === null ? secrets : [...secrets, second];
  return { own: clauses.map((text) => senderClause(text, known, start)), caution };
}

/** One of a sender's clauses, as if it were written in place of the sender's name. */
function senderClause(text: string, known: readonly Name[], start: number): AnswerClause {
  const bytes = encodeText(text);
  const [statement] = splitStatements(bytes, true);
  if (statement === undefined) throw new Error('an empty ANSWER');
  const cursor = new Cursor(statement, { text: bytes, encoding: 'UTF8', standardConformingStrings: true });
  cursor.expect('answer');
  // Its secrets are those of the statement, with the schemas given there.
  const secrets = parseSecrets(cursor).map(
    (secret) => known.find(({ name }) => name === secret.name) ?? secret,
  );
  const clause = parseClause(cursor, secrets, start);
  cursor.expectEnd();
  return { ...clause, known, bySender: true };
}

function checked(clauses: readonly AnswerClause[]): readonly AnswerClause[] {
  const [, second] = clauses.filter(({ when }) => when === null);
  if (second !== undefined)
    throw new StatementError('42601', 'a table has one ANSWER without WHEN', second.start);
  const beyond = clauses[limits.answersMax];
  if (beyond === undefined) return clauses;
  throw new StatementError('54000', `a table has at most ${limits.answersMax} ANSWER clauses`, beyond.start);
}

/** The shape that headgate.do_answers reads. */
export interface StoredAnswer {
  readonly unchecked: boolean;
  /** The clause has no WHEN. */
  readonly committed: boolean;
  readonly payload: string | null;
  readonly expression: string;
  readonly sealed: string;
  readonly sealId: string;
  readonly secrets: readonly { readonly schema: string | null; readonly name: string }[];
  /** For an UNCHECKED clause, the secrets that answers to strangers are computed from. */
  readonly shown: readonly string[];
}

/** `known`: the secrets of VALIDATE, which an ANSWER in the same statement may read, too. */
export function sealAnswers(
  clauses: readonly AnswerClause[],
  known: readonly Name[],
  guard: GuardText | null,
  deps: DdlContext,
): readonly StoredAnswer[] {
  return clauses.map((clause) => sealOne(clause, known, guard, deps));
}

export function guardOf(validate: ValidateClause | null, format: GuardText['format']): GuardText | null {
  if (validate === null) return null;
  return { expression: validate.text, secrets: validate.secrets.map(({ name }) => name), format };
}

function sealOne(
  clause: AnswerClause,
  known: readonly Name[],
  guard: GuardText | null,
  deps: DdlContext,
): StoredAnswer {
  const own = clause.secrets.map(({ name }) => name);
  const more = new Map([...known, ...clause.known].map((secret) => [secret.name, secret]));
  const secrets = [...clause.secrets, ...[...more.values()].filter(({ name }) => !own.includes(name))];
  const text = textOf(clause);
  const parsed = parse(clause, text, secrets, guard, deps);
  const bound = secrets.filter(({ name }) => own.includes(name) || parsed.secretsRead.includes(name));
  const shown = print(text, parsed.secretLiterals);
  const sealId = deps.newId();
  const names = bound.map(({ name }) => name);
  return {
    unchecked: clause.unchecked,
    committed: clause.when === null,
    payload: parsed.payloadName,
    expression: shown,
    sealed: sealAnswer({ ...text, secrets: names, shown }, sealId, deps),
    sealId,
    secrets: bound.map(({ schema, name }) => ({ schema, name })),
    shown: clause.unchecked ? parsed.secretsShown : [],
  };
}

function textOf({ unchecked, when, status, type, headers, body, learn }: AnswerClause): AnswerText {
  return {
    unchecked,
    when: when?.text ?? null,
    status: status?.value ?? null,
    type: type?.value ?? null,
    headers: headers.map(({ name, value }) => ({ name, value: value.text })),
    body: body?.text ?? null,
    ...(learn === null ? {} : { learn: { secret: learn.secret, value: learn.value.text } }),
  };
}

function parse(
  clause: AnswerClause,
  text: AnswerText,
  secrets: readonly Name[],
  guard: GuardText | null,
  deps: DdlContext,
): AnswerFacts {
  try {
    return deps.parseAnswer(text, { secrets: secrets.map(({ name }) => name), guard });
  } catch (error) {
    if (!isRefusal(error)) throw error;
    const { sqlstate, message, hint, detail } = error;
    throw new StatementError(sqlstate, message, placeOf(clause, error), {
      ...(hint === undefined ? {} : { hint }),
      ...(detail === undefined ? {} : { detail }),
    });
  }
}

interface AnswerRefusal {
  readonly sqlstate: string;
  readonly message: string;
  readonly position: number | null;
  readonly part: AnswerPart;
  readonly hint?: string | undefined;
  readonly detail?: string | undefined;
}

function isRefusal(error: unknown): error is AnswerRefusal {
  return typeof error === 'object' && error !== null && 'sqlstate' in error && 'part' in error;
}

function placeOf(clause: AnswerClause, { part, position }: AnswerRefusal): number {
  if (clause.bySender) return clause.start;
  if (part === 'status' || part === 'type') return clause[part]?.start ?? clause.start;
  const source =
    typeof part === 'number'
      ? clause.headers[part]?.value
      : part === 'learn'
        ? clause.learn?.value
        : clause[part];
  if (source === undefined || source === null) return clause.start;
  return source.start + Buffer.byteLength(source.text.slice(0, position ?? 0), 'utf8');
}

/** What follows ANSWER and its secrets, in the form in which it can be parsed again. */
function print(text: AnswerText, masks: AnswerFacts['secretLiterals']): string {
  const { unchecked, when, status, type, headers, body, learn } = text;
  const shown = (part: AnswerPart, source: string) => maskLiterals(source.trimEnd(), masks.get(part) ?? []);
  return [
    ...(unchecked ? ['UNCHECKED'] : []),
    ...(when === null ? [] : [`WHEN ${shown('when', when)}`]),
    ...(learn === undefined ? [] : [`LEARN ${quotedName(learn.secret)} = ${shown('learn', learn.value)}`]),
    ...(status === null ? [] : [`STATUS ${status}`]),
    ...(type === null ? [] : [`TYPE ${quoted(type)}`]),
    ...headers.map(({ name, value }, index) => `HEADER ${quoted(name)} = ${shown(index, value)}`),
    ...(body === null ? [] : [`BODY ${shown('body', body)}`]),
  ].join(' ');
}

function quotedName(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}
