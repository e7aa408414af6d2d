/** Traces of a running Headgate: what a receiver of OpenTelemetry is sent, and that no request waits for it, whatever it does. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { asked } from '../support/asked.ts';
import { startGatewayProcess } from '../support/gateway-process.ts';
import { startHeadgate } from '../support/headgate.ts';
import { attributeOf, OtlpSink } from '../support/otlp-receiver.ts';
import type { ReceivedSpan } from '../support/otlp-receiver.ts';
import { sampledTests, sampleOf } from '../support/sample.ts';
import { until } from '../support/until.ts';
import { WsClient } from '../support/ws-client.ts';

const soon = { OTEL_BSP_SCHEDULE_DELAY: '20' };
const always = { ...soon, OTEL_TRACES_SAMPLER: 'always_on' };
const strange = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';

async function metric(url: string, line: RegExp): Promise<number> {
  return Number(line.exec((await asked(`${url}/metrics`)).text)?.[1] ?? 0);
}

interface ReceivedMetric {
  readonly name: string;
  readonly sum?: { readonly dataPoints: readonly { readonly asDouble: number }[] };
}

function lastMetrics(sink: OtlpSink): readonly ReceivedMetric[] {
  const text = sink.messages.at(-1)?.text ?? '{"resourceMetrics":[{"scopeMetrics":[{"metrics":[]}]}]}';
  const read = JSON.parse(text) as { resourceMetrics: [{ scopeMetrics: [{ metrics: ReceivedMetric[] }] }] };
  return read.resourceMetrics[0].scopeMetrics[0].metrics;
}

const valueOf = (sink: OtlpSink, name: string): number | undefined =>
  lastMetrics(sink)
    .find((it) => it.name === name)
    ?.sum?.dataPoints.reduce((sum, it) => sum + it.asDouble, 0);

suite('traces and metrics are sent to OpenTelemetry', () => {
  const some = sampledTests(1, 2);

  for (const fastPath of sampleOf(['true', 'false'], 1))
    test(`traces have a span per request and a COMMIT per group without request contents (fast path ${fastPath})`, async (t) => {
      const sink = await OtlpSink.open(t);
      const env = {
        ...always,
        OTEL_EXPORTER_OTLP_ENDPOINT: sink.url,
        OTEL_EXPORTER_OTLP_HEADERS: 'x-key=a%20key',
        OTEL_SERVICE_NAME: 'hooks',
        HEADGATE_FAST_PATH: fastPath,
        HEADGATE_LOG_LEVEL: 'debug',
      };
      const headgate = await startHeadgate(t, { env });
      const root = await headgate.client(t);
      await root.query(`CREATE SECRET key WITH (backend = 'meta') AS 'hidden-key';
        CREATE TABLE orders (data JSONB) WITH (connector = 'webhook')
          VALIDATE SECRET key AS secure_compare(headers->>'x-signature', key)`);
      const send = (headers: Record<string, string>) =>
        asked(`${headgate.webhookUrl}/dev/public/orders?hidden=query`, {
          method: 'POST',
          body: '{"hidden":"body"}',
          headers,
        });
      const signed = { 'x-signature': 'hidden-key', traceparent: strange };
      assert.equal((await send(signed)).status, 200);
      assert.equal((await send({ 'x-signature': 'hidden-other' })).status, 401);
      assert.equal(
        (await asked(`${headgate.webhookUrl}/dev/public/none`, { method: 'POST', body: '{}' })).status,
        404,
      );
      await until(() => sink.requests.length === 3 && sink.commits.length === 1);

      const [stored, refused, lost] = sink.requests.toSorted((a, b) =>
        a.startTimeUnixNano < b.startTimeUnixNano ? -1 : 1,
      );
      const [commit] = sink.commits;
      assert.ok(stored !== undefined && refused !== undefined && lost !== undefined && commit !== undefined);
      assert.deepEqual(
        stored.events.map(({ name }) => name),
        ['verified', 'queued', 'committed'],
      );
      const times = [
        stored.startTimeUnixNano,
        ...stored.events.map(({ timeUnixNano }) => timeUnixNano),
        stored.endTimeUnixNano,
      ];
      assert.deepEqual(times.toSorted(), times);
      assert.ok(Math.abs(Number(BigInt(times[0] ?? 0) / 1_000_000n) - Date.now()) < 60_000);
      assert.equal(attributeOf(stored, 'db.collection.name'), 'orders');
      assert.equal(attributeOf(stored, 'client.address'), '127.0.0.1');
      assert.deepEqual(
        stored.links.map(({ traceId }) => traceId),
        [strange.slice(3, 35)],
        'a stranger’s trace is a link',
      );
      assert.notEqual(stored.traceId, strange.slice(3, 35));
      assert.deepEqual(
        [attributeOf(refused, 'http.response.status_code'), attributeOf(refused, 'error.type')],
        [401, 'signature_failed'],
      );
      assert.deepEqual(refused.events, []);
      assert.deepEqual(
        [attributeOf(lost, 'error.type'), attributeOf(lost, 'db.collection.name')],
        ['not_found', undefined],
      );
      assert.deepEqual([commit.traceId, commit.parentSpanId], [stored.traceId, stored.spanId]);
      assert.deepEqual(
        commit.links.map(({ traceId, spanId }) => [traceId, spanId]),
        [[stored.traceId, stored.spanId]],
      );

      const [message] = sink.messages;
      assert.deepEqual(
        [message?.path, message?.headers['x-key'], message?.headers['content-type']],
        ['/v1/traces', 'a key', 'application/json'],
      );
      assert.match(message?.text ?? '', /"service\.name","value":\{"stringValue":"hooks"\}/);
      assert.doesNotMatch(sink.messages.map(({ text }) => text).join(), /hidden/);
      await until(() => headgate.stderr.includes(`"trace_id":"${stored.traceId}"`));
      assert.equal(await metric(headgate.adminUrl, /^headgate_spans_sent_total (\d+)/m), 4);
      await asked(`${headgate.webhookUrl}/dev/public/none`);
      const before = sink.requests.length;
      await headgate.signal('SIGTERM');
      assert.ok(sink.requests.length > before, 'what is left is sent when Headgate stops');
    });

  some('several listener processes send traces and continue those of a trusted sender', async (t) => {
    const sink = await OtlpSink.open(t);
    const env = {
      ...soon,
      OTEL_EXPORTER_OTLP_ENDPOINT: sink.url,
      OTEL_TRACES_SAMPLER_ARG: '0',
      HEADGATE_TRACE_TRUST: '127.0.0.0/8',
      HEADGATE_LISTENERS: '2',
    };
    const headgate = await startHeadgate(t, { env });
    const root = await headgate.client(t);
    await root.query("CREATE TABLE events (data JSONB) WITH (connector = 'webhook')");
    const send = (traceparent: string) =>
      asked(`${headgate.webhookUrl}/dev/public/events`, {
        method: 'POST',
        body: '{}',
        // Another connection each time, which go to the processes in turn.
        headers: { connection: 'close', traceparent },
      });
    for (let i = 0; i < 10; i++) assert.equal((await send(strange)).status, 200);
    assert.equal((await send(strange.replace(/1$/, '0'))).status, 200);
    await until(() => sink.requests.length === 10 && sink.commits.length === 10);
    for (const span of sink.requests)
      assert.deepEqual([span.traceId, span.parentSpanId], [strange.slice(3, 35), strange.slice(36, 52)]);
    const pids = sink.messages.map(({ text }) => /"process\.pid","value":\{"intValue":(\d+)/.exec(text)?.[1]);
    assert.equal(new Set(pids).size, 2);
    assert.ok(!pids.includes(String(headgate.child.pid)));
    await until(async () => (await metric(headgate.adminUrl, /^headgate_spans_sent_total (\d+)/m)) === 20);
  });

  for (const listeners of sampleOf(['1', '2'], 1))
    test(`WebSockets, events and SQL are traced as webhooks are (listener processes: ${listeners})`, async (t) => {
      const sink = await OtlpSink.open(t);
      const env = {
        ...always,
        OTEL_EXPORTER_OTLP_ENDPOINT: sink.url,
        HEADGATE_LISTENERS: listeners,
        HEADGATE_LOG_LEVEL: 'debug',
      };
      const headgate = await startHeadgate(t, { env });
      const root = await headgate.client(t);
      await root.query(`CREATE SECRET key WITH (backend = 'meta') AS 'hidden-key';
        CREATE TABLE orders (id INT PRIMARY KEY, n INT NOT NULL) INCLUDE TRACEPARENT AS trace WITH (connector = 'webhook')
          VALIDATE SECRET key AS secure_compare(headers->>'x-signature', key)`);
      const named = async (name: string, count = 1): Promise<readonly ReceivedSpan[]> => {
        const found = () => sink.spans.filter((it) => it.name === name);
        await until(() => found().length === count);
        return found();
      };
      const attributes = (span: ReceivedSpan | undefined) =>
        Object.fromEntries(span?.attributes.map(({ key }) => [key, attributeOf(span, key)]) ?? []);

      // Each message of a WebSocket.
      const url = `ws://127.0.0.1:${headgate.ports.listen.port}/ingest/dev/public/orders?hidden=query`;
      const open = (signature: string) =>
        WsClient.open(url, { headers: { 'x-signature': signature, traceparent: strange } });
      const forged = await open('hidden-other');
      await forged.ended;
      const client = await open('hidden-key');
      client.send(1, [
        { op: 'insert', data: { id: 1, n: 1 } },
        { op: 'insert', data: { id: 2, n: 2 } },
      ]);
      await client.acked(1);
      client.send(2, [{ op: 'insert', data: { id: 3, n: null } }]);
      await client.ended;
      const [refused, opened] = await named('GET /ingest/{database}/{schema}/{table}', 2);
      assert.deepEqual(attributes(refused), {
        'db.namespace': 'dev|public',
        'db.collection.name': 'orders',
        'http.request.method': 'GET',
        'http.route': '/ingest/{database}/{schema}/{table}',
        'http.response.status_code': 101,
        'url.scheme': 'ws',
        'client.address': '127.0.0.1',
        'error.type': 'signature_failed',
      });
      assert.equal(attributes(opened)['error.type'], undefined);
      assert.deepEqual(
        opened?.links.map(({ traceId }) => traceId),
        [strange.slice(3, 35)],
      );
      const [stored, lost] = await named('batch /ingest/{database}/{schema}/{table}', 2);
      assert.ok(stored !== undefined && lost !== undefined);
      assert.deepEqual(attributes(stored), {
        'db.namespace': 'dev|public',
        'db.collection.name': 'orders',
        'http.route': '/ingest/{database}/{schema}/{table}',
        'network.protocol.name': 'websocket',
        'url.scheme': 'ws',
        'client.address': '127.0.0.1',
        'headgate.batch.rows': 2,
      });
      assert.deepEqual(
        stored.events.map(({ name }) => name),
        ['queued', 'committed'],
      );
      assert.deepEqual([attributes(lost)['error.type'], lost.status], ['row_refused', {}]);
      const { rows } = await root.query<{ trace: string }>('SELECT trace FROM orders ORDER BY id');
      const trace = `00-${stored.traceId}-${stored.spanId}-01`;
      assert.deepEqual(rows, [{ trace }, { trace }], 'a worker goes on in the trace of the batch');
      await until(() => sink.commits.some(({ parentSpanId }) => parentSpanId === stored.spanId));
      await until(() => headgate.stderr.includes(`"trace_id":"${stored.traceId}"`));

      // The gateway.
      const headers = { 'content-type': 'application/json', traceparent: strange };
      const post = (path: string, body: string) =>
        asked(`${headgate.gatewayUrl}${path}`, { method: 'POST', body, headers });
      await root.query('CREATE TABLE plain (id INT PRIMARY KEY, hidden TEXT)');
      assert.equal((await post('/v1/events?name=plain', '{"id":1,"hidden":"hidden body"}')).status, 200);
      assert.equal((await post('/v1/events?name=plain', '{"id":1}')).status, 422);
      const [event, twice] = await named('POST /v1/events', 2);
      assert.ok(event !== undefined && twice !== undefined);
      assert.deepEqual(attributes(event), {
        'db.namespace': 'dev|public',
        'db.collection.name': 'plain',
        'http.request.method': 'POST',
        'http.route': '/v1/events',
        'http.response.status_code': 200,
        'url.scheme': 'http',
        'client.address': '127.0.0.1',
      });
      assert.deepEqual(
        event.events.map(({ name }) => name),
        ['queued', 'committed'],
      );
      await until(() => sink.commits.some(({ parentSpanId }) => parentSpanId === event.spanId));
      assert.equal(attributes(twice)['error.type'], 'row_refused');

      assert.equal((await post('/v1/sql', "SELECT 'hidden'")).status, 200);
      assert.equal((await post('/v1/sql', 'SELECT hidden_column FROM plain')).status, 400);
      const [sql, wrong] = await named('POST /v1/sql', 2);
      assert.deepEqual(
        [attributes(sql)['db.namespace'], attributes(sql)['error.type'], attributes(wrong)['error.type']],
        ['dev', undefined, 'sql_error'],
      );
      const gone = new AbortController();
      const stream = await fetch(`${headgate.gatewayUrl}/v1/events?name=plain&after=0`, {
        signal: gone.signal,
      });
      await stream.body?.getReader().read();
      gone.abort();
      const [followed] = await named('GET /v1/events');
      assert.deepEqual(
        [attributes(followed)['db.namespace'], attributes(followed)['http.response.status_code']],
        ['dev', 200],
      );
      assert.equal((await asked(`${headgate.gatewayUrl}/v1/healthz`)).status, 200);
      await headgate.signal('SIGTERM');
      assert.doesNotMatch(sink.messages.map(({ text }) => text).join(), /hidden|healthz/);
    });

  some('headgate gateway in front of another PostgreSQL sends traces', async (t) => {
    const sink = await OtlpSink.open(t);
    const headgate = await startHeadgate(t);
    const root = await headgate.client(t);
    await root.query('CREATE TABLE plain (id INT PRIMARY KEY)');
    const env = {
      ...always,
      OTEL_EXPORTER_OTLP_ENDPOINT: sink.url,
      EVENTS_API_DEV_DSN: `postgresql://root@127.0.0.1:${headgate.ports.sql.port}/dev`,
    };
    const gateway = await startGatewayProcess(t, env);
    const body = '{"id":1}';
    assert.equal((await asked(`${gateway.url}/v1/events?name=plain`, { method: 'POST', body })).status, 200);
    await until(() => sink.requests.length === 1 && sink.commits.length === 1);
    assert.deepEqual(
      [sink.requests[0]?.name, sink.commits[0]?.parentSpanId],
      ['POST /v1/events', sink.requests[0]?.spanId],
    );
    await assert.rejects(
      startGatewayProcess(t, { ...env, OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' }),
      /OTEL_EXPORTER_OTLP_PROTOCOL=grpc is not spoken here/,
    );
  });

  test('requests are answered while the OTLP receiver refuses or hangs, and dropped spans are counted', async (t) => {
    const sink = await OtlpSink.open(t);
    const env = { ...always, OTEL_EXPORTER_OTLP_ENDPOINT: sink.url };
    const headgate = await startHeadgate(t, { env });
    const root = await headgate.client(t);
    await root.query("CREATE TABLE events (data JSONB) WITH (connector = 'webhook')");
    const send = async (count: number) => {
      const answers = await Promise.all(
        Array.from({ length: count }, () => headgate.post('dev/public/events', '{}')),
      );
      assert.ok(answers.every(({ status }) => status === 200));
    };
    sink.answer = (response, spans) => {
      response.statusCode = spans > 1 ? 413 : 200;
      response.end();
    };
    await send(8);
    await until(() => sink.requests.length >= 8);
    const dropped = (why: string) =>
      metric(headgate.adminUrl, new RegExp(`^headgate_spans_dropped_total\\{why="${why}"\\} (\\d+)`, 'm'));
    sink.answer = (response) => {
      response.statusCode = 400;
      response.end();
    };
    await send(1);
    await until(async () => (await dropped('refused')) > 0);
    assert.match(headgate.stderr, /it answered 400","kind":"telemetry.failed"/);
    // From now on nothing is answered, and what no longer fits is dropped.
    sink.answer = () => undefined;
    for (let i = 0; i < 30; i++) await send(100);
    const { ended } = headgate;
    headgate.child.kill('SIGTERM');
    assert.deepEqual(await ended, { code: 0, signal: null });
  });

  for (const listeners of sampleOf(['1', '2'], 1))
    test(`OTLP metrics have the names of /metrics, and are sent once more at a stop (listener processes: ${listeners})`, async (t) => {
      const sink = await OtlpSink.open(t);
      const env = {
        OTEL_EXPORTER_OTLP_ENDPOINT: sink.url,
        OTEL_TRACES_EXPORTER: 'none',
        OTEL_METRICS_EXPORTER: 'otlp',
        OTEL_METRIC_EXPORT_INTERVAL: '50',
        HEADGATE_LISTENERS: listeners,
      };
      const headgate = await startHeadgate(t, { env });
      const root = await headgate.client(t);
      await root.query("CREATE TABLE events (data JSONB) WITH (connector = 'webhook')");
      for (let i = 0; i < 6; i++) {
        const headers = { connection: 'close' };
        const url = `${headgate.webhookUrl}/dev/public/events`;
        assert.equal((await asked(url, { method: 'POST', body: '{}', headers })).status, 200);
      }
      await until(() => valueOf(sink, 'headgate_rows_total') === 6);
      const names = (text: string) =>
        new Set([...text.matchAll(/^# TYPE (\S+) /gm)].map(([, name = '']) => name));
      const shown = names((await asked(`${headgate.adminUrl}/metrics`)).text);
      const sent = new Set(lastMetrics(sink).map(({ name }) => name));
      assert.deepEqual(
        [...sent].filter((name) => !shown.has(name)),
        [],
      );
      assert.ok(sent.has('headgate_request_seconds') && sent.has('nodejs_heap_size_used_bytes'));
      assert.ok(sink.messages.every(({ path }) => path === '/v1/metrics'));
      sink.answer = (response) => {
        response.statusCode = 503;
        response.end();
      };
      await until(() => headgate.stderr.includes('"what":"metrics","reason":"127.0.0.1: it answered 503"'));
      sink.answer = (response) => response.end();
      await until(() => headgate.stderr.includes('telemetry.works'));
      const count = sink.messages.length;
      await headgate.signal('SIGTERM');
      assert.ok(sink.messages.length > count);
    });
});
