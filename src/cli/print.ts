/** How commands print results: a table for people, one JSON object per line for programs. */
import { plain } from '../kit/terminal.ts';

export type Shown = Readonly<Record<string, string | number | boolean | null>>;

/** Rows under the names of `columns`. */
export function tableOf(rows: readonly Shown[], columns: readonly string[]): string {
  return aligned([columns, ...rows.map((row) => columns.map((column) => plain(String(row[column] ?? ''))))]);
}

export function aligned(lines: readonly (readonly string[])[]): string {
  const widths = (lines[0] ?? []).map((_, i) => Math.max(...lines.map((line) => line[i]?.length ?? 0)));
  const text = (line: readonly string[]) =>
    line
      .map((cell, i) => cell.padEnd(widths[i] ?? 0))
      .join('  ')
      .trimEnd();
  return lines.map((line) => `${text(line)}\n`).join('');
}

export const interrupted = 130;
