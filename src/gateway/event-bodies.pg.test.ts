/** Bodies read as a whole and bodies read piece by piece get the same answers, and the same refusals at the door. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { openGate, openTestGateway } from '../../test/support/gateway.ts';
import type { Answer } from '../../test/support/gateway.ts';
import { testDatabase } from '../../test/support/postgres.ts';

const asTold = ({ status, headers, text }: Answer) => ({
  status,
  text,
  headers: Object.fromEntries(
    [...headers].filter(([name]) => !['date', 'x-request-id', 'retry-after'].includes(name)),
  ),
  again: headers.has('retry-after'),
});

const cases: readonly (readonly [query: string, body: string])[] = [
  ['name=t', '{"a":1}'],
  ['name=t', '{"a":1}\n{"a":2}\n'],
  ['name=%74', '{"a":1}'],
  ['name=%22Odd+name%22', '{"é":"x"}'],
  ['name=t&on_error=skip', '{"a":1}\n[]\n{"a":"x"}\n{"a":2}'],
  ['name=t&on_error=skip', '[1]'],
  ['name=t&on_conflict=update', '{"a":1}'],
  ['name=t&database=test', '{"a":1}'],
  ['name=t&database=other', '{"a":1}'],
  ['name=nosuch', '{"a":1}'],
  ['name=t', '{"a":"é"}'],
  ['name=t', '{"a":1}\n{"a":"x"}'],
  ['name=t', '{"a":1}\n{"a"'],
  ['name=t', '[{"a":1}]'],
  ['name=t', ''],
  ['name=t', '\u0000'],
  ['name=t&on_error=stop', '{"a":1}'],
  ['name=t&name=t', '{"a":1}'],
  ['name=', '{"a":1}'],
  ['nam=t', '{"a":1}'],
  ['name=%', '{"a":1}'],
  ['name=%ff', '{"a":1}'],
];

test('an event body read as a whole and the same body read in pieces give the same answer and rows', async (t) => {
  const gateway = await openTestGateway(t, await testDatabase(t));
  await gateway.rows('CREATE TABLE t (a int); CREATE TABLE "Odd name" ("é" text)');
  const stored = async () =>
    (await gateway.rows('SELECT (SELECT count(*) FROM t) AS t, (SELECT count(*) FROM "Odd name") AS odd'))[0];
  for (const [query, body] of cases) {
    await gateway.rows('TRUNCATE t, "Odd name"');
    const plain = await gateway.events(query, body);
    const plainRows = await stored();
    await gateway.rows('TRUNCATE t, "Odd name"');
    // A body that has to be unpacked is not held as a whole.
    const packed = new Uint8Array(gzipSync(body));
    const other = await gateway.events(query, packed, { 'content-encoding': 'gzip' });
    assert.deepEqual(asTold(plain), asTold(other), `${query} ${body}`);
    assert.deepEqual(plainRows, await stored(), `${query} ${body}`);
  }
});

test('a plain request to /v1/events needs the token, keeps to the rate and returns its X-Request-Id', async (t) => {
  const gateway = await openTestGateway(t, await testDatabase(t), {
    token: 'open',
    gate: openGate({ addressRate: { count: 4, perMs: 3_600_000, burst: 4 } }),
  });
  const bearer = { authorization: 'Bearer open' };
  assert.equal((await gateway.sql('CREATE TABLE t (a int)', '/v1/sql', { headers: bearer })).status, 200);
  assert.equal((await gateway.events('name=t', '{"a":1}')).json.code, 'token_required');
  const named = await gateway.events('name=t', '{"a":1}', { ...bearer, 'x-request-id': 'given-1' });
  assert.deepEqual([named.status, named.headers.get('x-request-id')], [200, 'given-1']);
  assert.equal((await gateway.events('name=t', '{"a":1}', bearer)).status, 200);
  assert.equal((await gateway.events('name=t', '{"a":1}', bearer)).json.code, 'rate_limited');
  const told = gateway.spy.seen.filter((it) => it.kind === 'gateway.answered');
  assert.deepEqual(
    told.map((it) => [it.route, it.status, it.code, it.rows]),
    [
      ['sql', 200, 'ok', 0],
      ['events', 401, 'token_required', 0],
      ['events', 200, 'ok', 1],
      ['events', 200, 'ok', 1],
      ['events', 429, 'rate_limited', 0],
    ],
  );
});
