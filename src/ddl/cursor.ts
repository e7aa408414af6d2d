/**
 * Reads the tokens of one statement in turn. Returns words, names and literals, each as the text that it means to PostgreSQL; refuses an unexpected
 * token in PostgreSQL's own words: 42601, `syntax error at or near "…"`, with the position, escapes that PostgreSQL would refuse, and (0A000) what
 * cannot be decoded exactly. The client's bytes are seen as latin1: one char is one byte. Pure.
 */
import { isUtf8 } from 'node:buffer';
import { continuation, escapedEnd, plainEnd } from './scanner.ts';
import type { SqlToken, StatementText } from './scanner.ts';

/** Refuses a statement; caught where the string is rewritten. */
export class StatementError extends Error {
  readonly sqlstate: string;
  /** 0-based byte offset in the client's text; null: no position to report. */
  readonly at: number | null;
  readonly hint: string | undefined;
  readonly detail: string | undefined;

  constructor(
    sqlstate: string,
    message: string,
    at: number | null,
    extra: { hint?: string; detail?: string } = {},
  ) {
    super(message);
    this.sqlstate = sqlstate;
    this.at = at;
    this.hint = extra.hint;
    this.detail = extra.detail;
  }
}

/** A name that may have a schema. */
export interface Name {
  readonly schema: string | null;
  readonly name: string;
  readonly start: number;
  readonly end: number;
}

export class Cursor {
  readonly statement: StatementText;
  readonly lexical: Lexical;
  #index = 0;

  constructor(statement: StatementText, lexical: Lexical) {
    this.statement = statement;
    this.lexical = lexical;
  }

  get token(): SqlToken | null {
    return this.statement.tokens[this.#index] ?? null;
  }

  get atEnd(): boolean {
    return this.token === null;
  }

  /** Where the next token starts, or the end of the statement. */
  get offset(): number {
    return this.token?.start ?? this.statement.end;
  }

  /** Where the last token that was taken ended. */
  get behind(): number {
    return this.statement.tokens[this.#index - 1]?.end ?? this.statement.start;
  }

  /** Is the token `ahead` tokens further on the last one? */
  isLast(ahead: number): boolean {
    return this.#index + ahead === this.statement.tokens.length - 1;
  }

  raw(token: SqlToken): string {
    return this.lexical.text.slice(token.start, token.end);
  }

  /** The keyword or symbol `ahead` tokens further on, in lower case; '' for anything else. */
  peek(ahead = 0): string {
    const token = this.statement.tokens[this.#index + ahead];
    if (token === undefined) return '';
    if (token.kind === 'symbol') return this.raw(token);
    return token.kind === 'word' && token.end - token.start < 64 ? this.raw(token).toLowerCase() : '';
  }

  take(): SqlToken {
    const token = this.token;
    if (token === null) this.unexpected();
    this.#index++;
    return token;
  }

  /** Takes these words or symbols if all of them are next. */
  accept(...words: readonly string[]): boolean {
    if (!words.every((word, ahead) => this.peek(ahead) === word)) return false;
    this.#index += words.length;
    return true;
  }

  expect(...words: readonly string[]): void {
    for (const word of words) if (!this.accept(word)) this.unexpected();
  }

  expectEnd(): void {
    if (!this.atEnd) this.unexpected();
  }

  /** One identifier. */
  identifier(): string {
    const token = this.token;
    if (token?.kind === 'unicode-quoted') {
      throw new StatementError('0A000', 'U&"..." names are not supported in this statement', token.start);
    }
    const name = token === null ? null : this.read(token, nameOf);
    if (name === null) this.unexpected();
    if (name === '') throw new StatementError('42601', 'zero-length delimited identifier', this.offset);
    this.#index++;
    return name;
  }

  /** One identifier, if one is next. */
  tryIdentifier(): string | null {
    const kind = this.token?.kind;
    return kind === 'word' || kind === 'quoted' ? this.identifier() : null;
  }

  /** [schema.]name; in database.schema.name PostgreSQL checks the database. */
  qualifiedName(partsMax: 2 | 3): Name {
    const start = this.offset;
    const parts = [this.identifier()];
    while (parts.length < partsMax && this.accept('.')) parts.push(this.identifier());
    return { schema: parts.at(-2) ?? null, name: parts.at(-1) ?? '', start, end: this.behind };
  }

  /** The value of a literal; `quoted`: also of "…". Null: the next token is something else. */
  literal(quoted: boolean): string | null {
    const token = this.token;
    if (token === null) return null;
    const value = quoted && token.kind === 'quoted' ? this.read(token, nameOf) : this.read(token, literalOf);
    if (value !== null) this.#index++;
    return value;
  }

  read(token: SqlToken, reader: (token: SqlToken, lexical: Lexical) => string | null): string | null {
    try {
      return reader(token, this.lexical);
    } catch (error) {
      if (!(error instanceof Undecodable)) throw error;
      throw new StatementError(error.sqlstate, error.message, token.start);
    }
  }

  /** Refuses the next token. */
  unexpected(hint?: string): never {
    const extra = hint === undefined ? {} : { hint };
    const { semicolon } = this.statement;
    const token = this.token;
    if (token !== null) {
      throw new StatementError(
        '42601',
        `syntax error at or near "${this.#shown(token)}"`,
        token.start,
        extra,
      );
    }
    if (semicolon !== null)
      throw new StatementError('42601', 'syntax error at or near ";"', semicolon, extra);
    throw new StatementError('42601', 'syntax error at end of input', this.lexical.text.length, extra);
  }

  /** Refuses tokens that no statement of Headgate's can contain, wherever they are in it. */
  refuseForeign(what: string): void {
    for (const token of this.statement.tokens) {
      if (token.kind === 'param') {
        throw new StatementError('42P02', `parameters are not allowed in ${what}`, token.start, {
          hint: `Write the value into the statement instead of ${this.raw(token)}.`,
        });
      }
      if (token.kind === 'broken') {
        const problem = unterminated(this.raw(token)) ?? 'syntax error';
        throw new StatementError('42601', `${problem} at or near "${this.#shown(token)}"`, token.start);
      }
    }
  }

  /** A literal may be a secret in the wrong place, and an unterminated token may contain one. */
  #shown(token: SqlToken): string {
    const raw = this.raw(token);
    if (token.kind.endsWith('string')) return "'********'";
    if (token.kind === 'broken' && raw.length > 1)
      return /^(?:[A-Za-z&]{0,2}['"]|\$[^$]*\$|\/\*)/.exec(raw)?.[0] ?? '';
    return decodeLoosely(raw, this.lexical.encoding);
  }
}

function unterminated(raw: string): string | null {
  if (raw.startsWith('/*')) return 'unterminated /* comment';
  if (/^(?:[uU]&)?"/.test(raw)) return 'unterminated quoted identifier';
  if (/^\$./.test(raw)) return 'unterminated dollar-quoted string';
  return /^(?:[eEnNbBxX]|[uU]&)?'/.test(raw) ? 'unterminated quoted string' : null;
}

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
function decodeLoosely(bytes: string, encoding: string): string {
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
