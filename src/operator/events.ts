/**
 * Reports what the operator did as Kubernetes events of the Headgate concerned (`kubectl describe headgate`). Takes a
 * sentence, refuses nothing: an event that cannot be written appears only in the log. A sentence that repeats the last
 * one of the same Headgate is left out.
 */
import type { Observe } from '../observe/observations.ts';
import type { Cluster } from './cluster.ts';
import { events, managedBy, pathOf } from './kinds.ts';
import { apiVersionOfHeadgate } from './resource.ts';
import type { HeadgateResource } from './resource.ts';

export interface Note {
  readonly type: 'Normal' | 'Warning';
  readonly action: string;
  readonly reason: string;
  readonly note: string;
}

export interface Recorder {
  tell(resource: HeadgateResource, note: Note, signal: AbortSignal): Promise<void>;
  forget(resource: string): void;
}

/** The length that an API server accepts for a note. */
const noteCharsMax = 1_000;

export function createRecorder(
  cluster: Cluster,
  identity: string,
  observe: Observe,
  now: () => number,
  newId: () => string,
): Recorder {
  const last = new Map<string, string>();
  return {
    async tell({ metadata }, { type, action, reason, note }, signal) {
      const { name, namespace, uid, resourceVersion } = metadata;
      const key = `${namespace}/${name}`;
      const sentence = `${reason} ${note}`;
      if (last.get(key) === sentence) return;
      last.set(key, sentence);
      observe({ kind: 'operator.told', resource: key, reason, note });
      const body = {
        apiVersion: events.apiVersion,
        kind: events.kind,
        metadata: { name: `${name.slice(0, 200)}.${newId()}`, namespace },
        eventTime: new Date(now()).toISOString().replace('Z', '000Z'),
        reportingController: `headgate.dev/${managedBy}`,
        reportingInstance: identity.slice(0, 128),
        regarding: {
          apiVersion: apiVersionOfHeadgate,
          kind: 'Headgate',
          name,
          namespace,
          uid,
          resourceVersion,
        },
        action,
        reason,
        note: note.slice(0, noteCharsMax),
        type,
      };
      try {
        await cluster.request({ method: 'POST', path: pathOf(events, namespace), body }, signal);
      } catch {
        // It is in the log.
      }
    },
    forget: (resource) => void last.delete(resource),
  };
}
