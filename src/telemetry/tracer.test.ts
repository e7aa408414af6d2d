/** Spans: what is traced and what is believed, and that the texts say what OpenTelemetry's own serializer writes of the same spans. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { JsonTraceSerializer } from '@opentelemetry/otlp-transformer';
import { Networks } from '../kit/networks.ts';
import type { Group, Outcome } from '../types/rows.ts';
import { spanText, tracesText } from './span-text.ts';
import type { EndedSpan } from './span-text.ts';
import { Tracer } from './tracer.ts';
import type { Sampler, TracedRequest } from './tracer.ts';

const traceId = '0af7651916cd43dd8448eb211c80319c';
const spanId = 'b7ad6b7169203331';
const table = { database: 'dev', schema: 'public', table: 'a "table"' };

interface Read {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly kind: number;
  readonly flags: number;
  readonly startTimeUnixNano: string;
  readonly attributes: readonly { readonly key: string; readonly value: Record<string, unknown> }[];
  readonly events: readonly { readonly name: string }[];
  readonly links: readonly { readonly traceId: string; readonly spanId: string; readonly flags: number }[];
  readonly status: { readonly code?: number };
}

function tracing(sampler: Sampler, options: { trusted?: string; random?: () => number } = {}) {
  const texts: string[] = [];
  const networks = options.trusted === undefined ? null : Networks.parse(options.trusted);
  let ms = 5_000;
  const tracer = new Tracer({
    sampler,
    trusted: networks instanceof Networks ? networks : null,
    ended: (text) => texts.push(text),
    clock: () => (ms += 0.25),
    now: () => 1_700_000_000_000 + ms,
    random: options.random ?? (() => 0.5),
  });
  return { tracer, spans: () => texts.map((it) => JSON.parse(it) as Read) };
}

const from = (remoteAddress: string, traceparent?: string) => ({
  method: 'POST',
  remoteAddress,
  one: (name: string) => (name === 'traceparent' ? traceparent : undefined),
});
const routed = { table, route: '/webhook/{database}/{schema}/{table}', scheme: 'https' } as const;
const valueOf = ({ attributes }: Read, key: string) =>
  Object.values(attributes.find((it) => it.key === key)?.value ?? {})[0];

suite('the tracer decides which requests are traced', () => {
  test('the traceparent of a trusted sender decides about tracing, and that of a stranger does not', () => {
    const always = { isParentBased: true, ratio: 1 };
    const never = { isParentBased: true, ratio: 0 };
    const asked = `00-${traceId}-${spanId}-01`;
    const trusted = '10.0.0.0/8, fd00::/8';
    assert.equal(tracing(never, { trusted }).tracer.begin(from('192.0.2.1', asked)), null);
    assert.equal(tracing(never).tracer.begin(from('10.1.2.3', asked)), null);
    assert.equal(tracing(always, { trusted }).tracer.begin(from('10.1.2.3', asked.replace(/1$/, '0'))), null);
    const believed = tracing(never, { trusted }).tracer.begin(from('fd00::1', asked));
    assert.equal(believed?.traceId, traceId);
    assert.notEqual(believed.traceparent, asked);
    const strange = tracing(always, { trusted });
    const span = strange.tracer.begin(from('192.0.2.1', asked));
    assert.ok(span !== null && span.traceId !== traceId);
    strange.tracer.end(span, from('192.0.2.1'), { ...routed, status: 200, code: 'committed' });
    const [read] = strange.spans();
    assert.deepEqual(read?.links, [{ traceId, spanId, flags: 0x301 }]);
    assert.equal(read.parentSpanId, undefined);
    // A socket that is gone has no address.
    assert.ok(tracing(always, { trusted: '0.0.0.0/0' }).tracer.begin(from('', asked)) !== null);
  });

  test('requests without a traceparent are traced at the ratio of the settings', () => {
    let traced = 0;
    let at = 0;
    const { tracer } = tracing(
      { isParentBased: true, ratio: 0.01 },
      { random: () => (at++ % 1_000) / 1_000 },
    );
    for (let i = 0; i < 10_000; i++) traced += tracer.begin(from('192.0.2.1')) === null ? 0 : 1;
    assert.equal(traced, 100);
    // By its id a trace is traced by all or by none.
    const byId = tracing({ isParentBased: false, ratio: 0.5 }, { trusted: '10.0.0.0/8' }).tracer;
    const ids = ['8', '7'].map((digit) =>
      byId.begin(from('10.0.0.1', `00-${'1'.repeat(19)}${digit}${'0'.repeat(12)}-${spanId}-00`)),
    );
    assert.deepEqual(
      ids.map((it) => it !== null),
      [false, true],
    );
  });

  test('the span of a request has its route and times, and none of its content', () => {
    const { tracer, spans } = tracing({ isParentBased: true, ratio: 1 }, { trusted: '10.0.0.0/8' });
    const span = tracer.begin(from('10.0.0.1', `00-${traceId}-${spanId}-01`)) as TracedRequest;
    span.verifiedMs = 5_001;
    span.queuedMs = 5_002;
    tracer.end(span, from('10.0.0.1'), { ...routed, status: 422, code: 'row_refused' });
    tracer.end(
      tracer.begin({ ...from('10.0.0.1'), method: 'BREW' }) as TracedRequest,
      { ...from('10.0.0.1'), method: 'BREW' },
      { ...routed, table: null, route: null, status: 503, code: 'draining' },
    );
    const [one, other] = spans();
    assert.ok(one !== undefined && other !== undefined);
    assert.deepEqual([one.traceId, one.parentSpanId, one.flags, one.kind], [traceId, spanId, 0x301, 2]);
    assert.equal(one.name, 'POST /webhook/{database}/{schema}/{table}');
    assert.deepEqual(Object.fromEntries(one.attributes.map(({ key }) => [key, valueOf(one, key)])), {
      'db.namespace': 'dev|public',
      'db.collection.name': 'a "table"',
      'http.request.method': 'POST',
      'http.route': '/webhook/{database}/{schema}/{table}',
      'http.response.status_code': 422,
      'url.scheme': 'https',
      'client.address': '10.0.0.1',
      'error.type': 'row_refused',
    });
    assert.deepEqual(
      one.events.map(({ name }) => name),
      ['verified', 'queued'],
    );
    assert.deepEqual(one.status, {});
    assert.deepEqual(
      [other.name, valueOf(other, 'http.request.method'), other.status],
      ['HTTP', '_OTHER', { code: 2 }],
    );
  });

  test('the span of a COMMIT links to at most 32 traced requests of its group, and needs at least one', async () => {
    const { tracer, spans } = tracing({ isParentBased: true, ratio: 1 });
    const members = Array.from({ length: 50 }, (_, i) =>
      i % 5 === 4 ? {} : { traceparent: `00-${traceId}-${String(i + 1).padStart(16, '0')}-01` },
    );
    const group = (of: readonly object[]) =>
      ({ target: table, members: of, rows: of.length, bytes: 0 }) as unknown as Group;
    const outcomes: readonly Outcome[] = [{ kind: 'committed', rows: 1 }];
    const same = Promise.resolve(outcomes);
    assert.equal(tracer.commit(group([{}, {}]), same), same);
    assert.equal(await tracer.commit(group(members), same), outcomes);
    const [commit, ...more] = spans();
    assert.ok(commit !== undefined && more.length === 0);
    assert.deepEqual(
      [commit.name, commit.kind, commit.links.length, commit.traceId],
      ['COMMIT', 1, 32, traceId],
    );
    assert.equal(commit.parentSpanId, '0000000000000001');
    assert.equal(valueOf(commit, 'headgate.group.requests'), 50);
  });

  test("the JSON of a span equals that of OpenTelemetry's serializer", () => {
    const ended: EndedSpan = {
      traceId,
      spanId,
      parentSpanId: '00f067aa0ba902b7',
      hasRemoteParent: true,
      name: 'POST "é\u2028\ud800"',
      kind: 'server',
      startMs: 1_700_000_000_123.456,
      endMs: 1_700_000_000_999.25,
      shared: '',
      attributes: { text: 'a\n"b"', whole: 200, part: 0.5 },
      events: [{ name: 'verified', atMs: 1_700_000_000_123.5 }],
      links: [
        {
          traceId: '4bf92f3577b34da6a3ce929d0e0e4736',
          spanId: '53995c3f42cd8ad8',
          isSampled: false,
          isRemote: true,
        },
      ],
      isError: true,
    };
    const hr = (ms: number): [number, number] => [Math.floor(ms / 1_000), Math.floor((ms % 1_000) * 1e6)];
    const resource = { attributes: { 'service.name': 'headgate' } };
    const theirs = {
      name: ended.name,
      kind: 1,
      spanContext: () => ({ traceId, spanId, traceFlags: 1 }),
      parentSpanContext: { traceId, spanId: ended.parentSpanId, traceFlags: 1, isRemote: true },
      startTime: hr(ended.startMs),
      endTime: hr(ended.endMs),
      status: { code: 2 },
      attributes: ended.attributes,
      links: ended.links.map((it) => ({
        context: { traceId: it.traceId, spanId: it.spanId, traceFlags: 0, isRemote: true },
      })),
      events: [{ name: 'verified', time: hr(1_700_000_000_123.5) }],
      resource,
      instrumentationScope: { name: 'headgate', version: '1' },
      droppedAttributesCount: 0,
      droppedEventsCount: 0,
      droppedLinksCount: 0,
    };
    const expected: unknown = JSON.parse(
      new TextDecoder().decode(JsonTraceSerializer.serializeRequest([theirs as never]) as Uint8Array),
    );
    const ours = tracesText(
      '{"attributes":[{"key":"service.name","value":{"stringValue":"headgate"}}]}',
      '{"name":"headgate","version":"1"}',
      [spanText(ended)],
    );
    assert.deepEqual(plain(JSON.parse(ours)), plain(expected));
  });
});

/** Without the counts of what was dropped and empty lists, which is what a field means that is not there; the time to a microsecond, which is what a double has. */
function plain(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([key, it]) => !key.startsWith('dropped') && !(Array.isArray(it) && it.length === 0))
      .map(([key, it]) => [key, key.endsWith('UnixNano') ? String(it).slice(0, -4) : plain(it)]),
  );
}
