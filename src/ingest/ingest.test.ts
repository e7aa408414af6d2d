import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ingestOf } from '../../test/support/ingest.ts';
import { targetOf } from '../../test/support/rows.ts';
import type { Target } from '../types/target.ts';
import type { Arrival } from '../types/request.ts';
import type { Outcome } from '../types/rows.ts';
import type { Stages } from './ingest.ts';
import { refusal, Refused } from '../errors/refusals.ts';

const large = 1024 * 1024;
const target = targetOf();

function arrival(body: Buffer): Arrival {
  return {
    method: 'POST',
    target: '/webhook/d/s/t',
    rawHeaders: [],
    arrivedAtMs: 0,
    remoteAddress: '',
    body: () => Promise.resolve(body),
  };
}

/** `seen` receives the memory of the rows. */
const deps = (outcome: Outcome, of: Target = target, seen: Buffer[] = [], more: Partial<Stages> = {}) =>
  ingestOf(() => of, {
    submit: ({ documents: { bytes } }) => {
      seen.push(bytes);
      return outcome;
    },
    ...more,
  });

/** A document of so many bytes. */
const json = (bytes: number): Buffer => Buffer.alloc(bytes, ' ').fill('[1]', bytes - 3);

test("the memory of a request's body and rows is freed when the rows are committed", async () => {
  const body = Buffer.from(`{"a":"${'x'.repeat(large)}"}`);
  const included: Target = {
    ...target,
    intake: { ...target.intake, document: null, includes: [{ what: 'method', column: 'm' }] },
  };
  const written: Buffer[] = [];
  const ingest = deps({ kind: 'committed', rows: 1 }, included, written);
  assert.deepEqual(await ingest.submit(arrival(body)), { kind: 'committed', rows: 1 });
  assert.equal(body.length, 0);
  assert.deepEqual(
    written.map(({ length }) => length),
    [0],
  );
});

test('a request body that is refused before it is passed on is released', async () => {
  const body = Buffer.alloc(large);
  const ingest = deps({ kind: 'committed', rows: 1 });
  await assert.rejects(ingest.submit(arrival(body)), Refused);
  assert.equal(body.length, 0);
});

test('a request body is not released while some of it may wait to be written to the engine', async () => {
  for (const kind of ['aborted', 'unknown'] as const) {
    const body = json(large);
    await deps({ kind, refusal: refusal('deadline') }).submit(arrival(body));
    assert.equal(body[large - 1], ']'.charCodeAt(0));
  }
});

test('a request with the id of another delivery is accepted only if it is kept for the owner', async () => {
  const differs: Outcome = { kind: 'aborted', refusal: refusal('delivery_differs') };
  const submit = (isKept: boolean) =>
    deps(differs, target, [], { apart: { keep: () => Promise.resolve(isKept) } }).submit(
      arrival(Buffer.from('{}')),
    );
  assert.deepEqual(await submit(true), { kind: 'kept apart', rows: 1, status: 202 });
  await assert.rejects(submit(false), { refusal: refusal('engine_unavailable') });
});
