/** What goes wrong around the operator: it is killed, answers are lost, watches break, others write, names are taken. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { suite, test } from 'node:test';
import { parseAllDocuments } from 'yaml';
import { limits } from '../../src/config/limits.ts';
import { seededRandom } from '../support/random.ts';
import { sampleOf, times } from '../support/sample.ts';
import type { Fault, Rule } from '../support/kube/api-server.ts';
import {
  changeHeadgate,
  condition,
  createHeadgate,
  eventually,
  quickLimits,
  settle,
  specIn,
  startApiServer,
  startOperator,
  statusOf,
} from '../support/kube/operators.ts';
import { managedLabels, selectorOf } from '../../src/operator/kinds.ts';
import type { HeadgateSpec } from '../../src/operator/resource.ts';

const whole = [
  'Headgate hooks',
  'NetworkPolicy hooks',
  'PersistentVolumeClaim hooks-data',
  'Secret hooks-master-key',
  'Service hooks',
  'Service hooks-admin',
  'ServiceAccount hooks',
  'StatefulSet hooks',
];
const spec: HeadgateSpec = { enableWebhookListener: true };
const steps = 40;
/** Every fourth one of its writes, from another one on in each run. */
const every = times(4, 1);
const [first = 0] = sampleOf([0, 1, 2, 3].slice(0, every), 1);

suite('the operator completes its work despite faults', () => {
  for (const lost of ['lost before', 'lost after'] as const) {
    test(`an operator killed at any write (${lost} it takes effect) is succeeded by one that completes the state`, async (t) => {
      for (let step = first; step < steps; step += every) {
        const server = await startApiServer(t);
        createHeadgate(server, 'hooks', spec);
        let writes = 0;
        let killed = () => {};
        const reached = new Promise<boolean>((resolve) => {
          killed = () => resolve(true);
          server.fault = ({ verb, resource }): Fault => {
            if (['get', 'list', 'watch'].includes(verb) || resource.kind === 'Lease') return null;
            if (writes++ < step) return null;
            killed();
            // Nothing of it gets through any more, as if its machine had lost power.
            return lost;
          };
        });
        const first = startOperator(t, server, { identity: `first-${step}` });
        const done = eventually(server, () =>
          assert.equal(condition(server, 'hooks', 'Ready'), 'False NoPodReady'),
        );
        const isKilled = await Promise.race([reached, done.then(() => false)]);
        const closed = first.operator.close();
        await Promise.allSettled([closed, isKilled ? null : done]);
        server.fault = () => null;
        const second = startOperator(t, server, { identity: `second-${step}` });
        await eventually(server, () => {
          assert.deepEqual(server.names(), whole);
          assert.equal(condition(server, 'hooks', 'Ready'), 'False NoPodReady');
          assert.equal(statusOf(server, 'hooks').generatedMasterKeySecret, 'hooks-master-key');
        });
        await second.operator.close();
        done.catch(() => {});
        await server.close();
        // Every write was the one it died at; from here on it is not killed at all.
        if (!isKilled) return assert(step >= 10, `${step} writes`);
      }
      assert.fail('the work never ends');
    });
  }

  test('the operator reaches the wanted state although many of its requests are lost or refused', async (t) => {
    const server = await startApiServer(t);
    const faults: Fault[] = [
      'lost before',
      'lost after',
      { status: 500, reason: 'InternalError' },
      { status: 429, reason: 'TooManyRequests' },
      { status: 409, reason: 'Conflict' },
      { status: 503, reason: 'ServiceUnavailable' },
    ];
    const { seed, random } = seededRandom();
    t.diagnostic(`seed ${seed}`);
    server.fault = ({ resource }) =>
      resource.kind === 'Lease' || random() > 1 / 3
        ? null
        : (faults[Math.floor(random() * faults.length)] ?? null);
    const { operator } = startOperator(t, server);
    createHeadgate(server, 'hooks', spec);
    await eventually(server, () => assert.deepEqual(server.names(), whole));
    changeHeadgate(server, 'hooks', { ports: { webhook: 14560 }, logLevel: 'warn' });
    await eventually(server, () => {
      assert.match(JSON.stringify(server.object('Service', 'hooks')), /14560/);
      assert.match(JSON.stringify(server.object('StatefulSet', 'hooks')), /"warn"/);
    });
    assert.equal(operator.unavailable, null);
  });

  test('the operator misses no change while its watches break or expire (410)', async (t) => {
    const server = await startApiServer(t);
    startOperator(t, server);
    createHeadgate(server, 'hooks', spec);
    await eventually(server, () => assert.match(condition(server, 'hooks', 'Ready'), /^False/));
    for (const [round, isCompacted] of [false, true, false, true].entries()) {
      // While nobody watches, something changes, and perhaps its history is forgotten.
      server.fault = ({ verb }) => (verb === 'watch' ? 'lost before' : null);
      server.dropWatches();
      changeHeadgate(server, 'hooks', { podLabels: { round: String(round) } });
      server.store.remove(server.where('ServiceAccount', 'hooks'));
      if (isCompacted) server.store.compact();
      server.fault = () => null;
      await eventually(server, () => {
        assert.match(JSON.stringify(server.object('StatefulSet', 'hooks')), new RegExp(`"round":"${round}"`));
        assert(server.object('ServiceAccount', 'hooks') !== null);
      });
    }
  });

  test('the operator deploys each Headgate when they do not fit in one list page', async (t) => {
    const server = await startApiServer(t);
    const names = Array.from({ length: 7 }, (_, i) => `h${i}`);
    for (const name of names) createHeadgate(server, name, {});
    startOperator(t, server, { limits: { ...quickLimits, operatorListPageMax: 3 } });
    await eventually(server, () => {
      for (const name of names) assert.equal(condition(server, name, 'Degraded'), 'False AsAskedFor', name);
    });
    const pages = server.asked.filter((it) => it.verb === 'list' && it.resource.kind === 'Headgate');
    assert.equal(pages.length, 3);
  });

  test('the operator keeps a change of finalizers made between its reading and its writing', async (t) => {
    const server = await startApiServer(t);
    let changes = 0;
    server.fault = ({ verb, resource, subresource }) => {
      if (verb === 'patch' && resource.kind === 'Headgate' && subresource === null && changes++ === 0) {
        const where = server.where('Headgate', 'hooks');
        server.store.patch(where, { metadata: { finalizers: ['example.com/mine'] } }, 'somebody', null);
      }
      return null;
    };
    startOperator(t, server);
    createHeadgate(server, 'hooks', spec);
    await eventually(server, () =>
      assert.deepEqual(server.object('Headgate', 'hooks')?.metadata['finalizers'], [
        'example.com/mine',
        'headgate.dev/deletion',
      ]),
    );
  });

  test('the operator reports NameTaken for a foreign Service of the same name and leaves it alone until it is gone', async (t) => {
    const server = await startApiServer(t);
    const { resource } = server.where('Service', 'hooks');
    const theirs = { metadata: { name: 'hooks', namespace: 'hooks' }, spec: { type: 'ExternalName' } };
    server.store.create(resource, 'hooks', theirs, 'somebody');
    startOperator(t, server);
    createHeadgate(server, 'hooks', spec);
    await eventually(server, () => assert.equal(condition(server, 'hooks', 'Degraded'), 'True NameTaken'));
    assert.equal(specIn(server, 'Service', 'hooks')['type'], 'ExternalName');
    assert.equal(server.object('StatefulSet', 'hooks'), null);
    server.store.remove(server.where('Service', 'hooks'));
    await eventually(server, () => assert.deepEqual(server.names(), whole));
  });

  test('the operator reports an object that the API server refuses, and applies the others', async (t) => {
    const server = await startApiServer(t);
    startOperator(t, server);
    createHeadgate(server, 'hooks', { ...spec, storage: { size: '50Gi' } });
    await eventually(server, () => assert.deepEqual(server.names(), whole));
    changeHeadgate(server, 'hooks', { storage: { size: '10Gi' }, ports: { webhook: 14560 } });
    await eventually(server, () => {
      assert.equal(condition(server, 'hooks', 'Degraded'), 'True Refused');
      assert.match(JSON.stringify(server.object('Service', 'hooks')), /14560/);
    });
    const told = statusOf(server, 'hooks').conditions?.find((it) => it.type === 'Degraded')?.message ?? '';
    assert.match(told, /PersistentVolumeClaim hooks-data.*less than previous/);
    changeHeadgate(server, 'hooks', { storage: { size: '100Gi' } });
    await eventually(server, () => {
      assert.equal(condition(server, 'hooks', 'Degraded'), 'False AsAskedFor');
      assert.match(JSON.stringify(server.object('PersistentVolumeClaim', 'hooks-data')), /100Gi/);
    });
  });

  test('the operator reports an invalid spec and deploys nothing for it, and changes nothing while paused', async (t) => {
    const server = await startApiServer(t);
    startOperator(t, server, { image: null });
    createHeadgate(server, 'hooks', { ...spec, replicas: 2 });
    await eventually(server, () => assert.equal(condition(server, 'hooks', 'Degraded'), 'True InvalidSpec'));
    const message = () => statusOf(server, 'hooks').conditions?.find((it) => it.type === 'Degraded')?.message;
    assert.match(message() ?? '', /replicas above 1 needs.*spec\.image is needed/);
    assert.deepEqual(server.names(), ['Headgate hooks']);
    changeHeadgate(server, 'hooks', { replicas: 1, image: 'a:1' });
    await eventually(server, () => assert.deepEqual(server.names(), whole));
    changeHeadgate(server, 'hooks', { paused: true, logLevel: 'error' });
    await eventually(server, () => assert.equal(condition(server, 'hooks', 'Progressing'), 'False Paused'));
    server.store.remove(server.where('Service', 'hooks'));
    settle(server, 'StatefulSet', 'hooks');
    await eventually(server, () => assert.equal(condition(server, 'hooks', 'Ready'), 'True PodsReady'));
    assert.equal(server.object('Service', 'hooks'), null);
    assert.doesNotMatch(JSON.stringify(server.object('StatefulSet', 'hooks')), /"error"/);
    changeHeadgate(server, 'hooks', { paused: false });
    await eventually(server, () => {
      assert.deepEqual(server.names(), whole);
      assert.match(JSON.stringify(server.object('StatefulSet', 'hooks')), /"error"/);
    });
  });

  test('the objects of a deleted Headgate resource go, its volume and key stay for a new one of the same name', async (t) => {
    const server = await startApiServer(t);
    startOperator(t, server);
    createHeadgate(server, 'hooks', spec);
    await eventually(server, () => assert.deepEqual(server.names(), whole));
    const claim = server.object('PersistentVolumeClaim', 'hooks-data')?.metadata.uid;
    const key = server.object('Secret', 'hooks-master-key');
    server.store.remove(server.where('Headgate', 'hooks'));
    await eventually(server, () =>
      assert.deepEqual(server.names(), ['PersistentVolumeClaim hooks-data', 'Secret hooks-master-key']),
    );
    createHeadgate(server, 'hooks', spec);
    await eventually(server, () => assert.deepEqual(server.names(), whole));
    assert.equal(server.object('PersistentVolumeClaim', 'hooks-data')?.metadata.uid, claim);
    assert.deepEqual(server.object('Secret', 'hooks-master-key'), key);
  });

  test('a paused Headgate resource with deleteWithResource leaves nothing when it is deleted', async (t) => {
    const server = await startApiServer(t);
    startOperator(t, server);
    createHeadgate(server, 'hooks', { ...spec, storage: { deleteWithResource: true } });
    await eventually(server, () => assert.deepEqual(server.names(), whole));
    changeHeadgate(server, 'hooks', { paused: true });
    server.store.remove(server.where('Headgate', 'hooks'));
    await eventually(server, () => assert.deepEqual(server.names(), []));
  });

  test('a PersistentVolumeClaim of somebody else is not deleted with a Headgate resource', async (t) => {
    const server = await startApiServer(t);
    startOperator(t, server);
    createHeadgate(server, 'hooks', {
      ...spec,
      storage: { deleteWithResource: true, existingClaim: 'mine' },
    });
    await eventually(server, () => assert(server.object('StatefulSet', 'hooks') !== null));
    for (const name of ['mine', 'hooks-data']) {
      const { resource } = server.where('PersistentVolumeClaim', name);
      server.store.create(
        resource,
        'hooks',
        { metadata: { name, namespace: 'hooks' }, spec: {} },
        'somebody',
      );
    }
    server.store.remove(server.where('Headgate', 'hooks'));
    await eventually(server, () =>
      assert.deepEqual(server.names(), ['PersistentVolumeClaim hooks-data', 'PersistentVolumeClaim mine']),
    );
  });

  test('the operator works with exactly its ClusterRole and uses every right of it', async (t) => {
    const server = await startApiServer(t);
    const file = readFileSync(new URL('../../../deploy/operator/rbac.yaml', import.meta.url), 'utf8');
    const roles = parseAllDocuments(file).map((it) => it.toJS() as { kind: string; rules?: Rule[] });
    server.rules = roles.flatMap((it) => it.rules ?? []);
    const { said } = startOperator(t, server);
    const { resource } = server.where('Secret', 'db');
    server.store.create(
      resource,
      'hooks',
      { metadata: { name: 'db', namespace: 'hooks' }, data: { url: 'eA==' } },
      'me',
    );
    createHeadgate(server, 'hooks', { ...spec, storage: { deleteWithResource: true } });
    const everything: HeadgateSpec = {
      databaseUrlSecret: { name: 'db', key: 'url' },
      autoscaling: {},
      ingress: { hosts: ['hooks.example'] },
      httpRoute: { parentRefs: [{ name: 'outside' }] },
      commonLabels: { team: 'orders' },
      serviceMonitor: { enabled: true },
      gateway: { enabled: true },
    };
    await eventually(server, () => assert.deepEqual(server.names(), [...whole, 'Secret db'].toSorted()));
    changeHeadgate(server, 'hooks', everything);
    await eventually(server, () => {
      assert(
        server.object('ServiceMonitor', 'hooks') !== null && server.object('Deployment', 'hooks') !== null,
      );
      assert(server.object('HTTPRoute', 'hooks') !== null);
      const { labels } = (server.object('Secret', 'hooks-gateway')?.metadata ?? {}) as { labels?: object };
      assert.deepEqual(labels, { ...selectorOf('hooks'), ...managedLabels, team: 'orders' });
    });
    settle(server, 'Deployment', 'hooks');
    await eventually(server, () => assert.equal(server.object('StatefulSet', 'hooks'), null));
    const nothing = Object.fromEntries(Object.keys(everything).map((name) => [name, null]));
    changeHeadgate(server, 'hooks', {
      ...nothing,
      enableWebhookListener: false,
      networkPolicy: { enabled: false },
    });
    await eventually(server, () => assert.equal(server.object('ServiceMonitor', 'hooks'), null));
    await eventually(server, () => assert.equal(server.object('HTTPRoute', 'hooks'), null));
    await eventually(server, () => assert(server.object('StatefulSet', 'hooks') !== null));
    settle(server, 'StatefulSet', 'hooks');
    await eventually(server, () => assert.equal(server.object('Deployment', 'hooks'), null));
    server.store.remove(server.where('Headgate', 'hooks'));
    await eventually(server, () => assert.deepEqual(server.names(), ['Secret db']));
    assert.deepEqual(
      said.filter((it) => /failed/.test(it.kind)),
      [],
    );
    const granted = server.rules.flatMap((rule) =>
      rule.resources.flatMap((plural) => rule.verbs.map((verb) => `${verb} ${rule.apiGroups[0]}/${plural}`)),
    );
    // That one is asked for by an API server's admission, not by a request of ours.
    assert.deepEqual(
      granted.filter((it) => !server.used.has(it)),
      ['update headgate.dev/headgates/finalizers'],
    );
  });

  test("the operator's deadline and retries to renew its lease fit into the lease's duration", () => {
    const { operatorLeaseSeconds, operatorRenewDeadlineMs, operatorLeaseRetryMs } = limits;
    assert(operatorRenewDeadlineMs + 2 * operatorLeaseRetryMs < operatorLeaseSeconds * 1_000);
  });
});
