// Compiles the TypeScript into dist/, bundles the program and the console's page, and copies the catalog's SQL, which tsc does not. `--package`
// leaves out the tests, the benchmark, the source maps and the code compiled for this Node only: `npm pack` and the image use that.
import { spawnSync } from 'node:child_process';
import { chmodSync, cpSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildPage } from './build-page.mjs';
import { buildProgram } from './build-program.mjs';
import { compileProgram } from './compile-program.mjs';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const tsc = join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin', 'tsc');

// A removed test or module must not survive in dist/; rebuilding the whole folder takes about a second.
rmSync(join(root, 'dist'), { recursive: true, force: true });
const packaged = process.argv.includes('--package');
const project = join(root, packaged ? 'tsconfig.package.json' : 'tsconfig.json');
const { status } = spawnSync(process.execPath, [tsc, '-p', project], { stdio: 'inherit' });
if (status !== 0) process.exit(status ?? 1);
const { status: pageStatus } = spawnSync(process.execPath, [tsc, '-p', join(root, 'tsconfig.page.json')], {
  stdio: 'inherit',
});
if (pageStatus !== 0) process.exit(pageStatus ?? 1);
await buildPage(root);
await buildProgram(root, { sourcemap: !packaged });
if (!packaged) compileProgram(root);
for (const folder of ['migrations', 'functions', 'views'].map((name) => join('src/catalog', name)))
  cpSync(join(root, folder), join(root, 'dist', folder), { recursive: true });
chmodSync(join(root, 'dist/src/app/cli.js'), 0o755);
