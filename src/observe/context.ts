/** What every stage is given besides its own work. Types only. */
import type { Limits } from '../config/limits.ts';
import type { Observe } from './observations.ts';

export interface StageContext {
  /** Where it reports what has happened. */
  readonly observe: Observe;
  /** A monotonic clock, ms. */
  readonly clock: () => number;
  /** The table of limits, adjusted by settings. */
  readonly limits: Limits;
}
