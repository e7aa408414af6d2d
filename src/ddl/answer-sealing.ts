/**
 * Turns ANSWER clauses into the values that the catalog stores: each is parsed and judged against the VALIDATE of its
 * table, shown with every key masked, and sealed as a whole. Takes clauses and the seal; refuses what the expressions'
 * own parser refuses, with its position. Pure except for the seal and the ids that it is given.
 */
import { sealAnswer } from '../catalog/seals.ts';
import type { AnswerPart, AnswerText } from '../types/answers.ts';
import type { AnswerClause } from './answer-clause.ts';
import { StatementError, type Name } from './cursor.ts';
import { maskLiterals } from './mask-literals.ts';
import type { AnswerGuard, DdlContext, AnswerFacts } from './statement-context.ts';
import type { ValidateClause } from './validate-clause.ts';

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
  guard: AnswerGuard | null,
  deps: DdlContext,
): readonly StoredAnswer[] {
  return clauses.map((clause) => sealOne(clause, known, guard, deps));
}

export function guardOf(validate: ValidateClause | null, format: AnswerGuard['format']): AnswerGuard | null {
  if (validate === null) return null;
  return { expression: validate.text, secrets: validate.secrets.map(({ name }) => name), format };
}

function sealOne(
  clause: AnswerClause,
  known: readonly Name[],
  guard: AnswerGuard | null,
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
  guard: AnswerGuard | null,
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

interface Refusal {
  readonly sqlstate: string;
  readonly message: string;
  readonly position: number | null;
  readonly part: AnswerPart;
  readonly hint?: string | undefined;
  readonly detail?: string | undefined;
}

function isRefusal(error: unknown): error is Refusal {
  return typeof error === 'object' && error !== null && 'sqlstate' in error && 'part' in error;
}

function placeOf(clause: AnswerClause, { part, position }: Refusal): number {
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
