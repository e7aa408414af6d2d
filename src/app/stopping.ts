/**
 * The end of a service: what was taken is answered, then everything closes, each phase within its bound; what is left
 * then is cut off. Takes what drains and what closes; gives whether all of it ended in good order. Part of the
 * composition root.
 */
import type { Closer } from '../kit/closer.ts';
import { within } from '../kit/within.ts';
import { limits } from '../tables/limits.ts';
import type { Observe } from '../tables/observations.ts';

/** `cut off`: something did not close in time, e.g. a hung engine, and was ended as it was. */
export type Stopped = 'in order' | 'cut off';

export interface Stopping {
  readonly drain: readonly Promise<void>[];
  readonly closer: Closer;
  readonly observe: Observe;
  /** Ends at once what is ours and does not end by itself. Never rejects. */
  readonly cutOff?: () => Promise<void>;
}

/** At most `drainMs` and `closeMs`, and a moment. Rejects when closing failed. */
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
  // What waited for that may now end in order; what fails on the way is no news.
  await within(
    limits.engineFarewellMs,
    closed.catch(() => undefined),
    undefined,
  );
  observe({ kind: 'service.stopped' });
  return 'cut off';
}
