/** Operators on a stand-in, as tests start them: with short leases, and with all their observations recorded. */
import { randomBytes } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import type { TestContext } from 'node:test';
import { limits } from '../../../src/config/limits.ts';
import type { Limits } from '../../../src/config/limits.ts';
import type { Observation } from '../../../src/observe/observations.ts';
import { openCluster } from '../../../src/operator/cluster.ts';
import { openOperator } from '../../../src/operator/operator.ts';
import type { Operator } from '../../../src/operator/operator.ts';
import type { HeadgateSpec, HeadgateStatus } from '../../../src/operator/resource.ts';
import { onEnd } from '../cleanup.ts';
import { ApiServer } from './api-server.ts';
import type { Stored } from './store.ts';

/** A short lease: tests check which operator takes over, not how soon. */
export const quickLimits: Limits = {
  ...limits,
  operatorLeaseSeconds: 3,
  operatorRenewDeadlineMs: 2_000,
  operatorLeaseRetryMs: 50,
  operatorBackoffMinMs: 10,
  operatorBackoffMaxMs: 200,
};

export interface TestOperator {
  readonly operator: Operator;
  readonly said: Observation[];
  /** Resolves with the operator's next observation of this kind. */
  readonly says: (kind: Observation['kind']) => Promise<Observation>;
}

export async function startApiServer(t: TestContext, beside?: ApiServer): Promise<ApiServer> {
  const server = await new ApiServer(beside?.store).open();
  onEnd(t, 'API server', () => server.close());
  return server;
}

export function startOperator(
  t: TestContext,
  server: ApiServer,
  options: { identity?: string; limits?: Limits; image?: string | null; namespace?: string | null } = {},
): TestOperator {
  const said: Observation[] = [];
  const waiting = new Set<(observation: Observation) => void>();
  const operator = openOperator({
    cluster: openCluster(server.kubeConfig()),
    identity: options.identity ?? 'operator-0',
    leaseNamespace: 'headgate-operator',
    namespace: options.namespace ?? null,
    image: options.image === undefined ? 'headgate:test' : options.image,
    observe: (observation) => {
      said.push(observation);
      for (const look of waiting) look(observation);
    },
    clock: () => performance.now(),
    now: Date.now,
    random: Math.random,
    randomBytes,
    limits: options.limits ?? quickLimits,
  });
  onEnd(t, 'operator', () => operator.close());
  const says = (kind: Observation['kind']) =>
    new Promise<Observation>((resolve) => {
      const look = (observation: Observation) => {
        if (observation.kind !== kind) return;
        waiting.delete(look);
        resolve(observation);
      };
      waiting.add(look);
    });
  return { operator, said, says };
}

export function createHeadgate(server: ApiServer, name: string, spec: HeadgateSpec): Stored {
  const { resource } = server.where('Headgate', name);
  return server.store.create(
    resource,
    'hooks',
    { metadata: { name, namespace: 'hooks' }, spec: spec as never },
    'kubectl',
  );
}

/** Like `kubectl patch --type=merge`. */
export function changeHeadgate(server: ApiServer, name: string, spec: object): Stored {
  return server.store.patch(server.where('Headgate', name), { spec: spec as never }, 'kubectl', null);
}

export const specIn = (server: ApiServer, kind: string, name: string) =>
  server.store.get(server.where(kind, name))['spec'] as Readonly<Record<string, unknown>>;

export const statusOf = (server: ApiServer, name: string) =>
  (server.object('Headgate', name)?.['status'] ?? {}) as unknown as Partial<HeadgateStatus>;

export function condition(server: ApiServer, name: string, type: string): string {
  const found = statusOf(server, name).conditions?.find((it) => it.type === type);
  return found === undefined ? 'none' : `${found.status} ${found.reason}`;
}

/** Writes what the workload's controller does when every pod is up. */
export function settle(
  server: ApiServer,
  kind: 'Deployment' | 'StatefulSet',
  name: string,
  ready?: number,
): void {
  const object = server.object(kind, name);
  if (object === null) throw new Error(`no ${kind} ${name}`);
  const replicas = (object['spec'] as { replicas?: number }).replicas ?? 1;
  const status = {
    observedGeneration: object.metadata.generation,
    replicas,
    updatedReplicas: replicas,
    readyReplicas: ready ?? replicas,
  };
  server.store.patch(server.where(kind, name), { status }, 'kube-controller-manager', 'status');
}

/**
 * Resolves once `check` passes, repeating it only at changes of the cluster; rejects with its last error if there is no
 * such change for a long time.
 */
export function eventually(server: ApiServer, check: () => void, ackTimeoutMs = 20_000): Promise<void> {
  return new Promise((resolve, reject) => {
    let last: unknown = null;
    const look = () => {
      try {
        check();
      } catch (error) {
        last = error;
        return;
      }
      end();
      resolve();
    };
    const timer = setTimeout(() => {
      end();
      reject(last as Error);
    }, ackTimeoutMs);
    // After the change is complete: a listener runs in the middle of the write.
    const unlisten = server.store.listen(() => setImmediate(look));
    const end = () => {
      clearTimeout(timer);
      unlisten();
    };
    look();
  });
}
