/**
 * The texts that names and literals stand for, and the way back. Takes a token and the session's settings, returns its text; refuses (`Undecodable`)
 * escapes that PostgreSQL would refuse, and a text that cannot be decoded exactly. The client's bytes are seen as latin1: one char is one byte. Pure.
 */
import { isUtf8 } from 'node:buffer';
import { continuation, escapedEnd, plainEnd } from './scanner.ts';
import type { SqlToken } from './scanner.ts';

export interface Lexical {
  /** The statement as bytes. */
  readonly text: string;
  readonly encoding: string;
  readonly standardConformingStrings: boolean;
}

/** An unquoted name is folded in ASCII only, as PostgreSQL does in UTF-8. Null: the token is not a name. */
export function nameOf(token: SqlToken, lexical: Lexical): string | null {
  const raw = lexical.text.slice(token.start, token.end);
  if (token.kind === 'word') {
    return decodeText(
      raw.replace(/[A-Z]+/g, (letters) => letters.toLowerCase()),
      lexical.encoding,
    );
  }
  if (token.kind === 'quoted') return decodeText(raw.slice(1, -1).replaceAll('""', '"'), lexical.encoding);
  return null;
}

/** Null: the token is not a literal of a kind that is read here. */
export function literalOf(token: SqlToken, lexical: Lexical): string | null {
  const raw = lexical.text.slice(token.start, token.end);
  switch (token.kind) {
    case 'dollar-string': {
      const tag = raw.indexOf('$', 1) + 1;
      return decodeText(raw.slice(tag, -tag), lexical.encoding);
    }
    case 'string':
    case 'escape-string': {
      const backslashes = token.kind === 'escape-string' || !lexical.standardConformingStrings;
      // Each part separately: an escape ends with its part, so that '\x4' and 'a' on the next line are two characters.
      const bytes = literalParts(raw.slice(raw.indexOf("'")), backslashes).map((part) =>
        backslashes ? unescapeLiteral(part) : part.replaceAll("''", "'"),
      );
      return decodeText(bytes.join(''), lexical.encoding);
    }
    default:
      return null;
  }
}

/** The text between the quotes of each part of a literal with continuations. */
function literalParts(raw: string, backslashes: boolean): string[] {
  const parts: string[] = [];
  for (let open = 0; open >= 0;) {
    const end = backslashes ? escapedEnd(raw, open) : plainEnd(raw, open, "'");
    parts.push(raw.slice(open + 1, end - 1));
    open = continuation(raw, end);
  }
  return parts;
}

const escape =
  /''|\\(?:u([dD][89abAB][0-9A-Fa-f]{2})\\u([dD][c-fC-F][0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|x([0-9A-Fa-f]{1,2})|([0-7]{1,3})|([^]))/g;
const controls: { readonly [letter: string]: string } = {
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
  v: '\v',
};

/** Returns bytes: \x and octal escapes are bytes; \u is a character, which is UTF-8 here. */
function unescapeLiteral(inner: string): string {
  return inner.replace(escape, (all, ...groups: (string | undefined)[]) => {
    const [first, second, four, eight, hex, octal, letter] = groups;
    if (all === "''") return "'";
    if (first !== undefined && second !== undefined) {
      return encodeText(String.fromCharCode(parseInt(first, 16), parseInt(second, 16)));
    }
    if (hex !== undefined) return byteOf(parseInt(hex, 16));
    if (octal !== undefined) return byteOf(parseInt(octal, 8) & 0xff);
    if (letter !== undefined) {
      if (letter === 'u' || letter === 'U') throw new Undecodable('22025', 'invalid Unicode escape');
      return controls[letter] ?? letter;
    }
    const code = parseInt(four ?? eight ?? '', 16);
    if (code === 0 || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) {
      throw new Undecodable('22025', 'invalid Unicode escape value');
    }
    return encodeText(String.fromCodePoint(code));
  });
}

function byteOf(code: number): string {
  if (code === 0) throw new Undecodable('22021', 'a literal cannot hold the byte 0');
  return String.fromCharCode(code);
}

type Ranges = readonly { readonly start: number; readonly end: number }[];

/** The text with every literal that is a key masked. */
export function maskLiterals(text: string, literals: Ranges): string {
  let masked = '';
  let last = 0;
  for (const { start, end } of [...literals].sort((a, b) => a.start - b.start)) {
    masked += `${text.slice(last, start)}'********'`;
    last = end;
  }
  return masked + text.slice(last);
}

const high = /[\x80-\xff]/;

/** A text that cannot be decoded exactly; the message is for the client. */
export class Undecodable extends Error {
  readonly sqlstate: string;

  constructor(sqlstate: string, message: string) {
    super(message);
    this.sqlstate = sqlstate;
  }
}

/** Throws `Undecodable`. */
export function decodeText(bytes: string, encoding: string): string {
  if (!high.test(bytes)) return bytes;
  if (encoding !== 'UTF8') {
    throw new Undecodable(
      '0A000',
      `with client_encoding ${encoding} this can be written in ASCII only; SET client_encoding TO 'UTF8' first`,
    );
  }
  const buffer = Buffer.from(bytes, 'latin1');
  if (!isUtf8(buffer)) throw new Undecodable('22021', 'invalid byte sequence for encoding "UTF8"');
  return buffer.toString('utf8');
}

/** For an error message: never fails. */
export function decodeLoosely(bytes: string, encoding: string): string {
  return encoding === 'UTF8' ? Buffer.from(bytes, 'latin1').toString('utf8') : bytes;
}

/** Headgate's own text as bytes for the engine. It is ASCII whenever client_encoding is not UTF8. */
export function encodeText(text: string): string {
  return Buffer.from(text, 'utf8').toString('latin1');
}

/** `text` as one literal that means the same whatever standard_conforming_strings is. Takes and returns bytes. */
export function dollarQuote(text: string): string {
  // In one pass: a text may contain a hundred thousand such tags. A tag that the text only begins would overlap its own end.
  const taken = new Set(Array.from(text.matchAll(/\$hg([0-9]*)/g), ([, number]) => number));
  let number = '';
  for (let n = 1; taken.has(number); n++) number = String(n);
  const tag = `$hg${number}$`;
  return tag + text + tag;
}
