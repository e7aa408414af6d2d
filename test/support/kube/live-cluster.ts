/**
 * A cluster as tests see it that run on the stand-in and on a real one alike: through its API, in a namespace of their
 * own. `HEADGATE_TEST_KUBECONFIG` names a real one (scripts/test-cluster.mjs).
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { performance } from 'node:perf_hooks';
import type { TestContext } from 'node:test';
import { KubeConfig } from '@kubernetes/client-node';
import { parse } from 'yaml';
import { limits } from '../../../src/tables/limits.ts';
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
import type { Observation } from '../../../src/tables/observations.ts';
import { onEnd } from '../cleanup.ts';
import { within } from '../within.ts';
import { quickLimits, startApiServer } from './operators.ts';

const kubeconfig = process.env['HEADGATE_TEST_KUBECONFIG'] ?? '';
export const isReal = kubeconfig !== '';
/** A real cluster has pods to start and to end. */
const ackTimeoutMs = isReal ? 120_000 : 20_000;
const never = new AbortController().signal;
const kinds: readonly Kind[] = [headgates, secrets, leases, ...watchedKinds];
const namespaces: Kind = { apiVersion: 'v1', kind: 'Namespace', plural: 'namespaces' };

export interface RunningOperator {
  readonly operator: Operator;
  readonly said: readonly Observation[];
}

export class LiveCluster {
  readonly namespace: string;
  readonly #cluster: Cluster;

  private constructor(cluster: Cluster, namespace: string) {
    this.#cluster = cluster;
    this.namespace = namespace;
  }

  static async open(t: TestContext): Promise<LiveCluster> {
    if (!isReal) return new LiveCluster(openCluster((await startApiServer(t)).kubeConfig()), 'hooks');
    const config = new KubeConfig();
    config.loadFromFile(kubeconfig);
    const live = new LiveCluster(openCluster(config), `headgate-test-${randomBytes(4).toString('hex')}`);
    await live.#prepare(t);
    return live;
  }

  async #prepare(t: TestContext): Promise<void> {
    const file = new URL('../../../../deploy/operator/crd.yaml', import.meta.url);
    const crd = parse(await readFile(file, 'utf8')) as { metadata: { name: string } };
    const path = `/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${crd.metadata.name}`;
    const query = { fieldManager: 'headgate-test', force: 'true' };
    const contentType = 'application/apply-patch+yaml';
    await this.#cluster.request({ method: 'PATCH', path, query, contentType, body: crd }, never);
    const body = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: this.namespace } };
    await this.#cluster.request({ method: 'POST', path: pathOf(namespaces, null), body }, never);
    onEnd(t, 'namespace', async () => {
      await this.#cluster.request(
        { method: 'DELETE', path: pathOf(namespaces, null, this.namespace) },
        never,
      );
    });
    // The API server serves a new kind a moment after it was told.
    await within(ackTimeoutMs, async () => {
      await this.#cluster.request({ method: 'GET', path: pathOf(headgates, this.namespace) }, never);
    });
    // No Headgate may be left when its namespace goes: nobody would take off its finalizer.
    onEnd(t, 'headgates', async () => {
      for (const { metadata } of await this.#list(headgates)) {
        await this.patch('Headgate', metadata.name, { metadata: { finalizers: null } });
      }
    });
  }

  operator(t: TestContext, identity: string): RunningOperator {
    const said: Observation[] = [];
    const operator = openOperator({
      cluster: this.#cluster,
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

  async patch(kind: string, name: string, body: object): Promise<void> {
    const path = pathOf(kindNamed(kind), this.namespace, name);
    const contentType = 'application/merge-patch+json';
    await this.#cluster.request({ method: 'PATCH', path, contentType, body }, never);
  }

  async remove(kind: string, name: string): Promise<void> {
    await this.#cluster.request(
      { method: 'DELETE', path: pathOf(kindNamed(kind), this.namespace, name) },
      never,
    );
  }

  /** What the operator made, as `Kind name`; a real cluster has more of its own in every namespace. */
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

function kindNamed(name: string): Kind {
  const found = kinds.find(({ kind }) => kind === name);
  if (found === undefined) throw new Error(`no kind ${name}`);
  return found;
}
