/**
 * The life of a service: what starts, what runs (`Service`), whether it can do its work (`awaitReady`: its doors are open before its database can be used,
 * and stay open while it cannot), and how it stops (`stopService`: accepted requests are answered, then everything closes, each phase within its bound; what
 * is left then is cut off). Part of the composition root.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Console } from '../console/console.ts';
import type { Engine } from '../engine/engine.ts';
import type { Closer } from '../kit/closer.ts';
import type { Observe } from '../observe/observations.ts';
import type { Settings } from '../config/settings.ts';
import { limits } from '../config/limits.ts';
import { within } from '../kit/promises.ts';

interface BoundAddress {
  readonly host: string;
  readonly port: number;
}

export interface Service extends Readiness {
  readonly engine: Engine;
  /** `listen` is null if the webhook listener is off. */
  readonly doors: {
    readonly listen: BoundAddress | null;
    readonly sql: BoundAddress;
    readonly gateway: BoundAddress;
    readonly admin: BoundAddress;
  };
  /** On the admin port; null: it is off. */
  readonly console: Console | null;
  /** Answers accepted requests, accepts no new ones, then closes (`stopService`). Calling it again has no effect. */
  stop(reason: string): Promise<Stopped>;
  /** Reads the doors' certificates again; null: no door has one. */
  readonly reload: (() => Promise<void>) | null;
}

/** The engine while it starts, when only the log receives its observations. */
export interface EngineStarting {
  readonly opened: Promise<Engine>;
  /** Replays the observations until now, and passes on all later ones. */
  heardBy(observe: Observe): void;
}

export interface Starting {
  readonly settings: Settings;
  readonly log: Observe;
  readonly version: string;
  readonly engine: EngineStarting;
  readonly closer: Closer;
}

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

/** `cut off`: something did not close in time, e.g. a hung engine, and was ended by force. */
export type Stopped = 'in order' | 'cut off';

interface Stopping {
  readonly drain: readonly Promise<void>[];
  readonly closer: Closer;
  readonly observe: Observe;
  /** Ends at once what Headgate started and what does not end on its own. Never rejects. */
  readonly cutOff?: () => Promise<void>;
}

/** Takes at most `drainMs` plus `closeMs`, and a moment. Rejects if closing failed. */
export async function stopService({ drain, closer, observe, cutOff }: Stopping): Promise<Stopped> {
  await within(limits.drainMs, Promise.allSettled(drain), []);
  const closed = closer.close();
  const ended = closed.then(() => true);
  if (await within(limits.closeMs, ended, false)) {
    observe({ kind: 'service.stopped' });
    return 'in order';
  }
  observe({ kind: 'service.cut_off', what: closer.closing ?? '', afterMs: limits.closeMs });
  await cutOff?.();
  // What waited for the cut-off may now end in order; errors on the way are of no interest.
  await within(
    limits.engineFarewellMs,
    closed.catch(() => undefined),
    undefined,
  );
  observe({ kind: 'service.stopped' });
  return 'cut off';
}
