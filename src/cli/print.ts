/** How commands print results: a table for people, one JSON object per line for programs. */
import { painted, plain } from '../kit/terminal.ts';
import type { CommandIo } from '../kit/terminal.ts';

type PrintedRow = Readonly<Record<string, string | number | boolean | null>>;

/** What is drawn on: a terminal of a width, perhaps in colours, or a file. */
export type Screen = Pick<CommandIo, 'columns' | 'colours'>;

/**
 * Rows under the names of `columns`. `below`: a column whose values must not be cut, and that follow below their row where the terminal is too
 * narrow.
 */
export function tableOf(
  rows: readonly PrintedRow[],
  columns: readonly string[],
  screen: Screen = {},
  below: string | null = null,
): string {
  const cells = rows.map((row) => columns.map((column) => plain(String(row[column] ?? ''))));
  const lines = [columns, ...cells];
  const at = below === null ? -1 : columns.indexOf(below);
  if (at === -1 || fits(widthsOf(lines), screen)) return aligned(lines, screen);
  const short = aligned(
    lines.map((line) => line.toSpliced(at, 1)),
    screen,
  ).split('\n');
  return [short[0], ...cells.flatMap((line, i) => [short[i + 1], `  ${line[at] ?? ''}`]), ''].join('\n');
}

const gap = '  ';
/** Columns are not made narrower than this. */
const narrowest = 6;

/** The first line is the names of the columns. Cells are cut where a terminal is too narrow. */
export function aligned(lines: readonly (readonly string[])[], screen: Screen = {}): string {
  const widths = widthsOf(lines);
  while (!fits(widths, screen)) {
    const widest = Math.max(...widths);
    if (widest <= narrowest) break;
    widths[widths.indexOf(widest)] = widest - 1;
  }
  const text = (line: readonly string[]) =>
    line
      .map((cell, i) => cut(cell, widths[i] ?? 0).padEnd(widths[i] ?? 0))
      .join(gap)
      .trimEnd();
  return lines.map((line, i) => `${i === 0 ? painted(screen, 'bold', text(line)) : text(line)}\n`).join('');
}

function widthsOf(lines: readonly (readonly string[])[]): number[] {
  return (lines[0] ?? []).map((_, i) => Math.max(...lines.map((line) => line[i]?.length ?? 0)));
}

function fits(widths: readonly number[], { columns = Infinity }: Screen): boolean {
  return widths.reduce((sum, width) => sum + width, 0) + gap.length * (widths.length - 1) <= columns;
}

const cut = (cell: string, width: number): string =>
  cell.length <= width ? cell : `${cell.slice(0, width - 1)}…`;

/** A time as PostgreSQL prints it under DateStyle ISO, as ISO 8601; any other text as it is. */
export function isoTime(text: string): string {
  const [, day, time, zone] =
    /^(\d{4,}-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d+)?)([+-]\d\d(?::\d\d){0,2})?$/.exec(text) ?? [];
  if (day === undefined || time === undefined) return text;
  const at = `${day}T${time}`;
  if (zone === undefined) return at;
  if (/^[+-]00(?::00){0,2}$/.test(zone)) return `${at}Z`;
  return `${at}${zone.length === 3 ? `${zone}:00` : zone}`;
}

export const interrupted = 130;
