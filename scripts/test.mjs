// Runs the test files found in dist/, each in a process of its own, or with other short ones that need none. `--long` runs what takes minutes instead: the crash and
// fuzz runs of *.long.ts, and all of what the suite tries a sample of (test/support/sample.ts). Any other argument is a part of
// a file name: only files that contain one of them run.
//
// Two files run at a time, and more while they leave the processors idle (test-pace.mjs); those that take longest begin.
// A file that does not end is ended, with everything that it started, and named: the suite ends whatever hangs.
//
// Files share the machine, and some tests hold a program to seconds. So a file that failed runs once more at the
// end, alone. Passing then, it is named as unsteady, its first output stays in the log, and the suite passes; more than a few
// such files fail it all the same.
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Pace, processes } from './test-pace.mjs';
import { temporary } from './test-folder.mjs';

const args = process.argv.slice(2);
const long = args.includes('--long');
const wanted = args.filter((arg) => !arg.startsWith('--'));
const minutes = Number(args.find((arg) => arg.startsWith('--minutes='))?.slice(10) ?? (long ? 240 : 15));
const files = readdirSync('dist', { recursive: true })
  .map((file) => join('dist', file))
  .filter((file) =>
    file.endsWith('.test.js') ? !long || isSampled(file) : long && file.endsWith('.long.js'),
  )
  .filter((file) => wanted.length === 0 || wanted.some((part) => file.includes(part)))
  .toSorted();
if (files.length === 0) {
  console.error('no test file matches');
  process.exit(1);
}

const folder = temporary();
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
// Made once for all files, which copy it. Where it cannot be made, the first test that needs a server says why.
const template = join(folder, 'template');
const made = spawnSync(process.execPath, ['dist/test/support/template.js', template], { stdio: 'ignore' });
// Node reads it at every start, which takes longer than all else that a process of Node begins with; no test calls anybody outside.
const { NODE_EXTRA_CA_CERTS: _, ...inherited } = process.env;
const env = {
  ...inherited,
  TMPDIR: folder,
  ...(long ? { HEADGATE_TEST_LONG: 'true' } : {}),
  ...(made.status === 0 ? { HEADGATE_TEST_TEMPLATE: template } : {}),
};

const script = (name) => fileURLToPath(new URL(name, import.meta.url));
/** Runs several files in one process. */
const runner = script('test-together.mjs');
/** What each file counted when it last ran, by name. */
const counts = new Map();
/** How long each file took when it last ran, and how much of the processors, in s. */
const took = new Map();
const unsteadyMax = 3;
/** What the header of PostgreSQL's shared memory takes, in bytes (PGShmemHeader). */
const segmentBytes = 56;
/** What the process of a file loads first. */
const first = ['--require', script('test-process.cjs')];
/** Says of every error in which test, and on which line of the sources, which every promise and module costs a little. */
const telling = ['--enable-source-maps', '--require', script('for-seconds.cjs')];
const failed = new Map();
const unsteady = [];
const running = new Set();
const pace = new Pace();
const started = Date.now();
// Ctrl-C in a terminal reaches this process alone: the others are groups of their own.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'])
  process.on(signal, () => {
    for (const child of running) kill(child);
    process.exit(1);
  });
await all();
await again();
removeSegments();
report();

async function all() {
  const waiting = long ? files.map((file) => [file]) : processes(files);
  const ends = new Set();
  while (waiting.length > 0 || ends.size > 0) {
    if (waiting.length > 0 && pace.allows(ends.size)) {
      const end = run(waiting.shift()).then(() => ends.delete(end));
      ends.add(end);
    } else await Promise.race([...ends, ...(waiting.length > 0 ? [pace.next()] : [])]);
  }
}

async function again() {
  // What many files fail of is no chance, and not worth the time.
  if (files.length === 1 || failed.size > unsteadyMax) return;
  const once = new Map(failed);
  failed.clear();
  for (const [name, why] of once) {
    console.log(`# again, alone: ${name} ${why}`);
    counts.delete(name);
    const each = name.split(' ');
    for (const file of each) await run([file], telling);
    if (!each.some((file) => failed.has(file))) unsteady.push(`${name} ${why}, and passed alone`);
  }
}

/** The files of one process. */
function run(together, flags = wanted.length > 0 ? telling : first) {
  const name = together.join(' ');
  const program = together.length === 1 ? together : [runner, ...together];
  return new Promise((resolve) => {
    const reporter = process.stdout.isTTY ? ['--test-reporter=spec'] : [];
    // The shell says on the last descriptor what the file and all that it waited for have taken of the processors.
    const shell = ['-c', '"$0" "$@"; code=$?; times >&3; exit $code'];
    // A group of its own, so that what it started can be ended with it; servers of tests end with the process that holds
    // their pipe.
    const child = spawn('/bin/sh', [...shell, process.execPath, ...flags, ...reporter, ...program], {
      stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
      detached: true,
      env,
    });
    running.add(child);
    let output = '';
    let times = '';
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', (text) => (output += text));
    child.stdio[3].setEncoding('utf8').on('data', (text) => (times += text));
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
        for (const stream of child.stdio.slice(1)) stream.destroy();
      }, 2_000);
      child.once('close', () => {
        clearTimeout(held);
        running.delete(child);
        took.set(name, { wall: (Date.now() - began) / 1_000, cpu: secondsOf(times) });
        tell(name, output, late, code, signal);
        resolve();
      });
    });
  });
}

function isSampled(file) {
  return readFileSync(file, 'utf8').includes('/support/sample.js');
}

/** The second line of `times`: user and system time of a shell's children, as in `0m1.50s 0m0.25s`. */
function secondsOf(times) {
  const [, children = ''] = times.split('\n');
  return [...children.matchAll(/(\d+)m([\d.]+)s/g)].reduce((sum, [, m, s]) => sum + 60 * m + Number(s), 0);
}

function tell(file, output, late, code, signal) {
  // Each file's own totals are added up instead.
  const counted = new Map();
  counts.set(file, counted);
  const lines = output.replaceAll(/^(?:#|ℹ) (\w+) ([\d.]+)\n/gm, (_, name, count) => {
    counted.set(name, Number(count));
    return '';
  });
  process.stdout.write(`# ${file} ${said(took.get(file))}\n${lines}`);
  if (code === 0 && signal === null) return;
  const why = late ? `did not end within ${minutes} minutes` : `ended with ${signal ?? code}`;
  failed.set(file, why);
}

function said({ wall, cpu }) {
  return `${wall.toFixed(1)} s, ${cpu.toFixed(1)} s of CPU`;
}

function report() {
  const total = (name) => [...counts.values()].reduce((sum, counted) => sum + (counted.get(name) ?? 0), 0);
  const counted = ['tests', 'pass', 'fail', 'skipped', 'todo'].map((name) => `# ${name} ${total(name)}`);
  console.log([`# files ${files.length}`, ...counted, `# duration_ms ${Date.now() - started}`].join('\n'));
  const cpu = [...took.values()].reduce((sum, it) => sum + it.cpu, 0);
  console.log(`# ${cpu.toFixed(0)} s of CPU`);
  const slowest = [...took].toSorted((a, b) => b[1].wall - a[1].wall).slice(0, 20);
  if (files.length > 10) for (const [file, it] of slowest) console.log(`# ${file} ${said(it)}`);
  const left = readdirSync(folder).filter((name) => !name.startsWith('template'));
  if (left.length > 0) console.log(`# left behind by tests: ${left.join(', ')}`);
  for (const line of unsteady) console.log(`*** unsteady: ${line}`);
  for (const [file, why] of failed) console.log(`*** ${file} ${why}`);
  process.exitCode = failed.size === 0 ? 0 : 1;
}

/**
 * Servers that were killed have left a small segment of shared memory each, of which a system has some thousands. Nobody is attached
 * to it, and who made it is gone; a server that is started again on its data makes another one.
 */
function removeSegments() {
  let lines = [];
  try {
    lines = readFileSync('/proc/sysvipc/shm', 'utf8').trim().split('\n').slice(1);
  } catch {
    // A system without them, or that shows them elsewhere.
  }
  const ids = lines
    .map((line) => line.trim().split(/\s+/).map(Number))
    .filter(
      ([, , , bytes, creator, , attached, , , , , , , changed]) =>
        bytes === segmentBytes &&
        attached === 0 &&
        changed * 1_000 >= started - 1_000 &&
        !existsSync(`/proc/${creator}`),
    )
    .map(([, id]) => `${id}`);
  if (ids.length > 0)
    spawnSync(
      'ipcrm',
      ids.flatMap((id) => ['-m', id]),
      { stdio: 'ignore' },
    );
}

function kill(child) {
  try {
    process.kill(-child.pid, 'SIGKILL');
  } catch {
    // It has ended by itself.
  }
}
