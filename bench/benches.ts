/** The scenarios, the comparison and the pages of the console, in the order of the report. */
import { batches } from './batches.ts';
import { comparison } from './comparison.ts';
import { consolePages } from './console.ts';
import { events } from './events.ts';
import { owners } from './owners.ts';
import type { Bench } from './report.ts';
import { singleEvents } from './single-events.ts';
import { spool } from './spool.ts';
import { spread } from './spread.ts';

export const benches: readonly Bench[] = [
  singleEvents,
  comparison,
  batches,
  spread,
  owners,
  events,
  spool,
  consolePages,
];
