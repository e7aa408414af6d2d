/** INCLUDE TRACEPARENT: the trace that a receiver of OpenTelemetry has of a request goes on in its row, through the spool, a retry, `replay` and RisingWave. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
import { defaultTextMapGetter, ROOT_CONTEXT, trace } from '@opentelemetry/api';
import { Client } from 'pg';
import { openServer } from '../risingwave/support.ts';
import { onEnd } from '../support/cleanup.ts';
import { startHeadgate, temporaryFolder } from '../support/headgate.ts';
import { MortalServer } from '../support/mortal-server.ts';
import { OtlpSink } from '../support/otlp-receiver.ts';
import { run } from '../support/run.ts';
import { sampleOf } from '../support/sample.ts';
import { SpoolStage } from '../support/spool-stage.ts';
import { until } from '../support/until.ts';
import { within } from '../support/within.ts';

const cli = fileURLToPath(new URL('../../src/app/cli.js', import.meta.url));
const strange = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';

const always = (sink: OtlpSink) => ({
  OTEL_EXPORTER_OTLP_ENDPOINT: sink.url,
  OTEL_TRACES_SAMPLER: 'always_on',
  OTEL_BSP_SCHEDULE_DELAY: '10',
});

/** What a worker of OpenTelemetry's goes on with. */
function extracted(traceparent: string | null | undefined): {
  traceId: string;
  spanId: string;
  traceFlags: number;
} {
  const context = new W3CTraceContextPropagator().extract(
    ROOT_CONTEXT,
    { traceparent },
    defaultTextMapGetter,
  );
  const found = trace.getSpanContext(context);
  assert.ok(found !== undefined, String(traceparent));
  return found;
}

suite('INCLUDE TRACEPARENT stores trace contexts', () => {
  test("INCLUDE TRACEPARENT stores the request's own span, which retries and headgate replay keep", async (t) => {
    const sink = await OtlpSink.open(t);
    const headgate = await startHeadgate(t, { env: always(sink) });
    const root = await headgate.client(t);
    await root.query(`CREATE TABLE orders (id BIGINT, total INT NOT NULL) INCLUDE TRACEPARENT AS trace INCLUDE HEADER 'traceparent' AS theirs
      WITH (connector = 'webhook')`);
    const { rows: shown } = await root.query<{ 'Create Sql': string }>('SHOW CREATE TABLE orders');
    assert.match(shown[0]?.['Create Sql'] ?? '', /\nINCLUDE TRACEPARENT AS trace\n/);
    await root.query("CREATE TABLE plain (data JSONB) WITH (connector = 'webhook')");
    await root.query('ALTER TABLE plain INCLUDE TRACEPARENT AS trace');
    await assert.rejects(
      root.query('ALTER TABLE plain INCLUDE TRACEPARENT AS trace'),
      /filled from the request already/,
    );

    const first = await headgate.post('dev/public/orders', '{"id":1,"total":5}', { traceparent: strange });
    assert.equal(first.status, 200, first.text);
    assert.equal((await headgate.post('dev/public/plain', '{"a":1}')).status, 200);
    // Nobody but Headgate fills it.
    const forged = await headgate.post('dev/public/orders', `{"id":2,"total":5,"trace":"${strange}"}`);
    assert.equal(forged.status, 200);
    await until(() => sink.requests.length === 3);
    const spans = sink.requests.map(({ traceId, spanId }) => ({ traceId, spanId, traceFlags: 1 }));
    const { rows } = await root.query<{ trace: string; theirs: string | null }>(
      'SELECT trace, theirs FROM orders UNION ALL SELECT trace, NULL FROM plain',
    );
    assert.equal(rows.length, 3);
    for (const { trace: own } of rows) {
      const { traceId, spanId, traceFlags } = extracted(own);
      assert.ok(
        spans.some((span) => JSON.stringify(span) === JSON.stringify({ traceId, spanId, traceFlags })),
        own,
      );
      assert.notEqual(own, strange);
    }
    assert.equal(rows.filter(({ theirs }) => theirs === strange).length, 1);

    await t.test('a retry stores the trace of its refused request in INCLUDE TRACEPARENT', async () => {
      assert.equal((await headgate.post('dev/public/orders', '{"id":7}')).status, 422);
      const kept = async () =>
        (
          await root.query<{ id: string; traceparent: string }>(
            'SELECT id, traceparent FROM headgate.rejected_requests',
          )
        ).rows[0];
      await until(async () => (await kept()) !== undefined);
      const refused = await kept();
      assert.ok(sink.requests.length >= 3 && refused !== undefined);
      await root.query('ALTER TABLE orders ALTER COLUMN total DROP NOT NULL');
      await root.query('SELECT headgate.retry_rejected($1)', [refused.id]);
      await within(10_000, async () => {
        const found = await root.query<{ trace: string }>('SELECT trace FROM orders WHERE id = 7');
        assert.equal(found.rows[0]?.trace, refused.traceparent);
      });
      await until(() =>
        sink.requests.some(({ traceId }) => traceId === extracted(refused.traceparent).traceId),
      );
    });

    await t.test('headgate replay sends the stored traceparent as a header', async () => {
      const got: (string | undefined)[] = [];
      const hook = createServer((request, response) => {
        got.push(request.headers['traceparent'] as string | undefined);
        response.end();
      }).listen(0, '127.0.0.1');
      await once(hook, 'listening');
      onEnd(t, 'hook', () => void hook.close());
      const url = `http://127.0.0.1:${(hook.address() as AddressInfo).port}/`;
      const replayed = await run(
        process.execPath,
        [cli, 'replay', 'orders', '--to', url, `--data-dir=${headgate.dataDir}`],
        {
          env: { PATH: process.env['PATH'] },
        },
      );
      const { rows: all } = await root.query<{ trace: string }>('SELECT trace FROM orders');
      assert.deepEqual(new Set(got), new Set(all.map(({ trace: own }) => own)), replayed.stderr);
    });
  });

  const fromTheDisk = async (t: TestContext): Promise<void> => {
    const sink = await OtlpSink.open(t);
    const server = await MortalServer.start(t);
    const stage = new SpoolStage(t, server, await temporaryFolder(t));
    await stage.startHeadgate(always(sink));
    await stage.sql(
      `CREATE TABLE kept (data JSONB) INCLUDE TRACEPARENT AS trace WITH (connector = 'webhook', spool = 'fallback')`,
    );
    assert.equal((await stage.post('kept', '{"id":0}')).status, 200);
    await stage.killServer();
    assert.deepEqual(await stage.statuses('kept', ['{"id":1}', '{"id":2}']), [202, 202]);
    const spooled = () =>
      sink.requests.filter(({ events }) => events.some(({ name }) => name === 'spooled')).length;
    await until(() => spooled() === 2 && sink.commits.length === 1);
    await stage.killHeadgate();
    await server.restart();
    await stage.startHeadgate();
    await stage.untilDirect('kept', '{"id":3}');
    const rows = await stage.ask<{ id: number; trace: string | null }>(
      "SELECT (data->>'id')::int AS id, trace FROM kept ORDER BY 1",
    );
    assert.equal(rows.length, 4);
    for (const { id, trace: own } of rows.slice(0, 3)) {
      const { traceId, spanId } = extracted(own);
      assert.ok(
        sink.requests.some((span) => span.traceId === traceId && span.spanId === spanId),
        String(id),
      );
    }
    assert.equal(rows[3]?.trace, null);
  };

  const intoRisingWave = async (t: TestContext): Promise<void> => {
    const sink = await OtlpSink.open(t);
    const server = await openServer(t);
    const there = new Client(server.dsn);
    await there.connect();
    onEnd(t, 'client', () => there.end().catch(() => undefined));
    const env = { ...always(sink), HEADGATE_INTO_HOSTS: new URL(server.dsn).host };
    const headgate = await startHeadgate(t, { env });
    const root = await headgate.client(t);
    const name = server.table();
    await there.query(`CREATE TABLE ${name} (id BIGINT, trace VARCHAR)`);
    await root.query(`CREATE SECRET rw WITH (backend = 'meta') AS '${server.dsn}'`);
    await root.query(
      `CREATE TABLE ${name} (id BIGINT) INCLUDE TRACEPARENT AS trace WITH (connector = 'webhook', into = 'rw')`,
    );
    const { status, text } = await headgate.post(`dev/public/${name}`, '{"id":1}');
    assert.equal(status, 200, text);
    await there.query('FLUSH');
    const { rows } = await there.query<{ trace: string }>(`SELECT trace FROM ${name}`);
    await until(() => sink.requests.length === 1 && sink.commits.length === 1);
    const { traceId, spanId } = extracted(rows[0]?.trace);
    assert.deepEqual([sink.requests[0]?.traceId, sink.requests[0]?.spanId], [traceId, spanId]);
    assert.equal(sink.commits[0]?.parentSpanId, spanId);
  };

  for (const [name, run] of sampleOf(
    [
      [
        'spooled requests keep their trace across a kill, and without tracing the column is NULL',
        fromTheDisk,
      ],
      ['rows that go into RisingWave have the traceparent of their request', intoRisingWave],
    ] as const,
    1,
  ))
    test(name, run);
});
