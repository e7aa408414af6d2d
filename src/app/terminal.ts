/**
 * Standard output and standard error of the program, which may be closed, full, or read by nobody: none of that ends the
 * process or holds it up. Takes Settings, gives the log; touches only these two streams.
 */
import { fstatSync } from 'node:fs';
import { createLog, logLine } from '../admin/log.ts';
import { fileOutput, streamOutput } from '../admin/output.ts';
import type { LostLine, Output } from '../admin/output.ts';
import { limits } from '../tables/limits.ts';
import type { Observe } from '../tables/observations.ts';
import type { Settings } from '../tables/settings.ts';

export interface Terminal {
  readonly log: Observe;
  /** A text for who started the program. */
  print(text: string): void;
  /** Ends the process when what was said has been written, or could not be in time. */
  exit(code: number): Promise<never>;
}

export function openTerminal(settings: Settings): Terminal {
  const format = settings.logFormat === 'pretty' ? 'pretty' : 'json';
  const lost: LostLine = (lines, reason) =>
    logLine({ format, now: Date.now }, { kind: 'log.lost', lines, reason });
  const errors = outputTo(process.stderr, lost);
  // Of what is printed nothing is missed that the log does not say as well.
  const output = outputTo(process.stdout, () => '');
  return {
    log: createLog({
      level: settings.logLevel,
      format,
      now: Date.now,
      write: (line) => errors.write(line),
      thinned: {
        clock: () => performance.now(),
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
  if (isFile(stream)) return fileOutput(stream.fd, { lost });
  unblock(stream);
  return streamOutput(stream, { lost, waitingBytesMax: limits.logWaitingBytesMax });
}

function isFile(stream: NodeJS.WriteStream & { readonly fd: 1 | 2 }): boolean {
  if (stream.isTTY) return false;
  const stats = fstatSync(stream.fd);
  return stats.isFile() || stats.isCharacterDevice();
}

/**
 * Node writes to a terminal until it has taken everything, and one that was stopped by Ctrl-S, or whose window hangs, takes
 * nothing. There is no public way to have it wait in memory instead, as it does before a pipe.
 */
function unblock(stream: NodeJS.WriteStream): void {
  if (!stream.isTTY) return;
  const { _handle: handle } = stream as { _handle?: { setBlocking?: (on: boolean) => void } };
  handle?.setBlocking?.(false);
}
