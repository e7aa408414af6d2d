// Compiles the TypeScript into dist/, bundles the program and the console's page, and copies the rooms' SQL, which tsc does not. Only the stages whose
// inputs have changed since the last build are done (build-state.mjs). A line on standard error names them; if nothing has changed, nothing is said.
// `--package` builds from nothing, and leaves out the tests, the benchmark, the source maps and the code compiled for this Node only: `npm pack` and
// the image use that.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, cpSync, existsSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, isAbsolute, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { cachedDataVersionTag } from 'node:v8';
import { buildPage } from './build-page.mjs';
import { buildProgram, entryFiles } from './build-program.mjs';
import { Output, hashes, hashOf, keyOf } from './build-state.mjs';
import { compileProgram } from './compile-program.mjs';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const dist = join(root, 'dist');
const packaged = process.argv.includes('--package');
const tsc = join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin', 'tsc');
const buildInfo = '.tsbuildinfo';

const began = performance.now();
const output = await Output.open(dist);
process.on('exit', () => output.close());
const sources = hashes(root, packaged ? ['src', 'scripts'] : ['src', 'test', 'bench', 'scripts']);
const named = (pattern) => [...sources.keys()].filter((path) => pattern.test(path));

/**
 * Done at one time. `inputs` are the files that `make` reads, some of which it has noted. `make` resolves with the files that it made in dist/, with
 * its note, and with `problem` if it failed.
 */
const stages = {
  code: { inputs: () => named(/^(?!src\/console\/page\/).*\.ts$/), make: compile },
  'page types': { inputs: (note = []) => [...named(/^src\/console\/page\//), ...note], make: checkPage },
  page: { inputs: (note = []) => note, make: () => buildPage(root) },
  program: {
    inputs: (note = { inputs: [] }) => note.inputs,
    make: () => buildProgram(root, { sourcemap: !packaged }),
  },
  SQL: { inputs: () => named(/^src\/[a-z]+\/(?:migrations|functions|views)\//), make: copySql },
};
const keyFor = (name, note = output.noteOf(name)) =>
  keyOf(
    [...new Set(stages[name].inputs(note))].map((path) => [
      path,
      sources.get(path) ?? hashOf(join(root, path)),
    ]),
  );
/** Only the V8 that made it, with the same flags, accepts the compiled program. */
const compiledKey = () => keyOf(keyFor('program'), process.version, process.arch, cachedDataVersionTag());

// Everything depends on what builds, and on what npm has installed.
const tools = keyOf(
  packaged,
  ['', '.package', '.page'].map((name) => hashOf(join(root, `tsconfig${name}.json`))),
  hashOf(join(root, 'node_modules/.package-lock.json')),
  named(/^scripts\/(?:build|compile)/).map((path) => sources.get(path)),
);
if (packaged || !output.isCurrent('tools', tools)) output.empty();
const due = Object.keys(stages).filter((name) => !output.isCurrent(name, keyFor(name)));
const compiles =
  !packaged && (due.includes('program') || !output.isCurrent('compiled program', compiledKey()));
if (due.length > 0 || compiles) await build();
output.clean();

async function build() {
  const names = [...due, ...(compiles ? ['compiled program'] : [])];
  const first = due.length < Object.keys(stages).length ? '' : ' (all of it: up to a minute, once)';
  process.stderr.write(`building ${names.join(', ')}${first} …`);
  const results = await Promise.all(due.map(attempt));
  const problems = results.flatMap(({ problem }) => problem ?? []);
  const program = results.find(({ name }) => name === 'program')?.note ?? output.noteOf('program');
  // tsc has written modules in their place.
  for (const [path, text] of Object.entries(program?.entries ?? {})) writeFileSync(join(dist, path), text);
  if (existsSync(join(dist, 'src/app/cli.js'))) chmodSync(join(dist, 'src/app/cli.js'), 0o755);
  const compiled = compiles && problems.length === 0 ? compileProgram(root) : [];
  output.look();
  output.restamp('program');
  for (const { name, made, note, problem } of results) {
    if (made === undefined) output.failed(name);
    else output.finished(name, { key: problem === undefined ? keyFor(name, note) : null, made, note });
  }
  if (compiled.length > 0) output.finished('compiled program', { key: compiledKey(), made: compiled });
  output.finished('tools', { key: tools, made: [] });
  if (!packaged) output.save();
  const seconds = ((performance.now() - began) / 1_000).toFixed(1);
  process.stderr.write(` ${problems.length === 0 ? '' : 'failed after '}${seconds} s\n${problems.join('')}`);
  process.exitCode = problems.length === 0 ? 0 : 1;
}

async function attempt(name) {
  try {
    return { name, ...(await stages[name].make()) };
  } catch (error) {
    // esbuild has already printed its errors.
    return { name, problem: error.errors === undefined ? `${error.stack}\n` : '' };
  }
}

/** tsc knows from its own notes what has changed, but not whether its outputs are still there. */
async function compile() {
  if (!output.isWhole('code')) rmSync(join(dist, buildInfo), { force: true });
  const incremental = ['--incremental', '--tsBuildInfoFile', join(dist, buildInfo)];
  const { text, failed } = packaged
    ? await runTsc('tsconfig.package.json')
    : await runTsc('tsconfig.json', ...incremental);
  const made = stages.code
    .inputs()
    .flatMap((path) => ['.js', '.js.map', '.d.ts'].map((end) => path.replace(/\.ts$/, end)))
    .filter((path) => !entryFiles.includes(path));
  return { made: [buildInfo, ...made], ...(failed ? { problem: text } : {}) };
}

async function checkPage() {
  const { text, failed } = await runTsc('tsconfig.page.json', '--listFiles');
  const lines = text.split('\n');
  const note = lines
    .filter((line) => line.startsWith(`${root}/src/`))
    .map((line) => line.slice(root.length + 1));
  const errors = lines.filter((line) => !isAbsolute(line));
  return { made: [], note, ...(failed ? { problem: errors.join('\n') } : {}) };
}

function copySql() {
  const made = stages.SQL.inputs();
  for (const path of made) cpSync(join(root, path), join(dist, path));
  return { made };
}

async function runTsc(project, ...args) {
  const pretty = process.stderr.isTTY ? ['--pretty'] : [];
  const child = spawn(process.execPath, [tsc, '-p', join(root, project), ...pretty, ...args], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  output.share(child.pid);
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (some) => (text += some));
  const [code, signal] = await once(child, 'close');
  // Nobody knows what it had written by then; what the last build has noted no longer fits it.
  if (signal !== null) throw new Error(`tsc ended with ${signal}`);
  return { text, failed: code !== 0 };
}
