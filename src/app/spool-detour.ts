/**
 * Connects the detour that requests take while their database is unreachable to the rooms that know the tables, whether this process
 * keeps the requests on its disk or sends them to the process that does. Part of the composition root.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Lanes } from '../batch/lanes.ts';
import type { Catalog } from '../catalog/catalog.ts';
import { keyOfName } from '../catalog/snapshot.ts';
import type { IngestDeps } from '../ingest/ingest.ts';
import { createSpooling } from '../ingest/spooling.ts';
import type { SpoolRoom } from '../ingest/spooling.ts';
import type { TableGate } from '../spool/table-order.ts';
import type { Target } from '../types/target.ts';
import type { Observe } from '../observe/observations.ts';
import { Refused } from '../errors/refusals.ts';
import type { Settings } from '../config/settings.ts';
import { isSpooling } from '../spool/spool-settings.ts';

interface Surroundings {
  readonly settings: Settings;
  readonly catalog: Catalog;
  readonly lanes: Lanes;
  readonly observe: Observe;
  /** null: no requests are kept here. */
  readonly disk: {
    /** null: requests for this database are not kept. */
    spoolOf(database: string): (SpoolRoom & { knownGate(oid: number): TableGate | null }) | null;
    /** Resolves when the spool of a database is opened. */
    opened(database: string): Promise<void>;
  } | null;
}

export interface Detour extends Pick<IngestDeps, 'find' | 'isStill' | 'admit' | 'submit'> {
  /** Throws Refused if rows of this table that bypass the disk would overtake rows that do not. */
  refuseOvertaking(target: Target): void;
}

/** Tables that do not use the spool take the same path as without it. */
export function detourOf(surroundings: Surroundings): Detour {
  const { settings, catalog, lanes, observe, disk } = surroundings;
  const spoolOf = (database: string) => disk?.spoolOf(database) ?? null;
  const trustMs = settings.spoolTrustSeconds * 1_000;
  const stages = createSpooling({
    find: (name) => catalog.find(name),
    isStill: (target, sinceMs) => catalog.isStill(target, sinceMs),
    admit: (target, bytes) => lanes.admit(target, { bytes, inOrder: false }),
    submit: (rows) => lanes.submit(rows),
    isWatching: (database) => catalog.isWatching(database),
    remembered: (name) => {
      const known = catalog.known(name.database);
      if (known === null || known.ageMs > trustMs) return null;
      const table = known.snapshot.tables.get(keyOfName(name)) ?? null;
      return table === null || catalog.doubtMs(table) > trustMs ? null : table;
    },
    spools: (target) => isSpooling(target, settings),
    spoolOf,
    spoolOpened: (database) => disk?.opened(database) ?? Promise.resolve(),
    ageS: settings.spoolHours * 3_600,
    pause: (ms) => delay(ms, undefined, { ref: false }),
    observe,
    nowMs: Date.now,
  });
  return {
    ...stages,
    refuseOvertaking: ({ database, oid }) => {
      const gate = spoolOf(database)?.knownGate(oid) ?? null;
      if (gate !== null && gate.state !== 'open') throw new Refused('spooling');
    },
  };
}
