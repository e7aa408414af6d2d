/**
 * VALIDATE [SECRET name, …] AS expression, or VALIDATE SECRET name, … USING sender, which stands for the sender's
 * expression. Takes tokens, returns the clause; and turns a clause into the value that the catalog stores, with every
 * secret literal masked and the whole expression sealed. Refuses what the expression's own parser refuses, with its
 * position. Uses only the seal and the ids that it is given.
 */
import { sealCheck } from '../catalog/seals.ts';
import { type AnswerGuard, type ParsedAnswer, maskLiterals } from './answer-sealing.ts';
import type { AnswerText } from '../types/answers.ts';
import { limits } from '../config/limits.ts';
import { StatementError, type Cursor, type Name } from './cursor.ts';
import type { DeliveryIdOf } from './dedupe-option.ts';
import { answerWord, expressionSource } from './expression-source.ts';

/** What the validate room says about an expression; positions are offsets in its text. */
export interface ParsedCheck {
  readonly text: string;
  /** The name under which the expression reads the body, if it does. */
  readonly payloadName: string | null;
  readonly headersRead: readonly string[];
  readonly secretLiterals: readonly { readonly start: number; readonly end: number }[];
  readonly warnings: readonly string[];
}

export interface ValidateDeps {
  readonly parseExpression: (text: string, scope: { secrets: readonly string[] }) => ParsedCheck;
  /** Seals a text under the master key, bound to `identity`. Returns base64. */
  readonly seal: (plaintext: string, identity: string) => string;
  readonly newId: () => string;
  /** The expression of a known sender, written for the secret of this name; null: no such sender. */
  readonly expandSender: (sender: string, secret: string) => string | null;
  /** What a known sender requires in addition to its expression. */
  readonly demandsOf: (sender: string) => SenderDemands;
  /** Parses one ANSWER and judges it against the VALIDATE of its table; throws an error with `sqlstate`, `part` and `position`. */
  readonly parseAnswer: (
    text: AnswerText,
    scope: { secrets: readonly string[]; guard: AnswerGuard | null },
  ) => ParsedAnswer;
  /** The ANSWER clauses that USING brings, written for the secrets of these names. */
  readonly expandAnswers: (sender: string, secret: string, second: string | null) => SenderAnswers;
  /** The forms that a secret's value has, of those that senders ask for. */
  readonly secretForms: (value: string) => readonly string[];
  /** Where a known sender has a delivery's id. */
  readonly deliveryIdOf: DeliveryIdOf;
  /** Whether there is a host that rows of tables may go to (WITH (into = …)). */
  readonly sendsElsewhere: boolean;
  /** Senders with names similar to this one, best first. */
  readonly nearestSenders: (name: string) => readonly string[];
}

export interface SenderDemands {
  /** The form of its secrets, and the warning for a secret of another form; null: any text will do. */
  readonly form: ({ readonly form: string } & Caution) | null;
  /** Why no request of this sender would be accepted, whatever the secret is. */
  readonly cautions: readonly Caution[];
}

export interface SenderAnswers {
  readonly clauses: readonly string[];
  /** Whether some of them need a second secret. */
  readonly takesSecret: boolean;
  /** The warning if it is missing; null: none. */
  readonly caution: Caution | null;
}

/** A warning: `{secret}` in it stands for the secret's name. */
export interface Caution {
  readonly message: string;
  readonly hint: string;
}

export interface ValidateClause {
  readonly secrets: readonly Name[];
  /** The expression, with its comments blanked; or that of a sender. */
  readonly text: string;
  /** Where it starts in the client's text, in bytes; or the position of the sender's name. */
  readonly start: number;
  /** The sender that the text comes from, so that positions in it are not positions in the client's text; null: it is the client's own. */
  readonly sender: string | null;
}

/** The shape that headgate.set_validation and headgate.warn read. */
export interface Validation {
  readonly payload: string | null;
  readonly expression: string;
  /** The check as it was compiled and judged here: the catalog trusts nothing else. */
  readonly sealed: string;
  readonly sealId: string;
  readonly secrets: readonly { readonly schema: string | null; readonly name: string }[];
  readonly warnings: readonly string[];
  readonly form: SenderDemands['form'];
  readonly cautions: readonly Caution[];
}

const takenNames = new Set(['headers', 'payload', 'method', 'path', 'query', 'url']);

/** From after VALIDATE to the first ANSWER, or the end of the statement. */
export function parseValidate(cursor: Cursor, deps: ValidateDeps): ValidateClause {
  const secrets: Name[] = [];
  if (cursor.accept('secret')) {
    do {
      const secret = cursor.qualifiedName(2);
      if (takenNames.has(secret.name) || secrets.some((other) => other.name === secret.name)) {
        throw new StatementError(
          '42712',
          `the name "${secret.name}" is already taken in VALIDATE`,
          secret.start,
        );
      }
      if (secrets.push(secret) > limits.validateSecretsMax)
        throw new StatementError(
          '54000',
          `a VALIDATE clause names at most ${limits.validateSecretsMax} secrets`,
          secret.start,
        );
    } while (cursor.accept(','));
    if (cursor.accept('using')) return senderClause(cursor, secrets, deps);
  }
  cursor.expect('as');
  return { secrets, ...expressionSource(cursor, answerWord), sender: null };
}

/** The sender's expression for each of the secrets: while one is being replaced by another, both are valid. */
function senderClause(cursor: Cursor, secrets: readonly Name[], deps: ValidateDeps): ValidateClause {
  const start = cursor.offset;
  const sender = cursor.identifier();
  if (!cursor.atEnd && cursor.peek() !== 'answer') cursor.unexpected();
  const texts = secrets.map(
    ({ name }) => deps.expandSender(sender, name) ?? unknownSender(sender, start, deps),
  );
  const text = texts.length === 1 ? texts.join('') : texts.map((one) => `(${one})`).join('\nOR ');
  return { secrets, text, start, sender };
}

function unknownSender(sender: string, at: number, deps: ValidateDeps): never {
  const near = deps.nearestSenders(sender);
  const list =
    'All of them are in docs/senders; any other is spelled out: VALIDATE SECRET ... AS secure_compare(...).';
  throw new StatementError('22023', `unknown sender "${sender}"`, at, {
    hint: near.length === 0 ? list : `Perhaps ${near.join(', ')}? ${list}`,
  });
}

/** `more`: a further warning. */
export function sealValidation(
  clause: ValidateClause,
  deps: ValidateDeps,
  more: Caution | null = null,
): Validation {
  const { text, sender } = clause;
  const { form, cautions } = sender === null ? nothingAsked : deps.demandsOf(sender);
  const check = parse(clause, deps);
  const masked = maskLiterals(text, check.secretLiterals);
  const sealId = deps.newId();
  const secrets = clause.secrets.map(({ name }) => name);
  const sealed = { expression: text, shown: masked, payload: check.payloadName, secrets };
  return {
    payload: check.payloadName,
    expression: masked,
    sealed: sealCheck(sealed, sealId, deps),
    sealId,
    secrets: clause.secrets.map(({ schema, name }) => ({ schema, name })),
    warnings: check.warnings,
    form,
    cautions: more === null ? cautions : [...cautions, more],
  };
}

const nothingAsked: SenderDemands = { form: null, cautions: [] };

function parse(clause: ValidateClause, deps: ValidateDeps): ParsedCheck {
  try {
    return deps.parseExpression(clause.text, { secrets: clause.secrets.map((secret) => secret.name) });
  } catch (error) {
    if (!isRefusal(error)) throw error;
    const { sqlstate, message, position, hint, detail } = error;
    const at =
      position === null || clause.sender !== null
        ? clause.start
        : clause.start + Buffer.byteLength(clause.text.slice(0, position), 'utf8');
    throw new StatementError(sqlstate, message, at, {
      ...(hint === undefined ? {} : { hint }),
      ...(detail === undefined ? {} : { detail }),
    });
  }
}

interface ExpressionRefusal {
  readonly sqlstate: string;
  readonly message: string;
  readonly position: number | null;
  readonly hint?: string | undefined;
  readonly detail?: string | undefined;
}

function isRefusal(error: unknown): error is ExpressionRefusal {
  return typeof error === 'object' && error !== null && 'sqlstate' in error && 'position' in error;
}
