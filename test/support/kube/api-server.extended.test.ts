/** The stand-in for an API server has the semantics that the operator's tests rely on. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { ClusterError, openCluster } from '../../../src/operator/cluster.ts';
import type { ClusterRequest, WatchEvent } from '../../../src/operator/cluster.ts';
import type { ClusterObject } from '../../../src/operator/kinds.ts';
import { startApiServer } from './operators.ts';

const path = '/api/v1/namespaces/hooks/services';
const never = new AbortController().signal;

async function open(t: TestContext) {
  const server = await startApiServer(t);
  const cluster = openCluster(server.kubeConfig());
  const ask = async (request: ClusterRequest) => (await cluster.request(request, never)) as ClusterObject;
  const apply = (name: string, manager: string, body: object, force = false) =>
    ask({
      method: 'PATCH',
      path: `${path}/${name}`,
      query: { fieldManager: manager, ...(force && { force: 'true' }) },
      contentType: 'application/apply-patch+yaml',
      body: { apiVersion: 'v1', kind: 'Service', metadata: { name }, ...body },
    });
  return { server, cluster, ask, apply };
}
const refusedWith = (status: number) => (error: unknown) =>
  error instanceof ClusterError && error.status === status;

suite('the stand-in for the Kubernetes API server behaves like the original', () => {
  test("the API server stand-in's server-side apply creates, is idempotent, reports conflicts and removes dropped fields", async (t) => {
    const { ask, apply } = await open(t);
    const first = await apply('a', 'one', { spec: { type: 'ClusterIP', sessionAffinity: 'None' } });
    const again = await apply('a', 'one', { spec: { type: 'ClusterIP', sessionAffinity: 'None' } });
    assert.equal(again.metadata.resourceVersion, first.metadata.resourceVersion);
    await assert.rejects(apply('a', 'two', { spec: { type: 'NodePort' } }), refusedWith(409));
    await apply('a', 'two', { spec: { type: 'NodePort' } }, true);
    // Now the second manager owns it, and the first one conflicts.
    await assert.rejects(apply('a', 'one', { spec: { type: 'ClusterIP' } }), refusedWith(409));
    await apply('a', 'one', { spec: {} });
    const { spec } = await ask({ method: 'GET', path: `${path}/a` });
    assert.deepEqual(spec, { type: 'NodePort' });
    await assert.rejects(
      ask({ method: 'PATCH', path: `${path}/a`, contentType: 'application/apply-patch+yaml', body: {} }),
      refusedWith(400),
    );
  });

  test('the API server stand-in refuses writes to older versions, and writes status and spec apart', async (t) => {
    const { ask } = await open(t);
    const made = await ask({
      method: 'POST',
      path,
      body: { metadata: { name: 'a' }, spec: { type: 'ClusterIP' }, status: { x: 1 } },
    });
    assert.equal(made.metadata.generation, 1);
    await assert.rejects(ask({ method: 'POST', path, body: { metadata: { name: 'a' } } }), refusedWith(409));
    const contentType = 'application/merge-patch+json';
    const patch = (body: object, sub = '') =>
      ask({ method: 'PATCH', path: `${path}/a${sub}`, contentType, body });
    const changed = await patch({ spec: { type: 'NodePort' }, status: { ignored: true } });
    assert.equal(changed.metadata.generation, 2);
    const status = await patch({ spec: { type: 'ignored' }, status: { seen: 2 } }, '/status');
    assert.equal(status.metadata.generation, 2);
    assert.deepEqual(
      [status['spec'], (status['status'] as { seen: number }).seen],
      [{ type: 'NodePort' }, 2],
    );
    await assert.rejects(
      patch({ metadata: { resourceVersion: made.metadata.resourceVersion } }),
      refusedWith(409),
    );
    await assert.rejects(ask({ method: 'PUT', path: `${path}/a`, body: made }), refusedWith(409));
  });

  test("the API server stand-in's deletion honours finalizers, owners and uid preconditions", async (t) => {
    const { server, ask } = await open(t);
    const owner = await ask({
      method: 'POST',
      path,
      body: { metadata: { name: 'a', finalizers: ['x.example/y'] } },
    });
    const ownerReferences = [{ apiVersion: 'v1', kind: 'Service', name: 'a', uid: owner.metadata.uid }];
    await ask({ method: 'POST', path, body: { metadata: { name: 'b', ownerReferences } } });
    const wrong = { preconditions: { uid: 'another' } };
    await assert.rejects(ask({ method: 'DELETE', path: `${path}/a`, body: wrong }), refusedWith(409));
    const marked = await ask({ method: 'DELETE', path: `${path}/a` });
    assert(marked.metadata.deletionTimestamp !== undefined);
    assert.deepEqual(server.names(), ['Service a', 'Service b']);
    const contentType = 'application/merge-patch+json';
    await ask({ method: 'PATCH', path: `${path}/a`, contentType, body: { metadata: { finalizers: [] } } });
    assert.deepEqual(server.names(), []);
    await assert.rejects(ask({ method: 'GET', path: `${path}/a` }), refusedWith(404));
  });

  test("the API server stand-in's watch honours version, selector and bookmarks, and answers 410 to an expired version", async (t) => {
    const { server, cluster, ask } = await open(t);
    const contentType = 'application/merge-patch+json';
    const label = (a: string | null) =>
      ask({ method: 'PATCH', path: `${path}/a`, contentType, body: { metadata: { labels: { a } } } });
    const { metadata } = await ask({ method: 'POST', path, body: { metadata: { name: 'a' } } });
    await label('1');
    await label('2');
    const seen: WatchEvent[] = [];
    const watch = async (resourceVersion: string, count: number) => {
      seen.length = 0;
      for await (const event of cluster.watch(path, { resourceVersion, labelSelector: 'a=1' }, never)) {
        seen.push(event);
        if (seen.length === count) break;
      }
      return seen.map(({ type }) => type);
    };
    assert.deepEqual(await watch(metadata.resourceVersion ?? '', 3), ['ADDED', 'DELETED', 'BOOKMARK']);
    server.store.compact();
    assert.deepEqual(await watch(metadata.resourceVersion ?? '', 9), ['ERROR']);
    assert.equal(seen[0]?.object['code'], 410);
  });

  test('the API server stand-in requires authentication and existing resources', async (t) => {
    const { server, ask } = await open(t);
    assert.equal((await fetch(`${server.url}${path}`)).status, 401);
    await assert.rejects(ask({ method: 'GET', path: '/apis/nothing.example/v1/things' }), refusedWith(404));
    server.fault = () => 'lost before';
    await assert.rejects(ask({ method: 'GET', path }), refusedWith(0));
  });
});
