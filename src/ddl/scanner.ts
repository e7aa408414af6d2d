/**
 * PostgreSQL's lexical rules, as far as the boundaries of tokens and statements are concerned. Takes a query string, returns its
 * tokens one after another, or its statements with their tokens; refuses nothing: text that PostgreSQL would not accept becomes a token
 * of kind `broken`, which PostgreSQL or the calling parser reports. Parentheses (CREATE RULE … DO (a; b)) and the bodies of SQL-standard
 * functions (BEGIN ATOMIC … END) may contain semicolons that do not end a statement. Works on latin1 views of bytes, where every byte
 * above 0x7f is a letter, as in PostgreSQL. Pure. Source of the rules: src/backend/parser/scan.l, src/fe_utils/psqlscan.l.
 */

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

/** After the closing quote for the quote at `start`; a doubled quote stands for itself. */
export function plainEnd(text: string, start: number, quote: "'" | '"'): number {
  for (let at = start + 1; ; at += 2) {
    at = text.indexOf(quote, at);
    if (at < 0) return -1;
    if (text[at + 1] !== quote) return at + 1;
  }
}

/** The same for a literal with backslash escapes. */
export function escapedEnd(text: string, quote: number): number {
  for (let at = quote + 1; at < text.length; at++) {
    const char = text.charCodeAt(at);
    if (char === 0x5c) at++;
    else if (char === 0x27) {
      if (text.charCodeAt(at + 1) !== 0x27) return at + 1;
      at++;
    }
  }
  return -1;
}

/** Where the next part of a literal begins: after white space and comments that contain a line break; -1: it has none. */
export function continuation(text: string, end: number): number {
  let broken = false;
  for (let at = end; at < text.length; at++) {
    const char = text.charCodeAt(at);
    if (char === 0x27) return broken ? at : -1;
    if (char === 0x0a || char === 0x0d) broken = true;
    else if (char === 0x2d && text.charCodeAt(at + 1) === 0x2d) at = lineEnd(text, at) - 1;
    else if (char !== 0x20 && char !== 0x09 && char !== 0x0c && char !== 0x0b) return -1;
  }
  return -1;
}

function lineEnd(text: string, start: number): number {
  for (let at = start; at < text.length; at++) {
    const char = text.charCodeAt(at);
    if (char === 0x0a || char === 0x0d) return at;
  }
  return text.length;
}

/** Encodings in which the second byte of a character may look like ASCII, such as a backslash. */
const shiftingEncodings = new Set(['SJIS', 'SHIFT_JIS_2004', 'BIG5', 'GBK', 'UHC', 'GB18030', 'JOHAB']);
const high = /[\x80-\xff]/;

/** The same text with the same length, in which nothing looks like ASCII that is not. */
export function lexable(text: string, encoding: string): string {
  if (!shiftingEncodings.has(encoding) || !high.test(text)) return text;
  // In the Japanese encodings, A0 to DF are characters of one byte.
  const pair = encoding.startsWith('S') ? /[\x80-\x9f\xe0-\xff][^]/g : /[\x80-\xff][^]/g;
  return text.replace(pair, '\xff\xff');
}

export interface StatementText {
  /** First byte of the first token. */
  readonly start: number;
  /** After the last token; the semicolon is not part of it. */
  readonly end: number;
  readonly tokens: readonly SqlToken[];
  /** The position of its semicolon; null: it is the last statement and has none. */
  readonly semicolon: number | null;
}

/** Every statement that yields a CommandComplete: an empty one yields none, and is left out. */
export function splitStatements(text: string, standardConformingStrings: boolean): StatementText[] {
  return [...statementsOf(text, standardConformingStrings)];
}

/** The same, one after another, for a text that may hold millions of them. Of each statement `tokensMax` tokens are kept. */
export function* statementsOf(
  text: string,
  standardConformingStrings: boolean,
  tokensMax = Infinity,
): Generator<StatementText> {
  const scanner = new Scanner(text, standardConformingStrings);
  let tokens: SqlToken[] = [];
  let end = 0;
  const finished = (semicolon: number | null): StatementText[] => {
    const [first] = tokens;
    const statement = first === undefined ? [] : [{ start: first.start, end, tokens, semicolon }];
    tokens = [];
    return statement;
  };

  let parens = 0;
  const body = new AtomicBody(text);
  for (let token = scanner.next(); token !== null; token = scanner.next()) {
    if (token.kind === 'symbol' && token.end === token.start + 1) {
      const char = text[token.start];
      if (char === '(') parens++;
      else if (char === ')' && parens > 0) parens--;
      else if (char === ';' && parens === 0 && !body.open) {
        yield* finished(token.start);
        body.reset();
        continue;
      }
    } else if (token.kind === 'word') {
      body.see(token, tokens.length, parens);
    }
    if (tokens.length < tokensMax) tokens.push(token);
    end = token.end;
  }
  yield* finished(null);
}

/** Follows CREATE [OR REPLACE] FUNCTION | PROCEDURE … BEGIN ATOMIC … CASE … END … END. */
class AtomicBody {
  readonly #text: string;
  #head = '';
  #routine = false;
  #previous = '';
  #depth = 0;

  constructor(text: string) {
    this.#text = text;
  }

  get open(): boolean {
    return this.#depth > 0;
  }

  reset(): void {
    this.#head = '';
    this.#routine = false;
    this.#previous = '';
    this.#depth = 0;
  }

  see(token: SqlToken, index: number, parens: number): void {
    // The relevant words are short; a longer one is not extracted.
    const word = token.end - token.start > 9 ? '-' : this.#text.slice(token.start, token.end).toLowerCase();
    if (index === 0 ? word === 'create' : index < 4 && this.#head !== '') {
      this.#head += `${word} `;
      this.#routine = /^create (or replace )?(function|procedure) /.test(this.#head);
    }
    if (parens === 0 && this.#routine) {
      if (this.#depth === 0) {
        if (word === 'atomic' && this.#previous === 'begin') this.#depth = 1;
      } else if (word === 'case') {
        this.#depth++;
      } else if (word === 'end') {
        this.#depth--;
      }
    }
    this.#previous = word;
  }
}
