import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { unusableTarget } from '../catalog/target.ts';
import type { Arrival } from '../types/request.ts';
import type { Target } from '../types/target.ts';
import { limits } from '../config/limits.ts';
import { AcceptedRequests } from './accepted-requests.ts';

const name = { database: 'dev', schema: 'public', table: 'hooks' };
const targetOf = (oid: number, table = 'hooks'): Target => ({
  ...unusableTarget({ ...name, table, oid }),
  inspected: true,
});

function arrival(rawHeaders: readonly string[] = [], target = '/webhook/dev/public/hooks'): Arrival {
  return {
    method: 'POST',
    target,
    rawHeaders,
    arrivedAtMs: 1_700_000_000_000,
    remoteAddress: '192.0.2.1',
    body: () => Buffer.alloc(0),
  };
}

/** With tables that can be changed. */
function opened(t: TestContext, ...targets: readonly Target[]) {
  t.mock.timers.enable({ apis: ['setInterval'] });
  const tables = new Map(targets.map((it) => [it.table, it]));
  const held = new AcceptedRequests(limits, ({ table }) => tables.get(table) ?? null);
  return { held, tables };
}

test("an accepted request's content is read by its id, with credentials masked and the query hidden", (t) => {
  const target = { ...targetOf(7), intake: { ...targetOf(7).intake, hiddenHeaders: new Set(['x-sig']) } };
  const { held } = opened(t, target);
  const headers = [
    'X-Sig',
    'sha256=00ff',
    'X-Event',
    'push',
    'Authorization',
    'Bearer abc',
    'X-Api-Key',
    'k',
  ];
  const body = Buffer.from('{"a":12345678901234567890}');
  const id = held.hold(target, arrival(headers, '/webhook/dev/public/hooks?token=abc'), body);
  // What was handed over may be given back at once.
  body.fill(0);
  assert.deepEqual(held.read({ ...name, held: id, oid: 7 }), {
    ...name,
    atMs: 1_700_000_000_000,
    remoteAddress: '192.0.2.1',
    method: 'POST',
    target: '/webhook/dev/public/hooks?token=***',
    headers: { 'x-event': 'push' },
    leftOut: ['x-sig', 'authorization', 'x-api-key'],
    masked: {
      'x-sig': 'sha256=… (11 characters)',
      authorization: 'Bearer … (10 characters)',
      'x-api-key': '… (1 characters)',
    },
    body: Buffer.from('{"a":12345678901234567890}').toString('base64'),
    bodyBytes: 26,
  });
});

test("an accepted request's content is not readable through another table, database or oid", (t) => {
  const target = targetOf(7);
  const { held, tables } = opened(t, target, targetOf(8, 'other'));
  const id = held.hold(target, arrival(), Buffer.from('{}'));
  assert.notEqual(held.read({ ...name, held: id, oid: null }), null);
  for (const wrong of [
    { oid: 8 },
    { table: 'other' },
    { schema: 'x' },
    { database: 'x' },
    { held: `${id}0` },
  ])
    assert.equal(held.read({ ...name, held: id, oid: 7, ...wrong }), null, JSON.stringify(wrong));
  tables.set('hooks', targetOf(7));
  assert.equal(held.read({ ...name, held: id, oid: 7 }), null);
  t.mock.timers.tick(limits.heldLookMs);
  assert.equal(held.bytes, 0);
  tables.set('hooks', target);
  assert.equal(held.read({ ...name, held: id, oid: 7 }), null);
});

test("accepted requests' content is bounded by request, table and process, and eviction frees its room", (t) => {
  const targets = Array.from({ length: 8 }, (_, i) => targetOf(i, `t${i}`));
  const { held } = opened(t, ...targets);
  const read = (table: number, id: string) => held.read({ ...name, table: `t${table}`, held: id, oid: null });
  const large = Buffer.alloc(25 * 1024 * 1024, 'x');
  const ids = targets.map((target) => Array.from({ length: 100 }, () => held.hold(target, arrival(), large)));
  assert(held.bytes <= limits.heldBytesMax && held.bytes > limits.heldBytesMax - 100_000, `${held.bytes}`);
  const last = read(7, ids[7]?.at(-1) ?? '');
  assert.deepEqual(
    [last?.bodyBytes, Buffer.from(last?.body ?? '', 'base64').length],
    [large.length, limits.heldBodyBytesMax],
  );
  const ofLast = (ids[7] ?? []).filter((id) => read(7, id) !== null).length;
  assert.equal(
    ofLast,
    Math.floor(limits.heldTableBytesMax / (limits.heldBodyBytesMax + limits.heldCostBytes + 100)),
  );
  // The oldest of all made room.
  assert.equal(read(0, ids[0]?.at(-1) ?? ''), null);
  const evil = ['x'.repeat(60_000), 'y'.repeat(60_000)];
  for (let i = 0; i < 200; i++) held.hold(targets[1] ?? targetOf(1), arrival(evil), Buffer.alloc(0));
  assert(held.bytes <= limits.heldBytesMax);
  for (const id of ids.flat()) held.forget(id);
  for (let i = 0; i < 300; i++) held.forget(`${ids[0]?.[0]?.split('.')[0] ?? ''}.${800 + i + 1}`);
  assert.equal(held.bytes, 0);
});
