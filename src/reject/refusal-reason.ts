/**
 * Why VALIDATE has refused a request, for the owner of its table. The check is evaluated once more, after the answer, in the
 * turns of long work, and a bounded number of times per second, however large a flood is. A body that was cut is not checked: it
 * would be refused for that alone.
 */
import { RateLimit } from '../access/rate-limit.ts';
import { longWork } from '../kit/time-slices.ts';
import type { RejectedRequest } from '../types/journal.ts';
import type { WhyNot } from '../types/request.ts';
import type { Limits } from '../config/limits.ts';
import { storable } from './redact.ts';
import type { Description } from './redact.ts';

/** What is kept of a request, and the request without its body. */
export interface Kept {
  readonly request: RejectedRequest;
  readonly description: Description;
}

type WhyLimits = Pick<
  Limits,
  'rejectedExplainedBurst' | 'rejectedExplainedPerSecond' | 'rejectedReasonCharsMax'
>;

export class RefusalReasons {
  readonly #limits: WhyLimits;
  readonly #clock: () => number;
  readonly #rate: RateLimit;

  constructor(limits: WhyLimits, clock: () => number) {
    this.#limits = limits;
    this.#clock = clock;
    const { rejectedExplainedPerSecond: count, rejectedExplainedBurst: burst } = limits;
    this.#rate = new RateLimit({ count, perMs: 1_000, burst }, 1);
  }

  /** The same descriptions, with a more detailed reason if there is one. */
  async tell(batch: readonly Kept[], signal: AbortSignal): Promise<readonly Description[]> {
    const bytes = batch.reduce((sum, { description }) => sum + (description.body?.length ?? 0), 0);
    return longWork.slices(bytes, this.#inSlices(batch, signal));
  }

  *#inSlices(batch: readonly Kept[], signal: AbortSignal): Generator<void, readonly Description[]> {
    const told: Description[] = [];
    for (const { request, description } of batch) {
      const why = signal.aborted ? null : this.#whyOf(request, description);
      const event = signal.aborted ? null : eventOf(request, description);
      const named = { ...description, event };
      told.push(
        why === null
          ? named
          : { ...named, reason: this.#joined(description.reason, why.reason), cause: why.cause },
      );
      if (why !== null || event !== null) yield;
    }
    return told;
  }

  #whyOf(request: RejectedRequest, { code, body, bodyBytes }: Description): WhyNot | null {
    const { whyRefused } = request.target;
    if (code !== 'signature_failed' || whyRefused === undefined) return null;
    if (body === null || body.length !== bodyBytes) return null;
    if (this.#rate.take('', this.#clock()) > 0) return null;
    const { method, requestTarget: target, rawHeaders, arrivedAtMs } = request;
    try {
      return whyRefused({ method, target, rawHeaders, arrivedAtMs, body });
    } catch {
      // A failure to explain one request must not keep others from being kept.
      return null;
    }
  }

  #joined(reason: string, why: string): string {
    return storable(`${reason}: ${why}`.slice(0, this.#limits.rejectedReasonCharsMax));
  }
}

/** As the table's sender writes it: in a header, or in a body that was kept as a whole. */
function eventOf({ target, rawHeaders }: RejectedRequest, { body, bodyBytes }: Description): string | null {
  const event = target.sender?.event(rawHeaders, body?.length === bodyBytes ? body : null) ?? null;
  return event === null ? null : storable(event);
}
