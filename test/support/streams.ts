/** The deps of a stream for tests of the doors: tables of one JSONB column whose items are appended. */
import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { scanJson } from '../../src/decode/json-scan.ts';
import type { Outcome, Rows } from '../../src/types/rows.ts';
import type { Target } from '../../src/types/target.ts';
import type { ItemsRequest, StreamDeps } from '../../src/ingest/ingest-stream.ts';
import { limits } from '../../src/config/limits.ts';
import { parseIngestTarget } from '../../src/ingest/routes.ts';
import { Refused } from '../../src/errors/refusals.ts';
import { targetOf } from './rows.ts';

/** What decode returns for the items of a table with one JSONB column. */
function decodeDocuments(target: Target, items: ItemsRequest): Rows {
  const { bytes, spans } = items.documents;
  for (let i = 0; i * 2 < spans.length; i++) {
    const problem = scanJson(bytes.subarray(spans[i * 2], spans[i * 2 + 1]), {
      depthMax: limits.jsonDepthMax,
    });
    if (problem !== null)
      throw new Refused(
        'body_not_json',
        `item ${i + 1}: failed to decode webhook JSON payload: ${problem.reason}`,
      );
  }
  return {
    target,
    documents: items.documents,
    count: spans.length / 2,
    bytes: bytes.length,
    deletes: items.deletes,
    keeps: null,
    lines: null,
    ackTimeoutMs: limits.ackDeadlineMs,
    chain: null,
    ignored: null,
  };
}

/**
 * The deps of an ingest that commits everything, except those that a test gives. Tables: `none` does not exist, `keyed` has a key.
 */
export function streamRooms(given: Partial<StreamDeps> = {}): StreamDeps {
  const targets = new Map<string, Target>();
  return {
    route: (target) => {
      const name = parseIngestTarget(target);
      if ('code' in name) throw new Refused(name.code, name.message);
      return name;
    },
    find: (name) => {
      if (name.table === 'none') throw new Refused('not_found');
      const key = name.table === 'keyed' ? [{ name: 'data', generated: null }] : [];
      const target = targets.get(name.table) ?? targetOf({ ...name, shape: { key } });
      targets.set(name.table, target);
      return target;
    },
    isStill: () => true,
    admit: () => undefined,
    decode: decodeDocuments,
    submit: (rows) => Promise.resolve<Outcome>({ kind: 'committed', rows: rows.count }),
    refresh: () => Promise.resolve(),
    pause: (ms) => delay(ms),
    clock: () => performance.now(),
    random: () => 0,
    limits,
    ...given,
  };
}

/** The items of rows, as text. */
export function textsOf({ documents: { bytes, spans } }: Rows): string[] {
  const ends = spans ?? [0, bytes.length];
  return Array.from({ length: ends.length / 2 }, (_, i) =>
    bytes.toString('utf8', ends[2 * i], ends[2 * i + 1]),
  );
}
