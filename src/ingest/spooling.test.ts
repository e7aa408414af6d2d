import assert from 'node:assert/strict';
import { test } from 'node:test';
import { plainHead, rowsOf, targetOf } from '../../test/support/rows.ts';
import { deferred } from '../kit/deferred.ts';
import { TableGate } from '../spool/table-order.ts';
import type { Outcome } from '../types/rows.ts';
import { refusal, Refused } from '../errors/refusals.ts';
import { createSpooling } from './spooling.ts';
import type { SpoolRoom } from './spooling.ts';

const target = targetOf();
const body = Buffer.from('{}');
const arrival = { ...plainHead, rawHeaders: [], body: () => Promise.resolve(body) };
const late: Outcome = { kind: 'aborted', refusal: refusal('deadline') };

test('requests that came while the spool was being opened are kept by it, if the database takes too long', async () => {
  const opening = deferred<void>();
  let room: SpoolRoom | null = null;
  const gate = new TableGate(target.oid);
  const kept: string[] = [];
  const lane = [deferred<Outcome>(), deferred<Outcome>(), deferred<Outcome>()];
  const asked = lane.values();
  const { submit } = createSpooling({
    find: () => target,
    admit: () => undefined,
    submit: async () => (await asked.next().value?.promise) ?? late,
    isStill: () => true,
    isWatching: () => true,
    remembered: () => null,
    spools: () => true,
    spoolOf: () => room,
    spoolOpened: () => opening.promise,
    ageS: 3_600,
    pause: () => new Promise(() => {}),
    observe: () => undefined,
    nowMs: () => 0,
  });
  const send = (document: string) => submit(rowsOf(target, document), arrival, Buffer.from(document));

  const [tooSoon, before] = [send('1'), send('2')];
  lane[0]?.resolve(late);
  room = {
    gateOf: () => gate,
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

test('a table whose lane is full spools at once, without refusing a request first', () => {
  const gate = new TableGate(target.oid);
  const room: SpoolRoom = { gateOf: () => gate, admit: () => undefined, append: () => Promise.resolve() };
  let isRoom = true;
  const stages = createSpooling({
    find: () => target,
    admit: () => {
      throw new Refused('lane_full');
    },
    submit: () => Promise.resolve(late),
    isStill: () => true,
    isWatching: () => true,
    remembered: () => null,
    spools: () => true,
    spoolOf: () => (isRoom ? room : null),
    spoolOpened: () => Promise.resolve(),
    ageS: 3_600,
    pause: () => Promise.resolve(),
    observe: () => undefined,
    nowMs: () => 0,
  });
  stages.admit(target, 10);
  assert.equal(gate.state, 'spooling');
  // Without room on the disk it is refused as before.
  isRoom = false;
  gate.hold();
  gate.open();
  assert.throws(() => stages.admit(target, 10), /too many requests are waiting/);
});
