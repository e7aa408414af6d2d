/**
 * Where log lines go: a file, a terminal or a pipe that may be full, slow or gone. Takes whole lines at any time, writes
 * those that can be written, and never throws and never waits: what cannot be written now is left out and counted, and said
 * (`lost`) in front of the first line that can be. Touches only its sink.
 *
 * A file refuses at once (a full disk, a limit of its size) and is tried again with every line. A stream takes into memory
 * what its reader has not read yet, at most `waitingBytesMax`; one whose reader is gone stays so.
 */
import { writeSync } from 'node:fs';
import type { Writable } from 'node:stream';
import { within } from '../kit/within.ts';

export interface Output {
  /** One whole line with its line break. */
  write(line: string): void;
  /** Resolves when what was written has left the process, at the latest after `withinMs`. Never rejects. */
  flush(withinMs: number): Promise<void>;
}

/** What is said of lines that were lost, with its line break. */
export type LostLine = (lines: number, reason: string) => string;

export interface OutputOptions {
  readonly lost: LostLine;
  readonly waitingBytesMax: number;
}

/** A regular file or a device: what is written to it is written, or refused, at once. */
export function fileOutput(fd: number, { lost }: Pick<OutputOptions, 'lost'>): Output {
  let [lines, reason] = [0, ''];
  /** The last line that was begun has no end. */
  let torn = false;
  const put = (text: string): void => {
    const bytes = Buffer.from(torn ? `\n${text}` : text);
    for (let at = 0; at < bytes.length;) {
      at += writeSync(fd, bytes, at);
      torn = at < bytes.length;
    }
  };
  return {
    write(line) {
      try {
        if (lines > 0) put(lost(lines, reason));
        lines = 0;
        put(line);
      } catch (error) {
        lines += 1;
        reason = (error as NodeJS.ErrnoException).code ?? 'unknown error';
      }
    },
    flush: () => Promise.resolve(),
  };
}

/** A pipe, a socket or a terminal, which must not block. */
export function streamOutput(stream: Writable, { lost, waitingBytesMax }: OutputOptions): Output {
  let lines = 0;
  const says = (): void => {
    if (lines === 0 || stream.writableNeedDrain) return;
    stream.write(lost(lines, 'its reader did not keep up'));
    lines = 0;
  };
  stream.on('error', () => undefined);
  stream.on('drain', says);
  return {
    write(line) {
      if (!stream.writable) return;
      says();
      // Behind lines that were lost nothing is written before their number: it would read as if they had never been.
      if (lines > 0 || stream.writableLength + line.length > waitingBytesMax) lines += 1;
      else stream.write(line);
    },
    async flush(withinMs) {
      if (!stream.writable || stream.writableLength === 0) return;
      const gone = new Promise<void>((resolve) => {
        stream.once('drain', resolve);
        stream.once('close', () => resolve());
        // Behind everything that waits.
        stream.write('', () => resolve());
      });
      await within(withinMs, gone, undefined);
    },
  };
}
