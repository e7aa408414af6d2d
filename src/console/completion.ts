/**
 * Completes a word in a statement. Takes the text, the position of the caret, and the names visible to the role; returns
 * where the word begins and its completions: columns after `table.`, senders after USING, secrets after SECRET,
 * otherwise tables, columns and SQL keywords. Pure.
 */
import { identifier } from './quote.ts';

export interface Names {
  /** Schema, table, column; the column is '' for the table itself. */
  readonly columns: readonly (readonly [string, string, string])[];
  readonly secrets: readonly string[];
  readonly senders: readonly string[];
}

export interface Completion {
  /** Where the word begins. */
  readonly from: number;
  readonly options: readonly string[];
}

const optionsMax = 8;
const words =
  'SELECT FROM WHERE GROUP BY ORDER LIMIT JOIN LEFT ON AS AND OR NOT NULL IS IN LIKE ILIKE BETWEEN HAVING DISTINCT UNION VALUES ' +
  'INSERT INTO UPDATE SET DELETE RETURNING CREATE TABLE SECRET ALTER DROP ADD COLUMN PRIMARY KEY DEFAULT WITH CASE WHEN THEN ELSE END ' +
  'EXPLAIN VALIDATE OVER USING INCLUDE HEADER HEADERS TIMESTAMP ANSWER SHOW ENDPOINTS TABLES SECRETS SPOOL DESCRIBE JSONB TEXT BIGINT ' +
  'NUMERIC BOOLEAN TIMESTAMPTZ count sum min max avg now date_trunc coalesce secure_compare hmac encode decode digest';
const keywords = words.split(' ');

/** null: no suggestions. */
export function completionOf(text: string, caret: number, names: Names): Completion | null {
  if (isInLiteral(text.slice(0, caret))) return null;
  // Only the last characters matter: names are short, but the text may be long.
  const before = text.slice(Math.max(0, caret - 200), caret);
  const [, owner = '', word = ''] = /(?:([\w$]+)\.)?([\w$]*)$/u.exec(before) ?? [];
  if (owner === '' && word === '') return null;
  const from = caret - word.length;
  const behind = /(\w+)\s+[\w$]*$/.exec(before)?.[1]?.toLowerCase() ?? '';
  const all = candidates(owner, behind, names);
  const begun = all.filter((it) => it.toLowerCase().replace(/^"/, '').startsWith(word.toLowerCase()));
  const options = [...new Set(begun)].filter((it) => it !== word).slice(0, optionsMax);
  return options.length === 0 ? null : { from, options };
}

function candidates(owner: string, behind: string, { columns, secrets, senders }: Names): readonly string[] {
  if (owner !== '') {
    const of = owner.toLowerCase();
    return columns.flatMap(([schema, table, column]) =>
      table === of && column !== ''
        ? [identifier(column)]
        : schema === of && column === ''
          ? [identifier(table)]
          : [],
    );
  }
  if (behind === 'using') return [...senders, ...keywords];
  if (behind === 'secret') return secrets.map(identifier);
  const tables = columns.flatMap(([, table, column]) => (column === '' ? [identifier(table)] : []));
  const inside = columns.flatMap(([, , column]) => (column === '' ? [] : [identifier(column)]));
  return ['from', 'join', 'into', 'update', 'table', 'describe'].includes(behind)
    ? [...tables, ...keywords]
    : [...inside, ...tables, ...keywords];
}

/** Inside '…' or after `--`. */
function isInLiteral(before: string): boolean {
  const quotes = before.split("'").length - 1;
  return quotes % 2 === 1 || before.slice(before.lastIndexOf('\n') + 1).includes('--');
}
