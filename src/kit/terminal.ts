/** What a command of the terminal is handed, and how text of strangers is shown there. */
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

/** What people sent, or what they call things, may hold anything: nothing of it moves the cursor or colours the terminal. */
export function plain(text: string): string {
  return text.replaceAll(
    /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu,
    (mark) => `\\u{${mark.codePointAt(0)?.toString(16) ?? ''}}`,
  );
}
