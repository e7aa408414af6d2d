import assert from 'node:assert/strict';
import { test } from 'node:test';
import { mergedText, remains } from './merged-metrics.ts';
import { createMetrics } from './metrics.ts';

const table = { database: 'd', schema: 's', table: 't' };

function process(rows: number, connections: number) {
  const metrics = createMetrics({ lanes: () => [], load: () => ({ connections, bytesInFlight: 0 }) });
  metrics.observe({ kind: 'catalog.loaded', database: 'd', tables: 3, unusable: 0, version: 1 });
  metrics.observe({ kind: 'engine.ready', engine: 'e', version: '18', seconds: 0 });
  metrics.observe({ kind: 'engine.ready', engine: 'e', version: '18', seconds: 0 });
  for (let i = 0; i < rows; i++) {
    metrics.observe({
      kind: 'request.answered',
      table,
      status: 200,
      code: 'committed',
      rows: 1,
      seconds: 0.002,
    });
  }
  return metrics;
}

const valueOf = (text: string, name: string) =>
  Number(
    text
      .split('\n')
      .find((line) => line.startsWith(`${name} `))
      ?.slice(name.length + 1),
  );
const rowsOf = (text: string) => valueOf(text, 'headgate_rows_total{database="d",schema="s",table="t"}');

test('merged metrics sum counters, keep shared gauges once, and label values of one process', async () => {
  const [main, one, two] = await Promise.all(
    [process(1, 0), process(2, 5), process(4, 6)].map((it) => it.families()),
  );
  const processes = [one, two].map((families, i) => ({ listener: i + 1, families: families ?? [] }));
  const text = await mergedText(main ?? [], processes, []);
  assert.equal(rowsOf(text), 7);
  assert.equal(valueOf(text, 'headgate_request_seconds_count'), 7);
  assert.equal(valueOf(text, 'headgate_request_seconds_bucket{le="0.0025"}'), 7);
  assert.equal(valueOf(text, 'headgate_listener_connections'), 11);
  assert.equal(valueOf(text, 'headgate_tables{database="d"}'), 3);
  assert.equal(valueOf(text, 'headgate_engine_restarts_total'), 1);
  assert.ok(valueOf(text, 'process_resident_memory_bytes') > 0);
  assert.ok(valueOf(text, 'process_resident_memory_bytes{listener="2"}') > 0);
  assert.match(text, /^# TYPE headgate_rows_total counter$/m);
});

test('merged counters never decrease when a process is replaced', async () => {
  const main = await process(1, 0).families();
  const gone = await remains([], await process(5, 9).families());
  const twice = await remains(gone, await process(2, 9).families());
  const text = await mergedText(main, [{ listener: 1, families: await process(1, 1).families() }], [twice]);
  assert.equal(rowsOf(text), 9);
  assert.equal(valueOf(text, 'headgate_request_seconds_count'), 9);
  assert.equal(valueOf(text, 'headgate_listener_connections'), 1);
});
