/** Headgate as users install it: packed by npm from a copy of the sources, without touching the checkout's dist/. */
import assert from 'node:assert/strict';
import { cp, mkdir, readdir, readFile, stat, symlink, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
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

/** Every kind of file that the package has, and no other. */
export function judgeFiles(files: readonly string[]): void {
  for (const wanted of [
    'bin/headgate.js',
    'dist/src/app/cli.js',
    'dist/src/app/embed.d.ts',
    'dist/src/program/LICENSES',
    'dist/console/index.html',
    'dist/src/catalog/migrations/0027_base.sql',
    'dist/src/catalog/functions/rights.sql',
    'dist/src/catalog/views/endpoints.sql',
    'docs/settings.md',
    'deploy/systemd/headgate.service',
    'deploy/nginx/headgate.conf',
    'deploy/caddy/Caddyfile',
    'LICENSE',
    'NOTICE',
    'README.md',
    'CHANGELOG.md',
    'package.json',
  ]) {
    assert(files.includes(wanted), wanted);
  }
  const known =
    /^(bin\/headgate\.js|dist\/src\/.+\.(c?js|d\.ts|sql)|dist\/src\/program\/LICENSES|dist\/console\/[\w-]+\.(html|js|css|svg)(\.(br|gz))?|docs\/.+\.(md|svg|png)|docs\/llms\.txt|deploy\/(backup|systemd|nginx|caddy)\/[^/]+|[A-Z]+(\.md)?|package\.json)$/;
  assert.deepEqual(
    files.filter((file) => !known.test(file) || /\.(test|long)\.|stale/.test(file)),
    [],
  );
}

/** What `files` of package.json selects in the checkout as it is built, without npm; `npm pack` takes the files of its own beside it. */
export async function selectedFiles(): Promise<readonly string[]> {
  const { files } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as { files: string[] };
  const left = files
    .filter((entry) => entry.startsWith('!'))
    .map((entry) =>
      entry
        .slice(1)
        .replaceAll('.', '\\.')
        .replaceAll('**/', '(?:.+/)?')
        .replaceAll(/(?<!\?:\.)\*/g, '[^/]*'),
    )
    .map((pattern) => new RegExp(`^${pattern}$`));
  const found: string[] = ['package.json'];
  for (const entry of files.filter((it) => !it.startsWith('!')))
    if (!(await stat(join(root, entry))).isDirectory()) found.push(entry);
    else
      for (const name of await readdir(join(root, entry), { recursive: true, withFileTypes: true }))
        if (name.isFile()) found.push(relative(root, join(name.parentPath, name.name)));
  return found.filter((name) => !left.some((pattern) => pattern.test(name))).toSorted();
}
