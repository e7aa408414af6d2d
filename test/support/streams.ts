/** The deps of a stream for tests of the doors: tables of one JSONB column whose items are appended. */
import { performance } from 'node:perf_hooks';
import type { Outcome, Rows } from '../../src/types/rows.ts';
import type { Target } from '../../src/types/target.ts';
import type { Lanes } from '../../src/batch/lanes.ts';
import type { Catalog } from '../../src/catalog/catalog.ts';
import { RequestStreams } from '../../src/ingest/ingest-stream.ts';
import type { StreamFence } from '../../src/ingest/stream-fence.ts';
import type { TableName } from '../../src/observe/observations.ts';
import type { Rejects } from '../../src/reject/rejected-requests.ts';
import type { Limits } from '../../src/config/limits.ts';
import { limits } from '../../src/config/limits.ts';
import { Refused } from '../../src/errors/refusals.ts';
import { targetOf } from './rows.ts';

/** The stages of a stream that a test may replace. */
export interface TestStreams {
  readonly find: Catalog['find'];
  readonly isStill: Catalog['isStill'];
  readonly admit: (target: Target) => void;
  readonly submit: Lanes['submit'];
  readonly refresh: Catalog['refresh'];
  readonly rejected: Rejects['keep'];
  readonly clock: () => number;
  readonly pause: (ms: number) => Promise<void>;
  readonly limits: Limits;
  readonly fence: StreamFence | null;
}

/**
 * Streams that commit everything, except as a test says. Tables: `none` does not exist, `keyed` has a key.
 */
export function testStreams(given: Partial<TestStreams> = {}): RequestStreams {
  const targets = new Map<string, Target>();
  const find = (name: TableName): Target => {
    if (name.table === 'none') throw new Refused('not_found');
    const key = name.table === 'keyed' ? [{ name: 'data', generated: null }] : [];
    const target = targets.get(name.table) ?? targetOf({ ...name, shape: { key } });
    targets.set(name.table, target);
    return target;
  };
  const submit = (rows: Rows) => Promise.resolve<Outcome>({ kind: 'committed', rows: rows.count });
  const { rejected, clock = () => performance.now() } = given;
  return new RequestStreams(
    {
      catalog: {
        find: given.find ?? find,
        isStill: given.isStill ?? (() => true),
        refresh: given.refresh ?? (() => Promise.resolve()),
      },
      lanes: { admit: given.admit ?? (() => undefined), submit: given.submit ?? submit },
      gate: null,
      disk: null,
      rejects: rejected === undefined ? null : { keep: rejected },
      clock,
      limits: given.limits ?? limits,
      fence: given.fence ?? null,
    },
    given.pause,
  );
}

/** The items of rows, as text. */
export function textsOf({ documents: { bytes, spans } }: Rows): string[] {
  const ends = spans ?? [0, bytes.length];
  return Array.from({ length: ends.length / 2 }, (_, i) =>
    bytes.toString('utf8', ends[2 * i], ends[2 * i + 1]),
  );
}
