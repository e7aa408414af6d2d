/** What a command does if its output cannot be written. */

/**
 * For commands that print and exit: a reader that has closed the pipe (`headgate config | head -1`) wants no more; any
 * other write error is reported.
 */
export function tellUnprinted(): void {
  process.stderr.on('error', () => undefined);
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') return;
    process.stderr.write(`headgate: standard output cannot be written (${error.code ?? error.message})\n`);
    process.exitCode = 1;
  });
}
