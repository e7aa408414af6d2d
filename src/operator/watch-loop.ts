/**
 * Tracks one kind of object: lists it, then follows its changes until it is told to stop.
 *
 *   listing   all objects, page by page; then watching from the list's version
 *   watching  each event, and each bookmark, advances the version; when the server ends the watch, it is resumed
 *             from there; when that version is too old (410 Gone, as an answer or as an event), listing
 *   failed    no answer, or another refusal: after a growing pause, listing, because it is unknown what was missed
 *
 * Passes every object it sees to `onObject`. Refuses nothing: it ends only with its signal. It pauses between two
 * watches, so that it does not loop busily if a proxy ends every watch at once.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { backoffMs } from '../kit/backoff.ts';
import type { Limits } from '../config/limits.ts';
import type { Observe } from '../observe/observations.ts';
import { ClusterError, isStatus } from './cluster.ts';
import type { Cluster } from './cluster.ts';
import { pathOf } from './kinds.ts';
import type { ClusterObject, Kind } from './kinds.ts';

interface WatchLoop {
  readonly cluster: Cluster;
  readonly kind: Kind;
  /** null: all namespaces. */
  readonly namespace: string | null;
  readonly labelSelector?: string;
  readonly onObject: (object: ClusterObject, isDeleted: boolean) => void;
  readonly limits: Limits;
  readonly observe: Observe;
  readonly random: () => number;
  readonly signal: AbortSignal;
}

export async function watchLoop(loop: WatchLoop): Promise<void> {
  const { kind, observe, random, signal, limits } = loop;
  let failures = 0;
  while (!signal.aborted) {
    try {
      let version: string | null = await list(loop);
      failures = 0;
      while (!signal.aborted && version !== null) {
        version = await follow(loop, version);
        await pause(limits.operatorBackoffMinMs, signal);
      }
    } catch (error) {
      if (signal.aborted) return;
      failures++;
      observe({ kind: 'operator.watch_failed', resource: kind.plural, reason: (error as Error).message });
      const pauseMs = backoffMs(failures, limits.operatorBackoffMinMs, limits.operatorBackoffMaxMs, random);
      await pause(pauseMs, signal);
    }
  }
}

interface List {
  readonly metadata: { readonly resourceVersion: string; readonly continue?: string };
  readonly items: readonly ClusterObject[];
}

/** Returns the version of the list. */
async function list(loop: WatchLoop): Promise<string> {
  const { cluster, kind, namespace, labelSelector, onObject, signal, limits } = loop;
  let page: string | undefined;
  for (let pages = 0; pages < limits.operatorResourcesMax; pages++) {
    const query = {
      limit: String(limits.operatorListPageMax),
      ...(labelSelector !== undefined && { labelSelector }),
      ...(page !== undefined && { continue: page }),
    };
    const answer = await cluster.request({ method: 'GET', path: pathOf(kind, namespace), query }, signal);
    const { items, metadata } = answer as unknown as List;
    for (const object of items) onObject(object, false);
    page = metadata.continue ?? '';
    if (page === '') return metadata.resourceVersion;
  }
  throw new ClusterError(0, 'TooMany', `more ${kind.plural} than an operator can look at`);
}

/** Returns the version to continue from; null: it is too old for that. */
async function follow(loop: WatchLoop, from: string): Promise<string | null> {
  const { cluster, kind, namespace, labelSelector, onObject, signal } = loop;
  const query = { resourceVersion: from, ...(labelSelector !== undefined && { labelSelector }) };
  let version = from;
  try {
    for await (const { type, object } of cluster.watch(pathOf(kind, namespace), query, signal)) {
      if (type === 'ERROR') {
        if (object['code'] === 410) return null;
        const { code, reason, message } = object as { code?: number; reason?: string; message?: string };
        throw new ClusterError(code ?? 0, reason ?? 'Unknown', message ?? 'the watch failed');
      }
      const seen = object as ClusterObject;
      version = seen.metadata.resourceVersion ?? version;
      if (type !== 'BOOKMARK') onObject(seen, type === 'DELETED');
    }
    return version;
  } catch (error) {
    if (isStatus(error, 410)) return null;
    throw error;
  }
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await delay(ms, undefined, { signal }).catch(() => {});
}
