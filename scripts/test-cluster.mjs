// Runs the operator's tests on a real Kubernetes cluster: `KUBECONFIG=… npm run test:cluster`. They apply the CRD of
// deploy/operator and work in namespaces of their own (headgate-test-…), which are deleted at the end; the CRD stays.
// Give them a cluster of your own (kind, k3s, minikube …), version 1.29 or later, and a user who may do all that.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';

const kubeconfig = (process.env.KUBECONFIG ?? '').split(process.platform === 'win32' ? ';' : ':')[0];
if (kubeconfig === '' || !existsSync(kubeconfig)) {
  console.error('set KUBECONFIG to the kubeconfig file of a cluster that may be written to');
  process.exit(1);
}
const child = spawn(
  process.execPath,
  ['--test', '--test-concurrency=1', '--enable-source-maps', 'dist/test/deploy/cluster.test.js'],
  { stdio: 'inherit', env: { ...process.env, HEADGATE_TEST_KUBECONFIG: kubeconfig } },
);
child.on('exit', (code, signal) => process.exit(signal ? 1 : (code ?? 1)));
