/** The kinds that the stand-in for an API server serves; Headgates with the schema of the real CRD. */
import { readFileSync } from 'node:fs';
import { parse } from 'yaml';
import type { Resource } from './store.ts';
import type { Schema } from './structural-schema.ts';

const crd = parse(readFileSync(new URL('../../../../deploy/operator/crd.yaml', import.meta.url), 'utf8')) as {
  spec: { versions: [{ schema: { openAPIV3Schema: Schema } }] };
};
export const headgateSchema = crd.spec.versions[0].schema.openAPIV3Schema;

const of = (apiVersion: string, kind: string, plural: string, more: Partial<Resource> = {}): Resource => {
  const [version = '', group = ''] = apiVersion.split('/').toReversed();
  return { group, version, kind, plural, ...more };
};

export const resources: Resource[] = [
  of('headgate.dev/v1alpha1', 'Headgate', 'headgates', { hasStatus: true, schema: headgateSchema }),
  of('v1', 'Namespace', 'namespaces'),
  of('apiextensions.k8s.io/v1', 'CustomResourceDefinition', 'customresourcedefinitions'),
  of('v1', 'Secret', 'secrets'),
  of('v1', 'Service', 'services', { hasStatus: true }),
  of('v1', 'ServiceAccount', 'serviceaccounts'),
  of('v1', 'PersistentVolumeClaim', 'persistentvolumeclaims', { hasStatus: true }),
  of('apps/v1', 'Deployment', 'deployments', { hasStatus: true }),
  of('apps/v1', 'StatefulSet', 'statefulsets', { hasStatus: true }),
  of('autoscaling/v2', 'HorizontalPodAutoscaler', 'horizontalpodautoscalers', { hasStatus: true }),
  of('policy/v1', 'PodDisruptionBudget', 'poddisruptionbudgets', { hasStatus: true }),
  of('networking.k8s.io/v1', 'Ingress', 'ingresses', { hasStatus: true }),
  of('networking.k8s.io/v1', 'NetworkPolicy', 'networkpolicies'),
  of('coordination.k8s.io/v1', 'Lease', 'leases'),
  of('events.k8s.io/v1', 'Event', 'events'),
  of('monitoring.coreos.com/v1', 'ServiceMonitor', 'servicemonitors'),
  of('gateway.networking.k8s.io/v1', 'HTTPRoute', 'httproutes'),
];
