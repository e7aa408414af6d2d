/** What a command of the terminal is given, and how text of strangers is shown there. */
import type { Buffer } from 'node:buffer';

export interface CommandIo {
  /** Standard output: the result. */
  readonly print: (text: string) => void;
  /** Standard error: progress. */
  readonly note: (text: string) => void;
  /** Whether `note` draws on a terminal. */
  readonly terminal: boolean;
  /** The bytes of a file; `-` is standard input. */
  readonly read: (path: string) => Promise<Buffer>;
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
