import assert from 'node:assert/strict';
import { test } from 'node:test';
import { plain } from '../kit/terminal.ts';
import { inferColumns, statementOf } from './infer.ts';

const inferred = (...samples: string[]) =>
  inferColumns(samples.map((sample) => Buffer.from(sample))).map(
    ({ name, type, key }) => `${name} ${type}${key ? ' key' : ''}`,
  );

test('headgate infer chooses types that hold every sample, and no floating-point type', () => {
  assert.deepEqual(
    inferred(
      '{"a":1,"b":1,"c":true,"d":"2026-01-01T00:00:00Z","e":"2026-01-01","f":{"x":1},"g":null,"h":9223372036854775808,"i":1}',
      '{"a":2,"b":1.50,"c":false,"d":"2026-01-02 10:00:00.5+02","e":"x","f":[],"g":null,"h":-9223372036854775809,"i":"1"}',
    ),
    [
      'a BIGINT',
      'b NUMERIC',
      'c BOOLEAN',
      'd TIMESTAMPTZ',
      'e TEXT',
      'f JSONB',
      'g JSONB',
      'h NUMERIC',
      'i JSONB',
    ],
  );
  assert.deepEqual(
    inferred('{"at":"2026-02-31T00:00:00Z","day":"2026-13-01","u":"00000000-0000-0000-0000-00000000000A"}'),
    ['at TEXT', 'day TEXT', 'u UUID'],
  );
});

test('headgate infer proposes as key a column that every sample has with distinct values', () => {
  assert.deepEqual(inferred('{"n":1,"id":"a"}', '{"n":2,"id":"b"}'), ['n BIGINT', 'id TEXT key']);
  assert.deepEqual(inferred('{"n":1,"id":"a"}', '{"n":2,"id":"a"}'), ['n BIGINT', 'id TEXT']);
  assert.deepEqual(inferred('{"id":"a"}', '{}'), ['id TEXT']);
  assert.deepEqual(inferred('{"id":null}', '{"id":"a"}'), ['id TEXT']);
  assert.deepEqual(inferred('{"id":"a"}'), ['id TEXT']);
  assert.deepEqual(inferred('{"user_id":1,"event_id":1}', '{"user_id":2,"event_id":2}'), [
    'user_id BIGINT',
    'event_id BIGINT key',
  ]);
});

test('headgate infer quotes names where needed and reports keys that can be no column', () => {
  const columns = inferColumns([Buffer.from('{"order":1,"a b":1,"q\\"q":1,"\\u00e9":1}')]);
  assert.equal(
    statementOf('app.select', columns),
    `CREATE TABLE app."select" (\n  "order" BIGINT,\n  "a b" BIGINT,\n  "q""q" BIGINT,\n  "é" BIGINT\n) WITH (connector = 'webhook');\n`,
  );
  assert.match(statementOf('t', inferColumns([Buffer.from('{"data":{}}')])), /document = ''/);
  for (const name of ['', '\\u0000', 'x'.repeat(64)])
    assert.throws(() => inferred(`{"${name}":1}`), /no column can be named/);
  assert.throws(() => inferred(), /no samples/);
});

test('headgate infer does not print keys with terminal control characters', () => {
  for (const key of ['\\u001b[31m', '\\u009b2J', 'a\\u202eb', '\\u0000'])
    assert.throws(
      () => inferColumns([Buffer.from(`{"${key}":1}`)]),
      ({ message }: Error) => message.startsWith('no column can be named "') && message === plain(message),
    );
});
