import assert from 'node:assert/strict';
import { test } from 'node:test';
import { allBelow } from '../kit/position.ts';
import { formFor, placesEvery, stepOf } from './stream-formats.ts';
import { wholly } from './stream-position.ts';

const place = wholly(1, 2, allBelow(3n));

test('a stream has lines for a reader whose Accept begins with application/x-ndjson, and events for others', () => {
  for (const accept of ['application/x-ndjson', ' Application/X-NDJSON ;q=1', 'application/x-ndjson, */*'])
    assert.equal(formFor(accept).type, 'application/x-ndjson', accept);
  for (const accept of [
    undefined,
    '',
    '*/*',
    'text/event-stream',
    'text/event-stream, application/x-ndjson',
    'application/x-ndjsonx',
  ])
    assert.equal(formFor(accept).type, 'text/event-stream', accept);
});

test('each stream line is one JSON object, and the last of a batch has its position', () => {
  const { begin, rows, silence, refused, comeAgain } = formFor('application/x-ndjson');
  const text = [
    begin(place),
    rows(['{"a":1}', '{"a":2}'], (row) => (row === 1 ? place : null)),
    silence(place),
    refused('{"code":"x"}'),
    comeAgain,
  ];
  assert.deepEqual(
    text
      .join('')
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as unknown),
    [
      { position: '1.2-3' },
      { row: { a: 1 } },
      { position: '1.2-3', row: { a: 2 } },
      { position: '1.2-3' },
      { refused: { code: 'x' } },
      { again: true },
    ],
  );
});

test('the batch parameter of a stream is rounded to one of five powers of ten, or refused', () => {
  assert.deepEqual([undefined, '1', '9', '10', '999', '1000', '10000'].map(stepOf), [
    null,
    1,
    1,
    10,
    100,
    1_000,
    10_000,
  ]);
  for (const wrong of ['', '0', '-1', '1.5', '10001', '100000', '1e3', ' 1', 'x'])
    assert.equal(stepOf(wrong), undefined, wrong);
});

test('a streamed row has its position, and the last row the position after all rows', () => {
  const behind = (row: number) => wholly(1, 2, allBelow(BigInt(row)));
  const after = wholly(1, 2, allBelow(99n));
  const xids = (step: number | null, count: number) =>
    Array.from({ length: count }, (_, row) =>
      Number(placesEvery(step, count, behind, after)(row)?.parts[0]?.ended.xid ?? -1),
    );
  assert.deepEqual(xids(null, 3), [-1, -1, 99]);
  assert.deepEqual(xids(1, 3), [0, 1, 99]);
  assert.deepEqual(xids(10, 12), [-1, -1, -1, -1, -1, -1, -1, -1, -1, 9, -1, 99]);
});
