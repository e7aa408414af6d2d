/**
 * Refused requests that wait to be written: a bounded queue. What does not fit is not taken; the oldest stay,
 * because the beginning of a flood says more than its thousandth repetition.
 */
import type { RejectedRequest } from '../types/journal.ts';
import type { Limits } from '../config/limits.ts';
import { describe } from './redact.ts';
import type { Kept } from './refusal-reason.ts';

type WaitingLimits = Pick<
  Limits,
  | 'rejectedBodyBytesMax'
  | 'rejectedReasonCharsMax'
  | 'rejectedWaitingMax'
  | 'rejectedWaitingBytesMax'
  | 'rejectedBatchRowsMax'
  | 'rejectedBatchBytesMax'
  | 'requestCostBytes'
>;

interface Entry {
  readonly request: RejectedRequest;
  readonly body: Buffer | null;
  readonly bodyBytes: number | null;
  readonly bytes: number;
}

export class Waiting {
  readonly #limits: WaitingLimits;
  readonly #entries: Entry[] = [];
  #bytes = 0;

  constructor(limits: WaitingLimits) {
    this.#limits = limits;
  }

  get length(): number {
    return this.#entries.length;
  }

  /** False: there is no room. Copies the part of the body that is kept, and does not hold the rest. */
  push(request: RejectedRequest): boolean {
    const limits = this.#limits;
    const keeps = Math.min(request.body?.length ?? 0, limits.rejectedBodyBytesMax);
    const bytes = limits.requestCostBytes + textBytes(request) + keeps;
    if (this.#entries.length >= limits.rejectedWaitingMax) return false;
    if (this.#bytes + bytes > limits.rejectedWaitingBytesMax) return false;
    // A slice would keep the whole body in memory as long as it waits.
    const body = request.body === null ? null : Buffer.from(request.body.subarray(0, keeps));
    const bodyBytes = request.body?.length ?? null;
    this.#entries.push({ request: { ...request, body: null }, body, bodyBytes, bytes });
    this.#bytes += bytes;
    return true;
  }

  /** Removes and returns the next ones for one statement, the oldest first. */
  takeBatch(): readonly Kept[] {
    const { rejectedBatchRowsMax, rejectedBatchBytesMax } = this.#limits;
    const batch: Kept[] = [];
    let bytes = 0;
    for (const entry of this.#entries) {
      bytes += entry.bytes;
      if (batch.length > 0 && (batch.length >= rejectedBatchRowsMax || bytes > rejectedBatchBytesMax)) break;
      const { request } = entry;
      batch.push({ request, description: describe(request, entry.body, entry.bodyBytes, this.#limits) });
    }
    for (const entry of this.#entries.splice(0, batch.length)) this.#bytes -= entry.bytes;
    return batch;
  }
}

function textBytes({ requestTarget, rawHeaders }: RejectedRequest): number {
  return rawHeaders.reduce((sum, text) => sum + text.length, requestTarget.length);
}
