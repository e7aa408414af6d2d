// The chart and the operator on a node that runs their pods: `npm run test:node`, as root, on Linux for x64. buildah builds the image; the
// programs are Kubernetes and CoreDNS, which Go builds once, and Debian's containerd, runc and CNI plugins, which are unpacked, not installed.
// The node has namespaces of its own: mounts, network, processes, control groups. They end with their first process, and that ends with this
// script, however it ends. docs/deploy/kubernetes.md records the findings. `npm run test:node -- chart` selects a file.
import { spawn } from 'node:child_process';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { findPrograms, withUs } from '../dist/test/support/kube/programs.js';
import { findTool } from '../dist/test/support/tools.js';
import { cached, must, printed, unpacked } from './commands.mjs';
import { baseImage, buildImage, containerSettings } from './containers.mjs';

const hierarchies = hierarchiesOfGroups();
const tools = ['buildah', 'etcd', 'go', 'ip', 'iptables', 'openssl', 'setpriv', 'unshare'];
const missing = [
  ...(process.platform === 'linux' && process.arch === 'x64' ? [] : ['Linux for x64']),
  ...(process.getuid?.() === 0 ? [] : ['root']),
  ...(hierarchies.size > 0 ? [] : ['control groups of version 1 (with version 2 it was not tried)']),
  ...(existsSync('/proc/sys/net/bridge') ? [] : ['the kernel module br_netfilter']),
  ...tools.filter((tool) => findTool(tool) === null),
];
if (missing.length > 0) {
  console.error(`test:node needs ${missing.join(', ')}.`);
  process.exit(1);
}

/** For control groups: where each hierarchy is mounted, and its mount options. */
function hierarchiesOfGroups() {
  const lines = existsSync('/proc/self/mountinfo')
    ? readFileSync('/proc/self/mountinfo', 'utf8').split('\n')
    : [];
  const mounts = lines.map((line) => line.split(' ')).filter((words) => words.at(-3) === 'cgroup');
  return new Map(
    mounts.map((words) => {
      const name = words
        .at(-1)
        .split(',')
        .find((option) => option.startsWith('name='));
      const controllers = words
        .at(-1)
        .split(',')
        .filter((option) => /^(?!rw$|ro$|xattr$)\w+$/.test(option));
      return [words[4], name === undefined ? controllers.join(',') : `none,${name}`];
    }),
  );
}

/** When a process was started, in ticks of the machine's clock; null: no such process. */
function startOf(pid) {
  const path = `/proc/${pid}/stat`;
  return existsSync(path) ? readFileSync(path, 'utf8').replace(/.*\) /s, '').split(' ')[19] : null;
}

const groupsOf = (name) => [...hierarchies.keys()].map((at) => join(at, name));

/** Throws while a process is in one of them. */
function removeGroup(group) {
  if (!existsSync(group)) return;
  for (const entry of readdirSync(group, { withFileTypes: true }))
    if (entry.isDirectory()) removeGroup(join(group, entry.name));
  rmdirSync(group);
}

function remove(name) {
  for (let left = 100; left >= 0; left -= 1) {
    try {
      groupsOf(name).forEach(removeGroup);
      break;
    } catch (error) {
      if (left === 0) console.error(`${name}: ${error.message}`);
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 100);
    }
  }
  rmSync(join(tmpdir(), name), { recursive: true, force: true, maxRetries: 20 });
}

// A run that was killed could not clean up: removes folders of root that are named after a process that no longer exists.
for (const name of readdirSync(tmpdir())) {
  const [, pid, start] = /^headgate-node-(\d+)-(\d+)$/.exec(name) ?? [];
  if (pid !== undefined && startOf(pid) !== start && lstatSync(join(tmpdir(), name)).uid === 0) remove(name);
}
const name = `headgate-node-${process.pid}-${startOf(process.pid)}`;
const folder = join(tmpdir(), name);
mkdirSync(folder, { mode: 0o711 });
let node = null;
process.on('exit', () => {
  node?.kill('SIGKILL');
  remove(name);
});
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(signal, () => process.exit(1));

function coredns() {
  const version = 'v1.12.4';
  const programs = cached(`coredns-${version}`);
  const env = { ...process.env, GOBIN: programs, CGO_ENABLED: '0' };
  if (!existsSync(join(programs, 'coredns'))) {
    console.log(`coredns ${version}: being built into ${programs}; takes minutes`);
    must(
      'nice',
      ['-n', '5', 'go', 'install', '-trimpath', '-ldflags=-s -w', `github.com/coredns/coredns@${version}`],
      { env },
    );
  }
  return join(programs, 'coredns');
}

/** Archives of the images of the pods, under the names in the manifests. */
function images() {
  const env = { ...process.env, ...containerSettings(folder) };
  const build = (...args) => printed('buildah', args, { env });
  const pushed = (image, file) => {
    build('push', '--quiet', image, `docker-archive:${join(folder, file)}:${image}`);
    return join(folder, file);
  };
  const pause = join(folder, 'pause');
  const go = { cwd: 'scripts/kubernetes', env: { ...process.env, CGO_ENABLED: '0' } };
  printed('go', ['build', '-o', pause, './pause'], go);
  const container = build('from', 'scratch');
  build('add', '--quiet', container, pause, '/');
  build('config', '--entrypoint', '["/pause"]', container);
  build('commit', '--quiet', '--rm', container, 'localhost/pause:1');
  const headgate = 'docker.io/headgate/headgate:0.1.0';
  buildImage(env, baseImage(env), headgate);
  const files = [pushed('localhost/pause:1', 'pause.tar'), pushed(headgate, 'headgate.tar')];
  for (const it of ['store', 'run', 'npm-cache']) rmSync(join(folder, it), { recursive: true, force: true });
  return files;
}

const began = Date.now();
const tell = (what) => console.log(`${what}: after ${Math.round((Date.now() - began) / 1_000)} s`);
const kubernetes = ['kube-apiserver', 'kube-controller-manager', 'kube-proxy', 'kube-scheduler', 'kubelet'];
const parts = {
  kubernetes: await findPrograms(kubernetes, console.log),
  debian: unpacked('node', ['containerd', 'runc', 'containernetworking-plugins']),
  coredns: coredns(),
  hierarchies: Object.fromEntries([...hierarchies].map(([at, options]) => [at.split('/').at(-1), options])),
  images: images(),
};
tell('programs and images are there');
const told = join(folder, 'node.json');
writeFileSync(told, JSON.stringify(parts));
for (const group of groupsOf(name)) {
  mkdirSync(group);
  // Without these, no process may enter the group.
  for (const file of ['cpuset.cpus', 'cpuset.mems'])
    if (existsSync(join(group, file)))
      writeFileSync(join(group, file), readFileSync(join(dirname(group), file), 'utf8').trim());
}
const enter = 'while [ "$1" != -- ]; do echo $$ >"$1/cgroup.procs"; shift; done; shift; exec unshare "$@"';
const namespaces = [
  '--mount',
  '--net',
  '--pid',
  '--uts',
  '--ipc',
  '--cgroup',
  '--fork',
  '--mount-proc',
  '--kill-child',
];
// A shell comes first, because orphaned processes become children of the first process, which must wait for them.
const first = ['sh', '-c', '"$@"; exit $?', 'sh', process.execPath, 'dist/scripts/test-cluster.js'];
const inside = [...namespaces, ...first, ...process.argv.slice(2)];
node = spawn(...withUs('sh', ['-c', enter, 'sh', ...groupsOf(name), '--', ...inside]), {
  stdio: 'inherit',
  env: { ...process.env, TMPDIR: folder, KUBECONFIG: '', HEADGATE_TEST_NODE: told },
});
node.once('exit', (code) => process.exit(code ?? 1));
