import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { Latencies, median } from './statistics.ts';

suite('statistics of the benchmarks', () => {
  test('the median of benchmark results is the middle one, or between the two in the middle', () => {
    assert.equal(median([3, 1, 2]), 2);
    assert.equal(median([4, 1, 2, 3]), 2.5);
    assert.ok(Number.isNaN(median([])));
  });

  test('a histogram of latencies has the quantiles of the latencies, but for the width of a bucket', () => {
    const times = fc.array(fc.double({ min: 0, max: 60_000, noNaN: true }), { minLength: 1, maxLength: 300 });
    fc.assert(
      fc.property(times, fc.double({ min: 0, max: 1, noNaN: true }), (list, q) => {
        const latencies = new Latencies();
        for (const ms of list) latencies.add(ms);
        const sorted = list.toSorted((a, b) => a - b);
        const exact = sorted[Math.max(0, Math.ceil(q * sorted.length) - 1)] ?? Number.NaN;
        assert.ok(Math.abs(latencies.at(q) - exact) <= 0.001 + exact / 128, `${latencies.at(q)} of ${exact}`);
        assert.equal(latencies.count, list.length);
        assert.equal(latencies.maxMs, Math.max(...list));
      }),
    );
  });

  test('an empty histogram of latencies has no quantiles, and every latency has a bucket', () => {
    const latencies = new Latencies();
    assert.equal(latencies.count, 0);
    assert.equal(latencies.maxMs, 0);
    assert.ok(Number.isNaN(latencies.at(0.5)));
    latencies.add(-1);
    latencies.add(1e12);
    assert.equal(latencies.at(0), 0);
    assert.ok(latencies.at(1) > 2e6);
  });
});
