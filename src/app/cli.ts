#!/usr/bin/env node
/**
 * The program. Only this file reads the command line and the environment, and passes them on; --version is answered before anything else
 * is loaded, because scripts call it often.
 */
import { readFileSync } from 'node:fs';
import { tellUnprinted } from './output-errors.ts';

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
