/**
 * What a lookup of relations by name is, and what it says of those that take no rows. Refuses with `relation_not_found`, `relation_not_writable`
 * and `key_missing`; pure.
 */
import { Refused } from '../errors/refusals.ts';
import type { Intake, Target } from '../types/target.ts';

/** How relations are found: by PostgreSQL's catalog (gateway/relations.ts), or by RisingWave's (risingwave/relations.ts). */
export interface Lookup<Row, Mode> {
  /** Throws Refused, or the engine's error. */
  look(name: string): Promise<Row>;
  /** Throws Refused. */
  toTarget(name: string, row: Row, mode: Mode): Target;
}

/** What a gateway takes of a request: one JSON document, whose keys fill the columns of the same name. */
export const plainIntake: Intake = {
  format: 'json',
  batched: false,
  document: null,
  unknown: 'ignore',
  includes: [],
  hiddenHeaders: new Set(),
};

export function notFound(name: string): Refused {
  return new Refused('relation_not_found', `no such table "${name}"`);
}

export function notWritable(name: string, why: string): Refused {
  return new Refused('relation_not_writable', `"${name}" ${why}`);
}

export function keyMissing(name: string): Refused {
  return new Refused('key_missing', `"${name}" has no primary key that a row could say`);
}
