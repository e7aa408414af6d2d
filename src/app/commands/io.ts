/** What a command of the terminal is handed, and how it shows what it found: a table for people, one JSON object a line for programs. */
import type { Buffer } from 'node:buffer';

export interface CommandIo {
  /** Standard output: what was asked for. */
  readonly print: (text: string) => void;
  /** Standard error: what happens meanwhile. */
  readonly note: (text: string) => void;
  /** Whether `note` draws on a terminal. */
  readonly terminal: boolean;
  /** The bytes of a file; `-` is standard input. */
  readonly read: (path: string) => Promise<Buffer>;
  /** ms since 1970. */
  readonly clock: () => number;
  /** ms, never going back. */
  readonly elapsed: () => number;
  readonly random: (size: number) => Buffer;
  /** Ends it early. */
  readonly signal: AbortSignal;
}

export type Shown = Readonly<Record<string, string | number | boolean | null>>;

/** What people sent may hold anything: nothing of it moves the cursor or colours the terminal. */
export function plain(text: string): string {
  return text.replaceAll(
    /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu,
    (mark) => `\\u{${mark.codePointAt(0)?.toString(16) ?? ''}}`,
  );
}

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
