/**
 * VALIDATE [SECRET name, …] AS expression, or VALIDATE SECRET name, … USING sender, which stands for the sender's
 * expression. Takes tokens, returns the clause; and turns a clause into the value that the catalog stores, with every
 * secret literal masked and the whole expression sealed. Refuses what the expression's own parser refuses, with its
 * position. Uses only the seal and the ids that it is given.
 */
import { sealCheck } from '../catalog/seals.ts';
import { StatementError } from './cursor.ts';
import { decodeText, maskLiterals, nameOf, Undecodable } from './literals.ts';
import { expandSender, hintForSender } from '../senders/senders.ts';
import type { Caution, SenderDemands } from '../senders/senders.ts';
import type { DdlContext, ParsedCheck } from './statement-context.ts';
import { limits } from '../config/limits.ts';
import type { Cursor, Name } from './cursor.ts';
import type { SqlToken } from './scanner.ts';

export interface ValidateClause {
  readonly secrets: readonly Name[];
  /** The expression, with its comments blanked; or that of a sender. */
  readonly text: string;
  /** Where it starts in the client's text, in bytes; or the position of the sender's name. */
  readonly start: number;
  /** The sender that the text comes from, so that positions in it are not positions in the client's text; null: it is the client's own. */
  readonly sender: string | null;
}

/** The shape that headgate.do_validate() reads. */
export interface Validation {
  readonly payload: string | null;
  readonly expression: string;
  /** The text of the check as it was parsed and judged here: the catalog trusts nothing else. It is compiled when the table is read. */
  readonly sealed: string;
  readonly sealId: string;
  readonly secrets: readonly { readonly schema: string | null; readonly name: string }[];
  readonly warnings: readonly string[];
  readonly notices: readonly string[];
  readonly form: SenderDemands['form'];
  readonly cautions: readonly Caution[];
  /** How USING differs from what it was before: said where a table has a check already. */
  readonly changed: string | null;
}

const takenNames = new Set(['headers', 'payload', 'method', 'path', 'query', 'url']);

/** From after VALIDATE to one of the words in `ends`, or the end of the statement. */
export function parseValidate(cursor: Cursor, ends: ReadonlySet<string> = answerWord): ValidateClause {
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
    if (cursor.accept('using')) return senderClause(cursor, secrets, ends);
  }
  cursor.expect('as');
  return { secrets, ...expressionSource(cursor, ends), sender: null };
}

/** The sender's expression for each of the secrets: while one is being replaced by another, both are valid. */
function senderClause(cursor: Cursor, secrets: readonly Name[], ends: ReadonlySet<string>): ValidateClause {
  const start = cursor.offset;
  const sender = cursor.identifier();
  if (!cursor.atEnd && !ends.has(cursor.peek())) cursor.unexpected();
  const texts = secrets.map(({ name }) => expandSender(sender, name) ?? unknownSender(sender, start));
  const text = texts.length === 1 ? texts.join('') : texts.map((one) => `(${one})`).join('\nOR ');
  return { secrets, text, start, sender };
}

function unknownSender(sender: string, at: number): never {
  const said = hintForSender(sender);
  const list =
    'All of them are in docs/senders; any other is spelled out: VALIDATE SECRET ... AS secure_compare(...).';
  throw new StatementError('22023', `unknown sender "${sender}"`, at, {
    hint: said === null ? list : `${said} ${list}`,
  });
}

/** `more`: a further warning. `storesGet`: the table takes requests that have no body. */
export function sealValidation(
  clause: ValidateClause,
  deps: DdlContext,
  more: Caution | null = null,
  storesGet = false,
): Validation {
  const { text, sender } = clause;
  const { form, cautions, changed } = sender === null ? nothingAsked : deps.demandsOf(sender);
  const check = parseClause(clause, deps);
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
    notices: sender === null ? check.notices : [],
    form,
    changed,
    cautions: [
      ...cautions,
      ...(more === null ? [] : [more]),
      ...(storesGet && check.readsBodyAlone ? [queryUnchecked] : []),
    ],
  };
}

const queryUnchecked: Caution = {
  message:
    'VALIDATE reads the body, which a GET does not have, and not the query string, which is stored instead',
  hint: 'A check of the query reads query or url.',
};

const nothingAsked: SenderDemands = { form: null, cautions: [], changed: null };

/** Parsed and judged; compiled only when the table is read (TableCompiler). Throws StatementError, with the position of what is wrong. */
export function parseClause(clause: ValidateClause, deps: DdlContext): ParsedCheck {
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

export interface ExpressionSource {
  readonly text: string;
  /** Where it starts in the client's text, in bytes. */
  readonly start: number;
}

/** Words that begin the next part of an ANSWER, or the next ANSWER. */
export const optionWords: ReadonlySet<string> = new Set([
  'answer',
  'status',
  'type',
  'header',
  'body',
  'learn',
]);
/** VALIDATE is followed only by ANSWER. */
const answerWord: ReadonlySet<string> = new Set(['answer']);

export function expressionSource(cursor: Cursor, ends: ReadonlySet<string>): ExpressionSource {
  if (cursor.atEnd) cursor.unexpected();
  const start = cursor.offset;
  const { text, encoding, standardConformingStrings } = cursor.lexical;
  let bytes = '';
  let last = start;
  let depth = 0;
  let before: SqlToken | null = null;
  while (cursor.token !== null) {
    if (depth === 0 && ends.has(cursor.peek()) && endsOperand(cursor, before)) break;
    const word = cursor.peek();
    if (word === '(' || word === '[' || word === 'case') depth++;
    else if (word === ')' || word === ']' || word === 'end') depth--;
    const token = cursor.take();
    const raw = cursor.raw(token);
    if (token.kind === 'string' && !standardConformingStrings && raw.includes('\\')) {
      throw new StatementError(
        '0A000',
        'a backslash in VALIDATE or ANSWER with standard_conforming_strings off',
        token.start,
        { hint: "Write the literal as E'...'." },
      );
    }
    // Checks each name separately, so that a refusal points at it.
    cursor.read(token, nameOf);
    bytes += text.slice(last, token.start).replace(/[^\n\r]/g, ' ') + raw;
    last = token.end;
    before = token;
  }
  if (before === null) cursor.unexpected();
  try {
    return { text: decodeText(bytes, encoding), start };
  } catch (error) {
    if (!(error instanceof Undecodable)) throw error;
    throw new StatementError(error.sqlstate, error.message, last - bytes.length);
  }
}

/** Words that are followed by an operand. */
const unfinished = new Set(
  'all and any between case distinct else escape from ilike in is like not or similar symmetric then to when'.split(
    ' ',
  ),
);

/** Two operands are never adjacent: a word after one is not a name. */
function endsOperand(cursor: Cursor, token: SqlToken | null): boolean {
  if (token === null) return false;
  const raw = cursor.raw(token);
  if (token.kind === 'symbol') return raw === ')' || raw === ']';
  return token.kind !== 'word' || !unfinished.has(raw.toLowerCase());
}
