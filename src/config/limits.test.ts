import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits, boundsOf } from './limits.ts';

test('effective limits admit two of the largest bodies and keep a connection for groups', () => {
  const ordinary = {
    commitConnections: limits.commitConnectionsMax,
    bodyBytesMax: limits.bodyBytesMax,
    keepAliveSeconds: 75,
  };
  assert.deepEqual(boundsOf(ordinary), limits);
  const bodyBytesMax = 256 * 1024 * 1024;
  const bounds = boundsOf({ commitConnections: 1, bodyBytesMax, keepAliveSeconds: 610 });
  assert.equal(bounds.keepAliveTimeoutMs, 610_000);
  assert.equal(bounds.bodiesInFlightBytesMax, 2 * bodyBytesMax);
  assert.deepEqual([bounds.commitConnectionsMax, bounds.largeCommitsMax], [1, 1]);
});
