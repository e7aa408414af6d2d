import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decodeItems, documentsOf, elementsOf, typedTarget } from '../../test/support/documents.ts';
import { plainHead, targetOf } from '../../test/support/rows.ts';
import type { Target } from '../types/target.ts';
import { limits } from '../config/limits.ts';
import { Refused } from '../errors/refusals.ts';
import { decodeEvents, decodeLines, decodeObject } from './lines.ts';
import { deliveryOf } from './delivery.ts';
import { problemSentence } from './messages.ts';

const refusedWith = (message: string) => (error: unknown) =>
  error instanceof Refused && error.refusal.code === 'payload_undecodable' && error.message === message;

const keyed = typedTarget(
  { tenant: 'int4', id: 'text', at: 'timestamptz', via: 'text' },
  { includes: [{ what: 'header', header: 'x-via', column: 'via' }] },
  { writeMode: 'upsert', key: ['tenant', 'id'].map((name) => ({ name, generated: null })) },
);

/** A frame's items as the WebSocket finds them: places in the source, and which of them delete. */
function items(
  target: Target,
  source: string,
  deletes: readonly number[] | null = null,
  headers: string[] = [],
) {
  const bytes = Buffer.from(source);
  return decodeItems(target, {
    documents: { bytes, spans: elementsOf(bytes) },
    deletes: deletes === null ? null : Uint8Array.from(deletes),
    ...plainHead,
    rawHeaders: headers,
    arrivedAtMs: 0,
  });
}

test('items of a batch are converted, and filled with INCLUDE columns, as single requests are', () => {
  const rows = items(
    keyed,
    'x[{"tenant":1,"id":"a","at":1700000000}, {"id":"b","tenant":2} ]',
    [0, 1],
    ['X-Via', 'ws'],
  );
  assert.deepEqual(documentsOf(rows), [
    '{"tenant":1,"id":"a","at":"2023-11-14 22:13:20Z","via":"ws"}',
    '{"id":"b","tenant":2,"via":"ws"}',
  ]);
  assert.deepEqual([...(rows.deletes ?? [])], [0, 1]);
  assert.equal(rows.count, 2);
  assert.ok(rows.ackTimeoutMs >= limits.ackDeadlineMs);
  assert.equal(items(keyed, '[{}]', [0]).deletes, null);
  assert.equal(items(keyed, '[]').count, 0);
});

test("a batch of several items has one delivery id for all, and a batch of one item has the item's id", () => {
  const dedupe = { parts: [{ path: ['id'] }], headers: new Set<string>(), windowS: 60, shown: '$.id' };
  const once = { ...targetOf(), dedupe };
  const id = (source: string) => items(once, source).delivery;
  assert.equal(items(targetOf(), '[{"id":1}]').delivery, undefined);
  assert.equal(id('[]'), undefined);
  assert.equal(
    id('[{"id":1}]'),
    deliveryOf(dedupe, 'json', { body: Buffer.from('{"id":"1"}'), rawHeaders: [] }).delivery,
  );
  assert.equal(id('[{"id":1,"a":2}, {"id":2} ]'), id('x[{"id":"1"},{"\\u0069d":2}]'));
  const ids = [
    '[{"id":1}]',
    '[{"id":1},{"id":2}]',
    '[{"id":2},{"id":1}]',
    '[{"id":"1,2"}]',
    '[{"id":12}]',
  ].map(id);
  assert.equal(new Set(ids).size, ids.length);
  const content = (source: string) => items(once, source).content;
  assert.equal(
    content('[ {"id":1} ]'),
    deliveryOf(dedupe, 'json', { body: Buffer.from('{"id":1}'), rawHeaders: [] }).content,
  );
  assert.notEqual(content('[{"id":1},{"id":2}]'), content('[{"id":1},{"id":2,"a":3}]'));
  assert.equal(content('[{"id":1},{"id":2}]'), content('x[{"id":1} , {"id":2}]'));
  const keyedOnce = { ...keyed, dedupe };
  const deleting = items(keyedOnce, '[{"tenant":1,"id":1}]', [1]).delivery ?? '';
  assert.match(deleting, /^[0-9a-f]{32}$/);
  assert.notEqual(deleting, items(keyedOnce, '[{"tenant":1,"id":1}]').delivery);
  assert.throws(() => id('[{"id":1},{}]'), /item 2: the request has no delivery id: \$\.id$/);
});

test('batch items for one JSONB column are slices of the frame', () => {
  const rows = items(targetOf(), '{"items":[{"a":1},[2], 3]}');
  assert.deepEqual(documentsOf(rows), ['{"a":1}', '[2]', '3']);
  const wrapped = targetOf({ shape: { writeMode: 'upsert', key: [{ name: 'data', generated: null }] } });
  assert.deepEqual(documentsOf(items(wrapped, '[{"a":1}]', [1])), ['{"data":{"a":1}}']);
});

test('a delete item needs a value for each key column', () => {
  const short = 'failed to decode webhook JSON payload: deletes need the primary key';
  for (const [source, at] of [
    ['[{"tenant":1,"id":"a"},{"tenant":1}]', 1],
    ['[{"tenant":null,"id":"a"}]', 0],
    ['[{"tenant":1,"tenant":null,"id":"a"}]', 0],
    ['[{}]', 0],
  ] as const) {
    assert.throws(() => items(keyed, source, [1, 1]), refusedWith(`item ${at + 1}: ${short}`), source);
  }
  assert.equal(items(keyed, '[{"tenant":null,"\\u0074enant":1,"id":"a"}]', [1]).count, 1);
  assert.throws(
    () => items(targetOf(), '[{"id":1}]', [1]),
    refusedWith(`item 1: ${short}, and the table has none`),
  );
  // A key that a default fills cannot be told by a document.
  const identity = targetOf({ shape: { writeMode: 'upsert', key: [{ name: 'id', generated: null }] } });
  assert.throws(() => items(identity, '[{"id":1}]', [1]), refusedWith(`item 1: ${short}`));
  assert.throws(
    () => items(keyed, '[{}, 3]'),
    refusedWith('item 2: failed to decode webhook JSON payload: it is not a JSON object'),
  );
});

test('a batch item is checked between its own bounds only', () => {
  const places = (source: string | Buffer, ...spans: number[]) =>
    decodeItems(keyed, {
      documents: { bytes: Buffer.from(source), spans: Uint32Array.from(spans) },
      deletes: null,
      ...plainHead,
      rawHeaders: [],
      arrivedAtMs: 0,
    });
  const refused = 'item 1: failed to decode webhook JSON payload: ';
  assert.equal(places('[{"data": {"id":1} , "op":"insert"}]', 9, 19).count, 1);
  assert.equal(places('{"id":1}', 0, 8).count, 1);
  for (const [source, start, end, message] of [
    ['[{"id":}]', 1, 8, 'unexpected character at byte 6'],
    ['[{"id":1]]', 1, 9, 'unexpected character at byte 7'],
    ['[{"id":1}]', 1, 8, 'it ends in the middle at byte 7'],
    ['[{"id":1}]', 1, 10, 'unexpected character at byte 8'],
    ['[{"id":"\\u0000"},{}]', 1, 16, '\\u0000 cannot be stored at byte 7'],
    ['[1{}]', 1, 2, 'it is not a JSON object'],
    ['[]', 1, 1, 'it is empty'],
  ] as const) {
    assert.throws(() => places(source, start, end), refusedWith(refused + message), source);
  }
  const latin = Buffer.from('[{"id":"\xff"}, {}]', 'latin1');
  assert.throws(() => places(latin, 1, 11), refusedWith(`${refused}it is not valid UTF-8`));
  assert.equal(places(latin, 13, 15).count, 1);
});

test("lines of /v1/events are typed by their keys, whatever the table's webhook settings are", () => {
  const target = { ...keyed, intake: { ...keyed.intake, document: 'id', batched: false } };
  const rows = decodeEvents(target, Buffer.from('{"id":"a","at":0}\n\n{"id":"b"}\n'));
  assert.deepEqual(documentsOf(rows), ['{"id":"a","at":"1970-01-01 00:00:00Z"}', '{"id":"b"}']);
  assert.equal(rows.ackTimeoutMs, limits.eventsDeadlineMs);
  assert.deepEqual([...(rows.lines ?? [])], [1, 3]);
  assert.deepEqual(documentsOf(decodeObject(target, Buffer.from(' {"id":"c"} '))), ['{"id":"c"}']);
  assert.throws(
    () => decodeLines(target, Buffer.from('{}\n[]'), 11),
    refusedWith('line 12: failed to decode webhook JSON payload: it is not a JSON object'),
  );
});

test('batch lines that are valid are decoded, and the others are reported', () => {
  const body = Buffer.from('{"id":"a"}\nnope\n\n{"id":"b"}\n[1]\n');
  const told: string[] = [];
  const rows = decodeLines(keyed, body, 101, (line, problem) => {
    told.push(`${line}: ${problemSentence(problem)}`);
  });
  assert.equal(rows.count, 2);
  assert.deepEqual([...(rows.lines ?? [])], [101, 104]);
  assert.deepEqual(told, ['102: unexpected character at byte 0', '105: it is not a JSON object']);
});
