/**
 * Text functions over code points, as PostgreSQL counts characters in a UTF-8 database. Every one is linear in
 * the length of its arguments, whatever they contain.
 */
import { EvaluationError, unsupported } from './errors.ts';

const surrogate = /[\ud800-\udfff]/;

/** Number of code points. */
export function characters(text: string): number {
  if (!surrogate.test(text)) return text.length;
  let count = 0;
  for (let i = 0; i < text.length; i++) if ((text.charCodeAt(i) & 0xfc00) !== 0xdc00) count++;
  return count;
}

/** Code points [start, end), both 0-based and not negative. */
function sliceCharacters(text: string, start: number, end: number): string {
  if (!surrogate.test(text)) return text.slice(start, end);
  let from = text.length;
  let to = text.length;
  let count = 0;
  for (let i = 0; i < text.length; i++) {
    if ((text.charCodeAt(i) & 0xfc00) === 0xdc00) continue;
    if (count === start) from = i;
    if (count === end) {
      to = i;
      break;
    }
    count++;
  }
  return text.slice(from, Math.max(from, to));
}

export function substring(text: string, start: number, length: number): string {
  if (length < 0) throw new EvaluationError('22011', 'negative substring length not allowed');
  return sliceCharacters(text, Math.max(start - 1, 0), Math.max(start - 1 + length, 0));
}

export function substringFrom(text: string, start: number): string {
  return sliceCharacters(text, Math.max(start - 1, 0), text.length);
}

export function substringBytes(bytes: Buffer, start: number, length: number): Buffer {
  if (length < 0) throw new EvaluationError('22011', 'negative substring length not allowed');
  return bytes.subarray(Math.max(start - 1, 0), Math.max(start - 1 + length, 0));
}

export function left(text: string, count: number): string {
  return sliceCharacters(text, 0, count >= 0 ? count : Math.max(characters(text) + count, 0));
}

export function right(text: string, count: number): string {
  // The negation of the smallest integer overflows in PostgreSQL: nothing is cut off.
  if (count === -2147483648) return text;
  const start = count >= 0 ? characters(text) - count : -count;
  return sliceCharacters(text, Math.max(start, 0), text.length);
}

/** Above this product of lengths the JavaScript engine's own search, which is fast but quadratic in the worst case, is not used. */
const quickSearchMax = 1 << 22;

/** Like String.indexOf, but linear for every input: a request chooses needle and haystack. */
export function indexOfLinear(text: string, part: string, from: number): number {
  if (part.length * (text.length - from) <= quickSearchMax || part.length <= 1)
    return text.indexOf(part, from);
  const borders = new Int32Array(part.length);
  for (let i = 1, border = 0; i < part.length; i++) {
    while (border > 0 && part.charCodeAt(i) !== part.charCodeAt(border)) border = borders[border - 1] ?? 0;
    if (part.charCodeAt(i) === part.charCodeAt(border)) border++;
    borders[i] = border;
  }
  for (let i = from, matched = 0; i < text.length; i++) {
    while (matched > 0 && text.charCodeAt(i) !== part.charCodeAt(matched))
      matched = borders[matched - 1] ?? 0;
    if (text.charCodeAt(i) === part.charCodeAt(matched)) matched++;
    if (matched === part.length) return i - matched + 1;
  }
  return -1;
}

/** 1-based position in code points, 0 if absent. */
export function position(text: string, part: string): number {
  const at = indexOfLinear(text, part, 0);
  return at < 0 ? 0 : characters(text.slice(0, at)) + 1;
}

function pieces(text: string, delimiter: string): string[] {
  if (text.length * delimiter.length <= quickSearchMax) return text.split(delimiter);
  const found: string[] = [];
  let from = 0;
  for (;;) {
    const at = indexOfLinear(text, delimiter, from);
    if (at < 0) break;
    found.push(text.slice(from, at));
    from = at + delimiter.length;
  }
  found.push(text.slice(from));
  return found;
}

export function replace(text: string, from: string, to: string): string {
  return from === '' || text === '' ? text : pieces(text, from).join(to);
}

export function splitPart(text: string, delimiter: string, field: number): string {
  if (field === 0) throw new EvaluationError('22023', 'field position must not be zero');
  if (text === '') return '';
  if (delimiter === '') return field === 1 || field === -1 ? text : '';
  if (field === 1) {
    const end = indexOfLinear(text, delimiter, 0);
    return end < 0 ? text : text.slice(0, end);
  }
  const parts = pieces(text, delimiter);
  return parts[field > 0 ? field - 1 : parts.length + field] ?? '';
}

export function stringToArray(
  text: string,
  delimiter: string | null,
  nullText: string | null,
): readonly (string | null)[] {
  if (text === '') return [];
  const parts = delimiter === null ? Array.from(text) : delimiter === '' ? [text] : pieces(text, delimiter);
  return nullText === null ? parts : parts.map((part) => (part === nullText ? null : part));
}

export function translate(text: string, from: string, to: string): string {
  const targets = Array.from(to);
  const map = new Map<string, string>();
  Array.from(from).forEach((character, index) => {
    if (!map.has(character)) map.set(character, targets[index] ?? '');
  });
  let out = '';
  for (const character of text) out += map.get(character) ?? character;
  return out;
}

export function trim(text: string, set: string, ends: 'both' | 'left' | 'right'): string {
  const dropped = new Set(set);
  const all = surrogate.test(text) ? Array.from(text) : text;
  let start = 0;
  let end = all.length;
  if (ends !== 'right') while (start < end && dropped.has(all[start] ?? '')) start++;
  if (ends !== 'left') while (end > start && dropped.has(all[end - 1] ?? '')) end--;
  return typeof all === 'string' ? all.slice(start, end) : all.slice(start, end).join('');
}

export function repeat(text: string, count: number): string {
  return count <= 0 ? '' : text.repeat(count);
}

const nonAscii = /[^\0-\x7f]/;

/**
 * Case beyond ASCII depends on the collation (in PostgreSQL `upper(convert_from(…))` leaves `é` unchanged, because the
 * name of the encoding brings the collation "C" with it) and on the version of Unicode: that raises an error.
 */
function inAscii(text: string): string {
  if (nonAscii.test(text)) throw unsupported('upper and lower case beyond ASCII');
  return text;
}

export function lower(text: string): string {
  return inAscii(text).toLowerCase();
}

export function upper(text: string): string {
  return inAscii(text).toUpperCase();
}

/** The order of C.UTF-8: by code point, which UTF-16 units do not give beyond U+FFFF. */
export function compareTexts(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    let left = a.charCodeAt(i);
    let right = b.charCodeAt(i);
    if (left === right) continue;
    if (left >= 0xd800 && right >= 0xd800) {
      // Surrogates stand for code points above all others.
      left += left >= 0xe000 ? 0 : 0x10000;
      right += right >= 0xe000 ? 0 : 0x10000;
    }
    return left - right;
  }
  return a.length - b.length;
}

/** One piece of a LIKE pattern between `%`: characters, null standing for `_`. */
type LikePiece = readonly (string | null)[];

/** The longest LIKE pattern, in characters: matching takes time proportional to text and pattern. */
const likePatternCharsMax = 256;

/** A LIKE pattern, parsed once. */
export function compileLike(pattern: string): (text: string) => boolean {
  const symbols = Array.from(pattern);
  if (symbols.length > likePatternCharsMax)
    throw unsupported(`a LIKE pattern over ${likePatternCharsMax} characters`);
  const found: (string | null)[][] = [[]];
  for (let i = 0; i < symbols.length; i++) {
    const symbol = symbols[i] ?? '';
    if (symbol === '%') found.push([]);
    else if (symbol === '_') found.at(-1)?.push(null);
    else if (symbol !== '\\') found.at(-1)?.push(symbol);
    else if (++i < symbols.length) found.at(-1)?.push(symbols[i] ?? '');
    else throw new EvaluationError('22025', 'LIKE pattern must not end with escape character', false);
  }
  return (text) => matchLike(surrogate.test(text) ? Array.from(text) : text, found);
}

function matchesAt(text: string | readonly string[], piece: LikePiece, at: number): boolean {
  if (at < 0 || at + piece.length > text.length) return false;
  return piece.every((symbol, index) => symbol === null || text[at + index] === symbol);
}

function matchLike(text: string | readonly string[], pieces: readonly LikePiece[]): boolean {
  const first = pieces[0] ?? [];
  if (pieces.length === 1) return first.length === text.length && matchesAt(text, first, 0);
  const last = pieces.at(-1) ?? [];
  if (!matchesAt(text, first, 0)) return false;
  const end = text.length - last.length;
  let at = first.length;
  for (const piece of pieces.slice(1, -1)) {
    while (at + piece.length <= end && !matchesAt(text, piece, at)) at++;
    if (at + piece.length > end) return false;
    at += piece.length;
  }
  return at <= end && matchesAt(text, last, end);
}
