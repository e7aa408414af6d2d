/** The kinds of objects that the operator reads and writes, and their paths on the API server. Pure. */
import { group, version } from './resource.ts';
import type { JsonObject } from './resource.ts';

export interface Kind {
  readonly apiVersion: string;
  readonly kind: string;
  readonly plural: string;
}

const kind = (apiVersion: string, kind: string, plural: string): Kind => ({ apiVersion, kind, plural });

export const headgates = kind(`${group}/${version}`, 'Headgate', 'headgates');
export const leases = kind('coordination.k8s.io/v1', 'Lease', 'leases');
export const events = kind('events.k8s.io/v1', 'Event', 'events');
export const secrets = kind('v1', 'Secret', 'secrets');
export const claims = kind('v1', 'PersistentVolumeClaim', 'persistentvolumeclaims');
export const statefulSets = kind('apps/v1', 'StatefulSet', 'statefulsets');
export const deployments = kind('apps/v1', 'Deployment', 'deployments');
const serviceMonitors = kind('monitoring.coreos.com/v1', 'ServiceMonitor', 'servicemonitors');
const httpRoutes = kind('gateway.networking.k8s.io/v1', 'HTTPRoute', 'httproutes');

/**
 * The kinds that a Headgate consists of, besides Secrets, ServiceMonitors and HTTPRoutes: these are watched. Secrets are
 * not, because a watch needs the right to read all Secrets; the other two are not, because many clusters lack those kinds.
 */
export const watchedKinds: readonly Kind[] = [
  kind('v1', 'ServiceAccount', 'serviceaccounts'),
  kind('v1', 'Service', 'services'),
  claims,
  statefulSets,
  deployments,
  kind('autoscaling/v2', 'HorizontalPodAutoscaler', 'horizontalpodautoscalers'),
  kind('policy/v1', 'PodDisruptionBudget', 'poddisruptionbudgets'),
  kind('networking.k8s.io/v1', 'Ingress', 'ingresses'),
  kind('networking.k8s.io/v1', 'NetworkPolicy', 'networkpolicies'),
];

export const ownedKinds: readonly Kind[] = [...watchedKinds, serviceMonitors, httpRoutes];

/** The kind of one of our manifests. */
export function kindOf(object: { readonly apiVersion: string; readonly kind: string }): Kind {
  const found = ownedKinds.find((it) => it.kind === object.kind && it.apiVersion === object.apiVersion);
  if (found === undefined)
    throw new Error(`${object.apiVersion} ${object.kind} is no kind of the operator's`);
  return found;
}

/** Without a namespace: all namespaces. Without a name: the collection. */
export function pathOf({ apiVersion, plural }: Kind, namespace: string | null, name?: string): string {
  const parts = [apiVersion.includes('/') ? `/apis/${apiVersion}` : `/api/${apiVersion}`];
  if (namespace !== null) parts.push('namespaces', encodeURIComponent(namespace));
  parts.push(plural);
  if (name !== undefined) parts.push(encodeURIComponent(name));
  return parts.join('/');
}

interface ObjectMetadata extends JsonObject {
  readonly name: string;
  readonly namespace?: string;
  readonly uid?: string;
  readonly generation?: number;
  readonly deletionTimestamp?: string;
  readonly resourceVersion?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly ownerReferences?: readonly (JsonObject & {
    readonly kind: string;
    readonly name: string;
    readonly uid: string;
    readonly controller?: boolean;
  })[];
}

export interface ClusterObject extends JsonObject {
  readonly metadata: ObjectMetadata;
}

export const managedBy = 'headgate-operator';

/** Labels that identify everything of one Headgate. */
export const selectorOf = (name: string) => ({
  'app.kubernetes.io/name': 'headgate',
  'app.kubernetes.io/instance': name,
});
export const managedLabels = { 'app.kubernetes.io/managed-by': managedBy };
