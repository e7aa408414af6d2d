/**
 * Rows as CSV (RFC 4180), character for character. NULL is nothing, an empty text is `""`. A cell that a spreadsheet
 * would take for a formula is prefixed with `'`, unless it is a number. Pure.
 */
import type { SqlTable } from './api.ts';

const number = /^[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

function cell(text: string | null): string {
  if (text === null) return '';
  const safe = /^[=+\-@\t\r\n|%]/.test(text) && !number.test(text) ? `'${text}` : text;
  return safe === '' || /[",\r\n]|^\s|\s$/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

export function csvOf({ columns, rows }: Pick<SqlTable, 'columns' | 'rows'>): string {
  return [columns.map(({ name }) => name), ...rows].map((row) => `${row.map(cell).join(',')}\r\n`).join('');
}
