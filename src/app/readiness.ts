/**
 * Whether a service can do its work: its doors are open before its database can be used, and stay open while it cannot. Takes a question for
 * the reason and reports `service.ready` once there is none, and `service.waiting` with the reason until then. Part of the composition root.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { limits } from '../config/limits.ts';
import type { Closer } from '../kit/closer.ts';
import type { Observe } from '../observe/observations.ts';

export interface Readiness {
  /** The reason at the start; null: it was ready at once. */
  readonly waiting: string | null;
  /** Resolves once it is ready, or with false when it is stopped before. Never rejects. */
  readonly ready: Promise<boolean>;
}

/** `whyNot`: null once it is ready. */
export function awaitReady(whyNot: () => string | null, observe: Observe, closer: Closer): Readiness {
  const waiting = whyNot();
  if (waiting === null) {
    observe({ kind: 'service.ready' });
    return { waiting, ready: Promise.resolve(true) };
  }
  observe({ kind: 'service.waiting', reason: waiting });
  const stop = new AbortController();
  const { signal } = stop;
  const look = async (): Promise<boolean> => {
    while (!signal.aborted) {
      if (whyNot() === null) {
        observe({ kind: 'service.ready' });
        return true;
      }
      await sleep(limits.readyLookMs, undefined, { signal }).catch(() => undefined);
    }
    return false;
  };
  const ready = look();
  closer.add('wait for the database', async () => {
    stop.abort();
    await ready;
  });
  return { waiting, ready };
}
