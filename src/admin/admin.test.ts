import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import type { Observation, TableName } from '../observe/observations.ts';
import { openAdmin } from './admin.ts';
import type { AdminHandler } from './admin.ts';
import { createLog } from './log.ts';
import { createMetrics } from './metrics.ts';

const table: TableName = { database: 'dev', schema: 'public', table: 't' };

function answered(over: Partial<Extract<Observation, { kind: 'request.answered' }>> = {}): Observation {
  return {
    kind: 'request.answered',
    table,
    status: 200,
    code: 'committed',
    rows: 1,
    seconds: 0.002,
    ...over,
  };
}

function metrics(tablesMax?: number) {
  return createMetrics({
    ...(tablesMax === undefined ? {} : { tablesMax }),
    lanes: () => [{ table, rows: 3 }],
    load: () => ({ connections: 2, bytesInFlight: 4096 }),
  });
}

async function openedAdmin(t: TestContext, handler?: AdminHandler) {
  const admin = await openAdmin({
    host: '127.0.0.1',
    port: 0,
    health: () => ({}),
    ready: () => null,
    metrics: metrics(),
    ...(handler === undefined ? {} : { handler }),
  });
  t.after(() => admin.close());
  return admin;
}

/** Everything that is answered to these bytes until the connection ends. */
async function answerTo(port: number, bytes: string): Promise<string> {
  const socket = connect({ host: '127.0.0.1', port });
  let text = '';
  socket.setEncoding('latin1').on('data', (piece: string) => (text += piece));
  socket.write(bytes);
  await once(socket, 'close');
  return text;
}

test('the admin port answers HEAD, and refuses other methods, malformed requests and large headers', async (t) => {
  const { address } = await openedAdmin(t);
  const url = `http://127.0.0.1:${address.port}`;
  const head = await fetch(`${url}/healthz?x=1`, { method: 'HEAD' });
  assert.equal(head.status, 200);
  assert.equal(head.headers.get('content-length'), '15');
  assert.equal(await head.text(), '');
  const posted = await fetch(`${url}/metrics`, { method: 'POST', body: 'x' });
  assert.equal(posted.status, 405);
  assert.equal(posted.headers.get('allow'), 'GET, HEAD');
  assert.equal((await fetch(`${url}/x`, { method: 'POST', body: 'x' })).status, 404);
  const announced = 'GET /healthz HTTP/1.1\r\nhost: a\r\ncontent-length: 99999\r\n\r\n';
  assert.match(await answerTo(address.port, announced), /^HTTP\/1\.1 200 OK\r\n[^]*connection: close/i);
  assert.match(await answerTo(address.port, 'nonsense\r\n\r\n'), /^HTTP\/1\.1 400 [^]*"malformed_request"/);
  const hosts = 'GET /healthz HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n';
  assert.match(await answerTo(address.port, hosts), /^HTTP\/1\.1 400 [^]*exactly one Host/);
  const large = `GET /healthz HTTP/1.1\r\nhost: a\r\nx: ${'x'.repeat(20_000)}\r\n\r\n`;
  assert.match(await answerTo(address.port, large), /^HTTP\/1\.1 431 [^]*"headers_too_large"/);
});

test('the admin port asks an added handler first, and close() ends open connections', async (t) => {
  const admin = await openedAdmin(t, (request, response) => {
    if (request.url !== '/more') return false;
    response.end('more');
    return true;
  });
  const url = `http://127.0.0.1:${admin.address.port}`;
  assert.equal(await (await fetch(`${url}/more`)).text(), 'more');
  const root = (await (await fetch(`${url}/`)).json()) as { error: string };
  assert.equal(
    root.error,
    'the admin port serves /healthz, /readyz and /metrics, and the console at /console/',
  );
  assert.equal((await fetch(`${url}/healthz`)).status, 200);
  const socket = connect({ host: '127.0.0.1', port: admin.address.port });
  await once(socket, 'connect');
  const closed = once(socket, 'close');
  socket.resume();
  await admin.close();
  await closed;
});

test('the admin port serves health, readiness with its reason and metrics, and nothing else', async (t) => {
  let reason: string | null = 'the engine is starting';
  const admin = await openAdmin({
    host: '127.0.0.1',
    port: 0,
    health: () => ({ version: '1.2.3' }),
    ready: () => reason,
    metrics: metrics(),
  });
  t.after(() => admin.close());
  const get = (path: string) => fetch(`http://127.0.0.1:${admin.address.port}${path}`);
  assert.deepEqual(await (await get('/healthz')).json(), { status: 'ok', version: '1.2.3' });
  const away = await get('/readyz');
  assert.equal(away.status, 503);
  assert.deepEqual(await away.json(), { status: 'not ready', reason });
  reason = null;
  assert.equal((await get('/readyz')).status, 200);
  const scraped = await get('/metrics');
  assert.match(scraped.headers.get('content-type') ?? '', /^text\/plain; version=0\.0\.4/);
  assert.match(await scraped.text(), /^headgate_listener_connections 2$/m);
  const missing = await get('/etc/passwd');
  assert.equal(missing.status, 404);
  assert.deepEqual(await missing.json(), {
    error: 'the admin port serves /healthz, /readyz and /metrics',
    code: 'not_found',
  });
});

test('metrics count requests, rows, refusals, groups and engine restarts', async () => {
  const { observe, text } = metrics();
  observe(answered());
  observe(answered({ table: { ...table } }));
  observe(answered({ status: 401, code: 'signature_failed', rows: 0 }));
  observe(answered({ table: null, status: 404, code: 'not_found', rows: 0 }));
  observe({ kind: 'group.committed', table, rows: 2, bytes: 10, seconds: 0.0007 });
  observe({ kind: 'group.aborted', table, rows: 2, sqlstate: '23505', reason: 'x' });
  for (let i = 0; i < 3; i++)
    observe({ kind: 'engine.ready', engine: 'embedded', version: '18', seconds: 1 });
  observe({ kind: 'sql.connected', session: 1, remoteAddress: '::1' });
  for (let scrape = 0; scrape < 2; scrape++) {
    const lines = new Set((await text()).split('\n'));
    for (const line of [
      'headgate_requests_total{database="dev",schema="public",table="t",status="200",code="committed"} 2',
      'headgate_requests_total{database="dev",schema="public",table="t",status="401",code="signature_failed"} 1',
      'headgate_requests_total{database="",schema="",table="",status="404",code="not_found"} 1',
      'headgate_rows_total{database="dev",schema="public",table="t"} 2',
      'headgate_refusals_total{code="not_found"} 1',
      'headgate_refusals_total{code="signature_failed"} 1',
      'headgate_lane_rows{database="dev",schema="public",table="t"} 3',
      'headgate_groups_total{result="committed"} 1',
      'headgate_groups_total{result="aborted"} 1',
      'headgate_groups_total{result="unknown"} 0',
      'headgate_request_seconds_count 4',
      'headgate_commit_seconds_bucket{le="0.001"} 1',
      'headgate_group_rows_sum 2',
      'headgate_engine_restarts_total 2',
      'headgate_sql_sessions 1',
      'headgate_listener_bytes_in_flight 4096',
    ]) {
      assert.ok(lines.has(line), line);
    }
    assert.ok([...lines].some((line) => line.startsWith('nodejs_eventloop_lag_seconds ')));
    assert.ok([...lines].some((line) => line.startsWith('process_resident_memory_bytes ')));
  }
});

test('metrics count the tables beyond the bound together as "other"', async () => {
  const { observe, text } = metrics(2);
  for (let i = 0; i < 1_000; i++) observe(answered({ table: { ...table, table: `t${i % 100}` } }));
  const series = (await text()).split('\n').filter((line) => line.startsWith('headgate_requests_total{'));
  assert.equal(series.length, 3);
  assert.match(series.at(-1) ?? '', /table="other".* 980$/);
});

function logged(
  format: 'json' | 'pretty',
  level: 'debug' | 'info',
  ...observations: Observation[]
): string[] {
  const lines: string[] = [];
  const log = createLog({
    level,
    format,
    write: (line) => void lines.push(line),
    now: () => 1_700_000_000_000,
  });
  observations.forEach(log);
  return lines;
}

test('a log line is one JSON object', () => {
  const [line, ...more] = logged('json', 'debug', answered({ table: { ...table, table: 'a.b' } }));
  assert.deepEqual(more, []);
  assert.deepEqual(JSON.parse(line ?? ''), {
    level: 'debug',
    time: '2023-11-14T22:13:20.000Z',
    kind: 'request.answered',
    table: 'dev.public."a.b"',
    status: 200,
    code: 'committed',
    rows: 1,
    seconds: 0.002,
  });
  assert.deepEqual(logged('json', 'info', answered()), []);
});

test('text from outside adds no line, field or colour to the log', () => {
  const hostile = 'x\n{"level":"error"}\r\u001b[31m\u0007\u202e\u2028 level=error';
  const observation: Observation = { kind: 'engine.lost', engine: hostile, reason: hostile };
  const [json] = logged('json', 'info', observation);
  assert.equal(json?.indexOf('\n'), (json?.length ?? 0) - 1);
  assert.equal((JSON.parse(json ?? '') as { reason: string }).reason, hostile);
  const [pretty] = logged('pretty', 'info', observation);
  assert.match(
    pretty ?? '',
    /^22:13:20\.000 ERROR engine\.lost engine="[\x20-\x7e]+" reason="[\x20-\x7e]+"\n$/,
  );
  const unseen = '\u007f\u0085\u009b31m\u061c\u200b\u200f\u2028\u202e\u2066\ufeff é 中 😀';
  const [line = ''] = logged('json', 'info', { ...observation, reason: unseen });
  assert.match(line, /^[\x20-\x7e]*é 中 😀[\x20-\x7e]*\n$/u);
  assert.equal((JSON.parse(line) as { reason: string }).reason, unseen);
});

test('the severity of an engine log line comes from its own field, not from text it quotes', () => {
  const levelOf = (line: string) => {
    const [logLine = '{}'] = logged('json', 'debug', { kind: 'engine.said', line });
    return (JSON.parse(logLine) as { level: string }).level;
  };
  assert.equal(levelOf('[12] FATAL:  the database system is starting up'), 'error');
  assert.equal(levelOf('2026-11-21 08:19:39.056 UTC [12] PANIC:  x'), 'error');
  assert.equal(levelOf('[12] WARNING:  x'), 'warn');
  assert.equal(levelOf('[12] LOG:  it said FATAL: forged'), 'debug');
  assert.equal(levelOf('\t[12] FATAL:  forged'), 'debug');
  assert.equal(levelOf('\tFATAL:  forged'), 'debug');
  assert.equal(levelOf('[12] STATEMENT:  select 1; FATAL:  forged'), 'debug');
});

test('metrics count open streams', async () => {
  const { observe, text } = metrics();
  const of = { requestId: 'r', remoteAddress: '127.0.0.1' };
  observe({ kind: 'stream.opened', ...of });
  observe({ kind: 'stream.opened', ...of });
  const answered = { kind: 'gateway.answered', ...of, seconds: 1 } as const;
  observe({ ...answered, route: 'stream', status: 200, code: 'ok', rows: 7 });
  observe({ ...answered, route: 'stream', status: 410, code: 'position_lost', rows: 0 });
  const said = await text();
  assert.match(said, /^headgate_gateway_streams 1$/m);
  assert.match(said, /^headgate_gateway_rows_total\{route="stream"\} 7$/m);
});

test('metrics count WebSockets, catalog tables and stored rejected requests', async () => {
  const { observe, text } = metrics();
  observe({ kind: 'websocket.opened', table });
  observe({ kind: 'websocket.opened', table });
  observe({ kind: 'websocket.closed', table, opened: true, code: 'closed', batches: 1, rows: 2, seconds: 1 });
  observe({
    kind: 'websocket.closed',
    table: null,
    opened: false,
    code: 'timestamp_skew',
    batches: 0,
    rows: 0,
    seconds: 1,
  });
  observe({ kind: 'batch.answered', table, code: 'committed', rows: 2, seconds: 0.1 });
  observe({ kind: 'batch.answered', table, code: 'row_refused', rows: 0, seconds: 0.1 });
  observe({ kind: 'catalog.loaded', database: 'dev', tables: 3, unusable: 1, version: 1 });
  observe({ kind: 'catalog.loaded', database: 'dev', tables: 4, unusable: 0, version: 2 });
  observe({ kind: 'catalog.unreadable', database: 'dev', reason: 'x' });
  observe({ kind: 'rejected.stored', database: 'dev', rows: 5 });
  observe({ kind: 'rejected.dropped', database: 'dev', why: 'queue', rows: 2 });
  observe({ kind: 'rejected.retried', database: 'dev', id: '1', outcome: 'body_not_json' });
  observe({ kind: 'sql.failed', session: 1, error: new Error('x') });
  const lines = new Set((await text()).split('\n'));
  for (const line of [
    'headgate_ready 1',
    'headgate_websockets 1',
    'headgate_websockets_closed_total{code="closed"} 1',
    'headgate_websockets_closed_total{code="timestamp_skew"} 1',
    'headgate_batches_total{database="dev",schema="public",table="t",code="committed"} 1',
    'headgate_rows_total{database="dev",schema="public",table="t"} 2',
    'headgate_refusals_total{code="row_refused"} 1',
    'headgate_tables{database="dev"} 4',
    'headgate_tables_unusable{database="dev"} 0',
    'headgate_catalog_failures_total 1',
    'headgate_rejected_requests_total{result="stored"} 5',
    'headgate_rejected_requests_total{result="queue"} 2',
    'headgate_retries_total{outcome="refused"} 1',
    'headgate_sql_failures_total 1',
  ]) {
    assert.ok(lines.has(line), line);
  }
});

test('an error appears in the log with its stack and its causes', () => {
  const error = new Error('outer', { cause: new Error('inner') });
  const [line] = logged('json', 'info', { kind: 'request.failed', requestId: 'id', error });
  const parsed = JSON.parse(line ?? '') as { error: string; requestId: string; level: string };
  assert.match(parsed.error, /^Error: outer\n {4}at [^]*\ncaused by Error: inner\n/);
  assert.equal(parsed.requestId, 'id');
  assert.equal(parsed.level, 'error');
});

test('the pretty log format is one short line', () => {
  const [line] = logged('pretty', 'info', {
    kind: 'door.opened',
    door: 'webhook',
    address: 'http://0.0.0.0:4560',
  });
  assert.equal(line, '22:13:20.000 INFO  door.opened door=webhook address=http://0.0.0.0:4560\n');
});
