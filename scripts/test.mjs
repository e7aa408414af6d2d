// Runs the test files found in dist/, each in a process of its own, or together with other short ones. There are three tiers: without an option, all
// but *.extended.*; with `--extended`, those alone; with `--long` what takes minutes, the crash and fuzz runs of *.long.ts, and all cases of which the
// other tiers try a sample (test/support/sample.ts). Any other argument is part of a file name: only files that contain one of them run, extended or
// not.
//
// Two files run at once, and more while they leave the processors idle (test-pace.mjs); the longest start first. A file that does not end is killed
// and named: the suite always ends. The processes that a file leaves in its group are killed, too, and named.
//
// Files share the machine, and some tests hold a program to seconds. So a file that failed runs once more at the end, alone. If it passes then, it is
// named as unsteady, its first output stays in the log, and the suite passes; more than a few such files fail the suite all the same.
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { missingPackages } from './packages.mjs';
import { Pace, processes } from './test-pace.mjs';
import { temporary } from './test-folder.mjs';

const args = process.argv.slice(2);
const [long, extended] = ['--long', '--extended'].map((option) => args.includes(option));
const wanted = args.filter((arg) => !arg.startsWith('--'));
const minutes = Number(args.find((arg) => arg.startsWith('--minutes='))?.slice(10) ?? (long ? 240 : 15));
const files = readdirSync('dist', { recursive: true })
  .map((file) => join('dist', file))
  .filter(isOfTier)
  .filter((file) => wanted.length === 0 || wanted.some((part) => file.includes(part)))
  .toSorted();
if (files.length === 0) {
  console.error('no test file matches');
  process.exit(1);
}
const left = leaveOut();
if (left.length > 0 && (files.length === 0 || process.env.CI === 'true')) {
  console.error(`${left.join('\n')}\n*** not run: \`npm run packages\` installs what they need`);
  process.exit(1);
}

const folder = temporary();
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
// Made once, unless all files are pure: some of those run meanwhile, and all others copy it.
const template = join(folder, 'template');
const isPure = (file) => file.startsWith(join('dist', 'src')) && !file.endsWith('.pg.test.js');
// Node reads this at every start, which takes longer than the rest of its startup; no test connects to the outside.
const { NODE_EXTRA_CA_CERTS: _, ...inherited } = process.env;
const env = {
  ...inherited,
  TMPDIR: folder,
  ...(long ? { HEADGATE_TEST_LONG: 'true' } : {}),
  HEADGATE_TEST_KEYS: `${template}-rsa`,
};

const script = (name) => fileURLToPath(new URL(name, import.meta.url));
/** Runs several files in one process. */
const runner = script('test-together.mjs');
/** What each file counted in its last run, by name. */
const counts = new Map();
/** The duration and the CPU time of each file in its last run, in s. */
const took = new Map();
const unsteadyMax = 3;
/** The size of the header of PostgreSQL's shared memory, in bytes (PGShmemHeader). */
const segmentBytes = 56;
/** Loaded first by the process of a file. */
const first = ['--require', script('test-process.cjs')];
/** Reports for every error its test, and its line in the sources; this makes every promise and module a little slower. */
const telling = ['--enable-source-maps', '--require', script('for-seconds.cjs')];
const failed = new Map();
const unsteady = [];
const leftRunning = [];
const running = new Set();
const pace = new Pace();
const started = Date.now();
// Ctrl-C in a terminal reaches only this process: the others have process groups of their own.
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
  if (!files.every(isPure)) {
    const making = makeTemplate();
    const pure = waiting.find((together) => together.every(isPure));
    if (pure !== undefined) {
      waiting.splice(waiting.indexOf(pure), 1);
      const end = run(pure).then(() => ends.delete(end));
      ends.add(end);
    }
    await making;
  }
  while (waiting.length > 0 || ends.size > 0) {
    if (waiting.length > 0 && pace.allows(ends.size)) {
      const end = run(waiting.shift()).then(() => ends.delete(end));
      ends.add(end);
    } else await Promise.race([...ends, ...(waiting.length > 0 ? [pace.next()] : [])]);
  }
}

/** For the processes that start after it. If it cannot be made, the first test that needs a server says why. */
function makeTemplate() {
  return new Promise((resolve) => {
    const program = ['dist/test/support/template.js', template];
    const child = spawn(process.execPath, program, { stdio: 'ignore', detached: true });
    running.add(child);
    child.once('exit', (code) => {
      running.delete(child);
      if (code === 0) env.HEADGATE_TEST_TEMPLATE = template;
      resolve();
    });
  });
}

async function again() {
  // If many files fail, it is not by chance, and not worth the time.
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
    // The shell reports on the last descriptor the CPU time of the file and of all children that it waited for.
    const shell = ['-c', '"$0" "$@"; code=$?; times >&3; exit $code'];
    // A process group of its own, so that everything it started can be killed with it; servers of tests end with the process that holds their pipe.
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
      leftRunning.push(...inGroup(child.pid).map((command) => `${command}, by ${name}`));
      kill(child);
      // Processes left behind would keep its output open.
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

/** Takes out the files whose imports lead to a package that scripts/packages.mjs installs, and has not. */
function leaveOut() {
  const missing = missingPackages();
  if (missing.length === 0) return [];
  const pattern = new RegExp(`(?:from |\\(\\s*)['"\`](?:${missing.join('|')})['"\`/]`);
  const known = new Map();
  const needs = (file) => {
    if (known.has(file)) return known.get(file);
    known.set(file, false);
    const text = existsSync(file) ? readFileSync(file, 'utf8') : '';
    const imported = text.matchAll(/^(?:import|export) [^;]*?['"](\.[^'"]+)['"];$/gm);
    const answer = pattern.test(text) || [...imported].some(([, path]) => needs(join(dirname(file), path)));
    known.set(file, answer);
    return answer;
  };
  const out = files.filter(needs);
  files.splice(0, files.length, ...files.filter((file) => !out.includes(file)));
  return out;
}

function isOfTier(file) {
  if (!file.endsWith('.test.js')) return long && file.endsWith('.long.js');
  if (long) return isSampled(file);
  const isExtended = /\.extended\.(?:pg\.)?test\.js$/.test(file);
  return extended ? isExtended : !isExtended || wanted.length > 0;
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
  // The totals of each file are added up instead.
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
  const dearest = [...took].toSorted((a, b) => b[1].cpu - a[1].cpu).slice(0, 10);
  if (files.length > 10) for (const [file, it] of dearest) console.log(`# ${file} ${said(it)}`);
  const behind = readdirSync(folder).filter((name) => !name.startsWith('template'));
  if (behind.length > 0) console.log(`# left behind by tests: ${behind.join(', ')}`);
  for (const line of leftRunning) console.log(`# left running: ${line}`);
  if (left.length > 0)
    console.log(`*** not run, because \`npm run packages\` has not been: ${left.join(' ')}`);
  for (const line of unsteady) console.log(`*** unsteady: ${line}`);
  for (const [file, why] of failed) console.log(`*** ${file} ${why}`);
  process.exitCode = failed.size === 0 ? 0 : 1;
}

/**
 * Each killed server has left a small segment of shared memory, of which a system allows some thousands. Nothing is attached to it, and its creator
 * is gone; a server restarted on the same data creates another one.
 */
function removeSegments() {
  let lines = [];
  try {
    lines = readFileSync('/proc/sysvipc/shm', 'utf8').trim().split('\n').slice(1);
  } catch {
    // A system without them, or with another place to list them.
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

/** The commands of the processes in a group, except those that have ended; none where there is no /proc. */
function inGroup(group) {
  const pids = existsSync('/proc') ? readdirSync('/proc').filter((name) => /^\d+$/.test(name)) : [];
  return pids.flatMap((pid) => {
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
      const [state, , of] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      if (Number(of) !== group || state === 'Z') return [];
      return [readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim().slice(0, 200)];
    } catch {
      return [];
    }
  });
}

function kill(child) {
  try {
    process.kill(-child.pid, 'SIGKILL');
  } catch {
    // It has already ended.
  }
}
