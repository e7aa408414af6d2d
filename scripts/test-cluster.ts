/**
 * The operator and the chart on a real Kubernetes: `npm run test:cluster`. The control plane is started for it on this machine, of programs
 * that Go builds once (test/support/kube/programs.ts), and is gone at the end. `KUBECONFIG=… npm run test:cluster` takes a cluster of yours
 * (kind, k3s, minikube …), version 1.29 or later, and a user who may do all that: then only what leaves nothing but the CRD behind runs, in
 * namespaces of its own (headgate-test-…). docs/deploy/kubernetes.md says what was found.
 */
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { startControlPlane } from '../test/support/kube/control-plane.ts';
import { findPrograms } from '../test/support/kube/programs.ts';

const wanted = process.argv.slice(2);
const [given = ''] = (process.env['KUBECONFIG'] ?? '').split(delimiter);
const folder = mkdtempSync(join(tmpdir(), 'headgate-cluster-'));
const atExit: (() => void)[] = [() => rmSync(folder, { recursive: true, force: true, maxRetries: 20 })];
process.on('exit', () => atExit.forEach((end) => end()));
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => process.exit(1));

const files = ['dist/test/deploy/cluster.test.js', 'dist/test/kubernetes/crd.js'];
const env: NodeJS.ProcessEnv = {
  ...process.env,
  TMPDIR: join(folder, 'tmp'),
  HEADGATE_TEST_KUBECONFIG: given,
};
mkdirSync(join(folder, 'tmp'));
if (given === '') {
  const programs = await findPrograms(['kube-apiserver', 'kube-controller-manager'], console.log);
  const startedMs = Date.now();
  const plane = await startControlPlane(folder, programs);
  atExit.unshift(() => plane.kill());
  console.log(`a control plane is there after ${((Date.now() - startedMs) / 1_000).toFixed(1)} s`);
  env['HEADGATE_TEST_KUBECONFIG'] = plane.kubeconfig;
  env['HEADGATE_TEST_AUDIT_LOG'] = plane.auditLog;
  const own = readdirSync('dist/test/kubernetes').filter((name) => /(?<!crd)\.js$/.test(name));
  files.push(...own.map((name) => join('dist/test/kubernetes', name)));
}
const chosen = files.filter((file) => wanted.length === 0 || wanted.some((word) => file.includes(word)));
const args = ['--test', '--test-concurrency=1', '--enable-source-maps', ...chosen];
// A group of its own, so that whatever the tests have started can be ended with them.
const child = spawn(process.execPath, args, { stdio: 'inherit', env, detached: true });
atExit.unshift(() => {
  try {
    if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
  } catch {
    // Nothing of it runs any more.
  }
});
child.once('exit', (code) => process.exit(code ?? 1));
