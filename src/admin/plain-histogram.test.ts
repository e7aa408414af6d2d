import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Histogram, Registry } from 'prom-client';
import { PlainHistogram } from './plain-histogram.ts';

/** What processes tell each other, but for examples, of which there are none. */
async function plainOf(registry: Registry): Promise<unknown> {
  const text = JSON.stringify(await registry.getMetricsAsJSON());
  return JSON.parse(text, (name, value: unknown) => (name === 'exemplar' ? undefined : value));
}

test('PlainHistogram prints what prom-client prints for the same values', async () => {
  const given = { name: 'seconds', help: 'of requests', buckets: [0.001, 0.5, 2] };
  const values = [0, 0.001, 0.0011, 0.5, 1.99, 2, 2.01, 600];
  const [theirs, ours] = [new Registry(), new Registry()];
  const plain = new PlainHistogram({ ...given, registers: [ours] });
  const known = new Histogram({ ...given, registers: [theirs] });
  const same = async () => {
    assert.equal(await ours.metrics(), await theirs.metrics());
    assert.deepEqual(await plainOf(ours), await plainOf(theirs));
  };
  await same();
  for (const value of values) {
    plain.add(value);
    known.observe(value);
    await same();
  }
});

test('PlainHistogram prints what prom-client prints for values with a label', async () => {
  const given = { name: 'seconds', help: 'of routes', labelNames: ['route'], buckets: [1, 2] };
  const [theirs, ours] = [new Registry(), new Registry()];
  const plain = new PlainHistogram({ ...given, registers: [ours] });
  const known = new Histogram({ ...given, registers: [theirs] });
  assert.equal(await ours.metrics(), await theirs.metrics());
  for (const [route, value] of [
    ['events', 1.5],
    ['sql', 0.1],
    ['events', 3],
  ] as const) {
    plain.add(value, route);
    known.observe({ route }, value);
  }
  assert.equal(await ours.metrics(), await theirs.metrics());
});
