// Runs the test files found in dist/. `--long` adds the crash and fuzz runs that take minutes;
// any other argument is a part of a file name: only files that contain one of them run.
import { spawn } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';

const args = process.argv.slice(2);
const long = args.includes('--long');
const wanted = args.filter((arg) => !arg.startsWith('--'));
const files = readdirSync('dist', { recursive: true })
  .map((file) => join('dist', file))
  .filter((file) => file.endsWith(long ? '.long.js' : '.test.js'))
  .filter((file) => wanted.length === 0 || wanted.some((part) => file.includes(part)))
  .toSorted();
if (files.length === 0) {
  console.error('no test file matches');
  process.exit(1);
}

const child = spawn(process.execPath, ['--test', '--test-concurrency=2', '--enable-source-maps', ...files], {
  stdio: 'inherit',
});
child.on('exit', (code, signal) => process.exit(signal ? 1 : (code ?? 1)));
