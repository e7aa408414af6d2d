// Packages of npm that a few tests and commands need and nothing else: `npm run packages` installs them as the lockfiles of scripts/packages say, each
// with what it depends on inside it; words restrict it to those whose folder begins with one of them. What is there stays. `npm ci`, and npm whenever
// it installs something else, removes them.
//
// They are no links: Node 20 may follow none if standard error is a pipe (its realpathSync looks at the result of the call before).
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const manifests = join(root, 'scripts/packages');
const lockName = 'package-lock.json';

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const words = process.argv.slice(2);
  for (const name of readdirSync(manifests).toSorted())
    if (words.length === 0 || words.some((word) => name.startsWith(word))) install(name);
}

/** Those that are not installed. */
export function missingPackages() {
  return readdirSync(manifests)
    .map(packageOf)
    .filter((name) => !existsSync(join(root, 'node_modules', name)));
}

function install(folder) {
  const from = join(manifests, folder);
  const name = packageOf(folder);
  const to = join(root, 'node_modules', name);
  const lock = readFileSync(join(from, lockName), 'utf8');
  if (existsSync(join(to, lockName)) && readFileSync(join(to, lockName), 'utf8') === lock) return;
  process.stderr.write(`installing ${name}\n`);
  const made = join(root, 'node_modules', `.packages-${process.pid}`);
  try {
    cpSync(from, made, { recursive: true });
    const flags = ['--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'];
    const { status } = spawnSync('npm', ['ci', ...flags], { cwd: made, stdio: ['ignore', 2, 2] });
    if (status !== 0) process.exit(1);
    const modules = join(made, 'node_modules');
    const it = join(made, 'it');
    renameSync(join(modules, name), it);
    // What it brings itself stays nearest to it.
    for (const other of packagesIn(modules)) {
      const inside = join(it, 'node_modules', other);
      if (existsSync(inside)) continue;
      mkdirSync(dirname(inside), { recursive: true });
      renameSync(join(modules, other), inside);
    }
    cpSync(join(from, lockName), join(it, lockName));
    rmSync(to, { recursive: true, force: true });
    mkdirSync(dirname(to), { recursive: true });
    renameSync(it, to);
  } finally {
    rmSync(made, { recursive: true, force: true });
  }
}

function packagesIn(modules) {
  return readdirSync(modules)
    .filter((name) => !name.startsWith('.'))
    .flatMap((name) =>
      name.startsWith('@') ? readdirSync(join(modules, name)).map((scoped) => `${name}/${scoped}`) : name,
    );
}

function packageOf(folder) {
  const [name] = Object.keys(
    JSON.parse(readFileSync(join(manifests, folder, 'package.json'), 'utf8')).dependencies,
  );
  return name;
}
