/**
 * What the engine says about a statement that Headgate has rewritten, reported as if the engine had read the client's
 * own text: positions point into that text, and Headgate's procedures are not mentioned. Pure.
 */
import type { RefusedStatement, Rewritten } from '../types/sql.ts';
import type { SqlError } from '../errors/refusals.ts';
import { bytesOfChars, charsBefore } from './client-encoding.ts';
import type { ErrorFields } from './messages.ts';

/** A statement text that the relay did not send on unchanged. */
export interface RewrittenText {
  /** The client's text, as a latin1 view of its bytes. */
  readonly original: string;
  readonly rewrite: Rewritten | RefusedStatement;
}

/** PostgreSQL's code for the syntax error that `brokenSql` is certain to cause. */
export const syntaxError = '42601';
/**
 * Sent in place of a statement that Headgate refuses: the engine's own syntax error puts the transaction status, the
 * rest of the string and pipelined messages into the state that a refusal needs, and its text is replaced.
 */
export const brokenSql = '!';
/** The same on a connection with the parameter `replication`, on which SQL may not be allowed at all. */
export const brokenFollowing = 'IDENTIFY_SYSTEM !';

/** The fields of Headgate's refusal, in place of the engine's syntax error. */
export function refusalFields(ours: RewrittenText, error: SqlError, encoding: string): ErrorFields {
  const fields: ErrorFields = new Map([
    ['S', 'ERROR'],
    ['V', 'ERROR'],
    ['C', error.sqlstate],
    ['M', asBytes(error.message)],
  ]);
  if (error.detail !== undefined) fields.set('D', asBytes(error.detail));
  if (error.hint !== undefined) fields.set('H', asBytes(error.hint));
  if (error.position !== undefined) {
    fields.set('P', String(charsBefore(ours.original, error.position - 1, encoding) + 1));
  }
  return fields;
}

/** A text that quotes the client is a latin1 view of its bytes; a text with other characters is Headgate's own, and UTF-8. */
function asBytes(text: string): string {
  // oxlint-disable-next-line no-control-regex
  return /^[\u0000-\u00ff]*$/.test(text) ? text : Buffer.from(text, 'utf8').toString('latin1');
}

/** Translates an error or a notice that the engine sent about `rewrite.sql`. */
export function translateFields(
  fields: ErrorFields,
  original: string,
  rewrite: Rewritten,
  encoding: string,
): ErrorFields {
  const out: ErrorFields = new Map(fields);
  const toOriginal = (offset: number): string =>
    String(charsBefore(original, rewrite.originalOffset(offset), encoding) + 1);
  const position = numberOf(fields.get('P'));
  if (position !== null) out.set('P', toOriginal(bytesOfChars(rewrite.sql, position - 1, encoding)));
  cleanContext(out);
  // The rest of the context is about the user's own functions: then the internal query is theirs, too.
  if (out.has('W')) return out;
  const query = fields.get('q');
  const internal = numberOf(fields.get('p'));
  out.delete('q');
  out.delete('p');
  if (query === undefined || internal === null || position !== null) return out;
  const at = rewrite.sql.indexOf(query);
  if (at >= 0) out.set('P', toOriginal(at + bytesOfChars(query, internal - 1, encoding)));
  return out;
}

function numberOf(text: string | undefined): number | null {
  return text !== undefined && /^\d{1,10}$/.test(text) && Number(text) > 0 ? Number(text) : null;
}

/**
 * Contexts are listed innermost first. Everything from the first line about a function of Headgate's is removed,
 * together with the statement that this function was executing, which is the client's own in other words.
 */
function cleanContext(fields: ErrorFields): void {
  const context = fields.get('W');
  if (context === undefined) return;
  const lines = context.split('\n');
  const ours = lines.findIndex((line) => /\bheadgate\.\w+\(/.test(line));
  if (ours < 0) return;
  const above = lines.slice(0, ours).join('\n');
  const statement = above.endsWith('"')
    ? /(?:^|\n)SQL statement "(?![\s\S]*\nSQL statement ")/.exec(above)
    : null;
  const left = statement === null ? above : above.slice(0, statement.index);
  if (left === '') fields.delete('W');
  else fields.set('W', left);
}
