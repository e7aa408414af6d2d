/** `traceparent`: the requests of W3C's own test suite (w3c/trace-context, test/test.py), and the judgement of OpenTelemetry's parser on random ones. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { parseTraceParent } from '@opentelemetry/core';
import fc from 'fast-check';
import { idsOf, parseTraceparent, traceparentOf } from './tracer.ts';

const traceId = '12345678901234567890123456789012';
const spanId = '1234567890123456';
const good = `00-${traceId}-${spanId}-01`;

/** Values that continue the trace, and values after which a new one begins, as the suite of W3C expects. */
const continued = [
  good,
  `cc-${traceId}-${spanId}-01`,
  `cc-${traceId}-${spanId}-01-what-the-future-will-be-like`,
];
const ignored = [
  `${good}.`,
  `${good}-what-the-future-will-be-like`,
  `cc-${traceId}-${spanId}-01.what-the-future-will-be-like`,
  `ff-${traceId}-${spanId}-01`,
  `.0-${traceId}-${spanId}-01`,
  `0.-${traceId}-${spanId}-01`,
  `000-${traceId}-${spanId}-01`,
  `0000-${traceId}-${spanId}-01`,
  `0-${traceId}-${spanId}-01`,
  `00-${'0'.repeat(32)}-${spanId}-01`,
  `00-.2345678901234567890123456789012-${spanId}-01`,
  `00-1234567890123456789012345678901.-${spanId}-01`,
  `00-${traceId}3-${spanId}-01`,
  `00-${traceId.slice(1)}-${spanId}-01`,
  `00-${traceId}-${'0'.repeat(16)}-01`,
  `00-${traceId}-.234567890123456-01`,
  `00-${traceId}-123456789012345.-01`,
  `00-${traceId}-${spanId}7-01`,
  `00-${traceId}-${spanId.slice(1)}-01`,
  `00-${traceId}-${spanId}-.0`,
  `00-${traceId}-${spanId}-0.`,
  `00-${traceId}-${spanId}-001`,
  `00-${traceId}-${spanId}-1`,
  // Two headers of that name, as they are joined.
  `00-${traceId.slice(0, 31)}1-${spanId}-01, ${good}`,
];

suite('the header traceparent is read and written', () => {
  test("the traceparent parser agrees with the requests of W3C's test suite", () => {
    for (const value of continued)
      assert.deepEqual(parseTraceparent(value), { traceId, spanId, isSampled: true }, value);
    for (const value of ignored) assert.equal(parseTraceparent(value), null, value);
    assert.equal(parseTraceparent(undefined), null);
  });

  test('only the lowest flag bit of a traceparent marks it as sampled', () => {
    for (const [flags, isSampled] of [
      ['00', false],
      ['01', true],
      ['02', false],
      ['03', true],
      ['ff', true],
    ] as const)
      assert.equal(parseTraceparent(`00-${traceId}-${spanId}-${flags}`)?.isSampled, isSampled, flags);
  });

  test("the traceparent parser agrees with OpenTelemetry's parser on random values", () => {
    const hex = (length: number) =>
      fc
        .array(fc.constantFrom(...'0123456789abcdefAF.'.split('')), { minLength: length, maxLength: length })
        .map((it) => it.join(''));
    const part = (length: number) =>
      fc.oneof(
        hex(length),
        fc.constant('0'.repeat(length)),
        fc.nat(2 ** 31).map((it) => it.toString(16).padStart(length, '1').slice(-length)),
      );
    const value = fc.tuple(
      fc.constantFrom('00', '01', 'cc', 'fe', 'ff', '0'),
      part(32),
      part(16),
      part(2),
      fc.constantFrom('', '-', '-more', '.'),
    );
    fc.assert(
      fc.property(value, ([version, trace, span, flags, more]) => {
        const text = `${version}-${trace}-${span}-${flags}${more}`;
        const theirs = parseTraceParent(text);
        const ours = parseTraceparent(text);
        assert.deepEqual(
          ours,
          theirs === null
            ? null
            : { traceId: theirs.traceId, spanId: theirs.spanId, isSampled: (theirs.traceFlags & 1) === 1 },
          text,
        );
      }),
      { numRuns: 2_000 },
    );
  });

  test('a traceparent written by Headgate is read by OpenTelemetry', () => {
    const written = traceparentOf(traceId, spanId);
    assert.deepEqual(parseTraceParent(written), { traceId, spanId, traceFlags: 1 });
    assert.deepEqual(idsOf(written), { traceId, spanId });
  });
});
