/** Every benchmark, in the order of the report. */
import { answers } from './answers.ts';
import { attacks } from './attacks.ts';
import { batches } from './batches.ts';
import { bodies } from './bodies.ts';
import { comparison } from './comparison.ts';
import { watching } from './consoles.ts';
import { events } from './events.ts';
import { headgates } from './headgates.ts';
import { into } from './into.ts';
import { keep } from './keep.ts';
import { listeners } from './listeners.ts';
import { lone } from './lone.ts';
import { mixedAttacks } from './mixed-attacks.ts';
import { overload } from './overload.ts';
import { parts } from './parts.ts';
import type { Bench } from './report.ts';
import { restarts } from './restarts.ts';
import { risingwave } from './risingwave.ts';
import { scale } from './scale.ts';
import { tableShapes } from './shapes.ts';
import { singleEvents } from './single-events.ts';
import { slowDisk } from './slow-disk.ts';
import { soak } from './soak.ts';
import { spool } from './spool.ts';
import { sqlDoor } from './sql-door.ts';
import { stream } from './stream.ts';

export const benches: readonly Bench[] = [
  singleEvents,
  comparison,
  slowDisk,
  lone,
  bodies,
  tableShapes,
  batches,
  scale,
  listeners,
  headgates,
  watching,
  answers,
  events,
  risingwave,
  into,
  stream,
  sqlDoor,
  parts,
  overload,
  spool,
  attacks,
  mixedAttacks,
  restarts,
  keep,
  soak,
];
