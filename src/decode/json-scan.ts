/**
 * Says whether bytes are a JSON document that PostgreSQL's jsonb can store, without asking PostgreSQL. Pure; one pass,
 * no recursion, no allocation for a document that is accepted. jsonb accepts RFC 8259 in UTF-8, except
 * `\u0000`, surrogates that do not come in pairs, and numbers that its numeric type cannot hold. This also refuses documents whose
 * numbers would be very much longer when they are read back, and documents whose objects have so many members that sorting
 * them could keep the engine busy for minutes. One value is refused here that servers from version 16 on would accept: a
 * zero with the exponent ±1073741823. The type json, which keeps the text, takes the escapes and numbers that jsonb does not. Proven
 * against a server by json-scan.pg.test.ts. Strings, numbers and words are read by json-tokens.ts.
 */
import { isUtf8 } from 'node:buffer';
import { isJsonSpace } from '../kit/json-grammar.ts';
import { limits } from '../config/limits.ts';
import type { DocumentKeys } from './document-keys.ts';
import type { JsonProblem } from './messages.ts';
import {
  beginTokens,
  behind,
  endsEarly,
  failure,
  offsetOf,
  reasonOf,
  reasons,
  scanNumber,
  scanString,
  scanWord,
  tooDeep,
  tooManyMembers,
  unexpected,
} from './json-tokens.ts';

export interface JsonScanOptions {
  /** Nesting of arrays and objects; PostgreSQL itself gives up near 16,000, with an error that is hard to contain. */
  readonly depthMax: number;
  /** Gets the keys of the outermost object; absent: nothing does. */
  readonly keys?: DocumentKeys | null;
  /** The document is kept as text, by PostgreSQL's type json: what only jsonb cannot hold is accepted. */
  readonly asText?: boolean;
}

export function scanJson(bytes: Uint8Array, options: JsonScanOptions): JsonProblem | null {
  if (!isUtf8(bytes)) return { reason: 'it is not valid UTF-8', offset: null };
  const result = scanDocument(bytes, 0, options, false);
  if (result >= 0) return null;
  const offset = offsetOf(result);
  if (offset >= bytes.length && isBlank(bytes)) return { reason: 'it is empty', offset: null };
  return { reason: reasons[reasonOf(result)] ?? '', offset };
}

/**
 * The same for a document on one line, in bytes that are known to be UTF-8: returns where that line ends; -1: it is
 * no such document, and scanJson over the line says why.
 */
export function scanLine(bytes: Uint8Array, start: number, options: JsonScanOptions): number {
  const result = scanDocument(bytes, start, options, true);
  return result >= 0 ? result : -1;
}

/**
 * The same for a document that ends at a comma, a closing bracket or with the bytes: returns where that is; -1: it is no such
 * document, and scanJson over it says why.
 */
export function scanItem(bytes: Uint8Array, start: number, options: JsonScanOptions): number {
  const result = scanDocument(bytes, start, options, false);
  if (result >= 0) return result;
  return reasonOf(result) === behind ? offsetOf(result) : -1;
}

// What may come next.
const value = 0;
const valueOrEnd = 1;
const keyOrEnd = 2;
const key = 3;
const colon = 4;
const commaOrEnd = 5;

/** Open containers, 1 for an object. Scanning is synchronous, so one stack serves all calls. */
let open = new Uint8Array(1024);
/** The number of members of each of them. */
let memberCounts = new Uint32Array(1024);

/** The sum of the squares of the numbers of members of its large objects. */
let effort = 0;
/** Objects up to this many members cost the engine no more than their bytes do, whatever their keys are. */
const freeMembersMax = 1_024;

/**
 * What the objects of the document that was scanned last may cost the engine, as `limits.jsonMembersSquaredMax` counts it.
 * jsonb sorts the members of an object by a quicksort, and json_to_recordset keeps them in a hash table without a seed. For
 * both there are keys that make each member be compared with all, and neither reacts to a cancel or a timeout meanwhile.
 */
export function scannedEffort(): number {
  return effort;
}

/** Where the document ends, or a failure of json-tokens.ts. */
function scanDocument(
  bytes: Uint8Array,
  start: number,
  { depthMax, keys = null, asText = false }: JsonScanOptions,
  onOneLine: boolean,
): number {
  keys?.begin();
  beginTokens(asText);
  if (open.length <= depthMax) {
    open = new Uint8Array(depthMax + 1);
    memberCounts = new Uint32Array(depthMax + 1);
  }
  effort = 0;
  const n = bytes.length;
  let state = value;
  let depth = 0;
  let i = start;
  while (i < n) {
    const c = bytes[i]!;
    if (c === 32 || c === 10 || c === 13 || c === 9) {
      if (onOneLine && c === 10) break;
      i++;
    } else if (c === 34 /* " */) {
      if (state > key) return failure(unexpected, i);
      const from = i + 1;
      i = scanString(bytes, from, n);
      if (i < 0) return i;
      if (keys !== null && depth === 1 && state >= keyOrEnd) keys.see(bytes, from, i - 1);
      state = state >= keyOrEnd ? colon : commaOrEnd;
    } else if (c === 44 /* , */) {
      if (state !== commaOrEnd) return failure(unexpected, i);
      if (depth === 0) return failure(behind, i);
      state = open[depth] === 1 ? key : value;
      i++;
    } else if (c === 58 /* : */) {
      if (state !== colon) return failure(unexpected, i);
      state = value;
      memberCounts[depth]!++;
      i++;
    } else if (c === 123 /* { */ || c === 91 /* [ */) {
      if (state > valueOrEnd) return failure(unexpected, i);
      if (depth === depthMax) return failure(tooDeep, i);
      depth++;
      open[depth] = c === 123 ? 1 : 0;
      memberCounts[depth] = 0;
      state = c === 123 ? keyOrEnd : valueOrEnd;
      i++;
    } else if (c === 125 /* } */ || c === 93 /* ] */) {
      const isObject = c === 125 ? 1 : 0;
      const emptyState = isObject === 1 ? keyOrEnd : valueOrEnd;
      if (depth === 0) return failure(state === commaOrEnd ? behind : unexpected, i);
      if (open[depth] !== isObject) return failure(unexpected, i);
      if (state !== commaOrEnd && state !== emptyState) return failure(unexpected, i);
      if (isObject === 1 && isLarge(memberCounts[depth]!)) return failure(tooManyMembers, i);
      depth--;
      state = commaOrEnd;
      i++;
    } else {
      if (state > valueOrEnd) return failure(unexpected, i);
      i = c === 45 || (c >= 48 && c <= 57) ? scanNumber(bytes, i, n) : scanWord(bytes, i, n);
      if (i < 0) return i;
      state = commaOrEnd;
    }
  }
  return state === commaOrEnd && depth === 0 ? i : failure(endsEarly, n);
}

/** Counts an object; returns whether it is one too many. */
function isLarge(members: number): boolean {
  if (members <= freeMembersMax) return false;
  effort += members * members;
  return effort > limits.jsonMembersSquaredMax;
}

function isBlank(bytes: Uint8Array): boolean {
  // A body of nothing but white space may be large, and a loop is many times as fast as a call for each byte.
  for (let i = 0; i < bytes.length; i++) if (!isJsonSpace(bytes[i])) return false;
  return true;
}
