/**
 * What the manifests say is run: the container's command and environment, as the chart renders them and as the operator
 * applies them, start the real program, and the ports answer or do not.
 */
import assert from 'node:assert/strict';
import { connect, createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { manifestsOf } from '../../src/operator/manifests.ts';
import type { Manifest } from '../../src/operator/manifest.ts';
import type { HeadgateSpec } from '../../src/operator/resource.ts';
import { onEnd } from '../support/cleanup.ts';
import { chartDeployment, rendered, renderedTest, valuesOf } from '../support/chart.ts';
import { spawnHeadgate, temporaryFolder } from '../support/headgate.ts';
import { requireKubeTool } from '../support/kube-tools.ts';
import { run } from '../support/run.ts';
import { sampleOf } from '../support/sample.ts';

interface Pod {
  readonly containers: readonly [
    {
      readonly args: readonly string[];
      readonly env: readonly { name: string; value?: string; valueFrom?: object }[];
      readonly readinessProbe: { httpGet: { path: string } };
    },
  ];
}

async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer().listen(0, '127.0.0.1'));
  await Promise.all(servers.map((server) => new Promise((resolve) => server.once('listening', resolve))));
  const ports = servers.map((server) => (server.address() as AddressInfo).port);
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}

function isOpen(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
      .once('connect', () => resolve(socket.destroy() === socket))
      .once('error', () => resolve(false));
  });
}

/** Takes the port for as long as the test lasts, unless another program of this machine has got it meanwhile. */
async function occupy(t: TestContext, port: number): Promise<void> {
  const server = createServer().listen(port, '127.0.0.1');
  await new Promise<void>((resolve) => {
    server.once('listening', resolve).once('error', () => resolve());
  });
  onEnd(t, 'server', () => void server.close());
}

/** Starts what the workload says, as the kubelet would; what it takes from Secrets is given here. */
async function runWorkload(t: TestContext, objects: readonly Manifest[]) {
  const workload = objects.find(({ kind }) => kind === 'StatefulSet');
  const { spec } = workload as unknown as { spec: { template: { spec: Pod } } };
  const [container] = spec.template.spec.containers;
  assert.deepEqual(container.args, ['start']);
  // In a pod the gateway's port is the pod's own; here several programs share a machine.
  const env: Record<string, string> = { EVENTS_API_PORT: '0' };
  for (const { name, value } of container.env) if (value !== undefined) env[name] = value;
  assert(
    container.env.some(({ name, valueFrom }) => name === 'HEADGATE_MASTER_KEY' && valueFrom !== undefined),
  );
  env['HEADGATE_MASTER_KEY'] = Buffer.alloc(32, 7).toString('base64');
  const dataDir = await temporaryFolder(t);
  const headgate = await spawnHeadgate(t, { dataDir, env, onlyArgs: [`--data-dir=${dataDir}`] });
  await headgate.ready();
  const probe = container.readinessProbe.httpGet.path;
  const { status } = await fetch(`http://127.0.0.1:${env['HEADGATE_ADMIN_PORT']}${probe}`);
  assert.equal(status, 200);
  return headgate;
}

interface TestPod {
  readonly spec: {
    readonly containers: readonly [
      { readonly command: readonly string[]; readonly env: readonly { name: string; value: string }[] },
    ];
  };
}

/** Runs what `helm test` would, against a machine where everything is on loopback. */
async function runHelmTest(helm: string, spec: HeadgateSpec, seconds: number) {
  const pod = (await renderedTest(helm, 'hooks-headgate', valuesOf(spec))).get('Pod');
  const [{ command, env }] = (pod as unknown as TestPod).spec.containers;
  const [, ...args] = command;
  // The kubelet would replace it.
  assert.doesNotMatch(command.join(), /\$\(/);
  const given = Object.fromEntries(env.map(({ name, value }) => [name, value]));
  const address = `http://hooks-headgate-admin.hooks.svc.cluster.local:${spec.ports?.admin}/readyz`;
  assert.deepEqual(given, { READY_URL: address, READY_SECONDS: '60' });
  const url = address.replace(/[\w.-]+(?=:\d)/, 'localhost');
  return run(process.execPath, args, { env: { READY_URL: url, READY_SECONDS: String(seconds) } });
}

suite('Headgate starts from the Kubernetes manifests', () => {
  // That the chart renders what the operator applies is held by chart.test.
  for (const by of sampleOf(['chart', 'operator'] as const, 1)) {
    test(`Headgate started from the manifests of the ${by} opens the webhook port only with the listener enabled`, async (t) => {
      const [webhook = 0, sql = 0, gateway = 0, admin = 0] = await freePorts(4);
      const ports = { webhook, sql, gateway, admin };
      for (const enableWebhookListener of [true, false]) {
        const spec: HeadgateSpec = { image: 'headgate:test', enableWebhookListener, ports };
        const helm = by === 'chart' ? await requireKubeTool(t, 'helm') : '';
        if (helm === null) return;
        const objects =
          by === 'chart'
            ? await rendered(helm, 'hooks-headgate', valuesOf(spec))
            : manifestsOf(chartDeployment('hooks-headgate', spec));
        // A start that listened on a port of somebody else would fail.
        if (!enableWebhookListener) await occupy(t, webhook);
        const headgate = await runWorkload(t, objects);
        if (enableWebhookListener) assert(await isOpen(webhook));
        if (by === 'chart' && enableWebhookListener) {
          const { code, stdout } = await runHelmTest(helm, spec, 60);
          assert.deepEqual([code, /127\.0\.0\.1: 200 /.test(stdout)], [0, true], stdout);
        }
        assert.deepEqual(await headgate.signal('SIGTERM'), { code: 0, signal: null });
        if (by === 'chart' && enableWebhookListener) {
          const { code, stdout } = await runHelmTest(helm, spec, 0);
          assert.deepEqual([code, /ECONNREFUSED[^]*not ready in time/.test(stdout)], [1, true], stdout);
        }
      }
    });
  }
});
