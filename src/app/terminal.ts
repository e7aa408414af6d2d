/**
 * Standard output and standard error of the program, which may be closed, full, or unread: none of that ends or delays the
 * process. Takes Settings, returns the log; touches only these two streams.
 *
 * Whole lines are written at any time, if they can be: lines that cannot be written now are dropped and counted, and the count is written (`lost`) before
 * the next line. A file refuses at once (full disk, file size limit) and is retried with every line. A stream buffers in memory what its reader has not read
 * yet, at most `waitingBytesMax`; if its reader is gone, the stream stays closed.
 */
import { fstatSync, writeSync } from 'node:fs';
import type { Writable } from 'node:stream';
import { createLog, logLine } from '../admin/log.ts';
import { limits } from '../config/limits.ts';
import { monotonicMs } from '../observe/context.ts';
import type { Observe } from '../observe/observations.ts';
import type { Settings } from '../config/settings.ts';
import { within } from '../kit/promises.ts';

export interface Terminal {
  readonly log: Observe;
  /** Prints a text for the user. */
  print(text: string): void;
  /** Ends the process once all output has been written, or could not be written in time. */
  exit(code: number): Promise<never>;
}

export function openTerminal(settings: Settings): Terminal {
  const format = settings.logFormat === 'pretty' ? 'pretty' : 'json';
  const lost: LostLine = (lines, reason) =>
    logLine({ format, now: Date.now }, { kind: 'log.lost', lines, reason });
  const errors = outputTo(process.stderr, lost);
  // Lost output needs no line: the log contains everything that is printed.
  const output = outputTo(process.stdout, () => '');
  return {
    log: createLog({
      level: settings.logLevel,
      format,
      now: Date.now,
      write: (line) => errors.write(line),
      thinned: {
        clock: monotonicMs,
        after: (run, ms) => void setTimeout(run, ms).unref(),
      },
    }),
    print: (text) => output.write(text),
    exit: async (code) => {
      await Promise.all([errors.flush(limits.logFlushMs), output.flush(limits.logFlushMs)]);
      process.exit(code);
    },
  };
}

function outputTo(stream: NodeJS.WriteStream & { readonly fd: 1 | 2 }, lost: LostLine): Output {
  if (isFile(stream)) return fileOutput(stream.fd, lost);
  unblock(stream);
  return streamOutput(stream, lost, limits.logWaitingBytesMax);
}

function isFile(stream: NodeJS.WriteStream & { readonly fd: 1 | 2 }): boolean {
  if (stream.isTTY) return false;
  const stats = fstatSync(stream.fd);
  return stats.isFile() || stats.isCharacterDevice();
}

/**
 * Node's writes to a terminal block until the terminal has taken everything; one stopped by Ctrl-S, or whose window hangs,
 * takes nothing. There is no public way to make Node buffer instead, as it does for a pipe.
 */
function unblock(stream: NodeJS.WriteStream): void {
  if (!stream.isTTY) return;
  const { _handle: handle } = stream as { _handle?: { setBlocking?: (on: boolean) => void } };
  handle?.setBlocking?.(false);
}

interface Output {
  /** One whole line with its line break. */
  write(line: string): void;
  /** Resolves once everything written has left the process, at the latest after `withinMs`. Never rejects. */
  flush(withinMs: number): Promise<void>;
}

/** The text about lines that were lost, with its line break. */
type LostLine = (lines: number, reason: string) => string;

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
