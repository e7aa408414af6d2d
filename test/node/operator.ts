/**
 * The operator on a node, in pods of the image, from deploy/operator as it is: `npm run test:node` (scripts/test-node.mjs). What it looks after is
 * changed, killed and drained while senders go on.
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { temporaryFolder } from '../support/headgate.ts';
import { nodeName } from '../support/kube/node.ts';
import { Hooks, isReady, startDatabase } from '../support/kube/senders.ts';
import { auditOfOperator, headgate, isForbidden, Kube, settleMs } from '../support/kube/shipped.ts';
import { within } from '../support/within.ts';

const beside = { enableWebhookListener: true, replicas: 2, sql: { expose: true } };
const databaseUrlSecret = { name: 'hooks-database', key: 'url' };

async function deployed(t: TestContext): Promise<void> {
  const kube = await Kube.open(t);
  await kube.deployOperator();
  const rollout = ['rollout', 'status', 'deployment/headgate-operator', '--namespace=headgate-operator'];
  await kube.run('kubectl', [...rollout, '--timeout=180s']);
}

async function make(hooks: Hooks, spec: object): Promise<void> {
  await hooks.kube.apply([headgate('hooks', spec)], `--namespace=${hooks.namespace}`);
  await hooks.kubectl('wait', '--for=condition=Ready', 'headgate/hooks', '--timeout=180s');
}

/** Resolves when as many pods are ready and none of `before` is there. */
async function replaced(hooks: Hooks, before: ReadonlySet<string>, count: number): Promise<void> {
  await within(settleMs, async () => {
    const pods = await hooks.pods();
    assert.deepEqual(
      pods.map(isReady),
      Array.from({ length: count }, () => true),
    );
    assert(pods.every(({ metadata }) => !before.has(metadata.uid)));
  });
}

const patched = (hooks: Hooks, spec: object) =>
  hooks.kubectl('patch', 'headgate', 'hooks', '--type=merge', `--patch=${JSON.stringify({ spec })}`);

/** The first process of the container of a pod, as the node sees it. */
function processOf(uid: string): number {
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    const read = (name: string) => readFileSync(join('/proc', pid, name), 'utf8');
    try {
      const isFirst = /^NSpid:.*\s1$/m.test(read('status')) && read('cmdline').includes('cli.js');
      if (isFirst && read('cgroup').includes(uid)) return Number(pid);
    } catch {
      // It has ended.
    }
  }
  return assert.fail(`a process of pod ${uid} runs`);
}

suite('the operator works on a node', () => {
  test('requests answered 200 are stored while the operator replaces pods, one is killed and the node is drained', async (t) => {
    await deployed(t);
    const hooks = await Hooks.open(t, 'operated', 'hooks', {
      [databaseUrlSecret.name]: `${databaseUrlSecret.key}=${await startDatabase(t)}`,
    });
    await make(hooks, { ...beside, databaseUrlSecret });
    const client = await hooks.connect(t);

    const changed = await hooks.send(t, client);
    const began = performance.now();
    const uids = async () => new Set((await hooks.pods()).map(({ metadata }) => metadata.uid));
    const before = await uids();
    await patched(hooks, { logLevel: 'debug' });
    await replaced(hooks, before, 2);
    const seconds = ((performance.now() - began) / 1_000).toFixed(0);
    await changed.more(100);
    await changed.stop();
    t.diagnostic(`both pods replaced in ${seconds} s: ${changed.told}`);
    await changed.assertNoneFailed(await hooks.connect(t));

    const killed = await hooks.sendAgain(t);
    const [pod] = await hooks.pods();
    assert(pod !== undefined);
    process.kill(processOf(pod.metadata.uid), 'SIGKILL');
    await within(settleMs, async () => {
      const again = (await hooks.pods()).find(({ metadata }) => metadata.uid === pod.metadata.uid);
      assert.equal(again?.status.containerStatuses?.[0]?.restartCount, 1);
      assert(isReady(again));
    });
    await killed.more(100);
    await killed.stop();
    t.diagnostic(`one pod's process killed: ${killed.told}`);
    await killed.assertStored(await hooks.connect(t));

    const drained = await hooks.sendAgain(t);
    const all = ['--ignore-daemonsets', '--delete-emptydir-data', '--timeout=40s'];
    const drain = await hooks.kube.try('kubectl', ['drain', nodeName, ...all]);
    assert.notEqual(drain.code, 0);
    assert.match(drain.stderr, /Cannot evict pod as it would violate the pod's disruption budget/);
    assert.equal((await hooks.pods()).filter(isReady).length, 1);
    await hooks.kube.run('kubectl', ['uncordon', nodeName]);
    await within(settleMs, async () => assert.equal((await hooks.pods()).filter(isReady).length, 2));
    await drained.more(100);
    await drained.stop();
    t.diagnostic(`the only node drained, and given back: ${drained.told}`);
    await drained.assertNoneFailed(await hooks.connect(t));

    await hooks.kubectl('delete', 'headgate', 'hooks', '--timeout=120s');
    await within(settleMs, async () => assert.deepEqual(await hooks.pods(), []));
    assert.deepEqual(auditOfOperator().filter(isForbidden), []);
  });

  test('the embedded engine in a pod keeps its rows on a volume over a change and a kill', async (t) => {
    await deployed(t);
    const hooks = await Hooks.open(t, 'embedded', 'hooks', { 'hooks-sql': 'password=of-root' });
    const folder = await temporaryFolder(t);
    const className = 'of-the-node';
    const here = { key: 'kubernetes.io/hostname', operator: 'In', values: [nodeName] };
    await hooks.kube.apply([
      {
        apiVersion: 'storage.k8s.io/v1',
        kind: 'StorageClass',
        metadata: { name: className },
        provisioner: 'kubernetes.io/no-provisioner',
        volumeBindingMode: 'WaitForFirstConsumer',
      },
      {
        apiVersion: 'v1',
        kind: 'PersistentVolume',
        metadata: { name: 'of-the-node' },
        spec: {
          capacity: { storage: '20Gi' },
          accessModes: ['ReadWriteOnce'],
          storageClassName: className,
          local: { path: folder },
          nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions: [here] }] } },
        },
      },
    ]);
    const sql = { expose: true, passwordSecret: { name: 'hooks-sql', key: 'password' } };
    await make(hooks, { enableWebhookListener: true, sql, storage: { storageClassName: className } });
    const client = await hooks.connect(t, 'of-root');
    const senders = await hooks.send(t, client);
    const [before] = await hooks.pods();
    assert(before !== undefined);
    await patched(hooks, { logLevel: 'debug' });
    await replaced(hooks, new Set([before.metadata.uid]), 1);
    await senders.more(100);
    t.diagnostic(`the pod replaced: ${senders.told}`);
    const [after] = await hooks.pods();
    process.kill(processOf(after?.metadata.uid ?? ''), 'SIGKILL');
    await within(settleMs, async () => {
      const [again] = await hooks.pods();
      assert(again?.status.containerStatuses?.[0]?.restartCount === 1 && isReady(again));
    });
    await senders.more(100);
    await senders.stop();
    t.diagnostic(`and its process killed: ${senders.told}`);
    await senders.assertStored(await hooks.connect(t, 'of-root'));
    const owned = readdirSync(folder).map((name) => statSync(join(folder, name)));
    assert(owned.length > 0 && owned.every(({ uid, gid }) => uid === 10_001 && gid === 10_001));
    await hooks.kubectl('delete', 'headgate', 'hooks', '--timeout=120s');
  });
});
