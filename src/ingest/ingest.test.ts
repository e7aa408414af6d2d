import assert from 'node:assert/strict';
import { test } from 'node:test';
import { targetOf } from '../../test/support/rows.ts';
import type { Arrival } from '../types/request.ts';
import type { Outcome, Rows } from '../types/rows.ts';
import { createIngest } from './ingest.ts';
import { refusal, Refused } from '../errors/refusals.ts';

const large = 1024 * 1024;
const hooks = { target: () => undefined };
const target = targetOf();

function arrival(body: Buffer): Arrival {
  return {
    method: 'POST',
    target: '/',
    rawHeaders: [],
    arrivedAtMs: 0,
    remoteAddress: '',
    body: () => Promise.resolve(body),
  };
}

const rowsOf = (bytes: Buffer): Rows => ({
  target,
  documents: { bytes, spans: null },
  count: 1,
  bytes: bytes.length,
  deletes: null,
  keeps: null,
  lines: null,
  ackTimeoutMs: 1_000,
  chain: null,
  ignored: null,
});

const deps = (outcome: Outcome, decode: (body: Buffer) => Rows = rowsOf) =>
  createIngest({
    route: () => ({ database: 'd', schema: 's', table: 't' }),
    find: () => target,
    isStill: () => true,
    clock: () => 0,
    admit: () => undefined,
    decode: (_target, { body }) => decode(body),
    submit: () => Promise.resolve(outcome),
    refresh: () => Promise.resolve(),
  });

test('the memory of a body is given back when its rows are committed, and that of the rows with it', async () => {
  const body = Buffer.alloc(large);
  const written = Buffer.alloc(large);
  const ingest = deps({ kind: 'committed', rows: 1 }, () => rowsOf(written.subarray(1, 10)));
  assert.deepEqual(await ingest(arrival(body), hooks), { kind: 'committed', rows: 1 });
  assert.equal(body.length, 0);
  assert.equal(written.length, 0);
});

test('and when it was refused before anybody else had it', async () => {
  const body = Buffer.alloc(large);
  const ingest = deps({ kind: 'committed', rows: 1 }, () => {
    throw new Refused('body_not_json');
  });
  await assert.rejects(ingest(arrival(body), hooks), Refused);
  assert.equal(body.length, 0);
});

test('but not while some of it may wait to be written to the engine', async () => {
  for (const kind of ['aborted', 'unknown'] as const) {
    const body = Buffer.alloc(large, 1);
    await deps({ kind, refusal: refusal('deadline') })(arrival(body), hooks);
    assert.equal(body[large - 1], 1);
  }
});
