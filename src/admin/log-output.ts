/**
 * Where log lines go: a file, a terminal or a pipe that may be full, slow or gone. Takes whole lines at any time, writes
 * those that can be written, and never throws or waits: lines that cannot be written now are dropped and counted, and the
 * count is written (`lost`) before the next line.
 *
 * A file refuses at once (full disk, file size limit) and is retried with every line. A stream buffers in memory what its
 * reader has not read yet, at most `waitingBytesMax`; if its reader is gone, the stream stays closed. Touches only its
 * sink.
 */
import { writeSync } from 'node:fs';
import type { Writable } from 'node:stream';
import { within } from '../kit/promises.ts';

export interface Output {
  /** One whole line with its line break. */
  write(line: string): void;
  /** Resolves once everything written has left the process, at the latest after `withinMs`. Never rejects. */
  flush(withinMs: number): Promise<void>;
}

/** The text about lines that were lost, with its line break. */
export type LostLine = (lines: number, reason: string) => string;

/** A regular file or a device: a write succeeds or fails at once. */
export function fileOutput(fd: number, lost: LostLine): Output {
  let [lines, reason] = [0, ''];
  /** The last line was written only in part. */
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
export function streamOutput(stream: Writable, lost: LostLine, waitingBytesMax: number): Output {
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
      // After lost lines, their number must be written before any other line: otherwise the loss would not show.
      if (lines > 0 || stream.writableLength + line.length > waitingBytesMax) lines += 1;
      else stream.write(line);
    },
    async flush(withinMs) {
      if (!stream.writable || stream.writableLength === 0) return;
      const gone = new Promise<void>((resolve) => {
        stream.once('drain', resolve);
        stream.once('close', () => resolve());
        // Completes after everything that waits.
        stream.write('', () => resolve());
      });
      await within(withinMs, gone, undefined);
    },
  };
}
