/**
 * Rows as CSV (RFC 4180), character for character, and as texts for the clipboard. NULL is nothing, in CSV an empty text is `""`. A cell that a spreadsheet
 * would take for a formula is prefixed with `'` in both, unless it is a number: also behind quotes, which it removes from what is pasted. Pure.
 */
import type { SqlTable } from './api.ts';

const number = /^[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

const noFormula = (text: string): string =>
  /^"*[=+\-@\t\r\n|%]/.test(text) && !number.test(text) ? `'${text}` : text;

function cell(text: string | null): string {
  if (text === null) return '';
  const safe = noFormula(text);
  return safe === '' || /[",\r\n]|^\s|\s$/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

export function csvOf({ columns, rows }: Pick<SqlTable, 'columns' | 'rows'>): string {
  return [columns.map(({ name }) => name), ...rows].map((row) => `${row.map(cell).join(',')}\r\n`).join('');
}

/** As spreadsheets and editors take it from the clipboard: a row a line, tabs between the values; those within them become spaces. */
export function tabbedOf({ columns, rows }: Pick<SqlTable, 'columns' | 'rows'>): string {
  const plain = (text: string | null): string => noFormula(text ?? '').replaceAll(/[\t\r\n]+/g, ' ');
  return [columns.map(({ name }) => name), ...rows].map((row) => `${row.map(plain).join('\t')}\n`).join('');
}

/** OIDs of what PostgreSQL prints as JSON does: numbers that are finite, and documents. */
const numberTypes = new Set([20, 21, 23, 26, 700, 701, 1700]);
const documentTypes = new Set([114, 3802]);

/** An array with an object a row. Numbers and documents stand there digit for digit, all else as text. */
export function jsonOf({ columns, rows }: Pick<SqlTable, 'columns' | 'rows'>): string {
  const valueOf = (text: string | null, type: number): string =>
    text === null
      ? 'null'
      : documentTypes.has(type) || (numberTypes.has(type) && number.test(text))
        ? text
        : type === 16
          ? String(text === 't')
          : JSON.stringify(text);
  const lines = rows.map(
    (row) =>
      `{${columns.map(({ name, type }, i) => `${JSON.stringify(name)}: ${valueOf(row[i] ?? null, type)}`).join(', ')}}`,
  );
  return `[${lines.join(',\n ')}]\n`;
}
