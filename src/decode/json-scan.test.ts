import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createRequire } from 'node:module';
import * as fc from 'fast-check';
import { plainHead, targetOf } from '../../test/support/rows.ts';
import { Refused } from '../errors/refusals.ts';
import { scanJson, scannedEffort } from './json-scan.ts';
import { decodeRequest } from './decode-slices.ts';

/** The package's own types describe it as a module of its default export only. */
const examples = createRequire(import.meta.url)('@octokit/webhooks-examples') as { examples: unknown[] }[];

const target = targetOf();
const request = (body: Buffer) => ({ ...plainHead, body, rawHeaders: [] });

test('a scanned JSON document is the body itself, byte for byte', () => {
  const body = Buffer.from('{ "n" : 12345678901234567890.10 , "n":1e400 }');
  const rows = decodeRequest(target, request(body));
  assert.equal(rows.count, 1);
  assert.equal(rows.documents.bytes, body);
  assert.equal(rows.documents.spans, null);
  assert.equal(rows.bytes, body.length);
});

const refusedBodies: [body: string | Buffer, message: string][] = [
  ['', 'it is empty'],
  [' \r\n', 'it is empty'],
  ['{"a":', 'it ends in the middle at byte 5'],
  ['"abc', 'it ends in the middle at byte 4'],
  ['tru', 'it ends in the middle at byte 3'],
  ['{"a" 1}', 'unexpected character at byte 5'],
  ['[1,]', 'unexpected character at byte 3'],
  ['{} {}', 'unexpected character at byte 3'],
  ['\ufeff\ufeff{}', 'unexpected character at byte 0'],
  ['{"é":01}', 'unexpected character at byte 7'],
  ['"a\nb"', 'control character in a string at byte 2'],
  ['"\\x"', 'invalid escape in a string at byte 1'],
  ['["\\u0000"]', '\\u0000 cannot be stored at byte 2'],
  ['"\\ud83d"', 'surrogate without its other half at byte 1'],
  ['{"a":1e131072}', 'number out of range at byte 5'],
  ['['.repeat(513), 'nested too deeply at byte 512'],
  [Buffer.from([0x22, 0xff, 0x22]), 'it is not valid UTF-8'],
];

for (const [body, message] of refusedBodies) {
  test(`the JSON scanner refuses ${JSON.stringify(body.toString('latin1').slice(0, 20))}: ${message}`, () => {
    assert.throws(
      () => decodeRequest(target, request(Buffer.from(body))),
      (error) =>
        error instanceof Refused &&
        error.refusal.code === 'body_not_json' &&
        error.message === `failed to parse request body: ${message}`,
    );
  });
}

test('the JSON scanner accepts output of JSON.stringify and refuses every proper prefix of an object', () => {
  fc.assert(
    fc.property(fc.jsonValue({ noUnicodeString: true }), (value) => {
      const bytes = Buffer.from(JSON.stringify({ value }));
      assert.equal(scanJson(bytes, { depthMax: 512 }), null);
      for (let i = 0; i < bytes.length; i++) {
        assert.notEqual(scanJson(bytes.subarray(0, i), { depthMax: 512 }), null);
      }
    }),
  );
});

test('the JSON scanner refuses a million brackets without recursion', () => {
  assert.notEqual(scanJson(Buffer.alloc(1_000_000, '['), { depthMax: 512 }), null);
  assert.equal(scanJson(Buffer.from('[[]]'), { depthMax: 2 }), null);
  assert.notEqual(scanJson(Buffer.from('[[]]'), { depthMax: 1 }), null);
});

test('the JSON scanner accepts real GitHub deliveries', () => {
  for (const { examples: deliveries } of examples) {
    for (const delivery of deliveries) {
      assert.equal(scanJson(Buffer.from(JSON.stringify(delivery)), { depthMax: 512 }), null);
    }
  }
});

test("the JSON scanner bounds the written-out length of a document's numbers together", () => {
  const numbers = (count: number) => `[${Array.from({ length: count }, () => '1e131071').join()}]`;
  assert.equal(scanJson(Buffer.from(numbers(127)), { depthMax: 10 }), null);
  assert.match(
    scanJson(Buffer.from(numbers(129)), { depthMax: 10 })?.reason ?? '',
    /too long when they are written out/,
  );
  assert.equal(scanJson(Buffer.from(`[${'0e1000000000,'.repeat(1_000)}1e-300]`), { depthMax: 10 }), null);
  assert.equal(scanJson(Buffer.from(`[${'1.5e-7,'.repeat(100_000)}1]`), { depthMax: 10 }), null);
  for (let i = 0; i < 10; i++) assert.equal(scanJson(Buffer.from(numbers(100)), { depthMax: 10 }), null);
});

test("the JSON scanner bounds the members of a document's large objects together", () => {
  const object = (members: number) => `{${Array.from({ length: members }, (_, i) => `"${i}":1`).join()}}`;
  const reasonOf = (text: string) => scanJson(Buffer.from(text), { depthMax: 10 })?.reason ?? null;
  const tooMany = 'its objects have too many members';
  assert.equal(reasonOf(object(31_622)), null);
  assert.equal(scannedEffort(), 31_622 ** 2);
  assert.equal(reasonOf(object(31_623)), tooMany);
  assert.equal(reasonOf(`[{"a":${object(22_360)}},${object(22_360)}]`), null);
  assert.equal(reasonOf(`[{"a":${object(22_361)}},${object(22_361)}]`), tooMany);
  // Neither the elements of arrays nor the members of small objects count.
  assert.equal(reasonOf(`[${'1,'.repeat(100_000)}1]`), null);
  assert.equal(reasonOf(`[${Array<string>(1_500).fill(object(1_024)).join()}]`), null);
  assert.equal(scannedEffort(), 0);
});
