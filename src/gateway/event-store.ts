/** Where POST /v1/events stores its rows, and what its parts pass to each other. Types only. */
import type { Lanes } from '../batch/lanes.ts';
import type { Target } from '../types/target.ts';
import type { LargeBody } from './large-body.ts';
import type { Skipped } from './skipped-lines.ts';

export const conflicts = ['error', 'update', 'ignore'] as const;
export type OnConflict = (typeof conflicts)[number];

/**
 * Which store a database has: always PostgresEvents for those of Headgate's own engine, and for others (EventsByProduct in external-databases.ts) what the
 * database says that it is.
 */
export interface EventStores {
  /** At once if it is known; throws Refused. */
  of(database: string): EventStore | Promise<EventStore>;
  /** As of EventStore. */
  release(database: string): Promise<void>;
}

/** How rows are stored in the tables of a database: PostgreSQL's (events.ts), and RisingWave's (risingwave-events.ts). */
export interface EventStore {
  /** A monotonic clock, ms. */
  readonly clock: () => number;
  /** Where the rows of small bodies wait for their commit. */
  readonly lanes: Lanes;
  /**
   * The table that a name denotes now, resolved as in SQL, as the engine said after `sinceMs` of the clock; throws `relation_not_found`,
   * `relation_not_writable`, `key_missing`.
   */
  find(
    database: string,
    name: string,
    onConflict: OnConflict | null,
    sinceMs?: number,
  ): Target | Promise<Target>;
  /** The engine has reported that the table has changed. */
  forget(database: string, name: string): void;
  /** Releases a database, so that it can be dropped or renamed. */
  release(database: string): Promise<void>;
  /** For bodies too large for a lane; throws Refused or LineRefused. */
  large(target: Target, request: EventRequest, body: LargeBody): Promise<EventAnswer>;
  /** For a small body with rows that the engine has refused and that are to be left out. `untilMs`: of the clock, when the sender is answered. */
  skipping(target: Target, request: EventRequest, body: Buffer, untilMs: number): Promise<EventAnswer>;
  /** Resolves once everything answered before is readable; throws Refused. */
  readable(database: string): Promise<void>;
}

export interface EventRequest {
  readonly database: string;
  readonly name: string;
  /** null: not specified. */
  readonly onConflict: OnConflict | null;
  /** Commit the good lines and list the bad ones. */
  readonly skips: boolean;
  /** Answer once the rows are readable. */
  readonly flush: boolean;
  /** Whoever sends it has no more than a token of CREATE TOKEN. */
  readonly isOfToken?: true;
}

export interface EventAnswer {
  readonly rows: number;
  /** null: rows were not skipped, it was all or nothing. */
  readonly skipped: Skipped | null;
  /** Rows that were not newer than what the table has; absent: none. */
  readonly stale?: number | undefined;
}
