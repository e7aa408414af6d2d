/**
 * The operator and the chart on a real Kubernetes: `npm run test:cluster`. The control plane is started on this machine, from programs that
 * Go builds once (test/support/kube/programs.ts), and is removed at the end. `KUBECONFIG=… npm run test:cluster` uses an existing cluster
 * (kind, k3s, minikube …), version 1.29 or later, and a user with the necessary rights: then only tests that leave nothing but the CRD
 * behind run, in namespaces of their own (headgate-test-…). docs/deploy/kubernetes.md records the findings.
 */
import { spawn } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { startControlPlane } from '../test/support/kube/control-plane.ts';
import { network, prepareMachine, startNode } from '../test/support/kube/node.ts';
import type { NodeParts } from '../test/support/kube/node.ts';
import { findPrograms } from '../test/support/kube/programs.ts';

const words = process.argv.slice(2);
const [given = ''] = (process.env['KUBECONFIG'] ?? '').split(delimiter);
const folder = mkdtempSync(join(tmpdir(), 'headgate-cluster-'));
const atExit: (() => void)[] = [];
process.on('exit', () => atExit.forEach((end) => end()));
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => process.exit(1));

/** Set by scripts/test-node.mjs, which has then created the namespaces that this runs in. */
const { HEADGATE_TEST_NODE: told = '' } = process.env;
const node = told === '' ? null : (JSON.parse(readFileSync(told, 'utf8')) as NodeParts);
// On a node, pods' mounts are below this folder; they disappear with the namespaces.
if (node === null) atExit.push(() => rmSync(folder, { recursive: true, force: true, maxRetries: 20 }));
// The files in this folder, except crd.ts, need a control plane of their own.
const own = join('dist/test', node === null ? 'kubernetes' : 'node');
const files = [
  ...(node === null ? ['dist/test/deploy/cluster.extended.test.js', 'dist/test/kubernetes/crd.js'] : []),
  ...(given === '' ? readdirSync(own) : [])
    .filter((name) => /(?<!crd)\.js$/.test(name))
    .map((name) => join(own, name)),
].filter((file) => words.length === 0 || words.some((word) => file.includes(word)));
if (files.length === 0) {
  console.error(`No file of tests has a name with ${words.join(' or ')}.`);
  process.exit(1);
}
const env: NodeJS.ProcessEnv = {
  ...process.env,
  TMPDIR: join(folder, 'tmp'),
  HEADGATE_TEST_KUBECONFIG: given,
};
// PostgreSQL does not run as root, and its folders are inside.
chmodSync(folder, 0o711);
mkdirSync(join(folder, 'tmp'));
if (given === '') {
  if (node !== null) prepareMachine(node);
  const wanted = ['kube-apiserver', 'kube-controller-manager'] as const;
  const programs = node?.kubernetes ?? (await findPrograms(wanted, console.log));
  const startedMs = Date.now();
  const tell = (what: string) =>
    console.log(`${what} is there after ${((Date.now() - startedMs) / 1_000).toFixed(1)} s`);
  const plane = await startControlPlane(folder, programs, node === null ? null : network);
  atExit.unshift(() => plane.kill());
  tell('a control plane');
  if (node !== null) {
    await startNode(folder, plane, node);
    tell('a node');
  }
  env['HEADGATE_TEST_KUBECONFIG'] = plane.kubeconfig;
  env['HEADGATE_TEST_AUDIT_LOG'] = plane.auditLog;
}
const args = ['--test', '--test-concurrency=1', '--enable-source-maps', ...files];
// A process group of its own, so that everything the tests have started can be killed with them.
const child = spawn(process.execPath, args, { stdio: 'inherit', env, detached: true });
atExit.unshift(() => {
  try {
    if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
  } catch {
    // None of it is running any more.
  }
});
child.once('exit', (code) => process.exit(code ?? 1));
