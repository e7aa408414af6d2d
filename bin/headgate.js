#!/usr/bin/env node
// The command `headgate`. A clone has this file before it is built: npx remembers for good a folder in which the command was missing.
import { existsSync } from 'node:fs';

const program = new URL('../dist/src/app/cli.js', import.meta.url);
if (existsSync(program)) {
  await import(program.href);
} else {
  process.stderr.write(
    'headgate: this clone is not built yet: run npm start in it, which builds first, or npm run build\n',
  );
  process.exitCode = 1;
}
