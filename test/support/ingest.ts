/** The path of a webhook without catalog and engine: one table, and an outcome for all of its rows. */
import { Ingest } from '../../src/ingest/ingest.ts';
import type { Stages } from '../../src/ingest/ingest.ts';
import type { Outcome, Rows } from '../../src/types/rows.ts';
import type { Target } from '../../src/types/target.ts';

const committed: Outcome = { kind: 'committed', rows: 1 };

/** `find`: the table as it is now. Nobody answers handshakes, and nothing is kept, except as a test says. */
export function ingestOf(
  find: () => Target,
  {
    submit = () => committed,
    refresh = () => Promise.resolve(),
    ...more
  }: Partial<Stages> & {
    readonly submit?: (rows: Rows) => Outcome;
    readonly refresh?: () => Promise<void>;
  } = {},
): Ingest {
  return new Ingest({
    catalog: {
      answering: find,
      find,
      isStill: () => true,
      isWatchingTable: () => true,
      known: () => null,
      doubtMs: () => 0,
      refresh,
    },
    lanes: { admit: () => undefined, submit: async (rows) => submit(rows) },
    gate: null,
    disk: null,
    settings: { spool: 'off', spoolTrustSeconds: 60, spoolHours: 1 },
    handshakes: {
      lastKnown: () => null,
      meanwhile: async () => null,
      posted: () => null,
      learning: async () => null,
    },
    sns: null,
    rejects: { keep: () => undefined },
    apart: { keep: () => Promise.resolve(false) },
    hold: () => '',
    observe: () => undefined,
    clock: () => 0,
    ...more,
  });
}
