/**
 * Reconciles one Headgate: read → finalizer → complete → secrets → apply → remove leftovers → status. Takes the
 * resource's name, returns the time until the next run. Every step reads the present state and writes the desired one:
 * wherever a run was interrupted, the next one ends in the same state. Problems that the user must fix are reported in
 * the status and in an event; problems that may pass (no answer, 5xx, 409) are thrown, to be retried.
 */
import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { Limits } from '../config/limits.ts';
import { ClusterError, isStatus } from './cluster.ts';
import type { Cluster } from './cluster.ts';
import type { Note, Recorder } from './events.ts';
import {
  claims,
  deployments,
  headgates,
  managedLabels,
  pathOf,
  secrets,
  selectorOf,
  statefulSets,
} from './kinds.ts';
import type { ClusterObject, Kind } from './kinds.ts';
import { isStateful } from './manifest.ts';
import type { Manifest } from './manifest.ts';
import { manifestsOf } from './manifests.ts';
import { NotOurs, Objects } from './objects.ts';
import type { Applied } from './objects.ts';
import { completeSpec, finalizer, problemsOf } from './resource.ts';
import type { CompleteSpec, HeadgateResource, JsonObject } from './resource.ts';
import { MissingSecret, prepareSecrets } from './secrets.ts';
import { isRolledOut, statusOf } from './status.ts';
import type { Trouble } from './status.ts';

interface ReconcilerOptions {
  readonly cluster: Cluster;
  /** The image of a Headgate that names none. */
  readonly image: string | null;
  readonly recorder: Recorder;
  readonly limits: Limits;
  readonly randomBytes: (count: number) => Buffer;
  /** ms since 1970 */
  readonly now: () => number;
}

/** After this many unanswered requests in one run, the server counts as unreachable. */
const lostAnswersMax = 3;

type Changes = Record<'Created' | 'Updated' | 'Repaired', string[]>;

interface ReconcileOutcome {
  readonly workload: ClusterObject | null;
  readonly generatedMasterKeySecret: string;
  readonly trouble: Trouble | null;
}

export class Reconciler {
  readonly #options: ReconcilerOptions;
  /**
   * What was applied last, by Headgate and object: distinguishes a change of the Headgate from a change of the object.
   */
  readonly #applied = new Map<string, Map<string, string>>();

  constructor(options: ReconcilerOptions) {
    this.#options = options;
  }

  /** Returns ms until the next run, or null if the Headgate is gone. */
  async reconcile(namespace: string, name: string, signal: AbortSignal): Promise<number | null> {
    const path = pathOf(headgates, namespace, name);
    const resource = await this.#read(path, signal);
    if (resource === null) {
      this.#forget(`${namespace}/${name}`);
      return null;
    }
    const objects = new Objects(this.#options.cluster, resource.metadata, signal);
    const spec = completeSpec(resource.spec ?? {});
    if (resource.metadata.deletionTimestamp !== undefined) {
      await this.#finish(resource, spec, objects, signal);
      return null;
    }
    await this.#holdOn(resource, path, signal);
    const outcome = await this.#bringAbout(resource, spec, objects, signal);
    await this.#writeStatus({ resource, spec, ...outcome, now: this.#options.now() }, path, signal);
    const { operatorResyncMs, operatorBackoffMaxMs } = this.#options.limits;
    // Secrets are not watched: a missing one is checked for again soon.
    return outcome.trouble === null ? operatorResyncMs : operatorBackoffMaxMs;
  }

  async #read(path: string, signal: AbortSignal): Promise<HeadgateResource | null> {
    try {
      const answer = await this.#options.cluster.request({ method: 'GET', path }, signal);
      return answer as unknown as HeadgateResource;
    } catch (error) {
      if (isStatus(error, 404)) return null;
      throw error;
    }
  }

  /** From here on a deletion waits for the operator. */
  async #holdOn({ metadata }: HeadgateResource, path: string, signal: AbortSignal): Promise<void> {
    const finalizers = metadata.finalizers ?? [];
    if (finalizers.includes(finalizer)) return;
    await this.#patchFinalizers(metadata, path, [...finalizers, finalizer], signal);
  }

  /** Names the version, so that no other finalizer is lost between reading and writing. */
  async #patchFinalizers(
    { resourceVersion }: HeadgateResource['metadata'],
    path: string,
    finalizers: readonly string[],
    signal: AbortSignal,
  ): Promise<void> {
    const contentType = 'application/merge-patch+json';
    const body = { metadata: { finalizers, resourceVersion } };
    await this.#options.cluster.request({ method: 'PATCH', path, contentType, body }, signal);
  }

  async #bringAbout(
    resource: HeadgateResource,
    spec: CompleteSpec,
    objects: Objects,
    signal: AbortSignal,
  ): Promise<ReconcileOutcome> {
    const kind = isStateful(spec) ? statefulSets : deployments;
    let generatedMasterKeySecret = resource.status?.generatedMasterKeySecret ?? '';
    const outcome = async (trouble: Trouble | null): Promise<ReconcileOutcome> => {
      const workload = await objects.read(kind, resource.metadata.name);
      const isOurs = workload !== null && objects.isOurs(workload);
      return { workload: isOurs ? workload : null, generatedMasterKeySecret, trouble };
    };
    if (spec.paused) return outcome(null);
    const problems = [...problemsOf(resource.metadata.name, spec)];
    const image = spec.image === '' ? this.#options.image : spec.image;
    if (image === null) problems.push('spec.image is needed: this operator has no HEADGATE_OPERATOR_IMAGE');
    if (image === null || problems.length > 0)
      return outcome({ reason: 'InvalidSpec', message: problems.join('; ') });
    try {
      const prepared = await prepareSecrets(resource, spec, objects, this.#options.randomBytes);
      ({ generatedMasterKeySecret } = prepared);
      const wanted = manifestsFor(resource, spec, image, prepared.databaseUrlChecksum);
      const refused = await this.#apply(resource, wanted, objects, signal);
      await this.#removeLeftOver(resource, wanted, kind, objects, signal);
      return await outcome(refused);
    } catch (error) {
      return outcome(troubleOf(error));
    }
  }

  /**
   * Applies every object, in order; one that is refused, or whose answer was lost, does not prevent the others. Returns
   * the first refusal; throws errors that may pass.
   */
  async #apply(
    resource: HeadgateResource,
    wanted: readonly Manifest[],
    objects: Objects,
    signal: AbortSignal,
  ): Promise<Trouble | null> {
    const { namespace, name } = resource.metadata;
    const key = `${namespace}/${name}`;
    const known = this.#applied.get(key) ?? new Map<string, string>();
    this.#applied.set(key, known);
    const refusals: Trouble[] = [];
    const failures: unknown[] = [];
    const done: Changes = { Created: [], Updated: [], Repaired: [] };
    for (const manifest of wanted) {
      const id = `${manifest.kind} ${manifest.metadata.name}`;
      const digest = createHash('sha256').update(JSON.stringify(manifest)).digest('base64');
      try {
        const what = changeOf(await objects.apply(manifest), manifest, known.get(id) === digest);
        if (what !== null) done[what].push(id);
        known.set(id, digest);
      } catch (error) {
        // Pods must not be started on another's volume or behind another's Service.
        if (error instanceof NotOurs || signal.aborted) throw error;
        const refusal = refusalOf(error, id);
        if (refusal === null) failures.push(error);
        else refusals.push(refusal);
        // More than a single answer was lost.
        if (failures.length >= lostAnswersMax) break;
      }
    }
    await this.#tellChanges(resource, done, signal);
    if (failures.length > 0) throw failures[0];
    return refusals[0] ?? null;
  }

  async #tellChanges(resource: HeadgateResource, done: Changes, signal: AbortSignal): Promise<void> {
    for (const [reason, ids] of Object.entries(done)) {
      const type = reason === 'Repaired' ? 'Warning' : 'Normal';
      const note = { type, action: 'Apply', reason, note: ids.join(', ') } satisfies Note;
      if (ids.length > 0) await this.#options.recorder.tell(resource, note, signal);
    }
  }

  /** Removes objects no longer wanted; the pods of the other kind of workload only once the new ones are ready. */
  async #removeLeftOver(
    resource: HeadgateResource,
    wanted: readonly Manifest[],
    workloadKind: Kind,
    objects: Objects,
    signal: AbortSignal,
  ): Promise<void> {
    const removed: string[] = [];
    for (const { kind, object } of await objects.leftOver(wanted)) {
      if (kind === statefulSets || kind === deployments) {
        const workload = await objects.read(workloadKind, resource.metadata.name);
        if (workload === null || !isRolledOut(workload)) continue;
      }
      if (await objects.remove(kind, object)) removed.push(`${kind.kind} ${object.metadata.name}`);
    }
    const note = { type: 'Normal', action: 'Remove', reason: 'Removed', note: removed.join(', ') } as const;
    if (removed.length > 0) await this.#options.recorder.tell(resource, note, signal);
  }

  async #writeStatus(
    input: Parameters<typeof statusOf>[0],
    path: string,
    signal: AbortSignal,
  ): Promise<void> {
    const { resource, trouble } = input;
    const status = statusOf(input);
    if (trouble !== null) {
      const note = {
        type: 'Warning',
        action: 'Reconcile',
        reason: trouble.reason,
        note: trouble.message,
      } as const;
      await this.#options.recorder.tell(resource, note, signal);
    }
    if (isDeepStrictEqual(JSON.parse(JSON.stringify(status)), resource.status)) return;
    const contentType = 'application/merge-patch+json';
    const request = { method: 'PATCH' as const, path: `${path}/status`, contentType, body: { status } };
    await this.#options.cluster.request(request, signal);
  }

  /**
   * The Headgate is being deleted: the cluster deletes the objects that it owns. The volume, and the key to its
   * content, stay unless the spec says otherwise.
   */
  async #finish(
    resource: HeadgateResource,
    spec: CompleteSpec,
    objects: Objects,
    signal: AbortSignal,
  ): Promise<void> {
    const { namespace, name, finalizers = [] } = resource.metadata;
    if (!finalizers.includes(finalizer)) return;
    const isEmbedded = spec.databaseUrlSecret === null;
    if (isEmbedded && spec.storage.deleteWithResource) {
      // Pods first: a claim is only removed once no pod uses it.
      await this.#removeOurs(objects, statefulSets, name);
      await this.#removeOurs(objects, claims, `${name}-data`);
      await this.#removeOurs(objects, secrets, `${name}-master-key`);
    }
    const kept = isEmbedded && !spec.storage.deleteWithResource ? `; its volume ${name}-data stays` : '';
    const note = { type: 'Normal', action: 'Delete', reason: 'Deleted', note: `deleted${kept}` } as const;
    await this.#options.recorder.tell(resource, note, signal);
    const rest = finalizers.filter((it) => it !== finalizer);
    await this.#patchFinalizers(resource.metadata, pathOf(headgates, namespace, name), rest, signal);
    this.#forget(`${namespace}/${name}`);
  }

  async #removeOurs(objects: Objects, kind: Kind, name: string): Promise<void> {
    const object = await objects.read(kind, name);
    if (object !== null && objects.isOurs(object)) await objects.remove(kind, object);
  }

  #forget(key: string): void {
    this.#applied.delete(key);
    this.#options.recorder.forget(key);
  }
}

function manifestsFor(
  { metadata }: HeadgateResource,
  spec: CompleteSpec,
  image: string,
  databaseUrlChecksum: string | null,
): readonly Manifest[] {
  const { name, namespace } = metadata;
  const selector = selectorOf(name);
  const common = { name, namespace, image, selector, labels: managedLabels, keep: {} };
  return manifestsOf({ ...common, databaseUrlChecksum, spec });
}

/** null: it was already as desired. */
function changeOf(
  { before, after }: Applied,
  manifest: Manifest,
  wasApplied: boolean,
): 'Created' | 'Updated' | 'Repaired' | null {
  if (before?.metadata.resourceVersion === after.metadata.resourceVersion) return null;
  if (!wasApplied) return before === null ? 'Created' : 'Updated';
  // Between the read and the apply, others may have written their own fields, above all a status: that is not a repair.
  const isSame = before?.metadata.uid === after.metadata.uid;
  return isSame && isDeepStrictEqual(fieldsLike(manifest, before), fieldsLike(manifest, after))
    ? null
    : 'Repaired';
}

/** The values of an object in the fields that `like` names. A list counts as a whole. */
function fieldsLike(like: unknown, value: unknown): unknown {
  if (!isPlain(like) || !isPlain(value)) return value;
  return Object.fromEntries(Object.entries(like).map(([name, it]) => [name, fieldsLike(it, value[name])]));
}

const isPlain = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Problems that the user must fix; everything else is rethrown. */
function troubleOf(error: unknown): Trouble {
  if (error instanceof NotOurs) return { reason: 'NameTaken', message: error.message };
  if (error instanceof MissingSecret) return { reason: error.reason, message: error.message };
  const refusal = refusalOf(error);
  if (refusal === null) throw error;
  return refusal;
}

/** A refusal that the API server would repeat; null: an error that may pass. */
function refusalOf(error: unknown, id?: string): Trouble | null {
  const isLasting = error instanceof ClusterError && [400, 403, 404, 405, 422].includes(error.status);
  if (!isLasting) return null;
  const what = id === undefined ? '' : `${id}: `;
  const reason = error.status === 404 ? 'KindMissing' : 'Refused';
  // After the first line, some refusals contain the difference between two specs.
  const [words = ''] = error.message.split('\n');
  return { reason, message: `${what}${words}`.slice(0, 2_000) };
}
