/**
 * Where one statement ends and the next begins. Takes a query string, returns its statements with their tokens; refuses
 * nothing. Parentheses (CREATE RULE … DO (a; b)) and the bodies of SQL-standard functions (BEGIN ATOMIC … END) may
 * contain semicolons that do not end a statement. Pure. Source of the rules: src/fe_utils/psqlscan.l.
 */
import { Scanner, type SqlToken } from './scanner.ts';

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
