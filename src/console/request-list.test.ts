/** Since when all requests are remembered, by processes that each keep their last ones; and how one that was refused late is told. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { explain } from './explained.ts';
import { forgottenOf } from './request-list.ts';
import { rejectedRow } from './request-rows.ts';

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

test('the console says that a request was accepted before its table refused it, if it came from the disk', () => {
  const said = (door: string) =>
    explain({ sender: null, ...rejectedRow({ id: '1', door, status: '422', code: 'row_refused' }) }).says;
  assert.match(said('spool'), /accepted while the database was away/);
  assert.doesNotMatch(said('http'), /accepted/);
});
