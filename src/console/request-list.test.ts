/** Since when all requests are remembered, by processes that each keep their last ones. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { forgottenOf } from './request-list.ts';

/** Newest first, as they are recalled. */
const lines = (...all: readonly (readonly [id: string, arrivedAtMs: number])[]) =>
  all.map(([id, arrivedAtMs]) => ({ id, arrivedAtMs })).toSorted((a, b) => b.arrivedAtMs - a.arrivedAtMs);

suite('the request list knows how far it reaches back', () => {
  test('the request list reaches back to the process that has forgotten the latest request', () => {
    assert.equal(forgottenOf([]), null);
    // Nothing was forgotten since the start.
    assert.equal(forgottenOf(lines(['a.0', 10], ['a.1', 20], ['b.0', 30])), 10);
    assert.equal(forgottenOf(lines(['a.7', 10], ['a.8', 20])), 10);
    // Of b nothing before 30 is known.
    assert.equal(forgottenOf(lines(['a.0', 10], ['a.1', 40], ['b.2000', 30], ['b.2001', 35])), 30);
    assert.equal(forgottenOf(lines(['a.5', 10], ['a.6', 40], ['b.2000', 30], ['b.2001', 35])), 30);
  });
});
