/**
 * Checks an object against the Kubernetes OpenAPI document, like an API server with strict validation. Two packages
 * contain parts of the document: `kubernetes-models` the rules for values (types, required fields, formats),
 * `@kubernetes/client-node` the names of all fields of every type; together they reject every unknown field and wrong
 * value.
 */
import * as client from '@kubernetes/client-node';
import { customSchemaProblems } from './custom-schemas.ts';

interface Attribute {
  readonly baseName: string;
  readonly type: string;
}
interface Model {
  getAttributeTypeMap(): readonly Attribute[];
}
interface Validate {
  (value: unknown): boolean;
  errors?: readonly { readonly instancePath: string; readonly keyword: string; readonly params: unknown }[];
}

/** apiVersion and kind → the name in the document, as each package spells it. */
const kinds: Readonly<Record<string, readonly [schema: string, model: string]>> = {
  'v1 Namespace': ['IoK8sApiCoreV1Namespace', 'V1Namespace'],
  'v1 ConfigMap': ['IoK8sApiCoreV1ConfigMap', 'V1ConfigMap'],
  'v1 Pod': ['IoK8sApiCoreV1Pod', 'V1Pod'],
  'v1 PersistentVolumeClaim': ['IoK8sApiCoreV1PersistentVolumeClaim', 'V1PersistentVolumeClaim'],
  'v1 Secret': ['IoK8sApiCoreV1Secret', 'V1Secret'],
  'v1 Service': ['IoK8sApiCoreV1Service', 'V1Service'],
  'v1 ServiceAccount': ['IoK8sApiCoreV1ServiceAccount', 'V1ServiceAccount'],
  'apps/v1 Deployment': ['IoK8sApiAppsV1Deployment', 'V1Deployment'],
  'apps/v1 StatefulSet': ['IoK8sApiAppsV1StatefulSet', 'V1StatefulSet'],
  'autoscaling/v2 HorizontalPodAutoscaler': [
    'IoK8sApiAutoscalingV2HorizontalPodAutoscaler',
    'V2HorizontalPodAutoscaler',
  ],
  'coordination.k8s.io/v1 Lease': ['IoK8sApiCoordinationV1Lease', 'V1Lease'],
  'events.k8s.io/v1 Event': ['IoK8sApiEventsV1Event', 'EventsV1Event'],
  'networking.k8s.io/v1 Ingress': ['IoK8sApiNetworkingV1Ingress', 'V1Ingress'],
  'networking.k8s.io/v1 NetworkPolicy': ['IoK8sApiNetworkingV1NetworkPolicy', 'V1NetworkPolicy'],
  'policy/v1 PodDisruptionBudget': ['IoK8sApiPolicyV1PodDisruptionBudget', 'V1PodDisruptionBudget'],
  'rbac.authorization.k8s.io/v1 ClusterRole': ['IoK8sApiRbacV1ClusterRole', 'V1ClusterRole'],
  'rbac.authorization.k8s.io/v1 ClusterRoleBinding': [
    'IoK8sApiRbacV1ClusterRoleBinding',
    'V1ClusterRoleBinding',
  ],
  'rbac.authorization.k8s.io/v1 Role': ['IoK8sApiRbacV1Role', 'V1Role'],
  'rbac.authorization.k8s.io/v1 RoleBinding': ['IoK8sApiRbacV1RoleBinding', 'V1RoleBinding'],
  'apiextensions.k8s.io/v1 CustomResourceDefinition': [
    'IoK8sApiextensionsApiserverPkgApisApiextensionsV1CustomResourceDefinition',
    'V1CustomResourceDefinition',
  ],
};

/** What is wrong with the object, one line each; empty if an API server would accept it. */
export async function schemaProblems(object: { apiVersion: string; kind: string }): Promise<string[]> {
  const custom = customSchemaProblems(object);
  if (custom !== null) return custom;
  const kind = kinds[`${object.apiVersion} ${object.kind}`];
  if (kind === undefined) return [`${object.apiVersion} ${object.kind} is not a kind that is known here`];
  const [schema, model] = kind;
  const { validate } = (await import(`kubernetes-models/_schemas/${schema}`)) as { validate: Validate };
  const problems = validate(object)
    ? []
    : (validate.errors ?? []).map((it) => `${it.instancePath}: ${it.keyword} ${JSON.stringify(it.params)}`);
  return [...problems, ...unknownFields(object, model, '')];
}

function unknownFields(value: unknown, type: string, path: string): string[] {
  const list = /^(?:Array|Set)<(.+)>$/.exec(type)?.[1];
  if (list !== undefined) {
    if (!Array.isArray(value)) return [`${path} is no list`];
    return value.flatMap((item, index) => unknownFields(item, list, `${path}/${index}`));
  }
  const map = /^\{ \[key: string\]: (.+); \}$/.exec(type)?.[1];
  if (map !== undefined) {
    return Object.entries(value as object).flatMap(([key, item]) =>
      unknownFields(item, map, `${path}/${key}`),
    );
  }
  const model = (client as unknown as Readonly<Record<string, Model | undefined>>)[type];
  // Texts, numbers, free-form objects: the other package checks their values.
  if (typeof model?.getAttributeTypeMap !== 'function') return [];
  if (typeof value !== 'object' || value === null) return [`${path} is no object`];
  const attributes = new Map(model.getAttributeTypeMap().map((it) => [it.baseName, it.type]));
  return Object.entries(value).flatMap(([field, item]) => {
    const of = attributes.get(field);
    return of === undefined
      ? [`${path}/${field} is not a field of ${type}`]
      : unknownFields(item, of, `${path}/${field}`);
  });
}
