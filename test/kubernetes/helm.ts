/**
 * The chart in the hands of the real helm, on a real control plane: releases are stored, objects are admitted, pods are made in a namespace
 * that takes `restricted` ones alone. No node runs them, so `helm test` waits for its pod in vain.
 */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { chartPath, specMatrix, valuesOf } from '../support/chart.ts';
import { accountsAndClasses, deployedBefore, restricted } from '../support/kube/needed.ts';
import { Kube, settleMs } from '../support/kube/shipped.ts';
import { within } from '../support/within.ts';

const listener = ['--set', 'frontendComponent.webhookListener=true'];

/** One release in a namespace of its own. */
class Release {
  readonly kube: Kube;
  readonly #namespace: string;

  constructor(kube: Kube, namespace: string) {
    this.kube = kube;
    this.#namespace = namespace;
  }

  helm(...args: readonly string[]): Promise<string> {
    return this.kube.run('helm', [...args, `--namespace=${this.#namespace}`]);
  }

  get(...args: readonly string[]): Promise<string> {
    return this.kube.run('kubectl', ['get', ...args, `--namespace=${this.#namespace}`]);
  }

  async names(): Promise<string[]> {
    const kinds =
      'services,statefulsets,deployments,persistentvolumeclaims,networkpolicies,secrets,ingresses';
    const made = '--selector=app.kubernetes.io/managed-by=Helm';
    return (await this.get(kinds, made, '--output=name')).trim().split('\n').filter(Boolean).toSorted();
  }

  masterKey(): Promise<string> {
    return this.get('secret', 'hooks-headgate-master-key', '--output=jsonpath={.data.master-key}');
  }

  /** The pods of the release are made, and none is refused. */
  async hasPods(count: number): Promise<void> {
    await within(settleMs, async () => {
      const refused = (await this.kube.events(this.#namespace)).filter((it) => it.startsWith('FailedCreate'));
      assert.deepEqual(refused, []);
      const pods = await this.get('pods', '--output=name', '--selector=app.kubernetes.io/name=headgate');
      assert.equal(pods.trim().split('\n').filter(Boolean).length, count);
    });
  }
}

async function open(t: TestContext, namespace: string): Promise<Release> {
  const kube = await Kube.open(t);
  await kube.namespace(t, namespace);
  return new Release(kube, namespace);
}

suite('the chart works on a real control plane', () => {
  test('the chart is installed, upgraded, rolled back, uninstalled and installed again with the same master key', async (t) => {
    const release = await open(t, 'helm-life');
    await release.helm('install', 'hooks', chartPath);
    const installed = await release.names();
    assert.deepEqual(installed, [
      'networkpolicy.networking.k8s.io/hooks-headgate',
      'persistentvolumeclaim/hooks-headgate-data',
      'secret/hooks-headgate-master-key',
      'service/hooks-headgate-admin',
      'statefulset.apps/hooks-headgate',
    ]);
    await release.hasPods(1);
    const key = await release.masterKey();
    assert.equal(Buffer.from(Buffer.from(key, 'base64').toString(), 'base64').length, 32);

    await release.helm('upgrade', 'hooks', chartPath, ...listener);
    const ports = () => release.get('service', '--output=jsonpath={.items[*].spec.ports[*].port}');
    assert.deepEqual((await ports()).split(' ').toSorted(), ['4560', '4561']);
    assert.equal(await release.masterKey(), key);
    await release.helm('rollback', 'hooks', '1');
    assert.deepEqual(await release.names(), installed);
    assert.equal(await ports(), '4561');
    assert.equal(await release.masterKey(), key);
    const { length } = JSON.parse(await release.helm('history', 'hooks', '--output=json')) as unknown[];
    assert.equal(length, 3);

    await release.helm('uninstall', 'hooks', '--wait');
    const kept = ['persistentvolumeclaim/hooks-headgate-data', 'secret/hooks-headgate-master-key'];
    assert.deepEqual(await release.names(), kept);
    await release.helm('install', 'hooks', chartPath, ...listener);
    assert.equal(await release.masterKey(), key);
    await release.hasPods(1);
  });

  test('an impossible upgrade of the chart is refused before anything is changed', async (t) => {
    const release = await open(t, 'helm-refused');
    await release.helm('install', 'hooks', chartPath);
    const upgrade = (...set: string[]) =>
      release.kube.try('helm', ['upgrade', 'hooks', chartPath, '--namespace=helm-refused', ...set]);
    assert.match((await upgrade('--set', 'replicas=2')).stderr, /replicas/);
    assert.match((await upgrade('--set', 'frontendComponent.webhook=true')).stderr, /webhook/);
    assert.match(
      (await upgrade('--set', 'storage.size=1Gi')).stderr,
      /spec is immutable after creation except resources\.requests/,
    );
    await release.hasPods(1);
  });

  test("each release of the chart's matrix is installed, and its pods are admitted", async (t) => {
    const release = await open(t, 'helm-matrix');
    const { kube } = release;
    const here = '--namespace=helm-matrix';
    await accountsAndClasses(t, kube, 'helm-matrix');
    for (const [name, given] of specMatrix()) {
      const spec = restricted(given);
      const values = JSON.stringify({ ...valuesOf(spec), ...lacking });
      await kube.run('helm', ['install', 'hooks', chartPath, here, '--values', '-'], values);
      const { replicas = 1, autoscaling } = spec;
      await release.hasPods(autoscaling?.minReplicas ?? (autoscaling ? 2 : replicas)).catch((error) => {
        throw new Error(name, { cause: error });
      });
      await release.helm('uninstall', 'hooks', '--wait', '--timeout=60s');
      await kube.run('kubectl', ['delete', 'pvc,events', '--all', here]);
      await within(settleMs, async () => assert.equal(await release.get('pods', '--output=name'), '', name));
    }
  });

  test('the pod of helm test is admitted, and helm test reports that it did not end', async (t) => {
    const release = await open(t, 'helm-test');
    await release.helm('install', 'hooks', chartPath);
    const tested = await release.kube.try('helm', ['test', 'hooks', '--namespace=helm-test', '--timeout=5s']);
    assert.notEqual(tested.code, 0);
    assert.match(tested.stderr, /timed out waiting for the condition|context deadline exceeded/);
    const phase = '--output=jsonpath={.status.phase}';
    assert.equal(await release.get('pod', 'hooks-headgate-test', phase), 'Pending');
  });

  test('a release of the previous chart is upgraded with the same objects and master key', async (t) => {
    const before = await deployedBefore(t, 'helm/headgate');
    if (before === null) return t.skip('this checkout has no chart before this one');
    const release = await open(t, 'helm-upgrade');
    await release.helm('install', 'hooks', before, ...listener, '--set', 'gateway.enabled=true');
    await release.hasPods(1);
    const [key, names] = [await release.masterKey(), await release.names()];
    await release.helm('upgrade', 'hooks', chartPath, '--reset-then-reuse-values');
    assert.deepEqual(await release.names(), names);
    assert.equal(await release.masterKey(), key);
    await release.hasPods(1);
    await release.helm('rollback', 'hooks', '1');
    await release.hasPods(1);
  });
});

/** Kinds that this cluster has not. */
const lacking = { serviceMonitor: { enabled: false }, httpRoute: { enabled: false } };
