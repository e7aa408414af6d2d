/**
 * What the engine says about a statement that Headgate has rewritten, reported as if the engine had read the client's
 * own text: positions point into that text, and Headgate's procedures are not mentioned. Pure.
 */
import type { RefusedStatement, Rewritten } from '../types/sql.ts';
import type { SqlError } from '../errors/refusals.ts';
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

/**
 * Byte offsets and character positions: PostgreSQL counts error positions in characters of the client's encoding, while the relay has texts as bytes
 * (latin1 strings). Lengths by lead byte are those of PostgreSQL's src/common/wchar.c; encodings that are not listed have one byte per character.
 */
type CharLength = (lead: number, second: number) => number;

const high = (lead: number): boolean => lead >= 0x80;
const euc =
  (ss2: number, ss3: number): CharLength =>
  (lead) =>
    lead === 0x8e ? ss2 : lead === 0x8f ? ss3 : high(lead) ? 2 : 1;
const twoBytes: CharLength = (lead) => (high(lead) ? 2 : 1);
const shiftJis: CharLength = (lead) => (lead >= 0xa1 && lead <= 0xdf ? 1 : high(lead) ? 2 : 1);

const lengths: ReadonlyMap<string, CharLength> = new Map([
  ['UTF8', (lead) => (lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf8 ? 4 : 1)],
  ['EUC_JP', euc(2, 3)],
  ['EUC_JIS_2004', euc(2, 3)],
  ['EUC_KR', euc(2, 3)],
  ['JOHAB', euc(2, 3)],
  ['EUC_CN', euc(3, 3)],
  ['EUC_TW', euc(4, 3)],
  ['SJIS', shiftJis],
  ['SHIFT_JIS_2004', shiftJis],
  ['BIG5', twoBytes],
  ['GBK', twoBytes],
  ['UHC', twoBytes],
  ['GB18030', (lead, second) => (!high(lead) ? 1 : second >= 0x30 && second <= 0x39 ? 4 : 2)],
]);

/** Walks `text` until `done` returns true; returns the bytes and characters passed. */
function walk(
  text: string,
  encoding: string,
  done: (bytes: number, chars: number) => boolean,
): { bytes: number; chars: number } {
  const length = lengths.get(encoding);
  let bytes = 0;
  let chars = 0;
  while (bytes < text.length && !done(bytes, chars)) {
    bytes += length === undefined ? 1 : length(text.charCodeAt(bytes), text.charCodeAt(bytes + 1));
    chars += 1;
  }
  return { bytes: Math.min(bytes, text.length), chars };
}

/** The number of characters before the byte at `offset` (0-based). */
export function charsBefore(text: string, offset: number, encoding: string): number {
  const { bytes, chars } = walk(text, encoding, (bytes) => bytes >= offset);
  // An offset inside a character belongs to that character.
  return bytes > offset ? chars - 1 : chars;
}

/** The byte offset (0-based) after the first `chars` characters. */
export function bytesOfChars(text: string, chars: number, encoding: string): number {
  return walk(text, encoding, (_, passed) => passed >= chars).bytes;
}
