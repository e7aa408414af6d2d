/** The operator on a stand-in for an API server, through the real client: creation, change, drift, conflict, deletion. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { manifestsOf } from '../../src/operator/manifests.ts';
import { completeSpec } from '../../src/operator/resource.ts';
import type { HeadgateSpec } from '../../src/operator/resource.ts';
import { managedLabels, selectorOf } from '../../src/operator/kinds.ts';
import { specMatrix } from '../support/chart.ts';
import { schemaProblems } from '../support/kubernetes-schema.ts';
import { leavesOf } from '../support/kube/managed-fields.ts';
import type { Fields } from '../support/kube/managed-fields.ts';
import type { ApiServer } from '../support/kube/api-server.ts';
import {
  changeHeadgate,
  condition,
  createHeadgate,
  eventually,
  settle,
  specIn,
  startApiServer,
  startOperator,
  statusOf,
} from '../support/kube/operators.ts';

const embedded = [
  'Headgate hooks',
  'NetworkPolicy hooks',
  'PersistentVolumeClaim hooks-data',
  'Secret hooks-master-key',
  'Service hooks',
  'Service hooks-admin',
  'ServiceAccount hooks',
  'StatefulSet hooks',
];

function secret(server: ApiServer, name: string, data: Readonly<Record<string, string>>): void {
  const { resource } = server.where('Secret', name);
  const encoded = Object.entries(data).map(([key, text]) => [key, Buffer.from(text).toString('base64')]);
  const object = { metadata: { name, namespace: 'hooks' }, data: Object.fromEntries(encoded) as Fields };
  if (server.object('Secret', name) === null) server.store.create(resource, 'hooks', object, 'kubectl');
  else server.store.patch(server.where('Secret', name), object, 'kubectl', null);
}

const manifestsFor = (name: string, spec: HeadgateSpec) =>
  manifestsOf({
    name,
    namespace: 'hooks',
    image: spec.image ?? 'headgate:test',
    selector: selectorOf(name),
    labels: managedLabels,
    keep: {},
    databaseUrlChecksum: null,
    spec: completeSpec(spec),
  });

/** Every field of the manifests is in the cluster, with its value. */
function assertDeployed(server: ApiServer, name: string, spec: HeadgateSpec): void {
  for (const manifest of manifestsFor(name, spec)) {
    const live = server.object(manifest.kind, manifest.metadata.name);
    assert(live !== null, `${manifest.kind} ${manifest.metadata.name} is there`);
    const leaves = leavesOf(live);
    for (const [leaf, value] of leavesOf(manifest as unknown as Fields)) {
      if (leaf.includes('checksum')) continue;
      assert.deepEqual(leaves.get(leaf), value, `${manifest.kind} ${manifest.metadata.name} ${leaf}`);
    }
  }
}

const eventReasons = (server: ApiServer) =>
  server.store.list(server.where('Event', '').resource, 'hooks').map((it) => it['reason']);

suite('the operator reconciles Headgate resources', () => {
  test('spec.enableWebhookListener opens port 4560 of the Service and starts the listener; false closes both', async (t) => {
    const server = await startApiServer(t);
    startOperator(t, server);
    createHeadgate(server, 'hooks', { enableWebhookListener: true });
    await eventually(server, () => assert.deepEqual(server.names(), embedded));
    assert.deepEqual(specIn(server, 'Service', 'hooks')['ports'], [
      { name: 'webhook', port: 4560, targetPort: 'webhook', protocol: 'TCP' },
    ]);
    const workload = () => JSON.stringify(server.object('StatefulSet', 'hooks')?.['spec']);
    assert.match(workload(), /"HEADGATE_LISTEN_ENABLED","value":"true"/);
    await eventually(server, () =>
      assert.equal(statusOf(server, 'hooks').endpoint, 'http://hooks.hooks.svc.cluster.local:4560'),
    );
    changeHeadgate(server, 'hooks', { enableWebhookListener: false });
    await eventually(server, () => {
      assert.equal(server.object('Service', 'hooks'), null);
      assert.match(workload(), /"HEADGATE_LISTEN_ENABLED","value":"false"/);
      assert.equal(statusOf(server, 'hooks').endpoint, '');
    });
    assert.doesNotMatch(workload(), /4560/);
  });

  test('the operator changes one spec of the matrix into the next and leaves no object over', async (t) => {
    const server = await startApiServer(t);
    startOperator(t, server);
    secret(server, 'orders-database', { dsn: 'postgresql://db/orders' });
    secret(server, 'sealing', { key: 'k' });
    secret(server, '1e3', { '1.0': 'k' });
    secret(server, 'sql', { root: 'a password' });
    secret(server, 'tokens', { gateway: 'g' });
    const { resource } = server.where('Headgate', 'm');
    server.store.create(
      resource,
      'hooks',
      { metadata: { name: 'm', namespace: 'hooks' }, spec: {} },
      'kubectl',
    );
    for (const [name, spec] of specMatrix()) {
      const live = server.store.get(server.where('Headgate', 'm'));
      // A class cannot be changed under a volume; the claim goes with the one that names another.
      if (server.object('PersistentVolumeClaim', 'm-data'))
        server.store.remove(server.where('PersistentVolumeClaim', 'm-data'));
      const manifests = manifestsFor('m', spec);
      const templatesOf = (it: unknown) =>
        JSON.stringify(
          (it as { spec?: { volumeClaimTemplates?: unknown } } | undefined)?.spec?.volumeClaimTemplates,
        );
      // Nor can the volumes of a StatefulSet, which its owner deletes for that (docs/deploy/kubernetes.md).
      const set = server.object('StatefulSet', 'm');
      const wantedSet = manifests.find((it) => it.kind === 'StatefulSet');
      if (set !== null && wantedSet !== undefined && templatesOf(set) !== templatesOf(wantedSet))
        server.store.remove(server.where('StatefulSet', 'm'));
      server.store.replace(server.where('Headgate', 'm'), { ...live, spec: spec as never }, 'kubectl', null);
      const kind = manifests.some((it) => it.kind === 'StatefulSet') ? 'StatefulSet' : 'Deployment';
      await eventually(server, () => {
        if (server.object(kind, 'm') !== null) settle(server, kind, 'm');
        assertDeployed(server, 'm', spec);
        const wanted = manifests.map((it) => `${it.kind} ${it.metadata.name}`);
        const there = server.names().filter((it) => !/^(Secret|PersistentVolumeClaim|Headgate)/.test(it));
        assert.deepEqual(there, wanted.filter((it) => !it.startsWith('Persistent')).toSorted(), name);
      });
    }
    await eventually(server, () => assert.match(condition(server, 'm', 'Degraded'), /^False/));
  });

  test('conditions of a Headgate resource follow its pods: not ready, rolling out, ready, stopped', async (t) => {
    const server = await startApiServer(t);
    startOperator(t, server);
    createHeadgate(server, 'hooks', {});
    const conditions = () =>
      ['Ready', 'Progressing', 'Degraded'].map((type) => condition(server, 'hooks', type));
    const are = (...wanted: string[]) => eventually(server, () => assert.deepEqual(conditions(), wanted));
    await are('False NoPodReady', 'True RollingOut', 'False AsAskedFor');
    settle(server, 'StatefulSet', 'hooks');
    await are('True PodsReady', 'False Settled', 'False AsAskedFor');
    assert.equal(statusOf(server, 'hooks').readyReplicas, 1);
    const { lastTransitionTime } = statusOf(server, 'hooks').conditions?.[0] ?? {};
    changeHeadgate(server, 'hooks', { logLevel: 'debug' });
    await are('True PodsReady', 'True RollingOut', 'False AsAskedFor');
    assert.equal(statusOf(server, 'hooks').conditions?.[0]?.lastTransitionTime, lastTransitionTime);
    assert.equal(
      statusOf(server, 'hooks').observedGeneration,
      server.object('Headgate', 'hooks')?.metadata.generation,
    );
    settle(server, 'StatefulSet', 'hooks', 0);
    await are('False NoPodReady', 'True RollingOut', 'False AsAskedFor');
    changeHeadgate(server, 'hooks', { replicas: 0 });
    await eventually(server, () => assert.equal(condition(server, 'hooks', 'Ready'), 'False Stopped'));
  });

  test('the operator repairs and reports drift, and leaves fields of other managers', async (t) => {
    const server = await startApiServer(t);
    startOperator(t, server);
    createHeadgate(server, 'hooks', { enableWebhookListener: true });
    await eventually(server, () => assert.match(condition(server, 'hooks', 'Ready'), /^False/));
    const service = server.where('Service', 'hooks');
    server.store.patch(
      service,
      { spec: { type: 'NodePort' }, metadata: { annotations: { mine: 'yes' } } },
      'somebody',
      null,
    );
    await eventually(server, () =>
      assert.equal((server.store.get(service)['spec'] as Fields)['type'], 'ClusterIP'),
    );
    assert.deepEqual(server.store.get(service).metadata['annotations'], { mine: 'yes' });
    const { uid } = server.store.remove(server.where('StatefulSet', 'hooks')).metadata;
    await eventually(server, () => {
      const made = server.object('StatefulSet', 'hooks');
      assert(made !== null && made.metadata.uid !== uid);
      assert(eventReasons(server).includes('Repaired'));
    });
  });

  // Without the listener no rule of the NetworkPolicy is left.
  for (const enableWebhookListener of [true, false]) {
    test(`the operator writes nothing to a settled Headgate ${enableWebhookListener ? 'with' : 'without'} the listener`, async (t) => {
      const server = await startApiServer(t);
      const { says } = startOperator(t, server);
      createHeadgate(server, 'hooks', { enableWebhookListener });
      await eventually(server, () => assert.match(condition(server, 'hooks', 'Ready'), /^False/));
      settle(server, 'StatefulSet', 'hooks');
      await eventually(server, () => assert.match(condition(server, 'hooks', 'Ready'), /^True/));
      const writes: string[] = [];
      server.store.listen(
        ({ resource, type }) => resource.kind === 'Lease' || writes.push(`${type} ${resource.kind}`),
      );
      // Events without a change, and the runs that they lead to.
      for (const a of ['b', 'c']) {
        const reconciled = says('operator.reconciled');
        const metadata = { annotations: { a } };
        server.store.patch(server.where('Service', 'hooks-admin'), { metadata }, 'somebody', null);
        await reconciled;
      }
      assert.deepEqual(writes, ['MODIFIED Service', 'MODIFIED Service']);
    });
  }

  test('the operator does not take a concurrent write by others for drift', async (t) => {
    const server = await startApiServer(t);
    startOperator(t, server);
    createHeadgate(server, 'hooks', { enableWebhookListener: true });
    await eventually(server, () => assert.match(condition(server, 'hooks', 'Ready'), /^False/));
    let writes = 0;
    server.fault = ({ verb, resource }) => {
      if (verb === 'patch' && resource.kind === 'StatefulSet' && writes++ === 0)
        settle(server, 'StatefulSet', 'hooks');
      return null;
    };
    server.store.remove(server.where('Service', 'hooks'));
    await eventually(server, () => assert.match(condition(server, 'hooks', 'Ready'), /^True/));
    const events = server.store.list(server.where('Event', '').resource, 'hooks');
    assert.deepEqual(
      events.filter((it) => it['reason'] === 'Repaired').map((it) => it['note']),
      ['Service hooks'],
    );
  });

  test('the operator generates a master key once, reports it if it is missing, and never replaces it', async (t) => {
    const server = await startApiServer(t);
    startOperator(t, server);
    createHeadgate(server, 'hooks', {});
    await eventually(server, () =>
      assert.equal(statusOf(server, 'hooks').generatedMasterKeySecret, 'hooks-master-key'),
    );
    const key = () =>
      (server.object('Secret', 'hooks-master-key')?.['data'] as Record<string, string> | undefined)?.[
        'master-key'
      ];
    const first = key();
    assert.equal(Buffer.from(Buffer.from(first ?? '', 'base64').toString(), 'base64').length, 32);
    server.store.remove(server.where('Secret', 'hooks-master-key'));
    changeHeadgate(server, 'hooks', { logLevel: 'debug' });
    await eventually(server, () =>
      assert.equal(condition(server, 'hooks', 'Degraded'), 'True MasterKeyMissing'),
    );
    assert.equal(key(), undefined);
    secret(server, 'hooks-master-key', { 'master-key': Buffer.from(first ?? '', 'base64').toString() });
    await eventually(server, () => assert.equal(condition(server, 'hooks', 'Degraded'), 'False AsAskedFor'));
    assert.equal(key(), first);
  });

  test('the operator reports a missing Secret and waits for it; another connection string leads to new pods', async (t) => {
    const server = await startApiServer(t);
    startOperator(t, server);
    createHeadgate(server, 'hooks', { databaseUrlSecret: { name: 'db', key: 'url' }, replicas: 2 });
    await eventually(server, () => {
      assert.equal(condition(server, 'hooks', 'Degraded'), 'True SecretMissing');
      assert.deepEqual(eventReasons(server), ['SecretMissing']);
    });
    assert.equal(server.object('Deployment', 'hooks'), null);
    const template = () => JSON.stringify(specIn(server, 'Deployment', 'hooks')['template']);
    secret(server, 'db', { url: 'postgresql://db/a' });
    await eventually(server, () => assert.equal(condition(server, 'hooks', 'Degraded'), 'False AsAskedFor'));
    const before = template();
    assert.doesNotMatch(JSON.stringify(server.object('Deployment', 'hooks')), /postgresql/);
    secret(server, 'db', { url: 'postgresql://db/b' });
    changeHeadgate(server, 'hooks', { replicas: 3 });
    await eventually(server, () => assert.notEqual(template(), before));
  });

  test('a move from the volume to a database keeps the old pod until the new ones are ready', async (t) => {
    const server = await startApiServer(t);
    const { says } = startOperator(t, server);
    createHeadgate(server, 'hooks', { enableWebhookListener: true });
    await eventually(server, () => assert(server.object('StatefulSet', 'hooks') !== null));
    settle(server, 'StatefulSet', 'hooks');
    secret(server, 'db', { url: 'postgresql://db/a' });
    changeHeadgate(server, 'hooks', { databaseUrlSecret: { name: 'db', key: 'url' }, replicas: 2 });
    await eventually(server, () => assert(server.object('Deployment', 'hooks') !== null));
    await says('operator.reconciled');
    assert(server.object('StatefulSet', 'hooks') !== null);
    settle(server, 'Deployment', 'hooks', 1);
    await says('operator.reconciled');
    assert(server.object('StatefulSet', 'hooks') !== null);
    settle(server, 'Deployment', 'hooks');
    await eventually(server, () => assert.equal(server.object('StatefulSet', 'hooks'), null));
    assert(server.object('PersistentVolumeClaim', 'hooks-data') !== null);
    const { strategy } = specIn(server, 'Deployment', 'hooks');
    assert.deepEqual(strategy, { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: 0, maxSurge: 1 } });
  });

  test('an autoscaler takes over the number of pods, and the operator no longer sets it', async (t) => {
    const server = await startApiServer(t);
    const { says } = startOperator(t, server);
    secret(server, 'db', { url: 'postgresql://db/a' });
    createHeadgate(server, 'hooks', { databaseUrlSecret: { name: 'db', key: 'url' }, replicas: 5 });
    await eventually(server, () => assert.equal(specIn(server, 'Deployment', 'hooks')['replicas'], 5));
    const numbers = new Set<unknown>();
    server.store.listen(({ resource }) => {
      if (resource.kind === 'Deployment') numbers.add(specIn(server, 'Deployment', 'hooks')['replicas']);
    });
    changeHeadgate(server, 'hooks', { autoscaling: { minReplicas: 2, maxReplicas: 9 } });
    await eventually(server, () => assert(server.object('HorizontalPodAutoscaler', 'hooks') !== null));
    const deployment = server.where('Deployment', 'hooks');
    server.store.patch(deployment, { spec: { replicas: 7 } }, 'horizontal-pod-autoscaler', null);
    await says('operator.reconciled');
    changeHeadgate(server, 'hooks', { logLevel: 'debug' });
    await eventually(server, () =>
      assert.match(JSON.stringify(server.object('Deployment', 'hooks')), /"debug"/),
    );
    assert.deepEqual(numbers, new Set([5, 7]));
  });

  test("the operator's events and leases match the Kubernetes schema", async (t) => {
    const server = await startApiServer(t);
    startOperator(t, server);
    createHeadgate(server, 'hooks', {});
    await eventually(server, () => assert.match(condition(server, 'hooks', 'Ready'), /^False/));
    const written = ['Event', 'Lease'].flatMap((kind) => {
      const found = server.store.list(server.where(kind, '').resource, null);
      assert(found.length > 0, kind);
      return found as unknown as { apiVersion: string; kind: string }[];
    });
    for (const object of written) assert.deepEqual(await schemaProblems(object), [], object.kind);
  });
});
