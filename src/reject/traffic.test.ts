import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { tookBoundsMs } from '../observe/durations.ts';
import { TrafficCounts } from './traffic.ts';
import type { CountedAnswer } from './traffic.ts';

const bounds = { trafficTablesMax: 2, trafficWaitingMax: 3, trafficFlushMs: 10 };
const minute = 60_000;

function answered(code: CountedAnswer['code'], ms = 1): CountedAnswer {
  return { kind: 'request.answered', table: null, status: 0, code, rows: 1, seconds: ms / 1_000 };
}

/** Tables, minutes and requests by outcome of what is to be written. */
const taken = (counts: TrafficCounts): unknown =>
  counts
    .take(0, true)
    ?.slice(0, 6)
    .map((values) => values);

suite('traffic is counted by table and minute', () => {
  test('traffic counts hold outcomes and durations by minute', () => {
    const counts = new TrafficCounts({ ...bounds, trafficTablesMax: 9 });
    for (const code of ['committed', 'spooled', 'handshake'] as const) counts.add(7, answered(code), minute);
    for (const code of ['signature_failed', 'payload_undecodable', 'not_found'] as const)
      counts.add(7, answered(code), minute + 1);
    for (const code of ['engine_unavailable', 'lane_full', 'rate_limited'] as const)
      counts.add(7, answered(code), 2 * minute - 1);
    for (const ms of [0.1, 1, 1.1, 10_000, 10_001]) counts.add(8, answered('committed', ms), 2 * minute);
    const [tables, minutes, stored, unauthorized, refused, unavailable, rows, took, last] =
      counts.take(0, true) ?? [];
    assert.deepEqual(
      [tables, minutes],
      [
        [7, 8],
        [1, 2],
      ],
    );
    assert.deepEqual(
      [stored, unauthorized, refused, unavailable],
      [
        [2, 5],
        [1, 0],
        [2, 0],
        [3, 0],
      ],
    );
    assert.deepEqual(
      [rows, last],
      [
        [8, 5],
        [119.999, 120],
      ],
    );
    const classes = (took as string[])[1];
    assert.equal(classes, `{2,1,${'0,'.repeat(tookBoundsMs.length - 3)}1,1}`);
    assert.equal(counts.take(0, true), null);
  });

  test('a request that did not arrive in time is counted, and its duration is not', () => {
    const counts = new TrafficCounts(bounds);
    counts.add(1, answered('committed'), minute);
    for (const code of ['request_timeout', 'request_aborted'] as const)
      counts.add(1, answered(code, 30_000), minute);
    const [, , stored, , refused, , , took] = counts.take(0, true) ?? [];
    assert.deepEqual([stored, refused], [[1], [2]]);
    const sum = (took as string[])[0]
      ?.replaceAll(/[{}]/g, '')
      .split(',')
      .reduce((all, it) => all + Number(it), 0);
    assert.equal(sum, 1);
  });

  test('traffic counts are written periodically, with bounds on tables and minutes', () => {
    const counts = new TrafficCounts(bounds);
    const add = (table: number, at: number) => counts.add(table, answered('committed'), at * minute);
    add(1, 1);
    assert.notEqual(counts.take(100, false), null);
    add(1, 1);
    assert.equal(counts.take(109, false), null);
    assert.notEqual(counts.take(110, false), null);
    for (const table of [1, 2, 3]) add(table, 1);
    assert.deepEqual(taken(counts), [
      [1, 2],
      [1, 1],
      [1, 1],
      [0, 0],
      [0, 0],
      [0, 0],
    ]);
    for (const at of [1, 2, 3, 4, 5]) add(1, at);
    assert.deepEqual((taken(counts) as unknown[])[1], [3, 4, 5]);
    // The same place of two days: the later one stays, however long nobody could write.
    for (const at of [3, 3 + 1440]) add(1, at);
    assert.deepEqual((taken(counts) as unknown[])[1], [1443]);
  });
});
