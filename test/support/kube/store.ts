/**
 * The storage of the stand-in for an API server: objects with versions, generations, managed fields, finalizers and
 * owners, and the history for watches. One change at a time, as in etcd; no HTTP in here.
 */
import { randomUUID } from 'node:crypto';
import { applyFields, mergePatch, same, updatedFields } from './managed-fields.ts';
import type { Fields, Json, ManagedFields } from './managed-fields.ts';
import { conform } from './structural-schema.ts';
import type { Schema } from './structural-schema.ts';

export interface Resource {
  readonly group: string;
  readonly version: string;
  readonly plural: string;
  readonly kind: string;
  readonly hasStatus?: boolean;
  /** For a CustomResourceDefinition. */
  readonly schema?: Schema;
}

export interface Meta {
  [field: string]: Json;
  name: string;
  namespace: string;
  uid: string;
  resourceVersion: string;
  generation: number;
}
export type Stored = { [field: string]: Json } & { metadata: Meta };

export interface Change {
  readonly version: number;
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED';
  readonly resource: Resource;
  readonly before: Stored | null;
  readonly after: Stored;
}

export class ApiFailure extends Error {
  readonly status: number;
  readonly reason: string;

  constructor(status: number, reason: string, message: string) {
    super(message);
    this.status = status;
    this.reason = reason;
  }
}

export interface Where {
  readonly resource: Resource;
  readonly namespace: string;
  readonly name: string;
}

interface Entry {
  readonly resource: Resource;
  object: Stored;
  managed: readonly ManagedFields[];
}

const keyOf = ({ resource, namespace, name }: Where) =>
  `${resource.group}/${resource.plural}/${namespace}/${name}`;

export class Store {
  readonly #entries = new Map<string, Entry>();
  readonly #history: Change[] = [];
  readonly #listeners = new Set<(change: Change) => void>();
  #version = 1_000;
  #oldest = 1_000;

  get version(): number {
    return this.#version;
  }

  /** Versions below this one are too old for a watch. */
  get oldest(): number {
    return this.#oldest;
  }

  /** Drops the history, as etcd does every few minutes. */
  compact(): void {
    this.#history.length = 0;
    this.#oldest = this.#version;
  }

  since(version: number): readonly Change[] {
    return this.#history.filter((change) => change.version > version);
  }

  listen(listener: (change: Change) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  get(where: Where): Stored {
    const entry = this.#entries.get(keyOf(where));
    if (entry === undefined) throw notFound(where);
    return shown(entry);
  }

  find(where: Where): Stored | null {
    const entry = this.#entries.get(keyOf(where));
    return entry === undefined ? null : shown(entry);
  }

  list(resource: Resource, namespace: string | null): Stored[] {
    return [...this.#entries.values()]
      .filter(
        (it) =>
          it.resource === resource &&
          (namespace ?? it.object.metadata.namespace) === it.object.metadata.namespace,
      )
      .map(shown)
      .toSorted((a, b) => keyText(a).localeCompare(keyText(b), 'en'));
  }

  create(resource: Resource, namespace: string, given: Fields, manager: string): Stored {
    const metadata = given['metadata'] as Fields;
    const where = { resource, namespace, name: metadata['name'] as string };
    if (this.#entries.has(keyOf(where))) {
      throw new ApiFailure(409, 'AlreadyExists', `${resource.plural} "${where.name}" already exists`);
    }
    const bare = fresh(where, given);
    return this.#put(where, null, bare, updatedFields({}, bare, [], manager));
  }

  replace(where: Where, given: Fields, manager: string, subresource: string | null): Stored {
    const entry = this.#entry(where);
    const version = (given['metadata'] as Fields)['resourceVersion'];
    if (version !== undefined && version !== entry.object.metadata.resourceVersion) throw conflict(where);
    const wanted = merged(entry, given, subresource);
    return this.#put(where, entry, wanted, updatedFields(entry.object, wanted, entry.managed, manager));
  }

  patch(where: Where, patch: Fields, manager: string, subresource: string | null): Stored {
    const entry = this.#entry(where);
    const version = (patch['metadata'] as Fields | undefined)?.['resourceVersion'];
    if (version !== undefined && version !== entry.object.metadata.resourceVersion) throw conflict(where);
    const wanted = merged(entry, mergePatch(entry.object, patch) as Fields, subresource);
    return this.#put(where, entry, wanted, updatedFields(entry.object, wanted, entry.managed, manager));
  }

  apply(where: Where, given: Fields, manager: string, isForced: boolean): Stored {
    const entry = this.#entries.get(keyOf(where)) ?? null;
    const uid = (given['metadata'] as Fields)['uid'];
    if (entry === null && uid !== undefined) throw conflict(where);
    const live = entry?.object ?? fresh(where, { metadata: {} });
    const { object, managed, conflicts } = applyFields(live, entry?.managed ?? [], given, manager, isForced);
    if (conflicts.length > 0) throw new ApiFailure(409, 'Conflict', `conflicts with ${conflicts.join(', ')}`);
    const named = {
      apiVersion: given['apiVersion'] ?? null,
      kind: given['kind'] ?? null,
      ...object,
    } as unknown as Stored;
    return this.#put(where, entry, named, managed);
  }

  remove(where: Where, preconditions: { uid?: string; resourceVersion?: string } = {}): Stored {
    const entry = this.#entry(where);
    const { metadata } = entry.object;
    for (const [name, value] of Object.entries(preconditions)) {
      if (metadata[name] !== value) throw conflict(where);
    }
    const finalizers = (metadata['finalizers'] ?? []) as string[];
    if (finalizers.length === 0) return this.#drop(where, entry);
    if (metadata['deletionTimestamp'] !== undefined) return shown(entry);
    const deletionTimestamp = new Date().toISOString();
    const generation = metadata.generation + 1;
    return this.#put(
      where,
      entry,
      { ...entry.object, metadata: { ...metadata, deletionTimestamp, generation } },
      entry.managed,
    );
  }

  #entry(where: Where): Entry {
    const entry = this.#entries.get(keyOf(where));
    if (entry === undefined) throw notFound(where);
    return entry;
  }

  #put(where: Where, entry: Entry | null, wanted: Stored, managed: readonly ManagedFields[]): Stored {
    const before = entry?.object ?? null;
    const checked = this.#check(where, before, wanted);
    if (entry !== null && same(before, checked) && same(managedJson(entry.managed), managedJson(managed))) {
      return shown(entry);
    }
    const version = ++this.#version;
    const generation = generationOf(where.resource, before, checked);
    const object: Stored = {
      ...kept(where.resource, checked),
      metadata: { ...checked.metadata, resourceVersion: String(version), generation },
    };
    const next: Entry = { resource: where.resource, object, managed };
    this.#entries.set(keyOf(where), next);
    const finalizers = (object.metadata['finalizers'] ?? []) as string[];
    if (object.metadata['deletionTimestamp'] !== undefined && finalizers.length === 0)
      return this.#drop(where, next);
    this.#tell({
      version,
      type: before === null ? 'ADDED' : 'MODIFIED',
      resource: where.resource,
      before,
      after: shown(next),
    });
    return shown(next);
  }

  #check(where: Where, before: Stored | null, wanted: Stored): Stored {
    const { resource } = where;
    let checked = wanted;
    if (resource.schema !== undefined) {
      const problems: string[] = [];
      checked = conform(wanted, resource.schema, resource.kind, problems) as Stored;
      if (problems.length > 0) throw invalid(where, problems.join('; '));
    }
    if (before !== null) immutable(where, before, checked);
    return checked;
  }

  #drop(where: Where, entry: Entry): Stored {
    this.#entries.delete(keyOf(where));
    const version = ++this.#version;
    const { object } = entry;
    const after = { ...object, metadata: { ...object.metadata, resourceVersion: String(version) } };
    this.#tell({ version, type: 'DELETED', resource: where.resource, before: object, after });
    this.#collect(object.metadata.uid);
    return after;
  }

  /** An object without any other owner is removed with its owner. */
  #collect(owner: string): void {
    for (const { resource, object } of this.#entries.values()) {
      const owners = (object.metadata['ownerReferences'] ?? []) as { uid: string }[];
      if (!owners.some((it) => it.uid === owner)) continue;
      const uids = new Set([...this.#entries.values()].map((it) => it.object.metadata.uid));
      if (owners.some((it) => uids.has(it.uid))) continue;
      const { namespace, name } = object.metadata;
      this.remove({ resource, namespace, name });
    }
  }

  #tell(change: Change): void {
    this.#history.push(change);
    for (const listener of this.#listeners) listener(change);
  }
}

function fresh({ resource, namespace, name }: Where, given: Fields): Stored {
  const { apiVersion = `${resource.group}/${resource.version}`.replace(/^\//, ''), kind = resource.kind } =
    given;
  const metadata = { ...(given['metadata'] as Fields) };
  const creationTimestamp = new Date().toISOString();
  const made = {
    ...metadata,
    name,
    namespace,
    uid: randomUUID(),
    creationTimestamp,
    generation: 1,
    resourceVersion: '',
  };
  return { ...structuredClone(given), apiVersion, kind, metadata: made };
}

/** A write to the object does not change its status; a write to a subresource changes nothing else. */
function merged({ resource, object }: Entry, wanted: Fields, subresource: string | null): Stored {
  const { uid, creationTimestamp, deletionTimestamp, generation, resourceVersion, name, namespace } =
    object.metadata;
  const kept = { uid, creationTimestamp, generation, resourceVersion, name, namespace };
  if (subresource === 'status') return { ...object, status: wanted['status'] ?? null } as Stored;
  const metadata = {
    ...(wanted['metadata'] as Fields),
    ...kept,
    ...(deletionTimestamp !== undefined && { deletionTimestamp }),
  };
  delete (metadata as Fields)['managedFields'];
  const own = { ...wanted, metadata } as Stored;
  if (resource.hasStatus !== true) return own;
  const { status: _, ...rest } = own;
  return { ...rest, ...(object['status'] !== undefined && { status: object['status'] }) } as Stored;
}

/** An empty list of rules is dropped, so that writing one changes a policy that has none. */
function kept({ kind }: Resource, { spec, ...rest }: Stored): Stored {
  const { ingress, ...others } = (spec ?? {}) as Fields;
  const isEmpty = kind === 'NetworkPolicy' && Array.isArray(ingress) && ingress.length === 0;
  return { ...rest, ...(spec !== undefined && { spec: isEmpty ? others : spec }) } as Stored;
}

function generationOf(resource: Resource, before: Stored | null, after: Stored): number {
  if (before === null) return 1;
  // A Deployment's annotations count, too.
  const annotationsOf = ({ metadata }: Stored) =>
    resource.kind === 'Deployment' && { annotations: metadata['annotations'] ?? {} };
  const was = { ...before, metadata: annotationsOf(before), status: null };
  const is = { ...after, metadata: annotationsOf(after), status: null };
  if (resource.hasStatus === true && same(was, is)) return after.metadata.generation;
  return before.metadata.generation + (same(was, is) ? 0 : 1);
}

/** Fields that an API server does not allow to change, for the kinds that matter here. */
function immutable(where: Where, before: Stored, after: Stored): void {
  const was = (before['spec'] ?? {}) as Fields;
  const is = (after['spec'] ?? {}) as Fields;
  const fixed: Readonly<Record<string, readonly string[]>> = {
    Deployment: ['selector'],
    StatefulSet: ['selector', 'serviceName', 'volumeClaimTemplates'],
    PersistentVolumeClaim: ['accessModes', 'storageClassName'],
    Service: ['clusterIP'],
  };
  for (const field of fixed[where.resource.kind] ?? []) {
    if (!same(was[field], is[field])) throw invalid(where, `spec.${field}: field is immutable`);
  }
  if (where.resource.kind !== 'PersistentVolumeClaim') return;
  const gib = (spec: Fields) =>
    Number.parseInt(/"storage":"(\d+)Gi"/.exec(JSON.stringify(spec))?.[1] ?? '0', 10);
  if (gib(is) < gib(was))
    throw invalid(where, 'spec.resources.requests.storage: field can not be less than previous value');
}

/** In a fixed order, which does not show who wrote last. */
const managedJson = (managed: readonly ManagedFields[]) =>
  JSON.parse(
    JSON.stringify(managed.toSorted((a, b) => (a.operation + a.manager < b.operation + b.manager ? -1 : 1))),
  ) as Fields[];

/** In an API server's format: nested, each name prefixed with `f:`. */
function fieldsV1(leaves: readonly string[]): Fields {
  const fields: Fields = {};
  for (const leaf of leaves) {
    let at = fields;
    for (const name of JSON.parse(leaf) as string[]) at = (at[`f:${name}`] ??= {}) as Fields;
  }
  return fields;
}

const shownFields = ({ manager, operation, fields }: ManagedFields): Fields => ({
  manager,
  operation,
  apiVersion: 'v1',
  fieldsType: 'FieldsV1',
  fieldsV1: fieldsV1(fields),
});

function shown({ object, managed }: Entry): Stored {
  return structuredClone({
    ...object,
    metadata: { ...object.metadata, managedFields: managed.map(shownFields) },
  });
}

const keyText = ({ metadata }: Stored) => `${metadata.namespace}/${metadata.name}`;
const notFound = ({ resource, name }: Where) =>
  new ApiFailure(404, 'NotFound', `${resource.plural} "${name}" not found`);
const conflict = ({ resource, name }: Where) =>
  new ApiFailure(
    409,
    'Conflict',
    `Operation cannot be fulfilled on ${resource.plural} "${name}": the object has been modified`,
  );
const invalid = ({ resource, name }: Where, why: string) =>
  new ApiFailure(422, 'Invalid', `${resource.kind} "${name}" is invalid: ${why}`);
