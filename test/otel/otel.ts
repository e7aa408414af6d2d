/** What the receiver of the OpenTelemetry collector understands of Headgate's traces and metrics, as the collector's own marshaler writes it. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { asked } from '../support/asked.ts';
import { onEnd } from '../support/cleanup.ts';
import { startHeadgate } from '../support/headgate.ts';
import { attributeOf } from '../support/otlp-receiver.ts';
import type { ReceivedSpan } from '../support/otlp-receiver.ts';
import { until } from '../support/until.ts';
import { WsClient } from '../support/ws-client.ts';

interface ReceivedMetric {
  readonly name: string;
  readonly sum?: {
    readonly isMonotonic: boolean;
    readonly dataPoints: readonly { readonly asDouble: number }[];
  };
  readonly gauge?: object;
  readonly histogram?: {
    readonly dataPoints: readonly {
      readonly count: string;
      readonly bucketCounts: readonly string[];
      readonly explicitBounds: readonly number[];
    }[];
  };
}

interface Decoded {
  readonly resourceSpans?: readonly {
    readonly scopeSpans: readonly { readonly spans: readonly ReceivedSpan[] }[];
  }[];
  readonly resourceMetrics?: readonly {
    readonly scopeMetrics: readonly { readonly metrics: readonly ReceivedMetric[] }[];
  }[];
}

const trusted = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';

/** The receiver, and what it has decoded. */
async function collector(t: TestContext) {
  const child = spawn(process.env['HEADGATE_OTEL_RECEIVER'] ?? '', { stdio: ['pipe', 'pipe', 'inherit'] });
  const ended = new Promise((resolve) => child.once('exit', resolve));
  onEnd(t, 'receiver', async () => {
    child.stdin.end();
    await ended;
  });
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (piece: string) => (text += piece));
  const lines = () => text.split('\n').slice(0, -1);
  await until(() => lines().length > 0);
  const decoded = () =>
    lines()
      .slice(1)
      .map((line) => JSON.parse(line) as Decoded);
  return {
    url: `http://${lines()[0] ?? ''}`,
    spans: () =>
      decoded().flatMap(({ resourceSpans = [] }) =>
        resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans)),
      ),
    metrics: () =>
      decoded().findLast(({ resourceMetrics = [] }) => resourceMetrics.length > 0)?.resourceMetrics?.[0]
        ?.scopeMetrics[0]?.metrics ?? [],
  };
}

test(
  "the OpenTelemetry Collector accepts Headgate's spans and metrics unchanged",
  { timeout: 120_000 },
  async (t) => {
    const { url, spans, metrics } = await collector(t);
    const env = {
      OTEL_EXPORTER_OTLP_ENDPOINT: url,
      OTEL_TRACES_SAMPLER: 'always_on',
      OTEL_METRICS_EXPORTER: 'otlp',
      OTEL_METRIC_EXPORT_INTERVAL: '100',
      OTEL_BSP_SCHEDULE_DELAY: '20',
      HEADGATE_TRACE_TRUST: '127.0.0.1',
    };
    const headgate = await startHeadgate(t, { env });
    const root = await headgate.client(t);
    await root.query(
      `CREATE TABLE "Größe ""x""" (id BIGINT PRIMARY KEY, n INT NOT NULL) INCLUDE TRACEPARENT AS trace WITH (connector = 'webhook')`,
    );
    const table = `${headgate.webhookUrl}/dev/public/${encodeURIComponent('Größe "x"')}`;
    const send = (body: string, headers: Record<string, string> = {}) =>
      asked(table, { method: 'POST', body, headers });
    assert.equal((await send('{"id":1,"n":1}', { traceparent: trusted })).status, 200);
    assert.equal((await send('{"id":2}')).status, 422);
    const load = 3_000;
    for (let i = 0; i < load; i += 100)
      await Promise.all(Array.from({ length: 100 }, (_, n) => send(`{"id":${i + n},"n":1}`)));
    const path = encodeURIComponent('Größe "x"');
    const socket = await WsClient.open(
      `ws://127.0.0.1:${headgate.ports.listen.port}/ingest/dev/public/${path}`,
    );
    socket.send(1, [{ op: 'insert', data: { id: -1, n: 1 } }]);
    await socket.acked(1);
    await socket.close();
    await root.query('CREATE TABLE plain (id INT PRIMARY KEY)');
    const posted = (to: string, body: string) =>
      asked(`${headgate.gatewayUrl}${to}`, { method: 'POST', body, headers: { traceparent: trusted } });
    assert.equal((await posted('/v1/events?name=plain', '{"id":1}')).status, 200);
    assert.equal((await posted('/v1/sql', 'SELECT 1')).status, 200);
    const [batches, others] = [2, 2];
    const served = () => spans().filter(({ kind }) => kind === 2);
    await until(() => served().length === load + 2 + batches + others);

    const isOther = ({ name }: ReceivedSpan) => /\/ingest\/|\/v1\//.test(name);
    const rest = served().filter(isOther);
    assert.deepEqual(rest.map(({ name }) => name).toSorted(), [
      'GET /ingest/{database}/{schema}/{table}',
      'POST /v1/events',
      'POST /v1/sql',
      'batch /ingest/{database}/{schema}/{table}',
    ]);
    for (const span of rest.filter(({ name }) => name.startsWith('POST')))
      assert.deepEqual([span.traceId, span.parentSpanId], [trusted.slice(3, 35), trusted.slice(36, 52)]);
    const batch = rest.find(({ name }) => name.startsWith('batch'));
    assert.deepEqual(
      [
        attributeOf(batch ?? { attributes: [] }, 'headgate.batch.rows'),
        batch?.events.map(({ name }) => name),
      ],
      ['1', ['queued', 'committed']],
    );

    const requests = served().filter((span) => !isOther(span));
    const commits = spans().filter(({ name }) => name === 'COMMIT');
    const [first] = requests.filter(({ traceId }) => traceId === trusted.slice(3, 35));
    assert.equal(first?.parentSpanId, trusted.slice(36, 52));
    assert.equal(attributeOf(first, 'db.collection.name'), 'Größe "x"');
    assert.deepEqual(
      first.events.map(({ name }) => name),
      ['verified', 'queued', 'committed'],
    );
    const refused = requests.find((span) => Number(attributeOf(span, 'http.response.status_code')) === 422);
    assert.ok(refused !== undefined && attributeOf(refused, 'error.type') === 'row_refused');
    assert.equal(new Set(requests.map(({ traceId }) => traceId)).size, load + 2);
    const byId = new Map(served().map((span) => [span.spanId, span]));
    for (const { traceId, parentSpanId = '', links, startTimeUnixNano, endTimeUnixNano } of commits) {
      assert.equal(byId.get(parentSpanId)?.traceId, traceId);
      assert.ok(links.length <= 32 && links.every(({ spanId }) => byId.has(spanId)));
      assert.ok(startTimeUnixNano < endTimeUnixNano);
    }
    const { rows } = await root.query<{ trace: string }>('SELECT trace FROM "Größe ""x""" WHERE id > 1');
    assert.ok(
      rows.length > 2_900 &&
        rows.every(({ trace }) => byId.get(trace.slice(36, 52))?.traceId === trace.slice(3, 35)),
    );

    const named = (name: string) => metrics().find((it) => it.name === name);
    const total = (name: string) =>
      named(name)?.sum?.dataPoints.reduce((sum, { asDouble }) => sum + asDouble, 0);
    await until(() => total('headgate_spans_sent_total') === spans().length);
    assert.equal(total('headgate_requests_total'), load + 2);
    assert.equal(named('headgate_requests_total')?.sum?.isMonotonic, true);
    const [seconds] = named('headgate_request_seconds')?.histogram?.dataPoints ?? [];
    assert.equal(Number(seconds?.count), load + 2);
    assert.equal(
      seconds?.bucketCounts.reduce((sum, count) => sum + Number(count), 0),
      load + 2,
    );
    assert.equal(seconds?.bucketCounts.length, (seconds?.explicitBounds.length ?? 0) + 1);
    const text = (await asked(`${headgate.adminUrl}/metrics`)).text;
    const shown = new Set([...text.matchAll(/^# TYPE (\S+) /gm)].map(([, name = '']) => name));
    assert.ok(metrics().every(({ name }) => shown.has(name)));
    t.diagnostic(
      `${requests.length} spans of requests, ${commits.length} of groups, ${metrics().length} metrics`,
    );
  },
);
