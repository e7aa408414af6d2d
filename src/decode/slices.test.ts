import assert from 'node:assert/strict';
import { test } from 'node:test';
import { documentsOf, typedTarget } from '../../test/support/documents.ts';
import { plainHead } from '../../test/support/rows.ts';
import { limits } from '../config/limits.ts';
import type { Intake } from '../types/target.ts';
import { Refused } from '../errors/refusals.ts';
import { decodeInSlices, decodeRequest } from './decode-slices.ts';

const request = (body: string) => ({ ...plainHead, body: Buffer.from(body), rawHeaders: [], arrivedAtMs: 0 });

/** The rows of a large batch, or its refusal, with `between` decoded for the same table in each of its pauses. */
function decoded(unknown: Intake['unknown'], line: string, between: string): readonly string[] | string {
  const target = typedTarget({ id: 'int8', rest: 'jsonb' }, { batched: true, unknown });
  const work = decodeInSlices(target, request(`${line}\n`.repeat(lines)));
  try {
    for (let pauses = 0; ; pauses++) {
      const step = work.next();
      if (step.done === true) {
        assert.ok(pauses > 2);
        return documentsOf(step.value);
      }
      try {
        decodeRequest(target, request(between));
      } catch (error) {
        assert.ok(error instanceof Refused);
      }
    }
  } catch (error) {
    assert.ok(error instanceof Refused);
    return error.refusal.code;
  }
}

const lines = Math.ceil((4 * limits.decodeSliceBytes) / 500);
const padding = 'x'.repeat(500);

test('a batch decoded in slices is not affected by other decoding for its table meanwhile', () => {
  const [good, bad, more] = [`{"id":1}`, `{"other":1}`, `{"id":1,"more":"${padding}"}`];
  const all = (row: string) => Array.from({ length: lines }, () => row);
  assert.deepEqual(decoded('ignore', more, bad), all(more));
  const collected = `{"id":1,"rest":{"more":"${padding}"}}`;
  assert.deepEqual(decoded({ into: 'rest' }, more, good), all(collected));
  assert.deepEqual(
    decoded('reject', `{"id":1,"rest":"${padding}"}`, bad),
    all(`{"id":1,"rest":"${padding}"}`),
  );
  assert.equal(decoded('reject', more, good), 'key_unknown');
});

test('decoding a document with thousands of escaped keys stays quick in a table of 1,600 columns', () => {
  const names = Array.from({ length: 1_600 }, (_, i) => [`c${1_000 + i}`, 'timestamptz'] as const);
  const target = typedTarget(Object.fromEntries(names));
  const others = Array.from({ length: 5_000 }, (_, i) => `"\\u0063${9_999 - i}":1`).join(',');
  const started = performance.now();
  const rows = decodeRequest(target, request(`{${others},"\\u00631000":1000000000,"c1001":0}`));
  assert.ok(performance.now() - started < 1_000);
  const [document = ''] = documentsOf(rows);
  const end = String.raw`,"\u00631000":"2001-09-09 01:46:40Z","c1001":"1970-01-01 00:00:00Z"}`;
  assert.equal(document.slice(-end.length), end);
});
