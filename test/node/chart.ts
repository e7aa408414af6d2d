/** The chart on a node: `npm run test:node` (scripts/test-node.mjs). Its pods run the image, beside a PostgreSQL of the node. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { chartPath } from '../support/chart.ts';
import { Hooks, isReady, startDatabase } from '../support/kube/senders.ts';
import { settleMs } from '../support/kube/shipped.ts';
import { within } from '../support/within.ts';

const values = [
  'frontendComponent.webhookListener=true',
  'sql.expose=true',
  'database.existingSecret=hooks-database',
  'replicas=2',
].flatMap((it) => ['--set', it]);
const waiting = ['--wait', '--timeout=180s'];

suite('the chart works on a node', () => {
  test('the chart is installed, upgraded and rolled back on a node without a failed request, and uninstalled', async (t) => {
    const secrets = { 'hooks-database': `url=${await startDatabase(t)}` };
    const hooks = await Hooks.open(t, 'chart', 'hooks-headgate', secrets);
    await hooks.helm('install', 'hooks', chartPath, ...values, ...waiting);
    const installed = await hooks.pods();
    assert.deepEqual(installed.map(isReady), [true, true]);
    assert.match(await hooks.helm('test', 'hooks', '--timeout=120s'), /Phase:\s+Succeeded/);
    // What the test made is gone with it.
    assert.equal(await hooks.kubectl('get', 'pods', '--output=name', '--selector=helm.sh/hook'), '');

    const client = await hooks.connect(t);
    const senders = await hooks.send(t, client);
    const seen = new Set(installed.map(({ metadata }) => metadata.uid));
    const change = async (...args: readonly string[]) => {
      const began = performance.now();
      await hooks.helm(...args, ...waiting);
      // Helm does not wait for the pods of before, which still answer.
      await within(settleMs, async () => assert.equal((await hooks.pods()).length, 2));
      t.diagnostic(`helm ${args[0]}: ${((performance.now() - began) / 1_000).toFixed(0)} s`);
      const pods = await hooks.pods();
      assert.deepEqual(pods.map(isReady), [true, true]);
      assert(
        pods.every(({ metadata }) => !seen.has(metadata.uid)),
        'every pod was replaced',
      );
      pods.forEach(({ metadata }) => seen.add(metadata.uid));
      await senders.more(100);
    };
    await change('upgrade', 'hooks', chartPath, '--reuse-values', '--set', 'logLevel=debug');
    await change('rollback', 'hooks', '1');
    await senders.stop();
    t.diagnostic(`upgrade and rollback: ${senders.told}`);
    const after = await hooks.connect(t);
    await senders.assertNoneFailed(after);
    assert.match(await hooks.helm('test', 'hooks', '--timeout=120s'), /Phase:\s+Succeeded/);
    await hooks.helm('uninstall', 'hooks', '--wait', '--timeout=120s');
    await within(settleMs, async () => assert.deepEqual(await hooks.pods(), []));
  });

  test('helm test fails when a pod does not serve, and names it', async (t) => {
    // Nobody is at that port.
    const secrets = { 'hooks-database': 'url=postgresql://root@10.95.0.1:1/dev' };
    const hooks = await Hooks.open(t, 'chart-away', 'hooks-headgate', secrets);
    await hooks.helm('install', 'hooks', chartPath, ...values);
    await within(settleMs, async () => {
      const pods = await hooks.pods();
      assert.equal(pods.filter(({ status }) => status.podIP !== undefined).length, 2);
    });
    const args = ['test', 'hooks', '--timeout=150s', '--logs', `--namespace=${hooks.namespace}`];
    const tested = await hooks.kube.try('helm', args);
    assert.notEqual(tested.code, 0);
    assert.match(tested.stderr, /hooks-headgate-test failed/);
    assert.match(tested.stdout, /10\.97\.0\.\d+: 503 .*\n[^]*not ready in time/);
  });
});
