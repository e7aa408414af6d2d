/**
 * The programs of a Kubernetes control plane, for tests on a real one: built by Go from the versions in scripts/kubernetes/go.mod, once
 * per version, into the user's cache folder; or found in the folder HEADGATE_KUBE_BIN. etcd is the system's.
 */
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, renameSync } from 'node:fs';
import { homedir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export type Program =
  | 'kube-apiserver'
  | 'kube-controller-manager'
  | 'kube-proxy'
  | 'kube-scheduler'
  | 'kubelet';

const source = fileURLToPath(new URL('../../../../scripts/kubernetes/', import.meta.url));

/** A build, and everything it starts, ends with this process, however that ends. */
export const withUs = (command: string, args: readonly string[]) =>
  ['setpriv', ['--pdeathsig', 'KILL', command, ...args]] as const;

/** The folder that contains `wanted`; missing programs are built, which takes tens of minutes. */
export async function findPrograms(wanted: readonly Program[], say: (text: string) => void): Promise<string> {
  const given = process.env['HEADGATE_KUBE_BIN'] ?? '';
  const [, version = ''] =
    /k8s\.io\/kubernetes (v[\d.]+)/.exec(readFileSync(join(source, 'go.mod'), 'utf8')) ?? [];
  const cache = process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache');
  const folder = given === '' ? join(cache, 'headgate', `kubernetes-${version}`) : given;
  for (const program of wanted) {
    if (existsSync(join(folder, program))) continue;
    if (given !== '') throw new Error(`HEADGATE_KUBE_BIN has no ${program}`);
    mkdirSync(folder, { recursive: true });
    const startedMs = Date.now();
    say(`${program} ${version}: being built into ${folder}; the first one takes tens of minutes`);
    await build(program, version, join(folder, program));
    say(`${program} ${version}: built in ${Math.round((Date.now() - startedMs) / 1_000)} s`);
  }
  return folder;
}

/** Uses a rename, so that an interrupted build leaves nothing that looks like a program. */
async function build(program: Program, version: string, path: string): Promise<void> {
  const [major = '', minor = ''] = version.slice(1).split('.');
  const told = { gitVersion: version, gitMajor: major, gitMinor: minor, gitTreeState: 'clean' };
  const names = Object.entries(told).map(
    ([name, value]) => `-X k8s.io/component-base/version.${name}=${value}`,
  );
  const beside = join(path, '..', `.${basename(path)}.${process.pid}`);
  const args = [
    'build',
    '-trimpath',
    '-buildvcs=false',
    '-ldflags',
    ['-s', '-w', ...names].join(' '),
    '-o',
    beside,
  ];
  const [command, all] = withUs('nice', ['-n', '5', 'go', ...args, `k8s.io/kubernetes/cmd/${program}`]);
  const child = spawn(command, all, {
    cwd: source,
    env: { ...process.env, CGO_ENABLED: '0' },
    stdio: 'inherit',
  });
  const code = await new Promise<number | null>((resolve, reject) =>
    child.once('error', reject).once('exit', resolve),
  );
  if (code !== 0) throw new Error(`go build ${program} ended with ${code}; it takes Go 1.25 or later`);
  renameSync(beside, path);
}
