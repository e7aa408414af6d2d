import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Refused } from '../errors/refusals.ts';
import { defaultOptions, readOptions } from './options.ts';

const refusedWith = (message: string) => (error: unknown) =>
  error instanceof Refused && error.refusal.code === 'invalid_option' && error.message === message;

test('requests without decode option headers share one set of options', () => {
  assert.equal(readOptions([]), defaultOptions);
  assert.equal(
    readOptions(['x-rw', 'a', 'x', 'b', '', 'c', 'x-rw-webhook', 'd', 'X-Hub-Signature', 'e']),
    defaultOptions,
  );
});

test('decode option headers are read in any letter case', () => {
  assert.deepEqual(
    readOptions([
      'X-RW-Webhook-Format', 'PLAIN', 'x-rw-webhook-encode', 'Json',
      'x-rw-webhook-json-timestamp-handling-mode', 'milli',
      'X-RW-WEBHOOK-JSON-TIMESTAMPTZ-HANDLING-MODE', 'utc_without_suffix',
      'x-rw-webhook-json-time-handling-mode', 'micro',
      'x-rw-webhook-json-bigint-unsigned-handling-mode', 'precise',
      'x-rw-webhook-json-handle-toast-columns', 'true',
      'x-rw-webhook-of-tomorrow', 'whatever',
    ]),
    { timestamp: 'milli', timestamptz: 'utc_without_suffix', time: 'micro', bigintUnsigned: 'precise', toast: true },
  ); // prettier-ignore
  assert.deepEqual(
    readOptions(['x-rw-webhook-json-timestamptz-handling-mode', 'guess_number_unit']),
    defaultOptions,
  );
  // The first of several counts.
  assert.equal(
    readOptions([
      'x-rw-webhook-json-time-handling-mode',
      'milli',
      'x-rw-webhook-json-time-handling-mode',
      'bad',
    ]).time,
    'milli',
  );
});

test('unsupported decode option headers are refused with the name and the value', () => {
  const refuse = (name: string, value: string, message: string) =>
    assert.throws(() => readOptions([`x-rw-webhook-${name}`, value]), refusedWith(message), name);
  refuse('format', 'debezium', 'unsupported webhook payload format `debezium`');
  refuse('encode', 'csv', 'unsupported webhook payload encoding `csv`');
  for (const name of [
    'timestamp-handling-mode',
    'time-handling-mode',
    'bigint-unsigned-handling-mode',
    'handle-toast-columns',
  ])
    refuse(`json-${name}`, 'Milli', `unrecognized value \`Milli\` for \`x-rw-webhook-json-${name}\``);
  refuse(
    'json-timestamptz-handling-mode',
    'seconds',
    'invalid webhook JSON decoder option: unrecognized value `seconds` for `x-rw-webhook-json-timestamptz-handling-mode`',
  );
  refuse('encode', 'x'.repeat(10_000), `unsupported webhook payload encoding \`${'x'.repeat(64)}…\``);
});
