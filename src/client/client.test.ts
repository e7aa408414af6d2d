import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { gunzipSync } from 'node:zlib';
import * as fc from 'fast-check';
import { onEnd } from '../../test/support/cleanup.ts';
import { openTestGateway } from '../../test/support/gateway.ts';
import { testDatabase } from '../../test/support/postgres.ts';
import { createClient, HeadgateError } from './client.ts';
import { fromJson, toJson } from './json.ts';

/** Without integers beyond 2^53, which become BigInt. */
const jsonValue = fc
  .jsonValue()
  .filter((value) => !/(?<![\d.])\d{16,}(?![\d.eE])/.test(JSON.stringify(value)));

test('headgate/client reads every JSON text as JSON.parse does, and keeps digits that JSON.parse loses', () => {
  fc.assert(
    fc.property(jsonValue, fc.constantFrom(0, 2), (value, indent) => {
      // A long number beside it sends the text the careful way.
      const text = `[12345678901234567,${JSON.stringify(value, null, indent)}]`;
      assert.deepEqual(fromJson(text), [12345678901234567n, JSON.parse(JSON.stringify(value))]);
      assert.deepEqual(fromJson(JSON.stringify(value)), JSON.parse(JSON.stringify(value)));
    }),
  );
  assert.deepEqual(
    fromJson(
      '[9007199254740993,-9007199254740993,12345678901234567890.10,0.30000000000000004,1e400,1.10,0.1000000000000000000]',
    ),
    [9007199254740993n, -9007199254740993n, '12345678901234567890.10', 0.1 + 0.2, '1e400', 1.1, 0.1],
  );
  for (const broken of [
    '',
    '{',
    '[12345678901234567',
    '{"a":12345678901234567,}',
    '[12345678901234567 1]',
    '{"12345678901234567"}',
    '"1234567890123456',
    '[12345678901234567]x',
    '-',
    '[tru,12345678901234567]',
  ]) {
    assert.throws(() => fromJson(broken), SyntaxError, broken);
  }
  assert.deepEqual(Object.keys(fromJson('{"__proto__":12345678901234567}') as object), ['__proto__']);
});

test("headgate/client writes values that JSON lacks in PostgreSQL's input format", () => {
  assert.equal(
    toJson({ a: 12345678901234567890n, b: new Uint8Array([0, 255]) }),
    '{"a":12345678901234567890,"b":"\\\\x00ff"}',
  );
  assert.equal(
    toJson({ a: { b: [1n, undefined, new Date(0)] }, c: undefined }),
    '{"a":{"b":[1,null,"1970-01-01T00:00:00.000Z"]}}',
  );
  // A parameter of SQL, and a member of a document.
  for (const bytes of [new Uint8Array([0, 255]), Buffer.from([0, 255])]) {
    assert.equal(toJson({ sql: '$1', params: [bytes] }), '{"sql":"$1","params":["\\\\x00ff"]}');
    assert.equal(toJson({ data: { at: new Date(0), of: [{ bytes }] } }).includes('\\\\x00ff'), true);
    assert.equal(toJson({ toJSON: () => ({ bytes }) }), '{"bytes":"\\\\x00ff"}');
  }
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      assert.equal(toJson([value, 1n]), `[${JSON.stringify(value)},1]`);
      assert.equal(toJson(value), JSON.stringify(value));
    }),
  );
  for (const n of [1, 1n]) {
    const circle: Record<string, unknown> = { n };
    circle['self'] = circle;
    circle['again'] = [circle];
    assert.throws(() => toJson(circle), TypeError);
  }
  const deep = `${'['.repeat(3_000)}${']'.repeat(3_000)}`;
  assert.equal(toJson(JSON.parse(deep)), deep);
});

interface Received {
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** A server that gives these answers in turn, the last one for ever. */
async function answering(
  t: TestContext,
  ...answers: readonly { readonly status: number; readonly body: string; readonly retryAfter?: string }[]
): Promise<{ url: string; received: Received[] }> {
  const received: Received[] = [];
  const server = createServer((request, response) => {
    const pieces: Buffer[] = [];
    request.on('data', (piece: Buffer) => pieces.push(piece));
    request.on('end', () => {
      const bytes = Buffer.concat(pieces);
      const zipped = request.headers['content-encoding'] === 'gzip';
      const body = (zipped ? gunzipSync(bytes) : bytes).toString();
      const answer = answers[Math.min(received.length, answers.length - 1)];
      received.push({ url: request.url ?? '', headers: request.headers, body });
      response.writeHead(
        answer?.status ?? 500,
        answer?.retryAfter === undefined ? {} : { 'retry-after': answer.retryAfter },
      );
      response.end(answer?.body);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onEnd(t, 'server', () => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, received };
}

const busy = { status: 503, body: '{"error":"later","code":"lane_full"}', retryAfter: '0' };
const done = { status: 200, body: '{"rows":1}' };

test('headgate/client repeats a request after 503 within bounds, and after commit_unknown only if that is harmless', async (t) => {
  const patient = await answering(t, busy, busy, done);
  assert.equal((await createClient({ url: patient.url }).insert('t', { a: 1 })).rows, 1);
  assert.equal(patient.received.length, 3);
  const bounded = await answering(t, busy);
  await assert.rejects(createClient({ url: bounded.url, retries: 2 }).insert('t', { a: 1 }), {
    code: 'lane_full',
    status: 503,
    retryable: true,
  });
  assert.equal(bounded.received.length, 3);
  const long = await answering(t, { ...busy, retryAfter: '3600' });
  await assert.rejects(createClient({ url: long.url }).insert('t', { a: 1 }), HeadgateError);
  assert.equal(long.received.length, 1);
  const unknown = { status: 503, body: '{"error":"?","code":"commit_unknown"}', retryAfter: '0' };
  const once_ = await answering(t, unknown, done);
  await assert.rejects(createClient({ url: once_.url }).insert('t', { a: 1 }), { code: 'commit_unknown' });
  const again = await answering(t, unknown, done);
  assert.equal(
    (await createClient({ url: again.url }).insert('t', { a: 1 }, { onConflict: 'ignore' })).rows,
    1,
  );
  const aborted = await answering(t, busy);
  const leaving = new AbortController();
  const waiting = createClient({ url: aborted.url, retries: 1_000 }).insert(
    't',
    { a: 1 },
    { signal: leaving.signal },
  );
  leaving.abort(new Error('enough'));
  await assert.rejects(waiting, /enough/);
});

test('errors of headgate/client contain the message of the gateway or of a proxy', async (t) => {
  const refusing = await answering(t, {
    status: 422,
    body: '{"error":"line 2: no","code":"row_refused","line":2}',
  });
  await assert.rejects(createClient({ url: refusing.url }).insert('t', { a: 1 }), {
    message: 'line 2: no',
    code: 'row_refused',
    line: 2,
    status: 422,
    retryable: false,
  });
  const proxy = await answering(t, { status: 502, body: '<html>' });
  await assert.rejects(createClient({ url: proxy.url }).query('SELECT 1'), {
    message: 'HTTP 502',
    code: 'unknown',
  });
  await assert.rejects(createClient({ url: 'http://127.0.0.1:1', retries: 0 }).query('SELECT 1'), {
    code: 'no_answer',
    status: 0,
  });
});

test('headgate/client sends rows in batches bounded by rows or bytes, and compresses large ones', async (t) => {
  const { url, received } = await answering(t, { status: 200, body: '{"rows":2}' });
  const client = createClient({ url: `${url}/`, token: 'x', database: 'dev' });
  async function* rows() {
    for (let n = 0; n < 5; n++) yield { n };
  }
  assert.equal((await client.insert('s.t', rows(), { batchRows: 2, onError: 'skip' })).rows, 6);
  assert.deepEqual(
    received.map(({ body }) => body),
    ['{"n":0}\n{"n":1}', '{"n":2}\n{"n":3}', '{"n":4}'],
  );
  assert.equal(received[0]?.url, '/v1/events?name=s.t&on_error=skip&database=dev');
  assert.equal(received[0]?.headers.authorization, 'Bearer x');
  assert.equal(received[0]?.headers['content-encoding'], undefined);
  received.length = 0;
  await client.insert('t', [{ v: 'é'.repeat(600) }, { v: 'é'.repeat(600) }, { v: 'x' }], {
    batchBytes: 1_300,
  });
  assert.deepEqual(
    received.map(({ headers }) => headers['content-encoding']),
    [undefined, undefined],
  );
  await client.insert('t', { v: 'x'.repeat(2_000) });
  assert.equal(received[2]?.headers['content-encoding'], 'gzip');
  assert.equal((await client.insert('t', [])).rows, 0);
});

test('headgate/client works against a real gateway', async (t) => {
  const gateway = await openTestGateway(t, await testDatabase(t), { token: 'key' });
  const client = createClient({ url: gateway.url, token: 'key' });
  await client.sql`CREATE TABLE t (id bigint PRIMARY KEY, v STRING, raw bytea, tags text[], doc jsonb, price numeric)`;
  const rows = Array.from({ length: 12_000 }, (_, n) => ({
    id: 9_007_199_254_740_993n + BigInt(n),
    v: `row ${n}`,
    raw: new Uint8Array([n % 256]),
    tags: ['a', 'b"c'],
    doc: { n },
  }));
  assert.equal((await client.insert('t', rows)).rows, 12_000);
  const id = 9_007_199_254_740_994n;
  const found = await client.sql<{ id: bigint; v: string; raw: string; tags: string[]; doc: { n: number } }>`
    SELECT id, v, raw, tags, doc FROM t WHERE id = ${id} AND tags = ${['a', 'b"c']} AND doc = ${{ n: 1 }} AND v = ${'row 1'}`;
  assert.deepEqual(found.rows, [{ id, v: 'row 1', raw: '\\x01', tags: ['a', 'b"c'], doc: { n: 1 } }]);
  const again = await client.insert('t', [{ id: 1 }, { id }, { id: 'x' }, { id: 2 }], {
    onError: 'skip',
    batchRows: 3,
  });
  assert.deepEqual([again.rows, again.skippedTotal, again.skipped.map(({ row }) => row)], [2, 2, [1, 2]]);
  await assert.rejects(client.sql`SELECT * FROM nope`, { code: '42P01', position: 15, status: 400 });
  const results = await client.query('SELECT 1 AS a; SELECT 12345678901234567890::numeric AS b');
  assert.deepEqual(results.rows, [{ b: 12345678901234567890n }]);
  assert.equal(results.results?.length, 2);
  await assert.rejects(createClient({ url: gateway.url }).query('SELECT 1'), {
    status: 401,
    code: 'token_required',
  });
});

test('headgate/client follows rows across a gateway restart, and leaving the loop closes the stream', async (t) => {
  const database = await testDatabase(t);
  const options = { retries: 50, retryMs: 20_000 };
  let gateway = await openTestGateway(t, database);
  await gateway.rows('CREATE TABLE t (n bigint); INSERT INTO t VALUES (1), (9007199254740993)');
  // The address of whichever gateway there is.
  const fetchThere: typeof fetch = (input, init) =>
    fetch((input as string).replace('http://gateway', gateway.url), init);
  const client = createClient({ url: 'http://gateway', fetch: fetchThere, ...options });
  const found: unknown[] = [];
  let position = '';
  for await (const followed of client.follow<{ n: bigint | number }>('t', { after: '0' })) {
    found.push(followed.row.n);
    position = followed.position;
    if (found.length === 2) {
      await gateway.door.close();
      gateway = await openTestGateway(t, database);
      await gateway.rows('INSERT INTO t VALUES (3)');
    }
    if (found.length === 3) break;
  }
  assert.deepEqual(found, [1, 9007199254740993n, 3]);
  await gateway.rows('INSERT INTO t VALUES (4)');
  const leaving = new AbortController();
  await assert.rejects(async () => {
    for await (const { row } of client.follow('t', { after: position, signal: leaving.signal })) {
      assert.deepEqual(row, { n: 4 });
      leaving.abort();
    }
  }, /abort/i);
  const next = async (table: string, after?: string) => {
    for await (const followed of client.follow(table, after === undefined ? {} : { after })) return followed;
    return null;
  };
  await assert.rejects(next('nothing'), (error: HeadgateError) => error.code === 'relation_not_found');
  await assert.rejects(next('t', 'x'), (error: HeadgateError) => error.status === 400);
});
