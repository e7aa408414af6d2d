// Runs the test files found in dist/, each in a process of its own, two at a time. `--long` adds the crash and fuzz runs
// that take minutes; any other argument is a part of a file name: only files that contain one of them run.
//
// A file that does not end is ended, with everything that it started, and named: the suite ends whatever hangs.
//
// Two files at a time share the machine, and some tests hold a program to seconds. So a file that failed runs once more at the
// end, alone. Passing then, it is named as unsteady, its first output stays in the log, and the suite passes; more than a few
// such files fail it all the same.
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const args = process.argv.slice(2);
const long = args.includes('--long');
const wanted = args.filter((arg) => !arg.startsWith('--'));
const minutes = Number(args.find((arg) => arg.startsWith('--minutes='))?.slice(10) ?? (long ? 240 : 15));
const concurrency = 2;
const files = readdirSync('dist', { recursive: true })
  .map((file) => join('dist', file))
  .filter((file) => file.endsWith(long ? '.long.js' : '.test.js'))
  .filter((file) => wanted.length === 0 || wanted.some((part) => file.includes(part)))
  .toSorted();
if (files.length === 0) {
  console.error('no test file matches');
  process.exit(1);
}

// Made once for all files, which copy it. Where it cannot be made, the first test that needs a server says why.
const folder = mkdtempSync(join(tmpdir(), 'headgate-template-'));
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
const template = join(folder, 'data');
const made = spawnSync(process.execPath, ['dist/test/support/template.js', template], { stdio: 'ignore' });
const env = { ...process.env, ...(made.status === 0 ? { HEADGATE_TEST_TEMPLATE: template } : {}) };

/** What each file counted when it last ran, by name. */
const counts = new Map();
/** How long each file took when it last ran, in s. */
const took = new Map();
const unsteadyMax = 3;
const failed = new Map();
const unsteady = [];
const running = new Set();
const waiting = [...files];
const started = Date.now();
await Promise.all(Array.from({ length: concurrency }, work));
await again();
report();

async function work() {
  for (let file = waiting.shift(); file !== undefined; file = waiting.shift()) await runFile(file);
}

async function again() {
  // What many files fail of is no chance, and not worth the time.
  if (files.length === 1 || failed.size > unsteadyMax) return;
  const once = new Map(failed);
  failed.clear();
  for (const [file, why] of once) {
    console.log(`# again, alone: ${file} ${why}`);
    await runFile(file);
    if (!failed.has(file)) unsteady.push(`${file} ${why}, and passed alone`);
  }
}

function runFile(file) {
  return new Promise((resolve) => {
    const reporter = process.stdout.isTTY ? ['--test-reporter=spec'] : [];
    // A group of its own, so that what it started can be ended with it; servers of tests end with the process that holds
    // their pipe.
    const child = spawn(process.execPath, ['--enable-source-maps', ...reporter, file], {
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
      env,
    });
    running.add(child);
    let output = '';
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', (text) => (output += text));
    const began = Date.now();
    let late = false;
    const limit = setTimeout(() => {
      late = true;
      kill(child);
    }, minutes * 60_000);
    child.once('exit', (code, signal) => {
      clearTimeout(limit);
      // What it left behind would hold its output open.
      const held = setTimeout(() => {
        for (const stream of [child.stdout, child.stderr]) stream.destroy();
      }, 2_000);
      child.once('close', () => {
        clearTimeout(held);
        running.delete(child);
        took.set(file, (Date.now() - began) / 1_000);
        tell(file, output, late, code, signal);
        resolve();
      });
    });
  });
}

function tell(file, output, late, code, signal) {
  // Each file's own totals are added up instead.
  const counted = new Map();
  counts.set(file, counted);
  const lines = output.replaceAll(/^(?:#|ℹ) (\w+) ([\d.]+)\n/gm, (_, name, count) => {
    counted.set(name, Number(count));
    return '';
  });
  process.stdout.write(`# ${file}\n${lines}`);
  if (code === 0 && signal === null) return;
  const why = late ? `did not end within ${minutes} minutes` : `ended with ${signal ?? code}`;
  failed.set(file, why);
}

function report() {
  const total = (name) => [...counts.values()].reduce((sum, counted) => sum + (counted.get(name) ?? 0), 0);
  const counted = ['tests', 'pass', 'fail', 'skipped', 'todo'].map((name) => `# ${name} ${total(name)}`);
  console.log([`# files ${files.length}`, ...counted, `# duration_ms ${Date.now() - started}`].join('\n'));
  const slowest = [...took].toSorted((a, b) => b[1] - a[1]).slice(0, 10);
  if (files.length > 10)
    console.log(slowest.map(([file, seconds]) => `# ${seconds.toFixed(0)} s ${file}`).join('\n'));
  for (const line of unsteady) console.log(`*** unsteady: ${line}`);
  for (const [file, why] of failed) console.log(`*** ${file} ${why}`);
  process.exitCode = failed.size === 0 ? 0 : 1;
}

function kill(child) {
  try {
    process.kill(-child.pid, 'SIGKILL');
  } catch {
    // It has ended by itself.
  }
}

// Ctrl-C in a terminal reaches this process alone: the others are groups of their own.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'])
  process.on(signal, () => {
    for (const child of running) kill(child);
    process.exit(1);
  });
