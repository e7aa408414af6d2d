/** What a command of the terminal is given, and how text of strangers is shown there. */
import type { Buffer } from 'node:buffer';

export interface CommandIo {
  /** Standard output: the result. */
  readonly print: (text: string) => void;
  /** Standard error: progress. */
  readonly note: (text: string) => void;
  /** Whether `note` draws on a terminal. */
  readonly terminal: boolean;
  /** The width of the terminal that `print` draws on; absent: it is a file or a pipe, which gets lines of any length. */
  readonly columns?: number;
  /** `print` may write colours. */
  readonly colours?: boolean;
  /** The bytes of a file; `-` is standard input. */
  readonly read: (path: string) => Promise<Buffer>;
  /** A line that is typed on the terminal without being shown; null: interrupted. Absent: nobody can type. */
  readonly ask?: (question: string) => Promise<string | null>;
  /** ms since 1970. */
  readonly clock: () => number;
  /** ms, monotonic. */
  readonly elapsed: () => number;
  readonly random: (size: number) => Buffer;
  /** Ends the command early. */
  readonly signal: AbortSignal;
}

/** Text from senders, and names that people choose, may contain anything: no part of it may move the cursor or colour the terminal. */
export function plain(text: string): string {
  return text.replaceAll(
    /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu,
    (mark) => `\\u{${mark.codePointAt(0)?.toString(16) ?? ''}}`,
  );
}

/**
 * Characters that JSON does not escape and on which terminals and log viewers act: DEL and the C1 controls (U+009B begins a sequence as ESC [ does),
 * line and paragraph separators, and marks that are invisible or change the direction of writing. They can only occur inside a string.
 */
const unseen = /[\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** The same JSON, in which a terminal acts on no character. */
export function shownJson(text: string): string {
  return text.replace(unseen, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** A value as a line of JSON. */
export function jsonLine(value: unknown): string {
  return `${shownJson(JSON.stringify(value))}\n`;
}

const styles = { good: 32, bad: 31, warn: 33, dim: 2, bold: 1 } as const;

export type Style = keyof typeof styles;

/** The same text, in colour where there are colours. */
export function painted({ colours }: Pick<CommandIo, 'colours'>, style: Style, text: string): string {
  return colours === true ? `\u001b[${styles[style]}m${text}\u001b[0m` : text;
}

/** As Node decides: FORCE_COLOR, then NO_COLOR (https://no-color.org), then whether it is a terminal that has colours. */
export function wantsColours(
  env: Readonly<Record<string, string | undefined>>,
  isTerminal: boolean,
): boolean {
  const { FORCE_COLOR: forced, NO_COLOR: none = '', TERM: term = '' } = env;
  if (forced !== undefined) return forced !== '0' && forced !== 'false';
  return none === '' && term !== 'dumb' && isTerminal;
}
