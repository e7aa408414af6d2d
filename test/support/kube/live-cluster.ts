/**
 * A cluster for tests that run on both the stand-in and a real one: through its API, in a namespace of their own.
 * `HEADGATE_TEST_KUBECONFIG` names a real one (scripts/test-cluster.ts). There the namespace accepts only `restricted` pods, and the
 * operator is a service account with the rights of deploy/operator/rbac.yaml, in this namespace only.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { performance } from 'node:perf_hooks';
import type { TestContext } from 'node:test';
import { KubeConfig } from '@kubernetes/client-node';
import { limits } from '../../../src/config/limits.ts';
import { isStatus, openCluster } from '../../../src/operator/cluster.ts';
import type { Cluster } from '../../../src/operator/cluster.ts';
import {
  claims,
  deployments,
  headgates,
  leases,
  pathOf,
  secrets,
  statefulSets,
  watchedKinds,
} from '../../../src/operator/kinds.ts';
import type { ClusterObject, Kind } from '../../../src/operator/kinds.ts';
import { openOperator } from '../../../src/operator/operator.ts';
import type { Operator } from '../../../src/operator/operator.ts';
import type { HeadgateResource, HeadgateSpec } from '../../../src/operator/resource.ts';
import type { Observation } from '../../../src/observe/observations.ts';
import { manifestsIn } from '../chart.ts';
import { onEnd } from '../cleanup.ts';
import { within } from '../within.ts';
import { quickLimits, startApiServer } from './operators.ts';

const kubeconfig = process.env['HEADGATE_TEST_KUBECONFIG'] ?? '';
export const isReal = kubeconfig !== '';
/** A real cluster has to start and end pods. */
const ackTimeoutMs = isReal ? 120_000 : 20_000;
const never = new AbortController().signal;
const namespaces: Kind = { apiVersion: 'v1', kind: 'Namespace', plural: 'namespaces' };
const rights: readonly Kind[] = ['Role', 'RoleBinding'].map((kind) => ({
  apiVersion: 'rbac.authorization.k8s.io/v1',
  kind,
  plural: `${kind.toLowerCase()}s`,
}));
const kinds: readonly Kind[] = [headgates, secrets, leases, ...rights, ...watchedKinds];

export interface RunningOperator {
  readonly operator: Operator;
  readonly said: readonly Observation[];
}

export class LiveCluster {
  readonly namespace: string;
  readonly #cluster: Cluster;
  /** With the rights of the operator's account. */
  #operators: Cluster;

  private constructor(cluster: Cluster, namespace: string) {
    this.#cluster = cluster;
    this.#operators = cluster;
    this.namespace = namespace;
  }

  static async open(t: TestContext): Promise<LiveCluster> {
    if (!isReal) return new LiveCluster(openCluster((await startApiServer(t)).kubeConfig()), 'hooks');
    const config = new KubeConfig();
    config.loadFromFile(kubeconfig);
    const live = new LiveCluster(openCluster(config), `headgate-test-${randomBytes(4).toString('hex')}`);
    await live.#prepare(t);
    live.#operators = openCluster(await live.#asOperator(config));
    return live;
  }

  async #prepare(t: TestContext): Promise<void> {
    for (const crd of await shipped('crd.yaml')) {
      const path = `/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${crd.metadata.name}`;
      const query = { fieldManager: 'headgate-test', force: 'true' };
      const contentType = 'application/apply-patch+yaml';
      await this.#cluster.request({ method: 'PATCH', path, query, contentType, body: crd }, never);
    }
    const labels = { 'pod-security.kubernetes.io/enforce': 'restricted' };
    const body = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: this.namespace, labels } };
    await this.#cluster.request({ method: 'POST', path: pathOf(namespaces, null), body }, never);
    onEnd(t, 'namespace', async () => {
      await this.#cluster.request(
        { method: 'DELETE', path: pathOf(namespaces, null, this.namespace) },
        never,
      );
    });
    // The API server serves a new kind only after a moment.
    await within(ackTimeoutMs, async () => {
      await this.#cluster.request({ method: 'GET', path: pathOf(headgates, this.namespace) }, never);
    });
    // No Headgate may remain when its namespace is deleted: nothing would remove its finalizer.
    onEnd(t, 'headgates', async () => {
      for (const { metadata } of await this.#list(headgates)) {
        await this.patch('Headgate', metadata.name, { metadata: { finalizers: null } });
      }
    });
  }

  /** The account of rbac.yaml and its rights: cluster-wide rights become rights in this namespace. */
  async #asOperator(config: KubeConfig): Promise<KubeConfig> {
    const account = 'headgate-operator';
    for (const { kind, ...object } of await shipped('rbac.yaml')) {
      const name = kind.startsWith('Cluster') ? `${account}-everywhere` : account;
      const { roleRef, subjects } = object as { roleRef?: object; subjects?: readonly object[] };
      const body = {
        ...object,
        kind: kind.replace('Cluster', ''),
        metadata: { name },
        ...(roleRef !== undefined && { roleRef: { ...roleRef, kind: 'Role', name } }),
        ...(subjects !== undefined && {
          subjects: subjects.map((it) => ({ ...it, namespace: this.namespace })),
        }),
      };
      await this.#cluster.request(
        { method: 'POST', path: pathOf(kindNamed(body.kind), this.namespace), body },
        never,
      );
    }
    const asked = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: {} };
    const path = `${pathOf(kindNamed('ServiceAccount'), this.namespace, account)}/token`;
    const answer = await this.#cluster.request({ method: 'POST', path, body: asked }, never);
    const { token } = answer['status'] as { token: string };
    const cluster = config.getCurrentCluster();
    assert(cluster !== null);
    const made = new KubeConfig();
    made.loadFromClusterAndUser(cluster, { name: account, token });
    return made;
  }

  operator(t: TestContext, identity: string): RunningOperator {
    const said: Observation[] = [];
    const operator = openOperator({
      cluster: this.#operators,
      identity,
      leaseNamespace: this.namespace,
      namespace: this.namespace,
      image: 'headgate.invalid/headgate:test',
      observe: (observation) => void said.push(observation),
      clock: () => performance.now(),
      now: Date.now,
      random: Math.random,
      randomBytes,
      limits: isReal ? limits : quickLimits,
    });
    onEnd(t, identity, () => operator.close());
    return { operator, said };
  }

  async create(name: string, spec: HeadgateSpec): Promise<void> {
    await this.make('Headgate', name, { spec });
  }

  /** What would be stored; nothing is. */
  async tried(
    spec: object,
    { name = 'tried', validation = 'Ignore' }: { name?: string; validation?: 'Ignore' | 'Strict' } = {},
  ): Promise<ClusterObject> {
    const body = { apiVersion: headgates.apiVersion, kind: headgates.kind, metadata: { name }, spec };
    const query = { dryRun: 'All', fieldValidation: validation };
    const path = pathOf(headgates, this.namespace);
    return (await this.#cluster.request({ method: 'POST', path, query, body }, never)) as ClusterObject;
  }

  async make(kind: string, name: string, more: object): Promise<void> {
    const of = kindNamed(kind);
    const body = { apiVersion: of.apiVersion, kind, metadata: { name }, ...more };
    await this.#cluster.request({ method: 'POST', path: pathOf(of, this.namespace), body }, never);
  }

  async get(kind: string, name: string): Promise<ClusterObject | null> {
    try {
      const path = pathOf(kindNamed(kind), this.namespace, name);
      return (await this.#cluster.request({ method: 'GET', path }, never)) as ClusterObject;
    } catch (error) {
      if (isStatus(error, 404)) return null;
      throw error;
    }
  }

  /** `name` may include a subresource: `hooks/status`. */
  async patch(kind: string, name: string, body: object): Promise<void> {
    const path = `${pathOf(kindNamed(kind), this.namespace)}/${name}`;
    const contentType = 'application/merge-patch+json';
    await this.#cluster.request({ method: 'PATCH', path, contentType, body }, never);
  }

  async remove(kind: string, name: string): Promise<void> {
    await this.#cluster.request(
      { method: 'DELETE', path: pathOf(kindNamed(kind), this.namespace, name) },
      never,
    );
  }

  /** What the operator created, as `Kind name`; a real cluster has additional objects in every namespace. */
  async names(instance: string): Promise<string[]> {
    const names: string[] = [];
    for (const kind of [...watchedKinds, claims, deployments, statefulSets]) {
      for (const { metadata } of await this.#list(kind)) {
        if (metadata.labels?.['app.kubernetes.io/instance'] === instance)
          names.push(`${kind.kind} ${metadata.name}`);
      }
    }
    return [...new Set(names)].toSorted();
  }

  async condition(name: string, type: string): Promise<string> {
    const { status } = ((await this.get('Headgate', name)) ?? {}) as Partial<HeadgateResource>;
    const found = status?.conditions?.find((it) => it.type === type);
    return found === undefined ? 'none' : `${found.status} ${found.reason}`;
  }

  until(check: () => Promise<void>): Promise<void> {
    return within(ackTimeoutMs, check);
  }

  async isGone(kind: string, name: string): Promise<void> {
    await this.until(async () => assert.equal(await this.get(kind, name), null));
  }

  async #list(kind: Kind): Promise<readonly ClusterObject[]> {
    const answer = await this.#cluster.request({ method: 'GET', path: pathOf(kind, this.namespace) }, never);
    return (answer as unknown as { items: readonly ClusterObject[] }).items;
  }
}

const shipped = async (name: string) =>
  manifestsIn(await readFile(new URL(`../../../../deploy/operator/${name}`, import.meta.url), 'utf8'));

function kindNamed(name: string): Kind {
  const found = kinds.find(({ kind }) => kind === name);
  if (found === undefined) throw new Error(`no kind ${name}`);
  return found;
}
