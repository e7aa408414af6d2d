/**
 * A condition on a row that runs nobody's code: columns, constants, comparisons, IS NULL, AND, OR, NOT, IN, CASE, now() and intervals. Takes text, returns
 * what is wrong with it, or null. Pure. No name in it is qualified, so with search_path = pg_catalog every one of them is a column, or PostgreSQL's own.
 */

const token =
  /\s+|"(?:[^"\0]|"")+"|'(?:[^'\\\0]|'')*'|\d+(?:\.\d+)?|[\p{L}_][\p{L}\p{N}_$]*|::|->>|->|#>>|#>|@>|<@|\?|<>|!=|<=|>=|\|\||[=<>+\-*/%(),]/uy;

/** What may be followed by a parenthesis. */
const callable = new Set([
  'and',
  'or',
  'not',
  'in',
  'coalesce',
  'now',
  'then',
  'else',
  'when',
  'case',
  'between',
  'is',
]);

/** What begins a query, calls a function by other words, or names its collation or operator. */
const refused = new Set(
  'select with values table array row exists collate operator cast any some all extract over window'.split(
    ' ',
  ),
);

const rowConditionCharsMax = 1_000;

/** null: it is one. Whether it fits the table is PostgreSQL's to say. */
export function rowConditionProblem(text: string): string | null {
  if (text.trim() === '') return 'it is empty';
  if (text.length > rowConditionCharsMax) return `it has more than ${rowConditionCharsMax} characters`;
  let depth = 0;
  let before = '';
  token.lastIndex = 0;
  for (let at = 0; at < text.length; at = token.lastIndex) {
    const [it] = token.exec(text) ?? [];
    if (it === undefined || /^(?:--|\/\*)/.test(text.slice(at)))
      return `it may not have ${text.slice(at, at + 10)}`;
    if (/^\s/.test(it)) continue;
    const word = it.toLowerCase();
    if (refused.has(word)) return `it may not have ${it}`;
    if (it === '(') {
      depth += 1;
      if (/^[\p{L}_"]/u.test(before) && !callable.has(before)) return `it may not call ${before}()`;
    } else if (it === ')') depth -= 1;
    if (depth < 0) return 'a parenthesis closes what none has opened';
    before = word;
  }
  return depth === 0 ? null : 'a parenthesis is not closed';
}
