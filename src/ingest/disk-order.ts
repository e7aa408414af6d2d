/**
 * Rows that bypass the disk, those of WebSockets and of retries: they must not overtake rows of their table that are on it. Refuses with `rate_limited`,
 * `spooling`, `lane_full` and `draining`.
 */
import type { Admission } from '../access/admission.ts';
import type { ExpectedRequest, Lanes } from '../batch/lanes.ts';
import type { Catalog } from '../catalog/catalog.ts';
import { Refused } from '../errors/refusals.ts';
import type { Target } from '../types/target.ts';
import type { Disk } from './spooling.ts';

/** What they pass. */
export interface DirectStages {
  readonly catalog: Pick<Catalog, 'find' | 'isStill' | 'refresh'>;
  readonly lanes: Pick<Lanes, 'admit' | 'submit'>;
  /** null: the rate of a table has no bound. */
  readonly gate: Pick<Admission, 'admitTable'> | null;
  /** null: no requests are kept. */
  readonly disk: Pick<Disk, 'spoolOf'> | null;
}

/** To be called before the rows are made. Throws `rate_limited`, `lane_full`, `draining`, `spooling`. */
export function admitPastDisk(
  { gate, disk, lanes }: DirectStages,
  target: Target,
  expected: ExpectedRequest,
): void {
  gate?.admitTable(target);
  const order = disk?.spoolOf(target.database)?.knownGate(target.oid) ?? null;
  if (order !== null && order.state !== 'open') throw new Refused('spooling');
  lanes.admit(target, expected);
}
