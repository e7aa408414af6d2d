/**
 * The common part of every object: its kind, its name, its labels. Takes values, returns values; refuses nothing,
 * touches nothing.
 */
import type { CompleteSpec, JsonObject } from './resource.ts';

export interface Manifest extends JsonObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly labels: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
    readonly ownerReferences?: readonly JsonObject[];
  } & JsonObject;
}

/** What is deployed under which name; the operator and the chart each decide this. */
export interface Deployment {
  readonly name: string;
  readonly namespace: string;
  readonly image: string;
  /** Labels that select the pods; they can never change. */
  readonly selector: Readonly<Record<string, string>>;
  /** Further labels of every object. */
  readonly labels: Readonly<Record<string, string>>;
  /** Annotations of objects that outlive their Headgate. */
  readonly keep: Readonly<Record<string, string>>;
  /** Changes with the connection string, so that the pods are replaced; null: unknown. */
  readonly databaseUrlChecksum: string | null;
  readonly spec: CompleteSpec;
}

interface Body extends JsonObject {
  readonly annotations?: Readonly<Record<string, string>>;
  readonly labels?: Readonly<Record<string, string>>;
}

export function object(
  { name, namespace, selector, labels, spec }: Deployment,
  apiVersion: string,
  kind: string,
  suffix: string,
  { annotations: own, labels: further, ...body }: Body,
): Manifest {
  const annotations = { ...spec.commonAnnotations, ...own };
  return {
    apiVersion,
    kind,
    metadata: {
      name: name + suffix,
      namespace,
      labels: { ...selector, ...labels, ...spec.commonLabels, ...further },
      ...(Object.keys(annotations).length > 0 && { annotations }),
    },
    ...body,
  };
}

/** The value, or undefined if it is empty and means "not set". */
export function filled<T extends string | object>(value: T): T | undefined {
  const isEmpty = typeof value === 'string' ? value === '' : Object.keys(value).length === 0;
  return isEmpty ? undefined : value;
}

/** Whether its pods have volumes of their own, and stable identities. */
export function isStateful({ databaseUrlSecret, spool }: CompleteSpec): boolean {
  return databaseUrlSecret === null || spool.size !== '';
}
