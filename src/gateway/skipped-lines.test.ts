import assert from 'node:assert/strict';
import { test } from 'node:test';
import { typedTarget } from '../../test/support/documents.ts';
import { limits } from '../config/limits.ts';
import { decodeGood, Skipped } from './skipped-lines.ts';

const target = typedTarget({ id: 'text' });

test('lines that are no events are left out with their reason, and all of them are counted', () => {
  const skipped = new Skipped(limits.eventsSkippedMax);
  const body = Buffer.from(`{"id":"a"}\n${'x\n'.repeat(limits.eventsSkippedMax + 5)}{"id":"b"}\n`);
  assert.equal(decodeGood(target, body, skipped)?.count, 2);
  assert.equal(skipped.lines.length, limits.eventsSkippedMax);
  assert.deepEqual(skipped.lines[0], { line: 2, error: 'unexpected character at byte 0' });
  assert.equal(skipped.count, limits.eventsSkippedMax + 5);
});

test('one object over several lines is one event, and one line of a body that is none', () => {
  const skipped = new Skipped(limits.eventsSkippedMax);
  assert.equal(decodeGood(target, Buffer.from('{\n"id": "a"\n}\n'), skipped)?.count, 1);
  assert.equal(skipped.count, 0);
  assert.equal(decodeGood(target, Buffer.from('{\n"no": 1\n}\n'), skipped), null);
  assert.deepEqual(
    skipped.lines.map(({ line }) => line),
    [1],
  );
});
