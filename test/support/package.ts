/** Headgate as users install it: packed by npm from a copy of the sources, without touching the checkout's dist/. */
import assert from 'node:assert/strict';
import { cp, mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { temporaryFolder } from './headgate.ts';
import { run } from './run.ts';

export const root = fileURLToPath(new URL('../../../', import.meta.url));

/** The content of a checkout, without build output. */
const sources = [
  'bin',
  'src',
  'scripts',
  'docs',
  'deploy',
  'package.json',
  'package-lock.json',
  'tsconfig.json',
  'tsconfig.package.json',
  'tsconfig.page.json',
  '.npmrc',
  'LICENSE',
  'NOTICE',
  'README.md',
  'CHANGELOG.md',
];

export interface Packed {
  readonly tarball: string;
  /** Paths inside the package, sorted. */
  readonly files: readonly string[];
}

/** Runs `npm pack` in a copy with an intentionally stale dist/: the tarball must not contain any of it. */
export async function packHeadgate(t: TestContext): Promise<Packed> {
  const copy = await temporaryFolder(t);
  for (const name of sources) await cp(join(root, name), join(copy, name), { recursive: true });
  // Types were checked when the suite was built.
  for (const name of ['tsconfig.package.json', 'tsconfig.page.json']) {
    const project = await readFile(join(copy, name), 'utf8');
    await writeFile(join(copy, name), project.replace('"compilerOptions": {', '$& "noCheck": true,'));
  }
  await symlink(join(root, 'node_modules'), join(copy, 'node_modules'));
  await mkdir(join(copy, 'dist/src'), { recursive: true });
  await writeFile(join(copy, 'dist/src/stale.js'), '');
  const packed = await run('npm', ['pack', '--json', '--pack-destination', copy], { cwd: copy });
  assert.equal(packed.code, 0, packed.stderr);
  const [made] = JSON.parse(packed.stdout) as { filename: string; files: { path: string }[] }[];
  assert(made !== undefined, packed.stdout);
  return { tarball: join(copy, made.filename), files: made.files.map(({ path }) => path).toSorted() };
}
