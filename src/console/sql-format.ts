/**
 * SQL with a line for each clause, and for each value that is selected if it is long. White space between two tokens becomes other white space, and nothing
 * else changes: neither what is quoted, nor comments with what stands around them, nor the lines of which a text consists. Takes a text and returns one;
 * what is not finished, or is very long, is returned as it is. Pure.
 */
import { Scanner } from '../ddl/scanner.ts';

interface SqlWord {
  readonly text: string;
  /** In lower case; '': it is no word. */
  readonly word: string;
  /** What stands before it. */
  readonly gap: string;
}

/** A statement that is no longer stays in one line. */
const shortChars = 80;
/** A longer one has no colours either. */
const charsMax = 20_000;
/** So that a query at the end of a long line is not moved there line by line. */
const columnMax = 60;

const clause =
  /^(?:select|from|where|having|limit|offset|returning|union|intersect|except|window|(?:group|order) by|(?:natural )?(?:(?:left|right|full)(?: outer)?|inner|cross) join|join)(?: |$)/;
/** Before these words stands what they belong to. */
const belongs: Readonly<Record<string, readonly string[]>> = {
  from: ['distinct', 'delete'],
  join: ['left', 'right', 'full', 'outer', 'inner', 'cross', 'natural'],
  left: ['natural'],
  right: ['natural'],
  full: ['natural'],
  inner: ['natural'],
  cross: ['natural'],
};

/** A query, or what else stands in parentheses. */
interface SqlLevel {
  readonly isQuery: boolean;
  /** The column of its clauses. */
  readonly column: number;
  /** The column of what is selected; null: another clause. */
  list: number | null;
}

const newGroup = (isQuery: boolean, column: number): SqlLevel => ({ isQuery, column, list: null });

export function formatSql(text: string): string {
  const tokens = text.length > charsMax ? null : tokensOf(text);
  if (tokens === null) return text;
  const { all, rest } = tokens;
  const isShort = text.trim().replaceAll(/\s+/g, ' ').length <= shortChars;
  let groups = [newGroup(true, 0)];
  let out = '';
  const column = (): number => Math.min(columnMax, out.length - out.lastIndexOf('\n') - 1);
  for (const [i, { text: token, gap }] of all.entries()) {
    const group = groups.at(-1) ?? newGroup(true, 0);
    const before = all[i - 1];
    const begins = group.isQuery && startsClause(all, i);
    let between = ' ';
    if (/\S/.test(gap) || isContinued(before, token)) between = gap;
    else if (before === undefined) between = '';
    else if (before.text === ';' && groups.length === 1) between = '\n';
    else if (gap === '') between = '';
    else if (begins && !isShort && before.text !== '(') between = `\n${' '.repeat(group.column)}`;
    else if (before.text === ',' && group.list !== null && !isShort) between = `\n${' '.repeat(group.list)}`;
    out += between;
    if (before?.word === 'select') group.list = column();
    else if (begins) group.list = null;
    out += token;
    if (token === ';' && groups.length === 1) groups = [newGroup(true, 0)];
    if (token === '(') {
      const next = all[i + 1];
      groups.push(newGroup(['select', 'with', 'values'].includes(next?.word ?? ''), column()));
    } else if (token === ')' && groups.length > 1) groups.pop();
  }
  return out + (/\S/.test(rest) ? rest : '');
}

function startsClause(all: readonly SqlWord[], i: number): boolean {
  const words: string[] = [];
  for (const { word } of all.slice(i, i + 4)) {
    if (word === '') break;
    words.push(word);
  }
  const [first = ''] = words;
  const before = all[i - 1]?.word ?? '';
  return clause.test(words.join(' ')) && !(Object.hasOwn(belongs, first) && belongs[first]?.includes(before));
}

/** Two texts with a line break between them are one. */
const isContinued = (before: SqlWord | undefined, token: string): boolean =>
  before?.text.endsWith("'") === true && token.includes("'");

/** null: the last one is not finished. */
function tokensOf(text: string): { readonly all: readonly SqlWord[]; readonly rest: string } | null {
  // The scanner takes letters of one byte.
  const scanner = new Scanner(text.replaceAll(/[^\0-\xff]/g, '\xff'), true);
  const all: SqlWord[] = [];
  let at = 0;
  for (let token = scanner.next(); token !== null; token = scanner.next()) {
    if (token.kind === 'broken') return null;
    const found = text.slice(token.start, token.end);
    const word = token.kind === 'word' ? found.toLowerCase() : '';
    all.push({ text: found, word, gap: text.slice(at, token.start) });
    at = token.end;
  }
  return { all, rest: text.slice(at) };
}
