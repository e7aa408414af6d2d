/**
 * The operator as it is shipped, on a real control plane: with the rights of deploy/operator and no others, in namespaces that take
 * `restricted` pods alone. The pods are made by the cluster's own controllers; no node runs them.
 */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { auditOfOperator, headgate, isForbidden, isOfTool, Kube, settleMs } from '../support/kube/shipped.ts';
import type { Listed } from '../support/kube/shipped.ts';
import { within } from '../support/within.ts';

const kinds =
  'serviceaccounts,services,persistentvolumeclaims,statefulsets,deployments,horizontalpodautoscalers,poddisruptionbudgets,ingresses,networkpolicies';
const ours = '--selector=app.kubernetes.io/managed-by=headgate-operator';
const asAskedFor = /^False AsAskedFor/;

suite('the operator works with the rights of its manifests', () => {
  test('the operator deploys Headgate resources on a real control plane within its rights', async (t) => {
    const kube = await Kube.open(t);
    await kube.deployOperator();
    const operator = await kube.startOperator(t, 'one');
    await kube.namespace(t, 'life');
    const here = ['--namespace=life'];
    await kube.apply([headgate('hooks', { enableWebhookListener: true })], ...here);
    const settled = (name: string) =>
      within(settleMs, async () => assert.match(await kube.condition('life', name, 'Degraded'), asAskedFor));
    await settled('hooks');
    const secret = {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: 'db' },
      stringData: { url: 'postgres://a/b' },
    };
    await kube.apply([secret], ...here);
    const external = {
      databaseUrlSecret: { name: 'db', key: 'url' },
      replicas: 2,
      enableWebhookListener: true,
    };
    await kube.apply([headgate('orders', external)], ...here);
    await settled('orders');

    // The pods are made: one beside the volume, two beside the database, two of the operator.
    const pods = (namespace: string) => kube.json<Listed>('get', 'pods', `--namespace=${namespace}`);
    await within(settleMs, async () => {
      const phases = (await pods('life')).items.map(({ status }) => status?.phase);
      assert.deepEqual(phases, ['Pending', 'Pending', 'Pending']);
      assert.equal((await pods('headgate-operator')).items.length, 2);
    });
    const refused = await kube.try('kubectl', ['run', 'bad', '--image=bad', ...here]);
    assert.match(refused.stderr, /violates PodSecurity "restricted/);
    for (const namespace of ['life', 'headgate-operator'])
      assert.deepEqual(
        (await kube.events(namespace)).filter((it) => it.startsWith('FailedCreate')),
        [],
      );

    // What is there is as it was applied, defaults of the API server notwithstanding: nothing is put back again and again.
    const list = () => kube.json<Listed>('get', kinds, ours, '--show-managed-fields', ...here);
    const before = (await list()).items;
    assert(before.length >= 12, String(before.length));
    for (const { kind, metadata } of before) {
      assert((metadata.generation ?? 1) === 1, `${kind} ${metadata.name} was changed`);
      const managers = metadata.managedFields?.filter(({ operation }) => operation === 'Apply') ?? [];
      assert.deepEqual(
        managers.map(({ manager }) => manager),
        ['headgate-operator'],
      );
      const owners = metadata.ownerReferences?.map((it) => it.kind) ?? [];
      assert.deepEqual(owners, kind === 'PersistentVolumeClaim' ? [] : ['Headgate']);
    }
    for (const { kind, metadata } of before)
      await kube.run('kubectl', ['label', kind, metadata.name, 'example.com/seen=yes', ...here]);
    // A look that is caused by a change of the last of them has seen them all.
    await kube.run('kubectl', ['delete', 'service', 'orders-admin', ...here]);
    await kube.run('kubectl', ['delete', 'service', 'hooks-admin', ...here]);
    await within(settleMs, async () => {
      const told = (await kube.events('life')).filter((it) => it.startsWith('Repaired'));
      assert.deepEqual(told.toSorted(), [
        'Repaired Headgate hooks: Service hooks-admin',
        'Repaired Headgate orders: Service orders-admin',
      ]);
    });
    for (const { kind, metadata } of (await list()).items)
      assert((metadata.generation ?? 1) === 1, `${kind} ${metadata.name} was changed`);

    // Deleted: the finalizer is taken off, the cluster takes along what is owned, the volume and the key stay.
    await kube.run('kubectl', ['delete', 'headgate', '--all', '--timeout=60s', ...here]);
    await within(settleMs, async () => {
      const left = (await list()).items.map(({ kind, metadata }) => `${kind} ${metadata.name}`);
      assert.deepEqual(left, ['PersistentVolumeClaim hooks-data']);
      assert.deepEqual((await pods('life')).items, []);
    });
    assert.match(await kube.run('kubectl', ['get', 'secrets', '--output=name', ...here]), /hooks-master-key/);

    const asked = auditOfOperator().filter((it) => !isOfTool(it));
    assert(asked.length > 50);
    assert.deepEqual(asked.filter(isForbidden), []);
    assert.doesNotMatch(operator.log(), /forbidden/);
  });

  test("the operator's service account is forbidden everything else", async (t) => {
    const kube = await Kube.open(t);
    await kube.deployOperator();
    const config = `--kubeconfig=${await kube.accountConfig()}`;
    const beyond = [
      ['get', 'secrets', '--all-namespaces'],
      ['get', 'pods', '--all-namespaces'],
      ['create', 'token', 'default', '--namespace=kube-system'],
      ['get', 'leases', '--namespace=kube-system'],
      ['delete', 'headgate', 'hooks', '--namespace=default'],
      ['delete', 'serviceaccount', 'default', '--namespace=default'],
      ['create', 'clusterrolebinding', 'me', '--clusterrole=cluster-admin', '--user=me'],
      ['get', 'nodes'],
      ['exec', 'hooks-0', '--namespace=default', '--', 'true'],
      ['get', 'crds'],
    ];
    for (const args of beyond) {
      const { code, stderr } = await kube.try('kubectl', [config, ...args]);
      assert.notEqual(code, 0, args.join(' '));
      assert.match(
        stderr,
        /forbidden: User "system:serviceaccount:headgate-operator:headgate-operator" cannot/,
        args.join(' '),
      );
    }
    // Labels cannot be tried on a Secret by patching it: who may make and delete may not change.
    await kube.run('kubectl', ['create', 'secret', 'generic', 'tried', '--namespace=default']);
    const patched = await kube.try('kubectl', [
      config,
      'label',
      'secret',
      'tried',
      'a=b',
      '--namespace=default',
    ]);
    assert.match(patched.stderr, /cannot patch resource "secrets"/);
  });

  test('of two operators one leads, and the other takes over when the lease of a killed one has expired', async (t) => {
    const kube = await Kube.open(t);
    await kube.deployOperator();
    const operators = new Map([
      ['left', await kube.startOperator(t, 'left')],
      ['right', await kube.startOperator(t, 'right')],
    ]);
    await within(settleMs, async () => assert(operators.has(await kube.leader())));
    const first = await kube.leader();
    const second = first === 'left' ? 'right' : 'left';
    await kube.namespace(t, 'election');
    await operators.get(first)?.kill('SIGKILL');
    const killedMs = Date.now();
    await kube.apply([headgate('hooks', {})], '--namespace=election');
    await within(settleMs, async () => assert.equal(await kube.leader(), second));
    const tookMs = Date.now() - killedMs;
    t.diagnostic(`the lease was taken ${(tookMs / 1_000).toFixed(1)} s after the leader was killed`);
    assert(tookMs < 30_000);
    await within(settleMs, async () =>
      assert.match(await kube.condition('election', 'hooks', 'Degraded'), asAskedFor),
    );
    // With SIGTERM the lease is handed over, and nobody waits for it to run out.
    const third = await kube.startOperator(t, 'third');
    await operators.get(second)?.kill('SIGTERM');
    await within(settleMs, async () => assert.equal(await kube.leader(), 'third'));
    await within(settleMs, async () => assert.match(third.log(), /operator\.leading/));
    await kube.run('kubectl', ['delete', 'headgate', '--all', '--timeout=60s', '--namespace=election']);
  });

  test('the operator restores a field that somebody else applied with --force-conflicts', async (t) => {
    const kube = await Kube.open(t);
    await kube.deployOperator();
    await kube.startOperator(t, 'one');
    await kube.namespace(t, 'apply');
    const here = '--namespace=apply';
    await kube.apply([headgate('hooks', { enableWebhookListener: true })], here);
    await within(settleMs, async () =>
      assert.match(await kube.condition('apply', 'hooks', 'Degraded'), asAskedFor),
    );
    const service = (spec: object, annotations: object = {}) =>
      JSON.stringify({ apiVersion: 'v1', kind: 'Service', metadata: { name: 'hooks', annotations }, spec });
    const other = ['apply', '--server-side', '--field-manager=somebody', here, '-f', '-'];
    const conflict = await kube.try('kubectl', other, service({ type: 'NodePort' }));
    assert.match(conflict.stderr, /conflict with "headgate-operator": \.spec\.type/);
    const type = () =>
      kube.run('kubectl', ['get', 'service', 'hooks', here, '--output=jsonpath={.spec.type}']);
    await kube.run(
      'kubectl',
      [...other, '--force-conflicts'],
      service({ type: 'NodePort' }, { 'example.com/a': 'b' }),
    );
    await within(settleMs, async () => {
      assert.equal(await type(), 'ClusterIP');
      assert((await kube.events('apply')).includes('Repaired Headgate hooks: Service hooks'));
    });
    // What no manifest of ours names stays theirs.
    const annotation = '--output=jsonpath={.metadata.annotations.example\\.com/a}';
    assert.equal(await kube.run('kubectl', ['get', 'service', 'hooks', here, annotation]), 'b');
    await kube.run('kubectl', ['delete', 'headgate', '--all', '--timeout=60s', here]);
  });

  test("the operator reports exceeded quotas, volumes that cannot grow and missing kinds in the API server's words", async (t) => {
    const kube = await Kube.open(t);
    await kube.deployOperator();
    await kube.startOperator(t, 'one');
    await kube.namespace(t, 'limits');
    const here = '--namespace=limits';
    const hard = { 'count/services': '1', persistentvolumeclaims: '1' };
    const quota = { apiVersion: 'v1', kind: 'ResourceQuota', metadata: { name: 'small' }, spec: { hard } };
    await kube.apply([quota], here);
    const used = '--output=jsonpath={.status.used}';
    await within(settleMs, async () =>
      assert.match(await kube.run('kubectl', ['get', 'resourcequota', 'small', here, used]), /"0".*"0"/),
    );
    await kube.apply([headgate('hooks', { enableWebhookListener: true })], here);
    const degraded = (says: RegExp) =>
      within(settleMs, async () => assert.match(await kube.condition('limits', 'hooks', 'Degraded'), says));
    await degraded(/^True Refused Service hooks(-admin)?: .*exceeded quota: small/);
    await kube.run('kubectl', ['delete', 'resourcequota', 'small', here]);
    // Tried again within a minute, without anybody's doing.
    await degraded(asAskedFor);
    const patch = (spec: object) =>
      kube.run('kubectl', [
        'patch',
        'headgate',
        'hooks',
        here,
        '--type=merge',
        '--patch',
        JSON.stringify({ spec }),
      ]);
    await patch({ storage: { size: '30Gi' } });
    await degraded(/^True Refused PersistentVolumeClaim hooks-data: .*for bound claims$/);
    await patch({ storage: { size: '20Gi' } });
    await degraded(asAskedFor);
    await patch({ serviceMonitor: { enabled: true } });
    await degraded(/^True KindMissing ServiceMonitor hooks: /);
    await patch({ serviceMonitor: null });
    await degraded(asAskedFor);
    await kube.run('kubectl', ['delete', 'headgate', '--all', '--timeout=60s', here]);
  });

  test('a Headgate resource that is deleted while no operator runs waits for one', async (t) => {
    const kube = await Kube.open(t);
    await kube.deployOperator();
    const operator = await kube.startOperator(t, 'one');
    await kube.namespace(t, 'waiting');
    const here = '--namespace=waiting';
    await kube.apply([headgate('hooks', { storage: { deleteWithResource: true } })], here);
    await within(settleMs, async () =>
      assert.match(await kube.condition('waiting', 'hooks', 'Degraded'), asAskedFor),
    );
    await operator.kill('SIGTERM');
    await kube.run('kubectl', ['delete', 'headgate', 'hooks', '--wait=false', here]);
    const left = async () =>
      (await kube.run('kubectl', ['get', `headgates,${kinds},secrets`, here, '--output=name'])).split('\n');
    assert((await left()).includes('headgate.headgate.dev/hooks'));
    await kube.startOperator(t, 'two');
    await within(settleMs, async () => assert.deepEqual(await left(), ['serviceaccount/default', '']));
  });
});
