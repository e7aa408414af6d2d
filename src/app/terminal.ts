/**
 * Standard output and standard error of the program, which may be closed, full, or unread: none of that ends or delays the
 * process. Takes Settings, returns the log; touches only these two streams.
 */
import { fstatSync } from 'node:fs';
import { createLog, logLine } from '../admin/log.ts';
import { fileOutput, streamOutput } from '../admin/log-output.ts';
import type { LostLine, Output } from '../admin/log-output.ts';
import { limits } from '../config/limits.ts';
import { monotonicMs } from '../observe/context.ts';
import type { Observe } from '../observe/observations.ts';
import type { Settings } from '../config/settings.ts';

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
