/**
 * What every stage is given besides its own work: where it reports, the clock, its bounds. `observers` passes each observation to those
 * that read its kind.
 */
import type { Limits } from '../config/limits.ts';
import type { Observation, Observe } from './observations.ts';

export interface StageContext {
  /** Where it reports what has happened. */
  readonly observe: Observe;
  /** A monotonic clock, ms. */
  readonly clock: () => number;
  /** The table of limits, adjusted by settings. */
  readonly limits: Limits;
}

/** What is called with an observation of each kind; those of other kinds cost it nothing. */
export type Readers = {
  readonly [K in Observation['kind']]?: (observation: Extract<Observation, { readonly kind: K }>) => void;
};

/** Passes each observation to every reader of its kind, in order. A reader must not throw. */
export function observers(...readers: readonly (Observe | Readers)[]): Observe {
  const ofKind = (kind: Observation['kind']) =>
    readers.map((it) => (typeof it === 'function' ? it : (it[kind] as Observe | undefined)));
  const known = new Map<string, readonly Observe[]>();
  return (observation) => {
    let wanted = known.get(observation.kind);
    if (wanted === undefined) {
      wanted = ofKind(observation.kind).filter((it) => it !== undefined);
      known.set(observation.kind, wanted);
    }
    for (const reader of wanted) reader(observation);
  };
}

export const monotonicMs = (): number => performance.now();
