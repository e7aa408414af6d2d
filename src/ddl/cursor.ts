/**
 * Reads the tokens of one statement in turn. Returns words, names and literals, each as the text that it means to PostgreSQL (literals.ts); refuses an unexpected
 * token in PostgreSQL's own words: 42601, `syntax error at or near "…"`, with the position, escapes that PostgreSQL would refuse, and (0A000) what
 * cannot be decoded exactly. The client's bytes are seen as latin1: one char is one byte. Pure.
 */
import { decodeLoosely, literalOf, nameOf, Undecodable } from './literals.ts';
import type { Lexical } from './literals.ts';
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
