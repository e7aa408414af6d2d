import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits } from '../../config/limits.ts';
import { listenersOf, shareOf } from './resource-share.ts';

const GiB = 1024 ** 3;

test('the default number of listener processes is half of the cores, as far as memory allows', () => {
  const count = (cores: number, memoryGiB: number) => listenersOf({ cores, memoryBytes: memoryGiB * GiB });
  assert.deepEqual(
    [count(0.5, 8), count(1, 8), count(2, 8), count(3.9, 8), count(4, 8), count(6, 8), count(64, 64)],
    [1, 1, 1, 1, 2, 3, limits.listenersMax],
  );
  // A container of 1 GiB on a large machine.
  assert.deepEqual([count(64, 1), count(64, 0.25), count(64, 1.6)], [2, 1, 3]);
});

test('listener processes share the bounds that a single one has alone', () => {
  assert.equal(shareOf(limits, 1, limits.bodyBytesMax), limits);
  for (let of = 2; of <= 32; of++) {
    const share = shareOf(limits, of, limits.bodyBytesMax);
    assert.ok(share.bodiesInFlightBytesMax >= 2 * limits.bodyBytesMax);
    assert.ok(share.commitConnectionsMax >= 2 && share.commitConnectionsMax <= 4);
    assert.ok(share.rejectedBurst * of < limits.rejectedBurst + of);
    assert.ok(share.rejectedPerSecond >= 1);
    // The largest request that is kept fits, with its headers.
    const head = limits.headersBytesMax + limits.requestCostBytes;
    assert.ok(share.rejectedWaitingBytesMax >= limits.rejectedAuthenticBodyBytesMax + head);
    assert.equal(share.laneRowsMax, limits.laneRowsMax);
  }
});
