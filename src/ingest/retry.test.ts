import assert from 'node:assert/strict';
import { test } from 'node:test';
import { targetOf } from '../../test/support/rows.ts';
import { refusal } from '../errors/refusals.ts';
import type { KeptRequest } from '../types/journal.ts';
import type { Outcome, Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import { Retry } from './retry.ts';

const table = targetOf();
const committed: Outcome = { kind: 'committed', rows: 1 };

const kept = (change: Partial<KeptRequest> = {}): KeptRequest => ({
  database: table.database,
  schema: table.schema,
  table: table.table,
  oid: table.oid,
  method: 'POST',
  requestTarget: '/webhook/d/s/t',
  rawHeaders: [],
  leftOut: new Set(),
  arrivedAtMs: 0,
  remoteAddress: '',
  body: Buffer.from('{}'),
  apart: false,
  ...change,
});

/** `outcomes`: of each attempt in turn. */
function retryOf(target: Target, outcomes: readonly Outcome[] = [committed], spools = false) {
  const [tries, told]: [Rows[], string[]] = [[], []];
  const retry = new Retry({
    catalog: { find: () => target, isStill: () => true, refresh: async () => void told.push('refreshed') },
    lanes: {
      admit: () => undefined,
      submit: async (rows) => outcomes[tries.push(rows) - 1] ?? committed,
    },
    gate: { admitTable: () => void told.push('counted') },
    disk: spools ? { spoolOf: () => ({ knownGate: () => ({ state: 'spooling' }) }) as never } : null,
    clock: () => 0,
  });
  return { retry, tries, told };
}

test('a retry is stored without the check of its table, and counts once for the rate of the table', async () => {
  const { retry, tries, told } = retryOf({ ...table, check: () => false });
  assert.deepEqual(await retry.store(kept()), committed);
  assert.equal(tries.length, 1);
  assert.deepEqual(told, ['counted']);
});

test('a retry is tried again while its table changes, three times at most', async () => {
  const changed: Outcome = { kind: 'aborted', refusal: refusal('table_changed') };
  const once = retryOf(table, [changed]);
  assert.deepEqual(await once.retry.store(kept()), committed);
  assert.equal(once.told.filter((it) => it === 'refreshed').length, 1);
  const always = retryOf(table, [changed, changed, changed]);
  assert.deepEqual(await always.retry.store(kept()), changed);
  assert.equal(always.tries.length, 3);
});

test('a retry is refused, not rejected: another table, an unusable check, rows before it on the disk', async () => {
  const codeOf = async (of: ReturnType<typeof retryOf>, change: Partial<KeptRequest> = {}) => {
    const outcome = await of.retry.store(kept(change));
    assert.equal(of.tries.length, 0);
    return outcome.kind === 'aborted' ? outcome.refusal.code : outcome.kind;
  };
  assert.equal(await codeOf(retryOf(table), { oid: table.oid + 1 }), 'not_found');
  assert.equal(await codeOf(retryOf({ ...table, check: 'unusable' })), 'table_unusable');
  assert.equal(await codeOf(retryOf(table, [], true)), 'spooling');
  assert.equal(await codeOf(retryOf(table), { body: Buffer.from('{') }), 'body_not_json');
});

test('a bug in a retry is not taken for a refusal', async () => {
  const { retry } = retryOf({ ...table, intake: null } as never);
  await assert.rejects(retry.store(kept()), TypeError);
});
