/**
 * Why a request is not kept, and what its sender is told: `spool_full`, `overloaded`, `engine_unavailable`, `commit_unknown`. Refuses with these.
 */
import { limits } from '../config/limits.ts';
import { refusal, Refused } from '../errors/refusals.ts';

export class NotKept extends Error {
  override readonly name = 'NotKept';
  readonly why: 'full' | 'busy' | 'locked' | 'off' | 'unknown';

  constructor(why: NotKept['why']) {
    super(`not kept: ${why}`);
    this.why = why;
  }
}

export const full = { ...refusal('spool_full'), retryAfterSeconds: limits.spoolFullRetrySeconds };
export const noKey = refusal(
  'engine_unavailable',
  'the database is not available, and the master key is not here, without which no request is kept',
);
const notTold = refusal(
  'commit_unknown',
  'the database is not available, and the disk failed while the request was being kept',
);

/** What the sender is told; other errors stay as they are. */
export function refusedFor(error: unknown): unknown {
  if (!(error instanceof NotKept)) return error;
  switch (error.why) {
    case 'full':
      return new Refused(full);
    case 'busy':
      return new Refused('overloaded');
    case 'locked':
      return new Refused(noKey);
    case 'off':
      return new Refused('engine_unavailable');
    case 'unknown':
      return new Refused(notTold);
  }
}
