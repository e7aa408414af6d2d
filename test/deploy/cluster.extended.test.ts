/**
 * What the operator promises, through the API alone: on the stand-in with every run of the suite, on a real cluster with
 * `npm run test:cluster`. Nothing here needs pods to become ready: the image need not exist.
 */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { isReal, LiveCluster } from '../support/kube/live-cluster.ts';

const embedded = [
  'NetworkPolicy hooks',
  'PersistentVolumeClaim hooks-data',
  'Service hooks',
  'Service hooks-admin',
  'ServiceAccount hooks',
  'StatefulSet hooks',
];
const leading = (said: readonly { kind: string }[]) => said.some((it) => it.kind === 'operator.leading');

suite(isReal ? 'operator on a cluster' : 'operator on the stand-in', () => {
  test('the listener is opened and closed by spec.enableWebhookListener', async (t) => {
    const live = await LiveCluster.open(t);
    live.operator(t, 'one');
    await live.create('hooks', { enableWebhookListener: true });
    await live.until(async () => {
      assert.deepEqual(await live.names('hooks'), embedded);
      assert.equal(await live.condition('hooks', 'Degraded'), 'False AsAskedFor');
    });
    assert.match(JSON.stringify(await live.get('Service', 'hooks')), /"port":4560/);
    assert.match(
      JSON.stringify(await live.get('StatefulSet', 'hooks')),
      /"HEADGATE_LISTEN_ENABLED","value":"true"/,
    );
    await live.patch('Headgate', 'hooks', { spec: { enableWebhookListener: false } });
    await live.isGone('Service', 'hooks');
    await live.until(async () => {
      const set = JSON.stringify((await live.get('StatefulSet', 'hooks'))?.['spec']);
      assert.match(set, /"HEADGATE_LISTEN_ENABLED","value":"false"/);
      assert.doesNotMatch(set, /4560/);
    });
  });

  test('the operator restores what others change or delete', async (t) => {
    const live = await LiveCluster.open(t);
    live.operator(t, 'one');
    await live.create('hooks', { enableWebhookListener: true });
    await live.until(async () => assert.deepEqual(await live.names('hooks'), embedded));
    await live.patch('NetworkPolicy', 'hooks', { spec: { ingress: [{}] } });
    await live.remove('Service', 'hooks-admin');
    await live.until(async () => {
      assert.match(JSON.stringify((await live.get('NetworkPolicy', 'hooks'))?.['spec']), /4560/);
      assert((await live.get('Service', 'hooks-admin')) !== null);
    });
  });

  test('a second operator finishes the work of one that ended half-way, and of two operators only one leads', async (t) => {
    const live = await LiveCluster.open(t);
    const first = live.operator(t, 'first');
    await live.create('hooks', { enableWebhookListener: true });
    await live.until(async () => assert((await live.names('hooks')).length > 0));
    await first.operator.close();
    const second = live.operator(t, 'second');
    const third = live.operator(t, 'third');
    await live.until(async () => assert.deepEqual(await live.names('hooks'), embedded));
    assert.notEqual(leading(second.said), leading(third.said));
    const [leader, follower] = leading(second.said) ? [second, third] : [third, second];
    await leader.operator.close();
    await live.patch('Headgate', 'hooks', { spec: { logLevel: 'debug' } });
    await live.until(async () =>
      assert.match(JSON.stringify(await live.get('StatefulSet', 'hooks')), /"debug"/),
    );
    assert(leading(follower.said));
  });

  test('the operator leaves a taken object name alone until it is free', async (t) => {
    const live = await LiveCluster.open(t);
    await live.make('ServiceAccount', 'hooks', {});
    live.operator(t, 'one');
    await live.create('hooks', {});
    await live.until(async () => assert.equal(await live.condition('hooks', 'Degraded'), 'True NameTaken'));
    await live.remove('ServiceAccount', 'hooks');
    await live.patch('Headgate', 'hooks', { spec: { logLevel: 'debug' } });
    await live.until(async () => assert.equal(await live.condition('hooks', 'Degraded'), 'False AsAskedFor'));
  });

  test('volume and master key outlive a deleted Headgate resource, unless it has deleteWithResource', async (t) => {
    const live = await LiveCluster.open(t);
    live.operator(t, 'one');
    await live.create('hooks', {});
    await live.until(async () => assert.equal(await live.condition('hooks', 'Degraded'), 'False AsAskedFor'));
    await live.remove('Headgate', 'hooks');
    await live.isGone('Headgate', 'hooks');
    await live.until(async () =>
      assert.deepEqual(await live.names('hooks'), ['PersistentVolumeClaim hooks-data']),
    );
    assert((await live.get('Secret', 'hooks-master-key')) !== null);
    await live.create('hooks', { storage: { deleteWithResource: true } });
    await live.until(async () => assert.equal(await live.condition('hooks', 'Degraded'), 'False AsAskedFor'));
    await live.remove('Headgate', 'hooks');
    await live.until(async () => assert.deepEqual(await live.names('hooks'), []));
    await live.isGone('Secret', 'hooks-master-key');
  });
});
