import assert from 'node:assert/strict';
import { test } from 'node:test';
import { plainHead, rowsOf, targetOf } from '../../test/support/rows.ts';
import { emptySnapshot, keyOfName } from '../catalog/database-tables.ts';
import { deferred } from '../kit/promises.ts';
import { TableGate } from '../spool/table-order.ts';
import type { Outcome } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import { refusal, Refused } from '../errors/refusals.ts';
import { Spooling } from './spooling.ts';
import type { DiskSpool } from './spooling.ts';

const target = targetOf();
const body = Buffer.from('{}');
const arrival = { ...plainHead, rawHeaders: [], body: () => Promise.resolve(body) };
const late: Outcome = { kind: 'aborted', refusal: refusal('deadline') };

const catalog = {
  find: () => target,
  isStill: () => true,
  isWatchingTable: () => true,
  known: () => ({ snapshot: { ...emptySnapshot, tables: new Map([[keyOfName(target), target]]) }, ageMs: 0 }),
  doubtMs: () => 0,
};
const observe = () => undefined;
const settings = { spool: 'fallback', spoolTrustSeconds: 60, spoolHours: 1 } as const;
const never = () => new Promise<never>(() => {});

test('requests that arrive while the spool opens are spooled if the database takes too long', async () => {
  const opening = deferred<void>();
  let room: DiskSpool | null = null;
  const gate = new TableGate(target.oid);
  const kept: string[] = [];
  const lane = [deferred<Outcome>(), deferred<Outcome>(), deferred<Outcome>()];
  const asked = lane.values();
  const lanes = {
    admit: () => undefined,
    submit: async () => (await asked.next().value?.promise) ?? late,
  };
  const disk = { spoolOf: () => room, opened: () => opening.promise };
  const detour = new Spooling({ catalog, lanes, disk, settings, observe }, never);
  const send = (document: string) => detour.submit(rowsOf(target, document), arrival, Buffer.from(document));

  const [tooSoon, before] = [send('1'), send('2')];
  lane[0]?.resolve(late);
  room = {
    gateOf: () => gate,
    knownGate: () => gate,
    admit: () => undefined,
    append: async (_target, _gate, payload) => void kept.push(payload.toString('latin1').slice(-1)),
  };
  opening.resolve();
  const after = send('3');
  lane[1]?.resolve(late);
  const spooled = { kind: 'spooled', rows: 1, status: 202, wasInLane: true };
  assert.deepEqual([await tooSoon, await before], [spooled, spooled]);
  // One that the gate knows of is still in the lane.
  assert.equal(gate.state, 'filling');
  lane[2]?.resolve(late);
  assert.deepEqual(await after, spooled);
  assert.equal(gate.state, 'spooling');
  assert.deepEqual(kept, ['1', '2', '3']);
});

test('nothing is spooled for a table whose database is moved, and nothing overtakes what is on the disk', async () => {
  const gate = new TableGate(target.oid);
  const room: DiskSpool = {
    gateOf: () => gate,
    knownGate: () => gate,
    admit: () => undefined,
    append: () => assert.fail('nothing is kept'),
  };
  const lanes = { admit: () => undefined, submit: () => Promise.resolve(late) };
  const disk = { spoolOf: () => room, opened: () => Promise.resolve() };
  const stages = new Spooling({ catalog, lanes, disk, settings, observe }, never);
  const moved = targetOf({ spool: { mode: 'fallback', status: 202, isMoved: true } });
  const codeOf = async () => {
    stages.admit(moved, { bytes: 10, inOrder: false });
    const outcome = await stages.submit(rowsOf(moved, '1'), arrival, body);
    return outcome.kind === 'aborted' ? outcome.refusal.code : outcome.kind;
  };
  assert.equal(await codeOf(), 'deadline');
  gate.fill(0);
  await assert.rejects(codeOf, /still on disk/);
  gate.beginEmptying();
  gate.open();
  assert.equal(await codeOf(), 'deadline');
});

test('a table with a full lane spools at once without refusing a request first', () => {
  const gate = new TableGate(target.oid);
  const room: DiskSpool = {
    gateOf: () => gate,
    knownGate: () => gate,
    admit: () => undefined,
    append: () => Promise.resolve(),
  };
  let isRoom = true;
  const lanes = {
    admit: () => {
      throw new Refused('lane_full');
    },
    submit: () => Promise.resolve(late),
  };
  const disk = { spoolOf: () => (isRoom ? room : null), opened: () => Promise.resolve() };
  const stages = new Spooling({ catalog, lanes, disk, settings, observe }, never);
  stages.admit(target, { bytes: 10, inOrder: false });
  assert.equal(gate.state, 'spooling');
  // Without room on the disk it is refused as before.
  isRoom = false;
  gate.beginEmptying();
  gate.open();
  assert.throws(() => stages.admit(target, { bytes: 10, inOrder: false }), /too many requests are waiting/);
});

test('a request whose commit is unknown is spooled only if storing it again stores nothing twice', async () => {
  const unknown: Outcome = { kind: 'unknown', refusal: refusal('commit_unknown') };
  const once = { parts: [], headers: new Set<string>(), windowS: settings.spoolHours * 3_600 + 1, shown: '' };
  const spooled = { kind: 'spooled', rows: 1, status: 202, wasInLane: true };
  const submit = (of: Target, delivery: object) => {
    const gate = new TableGate(of.oid);
    const room: DiskSpool = {
      gateOf: () => gate,
      knownGate: () => gate,
      admit: () => undefined,
      append: () => Promise.resolve(),
    };
    const tables = new Map([[keyOfName(of), of]]);
    const known = () => ({ snapshot: { ...emptySnapshot, tables }, ageMs: 0 });
    const lanes = { admit: () => undefined, submit: () => Promise.resolve(unknown) };
    const disk = { spoolOf: () => room, opened: () => Promise.resolve() };
    const to = { catalog: { ...catalog, known }, lanes, disk, settings, observe };
    const stages = new Spooling(to, never);
    return stages.submit({ ...rowsOf(of, '1'), ...delivery }, arrival, body);
  };
  assert.deepEqual(await submit(target, {}), unknown);
  assert.deepEqual(await submit({ ...target, dedupe: once }, {}), unknown);
  assert.deepEqual(await submit({ ...target, dedupe: once }, { delivery: 'a' }), spooled);
  // Its id would be forgotten before the spool has to be empty.
  const briefly = { ...once, windowS: once.windowS - 1 };
  assert.deepEqual(await submit({ ...target, dedupe: briefly }, { delivery: 'a' }), unknown);
});
