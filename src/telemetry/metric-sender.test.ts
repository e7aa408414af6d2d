/** Metrics as OTLP: the numbers of the registry's own text for Prometheus, in the form that OpenTelemetry's serializer writes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { JsonMetricsSerializer } from '@opentelemetry/otlp-transformer';
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import { metricsText } from './metric-sender.ts';
import type { MetricValues } from './metric-sender.ts';

test("OTLP metrics equal the output of OpenTelemetry's serializer for a counter, a gauge and a histogram", async () => {
  const registers = [new Registry()];
  const counter = new Counter({
    name: 'rows_total',
    help: 'Rows "é"',
    labelNames: ['table', 'status'],
    registers,
  });
  const gauge = new Gauge({ name: 'lane_rows', help: 'Waiting', registers });
  const empty = new Gauge({ name: 'never_set', help: 'Nothing', registers });
  empty.set(Number.NaN);
  const histogram = new Histogram({
    name: 'seconds',
    help: 'Time',
    buckets: [0.5, 1],
    labelNames: ['route'],
    registers,
  });
  counter.inc({ table: 'a"b\n', status: 200 }, 3);
  gauge.set(0.25);
  for (const value of [0.1, 0.2, 0.7, 30]) histogram.observe({ route: 'sql' }, value);
  histogram.observe({ route: 'events' }, 1);
  const families = (await registers[0]?.getMetricsAsJSON()) as unknown as readonly MetricValues[];
  const [startMs, nowMs] = [1_700_000_000_000, 1_700_000_060_000];
  const ours: unknown = JSON.parse(
    metricsText('{"attributes":[]}', '{"name":"headgate"}', families, { startMs, nowMs }),
  );

  const times = { startTime: [1_700_000_000, 0], endTime: [1_700_000_060, 0] };
  const point = (value: unknown, attributes: object) => ({ ...times, value, attributes });
  const metric = (
    name: string,
    description: string,
    dataPointType: number,
    dataPoints: readonly object[],
    more: object,
  ) => ({
    descriptor: { name, description, unit: '', valueType: 1 },
    aggregationTemporality: 1,
    dataPointType,
    dataPoints,
    ...more,
  });
  const seconds = (route: string, counts: readonly number[], sum: number) =>
    point(
      { buckets: { boundaries: [0.5, 1], counts }, sum, count: counts.reduce((a, b) => a + b) },
      { route },
    );
  const given = {
    resource: { attributes: {} },
    scopeMetrics: [
      {
        scope: { name: 'headgate' },
        metrics: [
          metric('rows_total', 'Rows "é"', 3, [point(3, { table: 'a"b\n', status: '200' })], {
            isMonotonic: true,
          }),
          metric('lane_rows', 'Waiting', 2, [point(0.25, {})], {}),
          metric('seconds', 'Time', 0, [seconds('sql', [2, 1, 1], 31), seconds('events', [0, 1, 0], 1)], {}),
        ],
      },
    ],
  };
  const bytes = JsonMetricsSerializer.serializeRequest(given as never) as Uint8Array;
  assert.deepEqual(plain(ours), plain(JSON.parse(new TextDecoder().decode(bytes))));
});

/** 64-bit numbers may be texts (https://protobuf.dev/programming-guides/json/); an empty text or list is what a field means that is not there. */
function plain(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value !== 'object' || value === null) return value;
  const isSaid = (key: string, it: unknown) =>
    it !== '' && key !== 'droppedAttributesCount' && !(Array.isArray(it) && it.length === 0);
  const entries = Object.entries(value).filter(([key, it]) => isSaid(key, it));
  return Object.fromEntries(
    entries.map(([key, it]) => [
      key,
      key === 'count' ? Number(it) : key === 'bucketCounts' ? (it as unknown[]).map(Number) : plain(it),
    ]),
  );
}
