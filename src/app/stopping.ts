/**
 * Stops a service: accepted requests are answered, then everything closes, each phase within its bound; what is left
 * then is cut off. Takes what drains and what closes; returns whether everything ended in order. Part of the
 * composition root.
 */
import type { Closer } from '../kit/closer.ts';
import { within } from '../kit/promises.ts';
import { limits } from '../config/limits.ts';
import type { Observe } from '../observe/observations.ts';

/** `cut off`: something did not close in time, e.g. a hung engine, and was ended by force. */
export type Stopped = 'in order' | 'cut off';

export interface Stopping {
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
