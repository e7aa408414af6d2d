// `npm run test:watch -- word`: builds and runs the test files whose names contain one of the words, and does so again whenever a source has changed;
// tests that still run then are ended first. Ctrl-C ends it.
import { spawn } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { watch } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
/** Saving a file causes several events, and a checkout many. */
const settleMs = 100;

const sources = new EventEmitter();
let settling;
for (const folder of ['src', 'test', 'bench', 'scripts'])
  watch(join(root, folder), { recursive: true }, () => {
    clearTimeout(settling);
    settling = setTimeout(() => sources.emit('change'), settleMs);
  });

for (;;) {
  const stop = new AbortController();
  const change = once(sources, 'change').then(() => stop.abort());
  // A build is short, and is not cut off.
  if ((await run('build.mjs', [], undefined)) === 0 && !stop.signal.aborted)
    await run('test.mjs', process.argv.slice(2), stop.signal);
  if (!stop.signal.aborted) process.stderr.write('waiting for a change\n');
  await change;
}

/** The exit status, or null if it was ended. */
async function run(script, args, signal) {
  const child = spawn(process.execPath, [join(root, 'scripts', script), ...args], {
    cwd: root,
    stdio: 'inherit',
  });
  signal?.addEventListener('abort', () => child.kill());
  const [code] = await once(child, 'exit');
  return code;
}
