/**
 * `headgate operator`, put together: the cluster, the operator, and an admin port for its probes. Takes Settings, gives
 * something that can be stopped; throws StartError with one line when there is no cluster to look after.
 */
import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import { performance } from 'node:perf_hooks';
import { KubeConfig } from '@kubernetes/client-node';
import { openAdmin } from './admin/admin.ts';
import { createMetrics } from './admin/metrics.ts';
import { Closer } from './kit/closer.ts';
import { refuseOpenDoors, StartError } from './main.ts';
import { observers } from './observations.ts';
import type { Observe } from './observations.ts';
import { openCluster } from './operator/cluster.ts';
import { openOperator } from './operator/operator.ts';
import type { Settings } from './settings.ts';

export interface RunningOperator {
  /** Ends its term, gives up its lease, closes; calling it again changes nothing. */
  stop(reason: string): Promise<void>;
}

export async function startOperator(settings: Settings, log: Observe): Promise<RunningOperator> {
  refuseOpenDoors(settings);
  const config = kubeConfig();
  const metrics = createMetrics({ lanes: () => [], load: () => ({ connections: 0, bytesInFlight: 0 }) });
  const observe = observers(log, metrics.observe);
  const closer = new Closer();
  const operator = openOperator({
    cluster: openCluster(config),
    identity: settings.operatorIdentity ?? hostname(),
    leaseNamespace: config.getContextObject(config.getCurrentContext())?.namespace ?? 'default',
    namespace: settings.operatorNamespace,
    image: settings.operatorImage,
    observe,
    clock: () => performance.now(),
    now: Date.now,
    random: Math.random,
    randomBytes,
  });
  closer.add('operator', () => operator.close());
  try {
    const admin = await openAdmin({
      host: settings.adminHost,
      port: settings.adminPort,
      health: () => ({ operator: 'headgate' }),
      ready: () => operator.unavailable,
      metrics,
    });
    closer.add('admin port', () => admin.close());
    observe({ kind: 'door.opened', door: 'admin', address: `${admin.address.host}:${admin.address.port}` });
  } catch (error) {
    await closer.close();
    throw error;
  }
  observe({ kind: 'service.ready' });
  const stop = async (reason: string) => {
    observe({ kind: 'service.draining', reason });
    await closer.close();
    observe({ kind: 'service.stopped' });
  };
  let stopping: Promise<void> | null = null;
  return { stop: (reason) => (stopping ??= stop(reason)) };
}

/** From KUBECONFIG, ~/.kube/config, or the service account of the pod. */
function kubeConfig(): KubeConfig {
  const config = new KubeConfig();
  try {
    config.loadFromDefault();
  } catch (cause) {
    throw new StartError(`the Kubernetes configuration cannot be read: ${(cause as Error).message}`, {
      cause,
    });
  }
  // What the client library falls back to; no cluster has been served there for years.
  const server = config.getCurrentCluster()?.server ?? 'http://localhost:8080';
  if (server === 'http://localhost:8080') {
    throw new StartError('no Kubernetes cluster: set KUBECONFIG, or run in a pod with a service account');
  }
  return config;
}
