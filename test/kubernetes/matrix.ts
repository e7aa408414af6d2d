/**
 * Every spec of the matrix, and an upgrade of the operator, on a real control plane: all objects are taken, all pods admitted, and what the API
 * server fills in is never taken for somebody's change.
 */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { ownedKinds } from '../../src/operator/kinds.ts';
import { specMatrix } from '../support/chart.ts';
import { accountsAndClasses, deployedBefore, restricted } from '../support/kube/needed.ts';
import { headgate, Kube, settleMs } from '../support/kube/shipped.ts';
import type { Listed } from '../support/kube/shipped.ts';
import { within } from '../support/within.ts';

/** A kind of somebody else's, with any fields. */
function definition(group: string, kind: string) {
  const singular = kind.toLowerCase();
  const schema = { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } };
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: {
      name: `${singular}s.${group}`,
      annotations: { 'api-approved.kubernetes.io': 'unapproved, for a test' },
    },
    spec: {
      group,
      scope: 'Namespaced',
      names: { kind, plural: `${singular}s`, singular },
      versions: [{ name: 'v1', served: true, storage: true, schema }],
    },
  };
}

const secret = (name: string, key: string, value: string) => ({
  apiVersion: 'v1',
  kind: 'Secret',
  metadata: { name },
  stringData: { [key]: value },
});

suite('the operator works on a real control plane', () => {
  test('the operator deploys each spec of the matrix on a real control plane and then leaves it alone', async (t) => {
    const kube = await Kube.open(t);
    await kube.deployOperator();
    const others = [
      definition('monitoring.coreos.com', 'ServiceMonitor'),
      definition('gateway.networking.k8s.io', 'HTTPRoute'),
    ];
    await kube.apply(others);
    const names = others.map(({ metadata }) => `crd/${metadata.name}`);
    t.after(() => kube.run('kubectl', ['delete', ...names]));
    await kube.run('kubectl', ['wait', '--for=condition=Established', '--timeout=60s', ...names]);
    await kube.namespace(t, 'matrix');
    const here = '--namespace=matrix';
    await accountsAndClasses(t, kube, 'matrix');
    const key = Buffer.alloc(32).toString('base64');
    await kube.apply(
      [
        secret('orders-database', 'dsn', 'postgres://a/b'),
        secret('sealing', 'key', key),
        secret('1e3', '1.0', key),
        secret('tokens', 'gateway', 'token'),
        secret('sql', 'root', 'password'),
      ],
      here,
    );
    const specs = [...specMatrix()].map(([title, spec], i) => ({
      title,
      name: `m${i}`,
      spec: restricted(spec),
    }));
    await kube.startOperator(t, 'one');
    await kube.apply(
      specs.map(({ name, spec }) => headgate(name, spec)),
      here,
    );
    for (const { title, name } of specs) {
      const asked = () => kube.condition('matrix', name, 'Degraded');
      await within(settleMs, async () => assert.match(await asked(), /^False AsAskedFor/, title));
    }
    const kinds = ownedKinds.map(({ apiVersion, plural }) =>
      apiVersion.includes('/') ? `${plural}.${apiVersion.split('/')[0]}` : plural,
    );
    const made = '--selector=app.kubernetes.io/managed-by=headgate-operator';
    const list = async () => (await kube.json<Listed>('get', kinds.join(), made, here)).items;
    const podsOf = async (instance: string) => {
      const selector = `--selector=app.kubernetes.io/instance=${instance}`;
      return (await kube.json<Listed>('get', 'pods', selector, here)).items.length;
    };
    for (const { title, name, spec } of specs) {
      const { autoscaling, replicas = 1 } = spec;
      const wanted = autoscaling?.minReplicas ?? (autoscaling ? 2 : replicas);
      // An autoscaler that has no figures of its pods leaves their number alone, and volumes in a row are made when the first pod is up.
      const isRow = spec.databaseUrlSecret !== undefined && spec.spool?.size !== undefined;
      await within(settleMs, async () => {
        const count = await podsOf(name);
        assert(count === wanted || (isRow && count >= 1), `${title}: ${count} of ${wanted} pods`);
      });
    }
    const refused = (await kube.events('matrix')).filter((it) => it.startsWith('FailedCreate'));
    assert.deepEqual(refused, []);

    // A change of each that means nothing: the operator looks at all of them again, and writes nothing.
    for (const { kind, metadata } of await list())
      await kube.run('kubectl', ['label', kind, metadata.name, 'example.com/seen=yes', here]);
    const before = await list();
    await kube.run('kubectl', ['delete', 'serviceaccount', 'm0', here]);
    await within(settleMs, async () => {
      const told = (await kube.events('matrix')).filter((it) => it.startsWith('Repaired'));
      assert.deepEqual(told, ['Repaired Headgate m0: ServiceAccount m0']);
    });
    const after = new Map((await list()).map((it) => [`${it.kind} ${it.metadata.name}`, it.metadata]));
    for (const { kind, metadata } of before) {
      const id = `${kind} ${metadata.name}`;
      assert.equal(after.get(id)?.generation, metadata.generation, id);
      assert.equal(
        after.get(id)?.labels?.['example.com/seen'],
        id === 'ServiceAccount m0' ? undefined : 'yes',
        id,
      );
    }
    await kube.run('kubectl', ['delete', 'headgate', '--all', '--timeout=120s', here]);
  });

  test('an upgrade of the operator keeps the objects of its Headgate resources', async (t) => {
    const before = await deployedBefore(t, 'operator');
    if (before === null) return t.skip('this checkout has no operator before this one');
    const kube = await Kube.open(t);
    // Tests of the CRD leave theirs behind, applied by another manager: whoever upgrades has only what was deployed before.
    await kube.run('kubectl', [
      'delete',
      'crd',
      'headgates.headgate.dev',
      '--ignore-not-found',
      '--timeout=60s',
    ]);
    await kube.deployOperator(before);
    await kube.namespace(t, 'upgrade');
    const here = '--namespace=upgrade';
    await kube.apply([headgate('hooks', { enableWebhookListener: true })], here);
    const operator = await kube.startOperator(t, 'before');
    const asAskedFor = () =>
      within(settleMs, async () =>
        assert.match(await kube.condition('upgrade', 'hooks', 'Degraded'), /^False AsAskedFor/),
      );
    await asAskedFor();
    const uid = () =>
      kube.run('kubectl', ['get', 'statefulset', 'hooks', here, '--output=jsonpath={.metadata.uid}']);
    const was = await uid();
    await operator.kill('SIGTERM');
    await kube.deployOperator();
    await kube.startOperator(t, 'after');
    const debug = ['--type=merge', '--patch', JSON.stringify({ spec: { logLevel: 'debug' } })];
    await kube.run('kubectl', ['patch', 'headgate', 'hooks', here, ...debug]);
    await within(settleMs, async () => {
      const set = await kube.run('kubectl', ['get', 'statefulset', 'hooks', here, '--output=json']);
      assert.match(set, /"value": "debug"/);
    });
    await asAskedFor();
    assert.equal(await uid(), was);
    await kube.run('kubectl', ['delete', 'headgate', '--all', '--timeout=60s', here]);
  });
});
