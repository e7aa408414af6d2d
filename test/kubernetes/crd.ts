/**
 * The Headgate resource as a real API server keeps it: its rules in CEL, one by one, what the schema refuses beside the stand-in's judgement,
 * what is not known, and its subresources.
 */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { HeadgateSpec } from '../../src/operator/resource.ts';
import { ClusterError } from '../../src/operator/cluster.ts';
import { specMatrix } from '../support/chart.ts';
import { LiveCluster } from '../support/kube/live-cluster.ts';
import { headgateSchema } from '../support/kube/resources.ts';
import { wrongSpecs } from '../support/kube/wrong-specs.ts';

interface Ruled {
  readonly 'x-kubernetes-validations'?: readonly { readonly rule: string; readonly message: string }[];
  readonly properties?: Readonly<Record<string, Ruled>>;
}

/** Every rule of the CRD, as `where: what it says`. */
function rulesOf(schema: Ruled, path: string): string[] {
  const own = (schema['x-kubernetes-validations'] ?? []).map(({ message }) => `${path}: ${message}`);
  const inner = Object.entries(schema.properties ?? {}).flatMap(([name, it]) =>
    rulesOf(it, path === '' ? name : `${path}.${name}`),
  );
  return [...own, ...inner];
}

const databaseUrlSecret = { name: 'database', key: 'url' };
const passwordSecret = { name: 'sql', key: 'password' };
const labels = { 'app.kubernetes.io/instance': 'other' };
const own = { team: 'orders' };

/** A rule, a spec that it takes, and one that it alone refuses. */
const rules: readonly [rule: string, taken: HeadgateSpec, refused: HeadgateSpec][] = [
  ['spec: replicas above 1', { replicas: 2, databaseUrlSecret }, { replicas: 2 }],
  ['spec: autoscaling needs', { autoscaling: {}, databaseUrlSecret }, { autoscaling: {} }],
  ['spec: sql.expose needs', { sql: { expose: true, passwordSecret } }, { sql: { expose: true } }],
  [
    'spec: sql.passwordSecret is',
    { sql: { passwordSecret } },
    { sql: { passwordSecret }, databaseUrlSecret },
  ],
  [
    'spec: autoscaling.minReplicas',
    { autoscaling: { minReplicas: 6 }, databaseUrlSecret },
    { autoscaling: { minReplicas: 7 }, databaseUrlSecret },
  ],
  [
    'spec: ingress needs',
    { ingress: { hosts: ['a.example'] }, enableWebhookListener: true },
    { ingress: { hosts: ['a.example'] } },
  ],
  [
    'spec: httpRoute needs',
    { httpRoute: { parentRefs: [{ name: 'a' }] }, enableWebhookListener: true },
    { httpRoute: { parentRefs: [{ name: 'a' }] } },
  ],
  [
    'spec: nodePorts need',
    { nodePorts: { webhook: 30_080 }, service: { type: 'NodePort' } },
    { nodePorts: { webhook: 30_080 } },
  ],
  ['spec: terminationGracePeriodSeconds', { preStopSeconds: 25 }, { preStopSeconds: 26 }],
  ['spec.ports: ports must differ', { ports: { webhook: 4561, admin: 4560 } }, { ports: { webhook: 4561 } }],
  ['spec.commonLabels: the labels', { commonLabels: own }, { commonLabels: labels }],
  ['spec.podLabels: the labels', { podLabels: own }, { podLabels: labels }],
  [
    'spec.serviceMonitor.labels: the labels',
    { serviceMonitor: { labels: own } },
    { serviceMonitor: { labels } },
  ],
  [
    'spec.extraEnv: extraEnv must not set',
    { extraEnv: [{ name: 'HEADGATE_POOL_MAX', value: '4' }] },
    { extraEnv: [{ name: 'HEADGATE_INSECURE', value: 'true' }] },
  ],
  [
    'spec.extraEnv: extraEnv must not have a name twice',
    { extraEnv: [{ name: 'TZ', value: 'UTC' }] },
    { extraEnv: [{ name: 'TZ' }, { name: 'TZ' }] },
  ],
];
/** Those that are about the name, or about what was there before, are tried by themselves. */
const others = ['a name of at most 50', 'spec.storage: storageClassName cannot be changed'];

const refusedWith = (words: string) => (error: unknown) => {
  assert(error instanceof ClusterError);
  assert.equal(error.status, 422, error.message);
  assert(error.message.includes(words), `${error.message} has: ${words}`);
  return true;
};

suite('a real API server validates Headgate resources', () => {
  test('each rule of the CRD accepts a valid spec and refuses an invalid one with its own message', async (t) => {
    const live = await LiveCluster.open(t);
    const all = rulesOf(headgateSchema as Ruled, '');
    for (const [rule, taken, refused] of rules) {
      const found = all.filter((it) => it.startsWith(rule));
      assert.equal(found.length, 1, rule);
      await live.tried(taken);
      const [place = '', ...words] = (found[0] ?? '').split(': ');
      await assert.rejects(live.tried(refused), refusedWith(words.join(': ')), rule);
      await assert.rejects(live.tried(refused), refusedWith(`${place}: Invalid value`), rule);
    }
    assert.equal(all.length, rules.length + others.length, 'every rule is tried');
  });

  test('a Headgate resource may have a name of 50 characters, and its storage class cannot change', async (t) => {
    const live = await LiveCluster.open(t);
    await live.tried({}, { name: 'a'.repeat(50) });
    await assert.rejects(
      live.tried({}, { name: 'a'.repeat(51) }),
      refusedWith('a name of at most 50 characters'),
    );
    await live.create('hooks', { storage: { size: '1Gi', storageClassName: 'fast' } });
    await live.patch('Headgate', 'hooks', { spec: { storage: { size: '2Gi' } } });
    for (const storageClassName of ['slow', null])
      await assert.rejects(
        live.patch('Headgate', 'hooks', { spec: { storage: { storageClassName } } }),
        refusedWith('storageClassName cannot be changed'),
      );
    // Where none was named, one can be: a volume of the default class is of that class by then.
    await live.create('plain', { storage: { size: '1Gi' } });
    await live.patch('Headgate', 'plain', { spec: { storage: { storageClassName: 'fast' } } });
  });

  test('a real API server accepts and refuses the same specs of Headgate resources as the stand-in', async (t) => {
    const live = await LiveCluster.open(t);
    for (const [name, spec] of specMatrix()) {
      const kept = await live.tried(spec);
      assert.deepEqual(kept['spec'], JSON.parse(JSON.stringify(spec)), name);
    }
    for (const [spec, says] of wrongSpecs) {
      const [, field = ''] = /^(\w+)/.exec(says.source) ?? [];
      await assert.rejects(live.tried(spec), refusedWith(`spec.`), field);
    }
  });

  test('an unknown field of a Headgate resource is refused by strict validation and dropped without it', async (t) => {
    const live = await LiveCluster.open(t);
    const spec = { enableWebhookListner: true, ports: { smtp: 25 } } as HeadgateSpec;
    await assert.rejects(live.tried(spec, { validation: 'Strict' }), (error) => {
      assert(error instanceof ClusterError);
      assert.equal(error.status, 400);
      assert.match(
        error.message,
        /unknown field "spec\.enableWebhookListner".*unknown field "spec\.ports\.smtp"/,
      );
      return true;
    });
    assert.deepEqual((await live.tried(spec))['spec'], { ports: {} });
  });

  test('a Headgate resource has status and scale subresources', async (t) => {
    const live = await LiveCluster.open(t);
    await live.create('hooks', { replicas: 3, databaseUrlSecret });
    await live.patch('Headgate', 'hooks', { status: { readyReplicas: 3 } });
    assert.equal((await live.get('Headgate', 'hooks'))?.['status'], undefined);
    await live.patch('Headgate', 'hooks/status', { status: { readyReplicas: 3 }, spec: { replicas: 5 } });
    const kept = await live.get('Headgate', 'hooks');
    assert.deepEqual(kept?.['spec'], { replicas: 3, databaseUrlSecret });
    assert.deepEqual([kept['status'], kept.metadata.generation], [{ readyReplicas: 3 }, 1]);
    await live.patch('Headgate', 'hooks/scale', { spec: { replicas: 4 } });
    assert.deepEqual((await live.get('Headgate', 'hooks'))?.['spec'], { replicas: 4, databaseUrlSecret });
    // The rules hold there, too.
    await live.create('one', {});
    await assert.rejects(live.patch('Headgate', 'one/scale', { spec: { replicas: 2 } }), (error) => {
      assert(error instanceof ClusterError);
      assert.match(error.message, /replicas above 1 needs databaseUrlSecret/);
      return true;
    });
  });
});
