/**
 * The operator: manages every `Headgate` resource of a cluster, or of one namespace. Takes the cluster, returns
 * something that can be closed; refuses nothing, because every failure is reported and retried. Writes only the objects
 * of Headgates, their status, events and its own lease. Of several operators one is active (election.ts); it watches
 * Headgates and the objects they consist of. Every change, and every five minutes without one, leads to the same step:
 * reconcile.ts.
 */
import { setMaxListeners } from 'node:events';
import { backoffMs } from '../kit/backoff.ts';
import type { Closable } from '../kit/closer.ts';
import { limits as defaultLimits } from '../config/limits.ts';
import type { Limits } from '../config/limits.ts';
import type { Observe } from '../observe/observations.ts';
import type { Cluster } from './cluster.ts';
import { Election } from './election.ts';
import { createRecorder } from './events.ts';
import { headgates, managedBy, managedLabels, watchedKinds } from './kinds.ts';
import type { ClusterObject } from './kinds.ts';
import { Reconciler } from './reconcile.ts';
import { watchLoop } from './watch-loop.ts';
import { Workers } from './workers.ts';

interface OperatorOptions {
  readonly cluster: Cluster;
  /** Different from that of every other operator: the pod's name. */
  readonly identity: string;
  /** The namespace of its lease. */
  readonly leaseNamespace: string;
  /** The only namespace it manages; null: all of them. */
  readonly namespace: string | null;
  /** The image of a Headgate that names none. */
  readonly image: string | null;
  readonly observe: Observe;
  /** Monotonic, ms. */
  readonly clock: () => number;
  /** ms since 1970 */
  readonly now: () => number;
  readonly random: () => number;
  readonly randomBytes: (count: number) => Buffer;
  readonly limits?: Limits;
}

export interface Operator extends Closable {
  /** null: it works, or waits for its turn; otherwise why it cannot. */
  readonly unavailable: string | null;
}

export function openOperator(options: OperatorOptions): Operator {
  const { cluster, identity, leaseNamespace, observe, clock, now, limits = defaultLimits } = options;
  const stop = new AbortController();
  const election = new Election({
    cluster,
    namespace: leaseNamespace,
    name: managedBy,
    identity,
    limits,
    observe,
    clock,
    now,
    lead: (term) => work({ ...options, limits }, term),
  });
  const running = election.run(stop.signal);
  return {
    get unavailable() {
      return election.unavailable;
    },
    async close() {
      stop.abort();
      await running;
    },
  };
}

/** One term as the leader; ends once everything it started has ended. */
async function work(options: OperatorOptions & { limits: Limits }, term: AbortSignal): Promise<void> {
  const { cluster, namespace, limits, observe, random, now } = options;
  // Each watch and each request listens to the signal; their number is bounded.
  setMaxListeners(2 * (watchedKinds.length + 1) + 2 * limits.operatorReconcilesMax, term);
  const newId = () => options.randomBytes(8).toString('hex');
  const recorder = createRecorder(cluster, options.identity, observe, now, newId);
  const reconciler = new Reconciler({ ...options, recorder });
  const failures = new Map<string, number>();
  /** Every existing Headgate, and the part of it that matters: the status is written by the operator itself. */
  const known = new Map<string, string>();

  const workers = new Workers(async (key) => {
    const [space = '', name = ''] = key.split('/');
    const startedMs = options.clock();
    try {
      const laterMs = await reconciler.reconcile(space, name, term);
      failures.delete(key);
      if (laterMs === null) known.delete(key);
      observe({ kind: 'operator.reconciled', resource: key, seconds: (options.clock() - startedMs) / 1_000 });
      return laterMs;
    } catch (error) {
      if (term.aborted) return null;
      const count = (failures.get(key) ?? 0) + 1;
      failures.set(key, count);
      observe({ kind: 'operator.reconcile_failed', resource: key, reason: (error as Error).message });
      return backoffMs(count, limits.operatorBackoffMinMs, limits.operatorBackoffMaxMs, random);
    }
  }, limits);

  const look = (object: ClusterObject, isDeleted: boolean) => {
    const key = keyOf(object, object.metadata.name);
    if (!known.has(key) && known.size >= limits.operatorResourcesMax) {
      observe({ kind: 'operator.too_many', resource: key });
      return;
    }
    const { uid, generation, deletionTimestamp } = object.metadata;
    const version = `${uid} ${generation} ${deletionTimestamp === undefined ? '' : 'deleted'}`;
    if (known.get(key) === version && !isDeleted) return;
    known.set(key, version);
    workers.add(key);
  };
  const common = { cluster, namespace, limits, observe, random, signal: term };
  const labelSelector = Object.entries(managedLabels)
    .map(([label, value]) => `${label}=${value}`)
    .join(',');
  const watches = [
    watchLoop({
      ...common,
      kind: headgates,
      onObject: look,
    }),
    ...watchedKinds.map((kind) =>
      watchLoop({
        ...common,
        kind,
        labelSelector,
        onObject: (object) => {
          // Only for existing Headgates: a volume that outlives its own is ignored.
          const key = keyOf(object, ownerOf(object));
          if (known.has(key)) workers.add(key);
        },
      }),
    ),
  ];
  // They end only with the term.
  await Promise.all(watches);
  await workers.close();
}

const keyOf = (object: ClusterObject, name: string) => `${object.metadata.namespace ?? ''}/${name}`;
const ownerOf = ({ metadata }: ClusterObject) => metadata.labels?.['app.kubernetes.io/instance'] ?? '';
