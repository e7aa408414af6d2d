/**
 * The status of a Headgate: three conditions and a few numbers, from the workload's own status and from whatever
 * stopped the operator, if anything did. Pure; the time of a change is an argument.
 *
 *   Ready        True while as many pods as wanted accept requests, and at least one
 *   Progressing  True while the workload replaces or adds pods
 *   Degraded     True if the spec cannot be carried out; its reason and message say what to do
 */
import type { ClusterObject } from './kinds.ts';
import { selectorOf } from './kinds.ts';
import type { CompleteSpec, ResourceCondition, HeadgateResource, HeadgateStatus } from './resource.ts';

export interface Trouble {
  readonly reason: string;
  readonly message: string;
}

interface Workload extends ClusterObject {
  readonly spec?: { readonly replicas?: number };
  readonly status?: {
    readonly observedGeneration?: number;
    readonly replicas?: number;
    readonly updatedReplicas?: number;
    readonly readyReplicas?: number;
    readonly currentRevision?: string;
    readonly updateRevision?: string;
    readonly conditions?: readonly {
      readonly type: string;
      readonly status: string;
      readonly reason?: string;
    }[];
  };
}

type StatusFinding = Pick<ResourceCondition, 'type' | 'status' | 'reason' | 'message'>;

interface StatusInput {
  readonly resource: HeadgateResource;
  readonly spec: CompleteSpec;
  /** null: it does not exist, or was not read because of `trouble`. */
  readonly workload: ClusterObject | null;
  readonly trouble: Trouble | null;
  readonly generatedMasterKeySecret: string;
  /** ms since 1970 */
  readonly now: number;
}

export function statusOf(input: StatusInput): HeadgateStatus {
  const { resource, spec, workload: found, generatedMasterKeySecret } = input;
  const { name, namespace, generation } = resource.metadata;
  const workload = found as Workload | null;
  const findings = [ready(workload), progressing(workload, spec), degraded(workload, input.trouble)];
  const conditions = findings.map((finding) => {
    const before = resource.status?.conditions?.find((it) => it.type === finding.type);
    const isSame = before?.status === finding.status;
    const time = new Date(input.now).toISOString().replace(/\.\d+Z$/, 'Z');
    return {
      ...finding,
      observedGeneration: generation,
      lastTransitionTime: isSame ? before.lastTransitionTime : time,
    };
  });
  const listener = `http://${name}.${namespace}.svc.${spec.clusterDomain}:${spec.ports.webhook}`;
  return {
    observedGeneration: generation,
    replicas: workload?.status?.replicas ?? 0,
    readyReplicas: workload?.status?.readyReplicas ?? 0,
    selector: Object.entries(selectorOf(name))
      .map(([label, value]) => `${label}=${value}`)
      .join(','),
    endpoint: spec.enableWebhookListener ? listener : '',
    generatedMasterKeySecret,
    conditions,
  };
}

const wantedOf = (workload: Workload | null) => workload?.spec?.replicas ?? 1;

function ready(workload: Workload | null): StatusFinding {
  const type = 'Ready';
  if (workload === null) {
    return { type, status: 'False', reason: 'NotDeployed', message: 'there are no pods yet' };
  }
  const wanted = wantedOf(workload);
  const count = workload.status?.readyReplicas ?? 0;
  if (wanted === 0) return { type, status: 'False', reason: 'Stopped', message: 'spec.replicas is 0' };
  const message = `${count} of ${wanted} pods are ready`;
  if (count >= wanted) return { type, status: 'True', reason: 'PodsReady', message };
  return { type, status: 'False', reason: count === 0 ? 'NoPodReady' : 'TooFewPodsReady', message };
}

function progressing(workload: Workload | null, spec: CompleteSpec): StatusFinding {
  const type = 'Progressing';
  if (spec.paused) return { type, status: 'False', reason: 'Paused', message: 'spec.paused is true' };
  if (workload === null)
    return { type, status: 'False', reason: 'NotDeployed', message: 'there are no pods yet' };
  if (isRolledOut(workload)) {
    return { type, status: 'False', reason: 'Settled', message: 'every pod is as asked for' };
  }
  const { updatedReplicas = 0 } = workload.status ?? {};
  const message = `${updatedReplicas} of ${wantedOf(workload)} pods are as asked for`;
  return { type, status: 'True', reason: 'RollingOut', message };
}

/** Every pod has the latest template and is ready, and none of an older template is left. */
export function isRolledOut(object: ClusterObject): boolean {
  const { metadata, status = {}, spec } = object as Workload;
  const wanted = spec?.replicas ?? 1;
  if ((status.observedGeneration ?? 0) < (metadata.generation ?? 0)) return false;
  // A StatefulSet counts a pod as updated only during a rollout; its two revisions agree when it is done.
  const updated = status.updatedReplicas ?? (status.currentRevision === status.updateRevision ? wanted : 0);
  return updated >= wanted && (status.replicas ?? 0) <= wanted && (status.readyReplicas ?? 0) >= wanted;
}

function degraded(workload: Workload | null, trouble: Trouble | null): StatusFinding {
  const type = 'Degraded';
  if (trouble !== null) return { type, status: 'True', ...trouble };
  const stuck = workload?.status?.conditions?.find(
    (it) => it.type === 'Progressing' && it.status === 'False',
  );
  if (stuck !== undefined) {
    const message = 'the Deployment makes no progress: look at its pods';
    return { type, status: 'True', reason: stuck.reason ?? 'RolloutStuck', message };
  }
  return { type, status: 'False', reason: 'AsAskedFor', message: 'nothing is in the way' };
}
