/**
 * Assembles `headgate operator`: the cluster, the operator, and an admin port for its probes. Takes Settings, returns
 * something that can be stopped; throws StartError with one line if there is no cluster to manage.
 */
import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import type { KubeConfig } from '@kubernetes/client-node';
import { openAdmin } from '../admin/admin.ts';
import { createMetrics } from '../admin/metrics.ts';
import { Closer } from '../kit/closer.ts';
import { openDoors } from '../host/check-settings.ts';
import { refuse, StartError } from './start.ts';
import { stopService } from './service.ts';
import type { Stopped } from './service.ts';
import { monotonicMs, observers } from '../observe/context.ts';
import type { Observe } from '../observe/observations.ts';
import { openCluster } from '../operator/cluster.ts';
import { openOperator } from '../operator/operator.ts';
import type { Settings } from '../config/settings.ts';

export interface RunningOperator {
  /** Ends its term, releases its lease, closes; calling it again has no effect. */
  stop(reason: string): Promise<Stopped>;
}

export async function startOperator(settings: Settings, log: Observe): Promise<RunningOperator> {
  await refuse(openDoors(settings));
  const config = await kubeConfig();
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
    clock: monotonicMs,
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
  const stop = (reason: string) => {
    observe({ kind: 'service.draining', reason });
    return stopService({ drain: [], closer, observe });
  };
  let stopping: Promise<Stopped> | null = null;
  return { stop: (reason) => (stopping ??= stop(reason)) };
}

/** The client is four times Headgate's size and only this command needs it, so users of the command install it. */
async function kubernetesClient(): Promise<{ readonly KubeConfig: new () => KubeConfig }> {
  try {
    return await import('@kubernetes/client-node');
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw cause;
    throw new StartError(
      'the operator needs the Kubernetes client: npm install @kubernetes/client-node next to headgate (the container image includes it)',
      { cause },
    );
  }
}

/** From KUBECONFIG, ~/.kube/config, or the service account of the pod. */
async function kubeConfig(): Promise<KubeConfig> {
  const client = await kubernetesClient();
  const config = new client.KubeConfig();
  try {
    config.loadFromDefault();
  } catch (cause) {
    throw new StartError(`the Kubernetes configuration cannot be read: ${(cause as Error).message}`, {
      cause,
    });
  }
  // The default of the client library; no cluster has been served there for years.
  const server = config.getCurrentCluster()?.server ?? 'http://localhost:8080';
  if (server === 'http://localhost:8080') {
    throw new StartError('no Kubernetes cluster: set KUBECONFIG, or run in a pod with a service account');
  }
  return config;
}
