import assert from 'node:assert/strict';
import { test } from 'node:test';
import { formFor } from './stream-formats.ts';
import { wholly } from './stream-position.ts';

const place = wholly(1, 2, 3n);

test('lines are given to whoever asks for them first', () => {
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

test('each line is one JSON object, and the last of a batch has its place', () => {
  const { begin, rows, silence, refused, comeAgain } = formFor('application/x-ndjson');
  const text = [
    begin(place),
    rows(['{"a":1}', '{"a":2}'], place),
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
