#!/usr/bin/env node
/**
 * The program. Only this file reads the command line and the environment, and passes them on; --version is answered before anything else
 * is loaded, because scripts call it often.
 */
import { readFileSync } from 'node:fs';

tellUnprinted();
if (process.argv.length === 3 && /^(?:--version|-V)$/.test(process.argv[2] ?? ''))
  process.stdout.write(`${version()}\n`);
else void start();

async function start(): Promise<void> {
  const { run } = await import('./program.ts');
  await run({ argv: process.argv, env: process.env, version: version() });
}

function version(): string {
  // From dist/src/app/ as from src/app/: the nearest package.json above.
  for (const path of ['../../package.json', '../../../package.json']) {
    try {
      return (JSON.parse(readFileSync(new URL(path, import.meta.url), 'utf8')) as { version: string })
        .version;
    } catch {
      // Not here: try the next one.
    }
  }
  return 'unknown';
}

/**
 * For commands that print and exit: a reader that has closed the pipe (`headgate config | head -1`) wants no more; any
 * other write error is reported.
 */
function tellUnprinted(): void {
  process.stderr.on('error', () => undefined);
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') return;
    process.stderr.write(`headgate: standard output cannot be written (${error.code ?? error.message})\n`);
    process.exitCode = 1;
  });
}
