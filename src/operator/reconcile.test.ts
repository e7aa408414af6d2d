import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits } from '../config/limits.ts';
import { ClusterError } from './cluster.ts';
import type { Cluster } from './cluster.ts';
import { claims, managedLabels, pathOf, secrets, selectorOf } from './kinds.ts';
import { Reconciler } from './reconcile.ts';
import { finalizer } from './resource.ts';
import type { JsonObject } from './resource.ts';

/** Lets the operator finish the deletion of a Headgate `hooks` that takes its data along; returns what was deleted. */
async function deletedBeside(metadata: JsonObject): Promise<readonly string[]> {
  const deleted: string[] = [];
  const objects = [pathOf(claims, 'n', 'hooks-data'), pathOf(secrets, 'n', 'hooks-master-key')];
  const cluster: Pick<Cluster, 'request'> = {
    request: async ({ method, path }) => {
      if (method === 'DELETE') deleted.push(path);
      if (path.includes('/headgates/'))
        return {
          metadata: {
            name: 'hooks',
            namespace: 'n',
            uid: 'u',
            deletionTimestamp: '2026-01-01T00:00:00Z',
            finalizers: [finalizer],
          },
          spec: { storage: { deleteWithResource: true } },
        };
      if (objects.includes(path)) return { metadata: { name: path.split('/').at(-1) ?? '', ...metadata } };
      throw new ClusterError(404, 'NotFound', `${path} is not there`);
    },
  };
  const reconciler = new Reconciler({
    cluster: cluster as Cluster,
    image: null,
    recorder: { tell: () => Promise.resolve(), forget: () => undefined },
    limits,
    randomBytes: (count) => Buffer.alloc(count),
    now: () => 0,
  });
  assert.equal(await reconciler.reconcile('n', 'hooks', new AbortController().signal), null);
  return deleted.map((path) => path.split('/').at(-1) ?? '');
}

test('the operator deletes the volume and the key of a deleted Headgate, and nothing of others under these names', async () => {
  const ours = { labels: { ...selectorOf('hooks'), ...managedLabels } };
  assert.deepEqual(await deletedBeside(ours), ['hooks-data', 'hooks-master-key']);
  assert.deepEqual(await deletedBeside({}), []);
  const others = { ...ours, ownerReferences: [{ controller: true, uid: 'of another' }] };
  assert.deepEqual(await deletedBeside(others), []);
});
