/**
 * Single objects in the cluster: read, applied, removed. Takes the cluster and the Headgate that they are for; refuses
 * to touch objects of others with NotOurs. Everything it writes names the operator as the manager of its fields.
 */
import { isStatus } from './cluster.ts';
import type { Cluster } from './cluster.ts';
import { kindOf, managedBy, managedLabels, ownedKinds, pathOf, selectorOf } from './kinds.ts';
import type { ClusterObject, Kind } from './kinds.ts';
import { apiVersionOfHeadgate } from './resource.ts';
import type { HeadgateResource, JsonObject } from './resource.ts';
import type { Manifest } from './manifest.ts';

/** An object of that name exists, and no Headgate of this name created it. */
export class NotOurs extends Error {
  override readonly name = 'NotOurs';
}

export interface Applied {
  readonly before: ClusterObject | null;
  readonly after: ClusterObject;
}

/**
 * An object that outlives its Headgate has no owner reference, with which it would be deleted; its labels identify it
 * instead.
 */
const outlives = (kind: Kind) => kind.plural === 'persistentvolumeclaims';

export class Objects {
  readonly #cluster: Cluster;
  readonly #signal: AbortSignal;
  readonly #owner: HeadgateResource['metadata'];

  constructor(cluster: Cluster, owner: HeadgateResource['metadata'], signal: AbortSignal) {
    this.#cluster = cluster;
    this.#owner = owner;
    this.#signal = signal;
  }

  async read(kind: Kind, name: string): Promise<ClusterObject | null> {
    try {
      const path = pathOf(kind, this.#owner.namespace, name);
      return (await this.#cluster.request({ method: 'GET', path }, this.#signal)) as ClusterObject;
    } catch (error) {
      if (isStatus(error, 404)) return null;
      throw error;
    }
  }

  /** Server-side apply: the fields of the manifest get its values, whoever set them before; other fields stay. */
  async apply(manifest: Manifest): Promise<Applied> {
    const kind = kindOf(manifest);
    const { name } = manifest.metadata;
    const before = await this.read(kind, name);
    if (before !== null && !this.isOurs(before)) {
      throw new NotOurs(`${kind.kind} ${name} exists and does not belong to this Headgate`);
    }
    await this.#handOverReplicas(before, manifest);
    const metadata = outlives(kind)
      ? manifest.metadata
      : { ...manifest.metadata, ownerReferences: [this.ownerReference()] };
    const after = await this.#cluster.request(
      {
        method: 'PATCH',
        path: pathOf(kind, this.#owner.namespace, name),
        query: { fieldManager: managedBy, force: 'true' },
        contentType: 'application/apply-patch+yaml',
        body: { ...manifest, metadata },
      },
      this.#signal,
    );
    return { before, after: after as ClusterObject };
  }

  /**
   * A field that its only manager no longer names is reset to its default: a Deployment that gets an autoscaler would
   * lose all pods but one. So another manager first takes over the number, which the autoscaler then adjusts.
   */
  async #handOverReplicas(before: ClusterObject | null, manifest: Manifest): Promise<void> {
    const live = (before?.['spec'] ?? {}) as { replicas?: number };
    const wanted = (manifest['spec'] ?? {}) as { replicas?: number };
    if (manifest.kind !== 'Deployment' || live.replicas === undefined || wanted.replicas !== undefined)
      return;
    if (before === null || !isManagedByUs(before, 'f:spec', 'f:replicas')) return;
    const { apiVersion, kind, metadata } = manifest;
    const body = { apiVersion, kind, metadata: { name: metadata.name }, spec: { replicas: live.replicas } };
    const path = pathOf(kindOf(manifest), this.#owner.namespace, metadata.name);
    const query = { fieldManager: `${managedBy}-handover`, force: 'true' };
    const contentType = 'application/apply-patch+yaml';
    await this.#cluster.request({ method: 'PATCH', path, query, contentType, body }, this.#signal);
  }

  /** Creates an object; false if it exists. Never changes an existing one. */
  async create(kind: Kind, body: JsonObject): Promise<boolean> {
    try {
      const path = pathOf(kind, this.#owner.namespace);
      const query = { fieldManager: managedBy };
      await this.#cluster.request({ method: 'POST', path, query, body }, this.#signal);
      return true;
    } catch (error) {
      if (isStatus(error, 409)) return false;
      throw error;
    }
  }

  /** Removes only this very object, not a later one of the same name. False: it was gone. */
  async remove(kind: Kind, { metadata }: ClusterObject): Promise<boolean> {
    const options = { apiVersion: 'v1', kind: 'DeleteOptions', propagationPolicy: 'Background' };
    const body = { ...options, preconditions: { uid: metadata.uid } };
    const path = pathOf(kind, this.#owner.namespace, metadata.name);
    try {
      await this.#cluster.request({ method: 'DELETE', path, body }, this.#signal);
      return true;
    } catch (error) {
      if (isStatus(error, 404, 409)) return false;
      throw error;
    }
  }

  /**
   * Objects that this Headgate consisted of once and no longer does. If the cluster lacks a kind, there are none of it.
   */
  async leftOver(wanted: readonly Manifest[]): Promise<{ kind: Kind; object: ClusterObject }[]> {
    const labels = { ...selectorOf(this.#owner.name), ...managedLabels };
    const labelSelector = Object.entries(labels)
      .map(([name, value]) => `${name}=${value}`)
      .join(',');
    const keep = new Set(wanted.map((it) => `${it.kind}/${it.metadata.name}`));
    const found: { kind: Kind; object: ClusterObject }[] = [];
    for (const kind of ownedKinds.filter((it) => !outlives(it))) {
      for (const object of await this.#list(kind, labelSelector)) {
        if (!keep.has(`${kind.kind}/${object.metadata.name}`) && this.isOurs(object))
          found.push({ kind, object });
      }
    }
    return found;
  }

  async #list(kind: Kind, labelSelector: string): Promise<readonly ClusterObject[]> {
    const path = pathOf(kind, this.#owner.namespace);
    try {
      const answer = await this.#cluster.request(
        { method: 'GET', path, query: { labelSelector } },
        this.#signal,
      );
      return (answer as unknown as { items: readonly ClusterObject[] }).items;
    } catch (error) {
      if (isStatus(error, 404)) return [];
      throw error;
    }
  }

  /** Owned by this Headgate; or without any owner, and labelled as left behind by a Headgate of this name. */
  isOurs({ metadata }: ClusterObject): boolean {
    const owners = metadata.ownerReferences ?? [];
    const controller = owners.find((it) => it.controller === true);
    if (controller !== undefined) return controller.uid === this.#owner.uid;
    const labels = metadata.labels ?? {};
    const wanted = { ...selectorOf(this.#owner.name), ...managedLabels };
    return Object.entries(wanted).every(([name, value]) => labels[name] === value);
  }

  ownerReference(): JsonObject {
    const { name, uid } = this.#owner;
    const owner = { apiVersion: apiVersionOfHeadgate, kind: 'Headgate', name, uid };
    return { ...owner, controller: true, blockOwnerDeletion: true };
  }
}

function isManagedByUs({ metadata }: ClusterObject, ...path: readonly string[]): boolean {
  const managed = (metadata['managedFields'] ?? []) as {
    manager: string;
    operation: string;
    fieldsV1?: JsonObject;
  }[];
  const ours = managed.find((it) => it.manager === managedBy && it.operation === 'Apply');
  let fields: unknown = ours?.fieldsV1;
  for (const name of path) fields = (fields as JsonObject | undefined)?.[name];
  return fields !== undefined;
}
