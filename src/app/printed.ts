/** What a command prints, and who has gone away before it was read. */

/**
 * For the commands that print and end: a reader that has gone away (`headgate config | head -1`) wanted no more, and
 * anything else that cannot be written is told.
 */
export function tellUnprinted(): void {
  process.stderr.on('error', () => undefined);
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') return;
    process.stderr.write(`headgate: standard output cannot be written (${error.code ?? error.message})\n`);
    process.exitCode = 1;
  });
}
