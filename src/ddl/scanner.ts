/**
 * PostgreSQL's lexical rules, as far as the boundaries of tokens are concerned. Takes a query string, returns its
 * tokens one after another; refuses nothing: text that PostgreSQL would not accept becomes a token of kind `broken`,
 * which PostgreSQL or the calling parser reports. Works on latin1 views of bytes, where every byte above 0x7f is a
 * letter, as in PostgreSQL. Pure. Source of the rules: src/backend/parser/scan.l.
 */
import { continuation, escapedEnd, lineEnd, plainEnd } from './quotes.ts';

export type TokenKind =
  /** A keyword or an identifier without quotes. */
  | 'word'
  /** "…" */
  | 'quoted'
  /** U&"…" */
  | 'unicode-quoted'
  /** '…', with continuations on further lines. In N'…', B'…' and X'…' the letter is a word of its own. */
  | 'string'
  /** E'…' */
  | 'escape-string'
  /** U&'…' */
  | 'unicode-string'
  /** $$…$$, $tag$…$tag$ */
  | 'dollar-string'
  | 'number'
  /** $1 */
  | 'param'
  /** One of ( ) [ ] , ; . : or an operator. */
  | 'symbol'
  /** An unterminated string, quoted name or comment, or a character that begins no token. */
  | 'broken';

export interface SqlToken {
  readonly kind: TokenKind;
  readonly start: number;
  readonly end: number;
}

const space = /[ \t\n\r\f\v]+/y;
const word = /[A-Za-z_\x80-\xff][A-Za-z0-9_$\x80-\xff]*/y;
const number =
  /(?:0[xX][0-9A-Fa-f_]+|[0-9][0-9_]*(?:\.(?!\.)[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9][0-9_]*)?/y;
const param = /\$[0-9]+/y;
const dollarTag = /\$(?:[A-Za-z_\x80-\xff][A-Za-z0-9_\x80-\xff]*)?\$/y;
const operator = new Set('~!@#^&|`?+*%<>=-/');
/** Ends where a comment begins, which may be directly after an operator: of a text of both, each part is read once. -1: it is none. */
function operatorEnd(text: string, start: number): number {
  let at = start;
  // One by one: an expression with alternatives has no room for millions of signs.
  for (; operator.has(text[at] ?? ''); at++) {
    if (text.startsWith('--', at) || text.startsWith('/*', at)) break;
  }
  return at === start ? -1 : at;
}
function match(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at;
  return pattern.test(text) ? pattern.lastIndex : -1;
}

export class Scanner {
  readonly #text: string;
  readonly #backslashes: boolean;
  #at = 0;

  /** `standardConformingStrings`: whether a backslash in '…' is an ordinary character. */
  constructor(text: string, standardConformingStrings: boolean) {
    this.#text = text;
    this.#backslashes = !standardConformingStrings;
  }

  /** The next token, past white space and comments; null at the end. */
  next(): SqlToken | null {
    const start = this.#skipSpace();
    if (start < 0) return this.#token('broken', this.#at, this.#text.length);
    if (start >= this.#text.length) return null;
    return this.#letter(start) ?? this.#sign(start);
  }

  #token(kind: TokenKind, start: number, end: number): SqlToken {
    // An unterminated part extends to the end of the text.
    this.#at = end < 0 ? this.#text.length : end;
    return { kind: end < 0 ? 'broken' : kind, start, end: this.#at };
  }

  /** Where the next token starts; -1: an unterminated comment, which starts at #at. */
  #skipSpace(): number {
    const text = this.#text;
    for (;;) {
      const past = match(space, text, this.#at);
      if (past >= 0) this.#at = past;
      if (text.startsWith('--', this.#at)) {
        this.#at = lineEnd(text, this.#at);
      } else if (text.startsWith('/*', this.#at)) {
        const end = commentEnd(text, this.#at);
        if (end < 0) return -1;
        this.#at = end;
      } else {
        return this.#at;
      }
    }
  }

  /** A word, or a literal that a letter introduces. */
  #letter(start: number): SqlToken | null {
    const text = this.#text;
    const end = match(word, text, start);
    if (end < 0) return null;
    if (end === start + 1) {
      const letter = text.charCodeAt(start) | 0x20;
      const quote = text[end];
      if (quote === "'") {
        if (letter === 0x65) return this.#token('escape-string', start, this.#string(end, true));
      } else if (letter === 0x75 && quote === '&') {
        if (text[end + 1] === "'") return this.#token('unicode-string', start, this.#string(end + 1, false));
        if (text[end + 1] === '"') return this.#token('unicode-quoted', start, plainEnd(text, end + 1, '"'));
      }
    }
    return this.#token('word', start, end);
  }

  #sign(start: number): SqlToken {
    const text = this.#text;
    const char = text[start];
    if (char === "'") return this.#token('string', start, this.#string(start, this.#backslashes));
    if (char === '"') return this.#token('quoted', start, plainEnd(text, start, '"'));
    if (char === '$') return this.#dollar(start);
    if (text.startsWith('..', start)) return this.#token('symbol', start, start + 2);
    const digits = match(number, text, start);
    if (digits >= 0) return this.#token('number', start, digits);
    const signs = operatorEnd(text, start);
    if (signs >= 0) return this.#token('symbol', start, signs);
    return this.#token('()[],;.:'.includes(char ?? '') ? 'symbol' : 'broken', start, start + 1);
  }

  #dollar(start: number): SqlToken {
    const text = this.#text;
    const opened = match(dollarTag, text, start);
    if (opened >= 0) {
      const tag = text.slice(start, opened);
      const closed = text.indexOf(tag, opened);
      return this.#token('dollar-string', start, closed < 0 ? -1 : closed + tag.length);
    }
    const end = match(param, text, start);
    return end < 0 ? this.#token('broken', start, start + 1) : this.#token('param', start, end);
  }

  /** The end of the literal whose quote is at `quote`, with all its continuations; -1: it has no end. */
  #string(quote: number, backslashes: boolean): number {
    for (let open = quote; ;) {
      const end = backslashes ? escapedEnd(this.#text, open) : plainEnd(this.#text, open, "'");
      if (end < 0) return -1;
      const next = continuation(this.#text, end);
      if (next < 0) return end;
      open = next;
    }
  }
}

function commentEnd(text: string, start: number): number {
  const border = /\/\*|\*\//g;
  border.lastIndex = start + 2;
  for (let depth = 1; ;) {
    const found = border.exec(text);
    if (found === null) return -1;
    depth += found[0] === '/*' ? 1 : -1;
    if (depth === 0) return border.lastIndex;
  }
}
