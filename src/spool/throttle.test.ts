import assert from 'node:assert/strict';
import { test } from 'node:test';
import { unusableTarget } from '../catalog/target.ts';
import { limits } from '../config/limits.ts';
import { Throttle, type ThrottleInput } from './throttle.ts';

/** Nothing of it is looked at but how many rows it has, and that its target is a table here. */
const groupOf = (rows: number) => ({
  target: unusableTarget({ database: '', schema: '', table: '', oid: 1 }),
  members: [],
  rows,
  bytes: 0,
});

const { spoolGentleRowsMax, spoolGentleRests, spoolGentleRestMaxMs, spoolGentleLookMs, spoolGentleLead } =
  limits;
const most = 16_384;

function restrained() {
  const state = { direct: 0, kept: 0, awaited: false, ms: 0, rested: 0 };
  const pause = (ms: number) => {
    state.rested = ms;
    return Promise.resolve();
  };
  const watched: ThrottleInput = {
    pace: { groupRows: most, record: () => {} },
    lanes: {
      get taken() {
        return state.direct;
      },
    },
    kept: () => state.kept,
    isAwaited: () => state.awaited,
    clock: () => state.ms,
    limits,
  };
  const restraint = new Throttle(watched, pause);
  /** One that takes so long; gives how long was rested before it, and how many rows the next may have. */
  const group = async (rows: number, ms: number) => {
    state.rested = 0;
    const given = groupOf(rows);
    await restraint.rest(given.target);
    state.ms += ms;
    restraint.record(given, ms);
    return [state.rested, restraint.groupRows()];
  };
  return { state, group };
}

test('the spool throttle drains in small groups with pauses under live load, and at full speed otherwise', async () => {
  const { state, group } = restrained();
  assert.deepEqual(await group(most, 90), [0, most]);
  state.direct = 1;
  assert.deepEqual(await group(most, 90), [0, spoolGentleRowsMax]);
  state.direct = 2;
  assert.deepEqual(await group(spoolGentleRowsMax, 7), [90 * spoolGentleRests, spoolGentleRowsMax]);
  state.direct = 3;
  assert.deepEqual(await group(spoolGentleRowsMax, 600), [7 * spoolGentleRests, spoolGentleRowsMax]);
  assert.deepEqual(await group(spoolGentleRowsMax, 7), [spoolGentleRestMaxMs, most]);
  assert.deepEqual(await group(most, 90), [0, most]);
});

test('the spool throttle does not pause before the last requests', async () => {
  const { state, group } = restrained();
  state.direct = 1;
  await group(10, 5);
  state.direct = 2;
  state.awaited = true;
  assert.deepEqual(await group(10, 5), [0, most]);
  state.direct = 3;
  state.awaited = false;
  assert.deepEqual(await group(10, 5), [5 * spoolGentleRests, spoolGentleRowsMax]);
});

test('the spool throttle drains at full speed when requests arrive nearly as fast', async () => {
  const { state, group } = restrained();
  const second = async (come: number, handedOver: number) => {
    state.kept += come;
    state.direct += 1;
    return (await group(handedOver, spoolGentleLookMs))[1];
  };
  assert.equal(await second(1_000, 1_000 * spoolGentleLead), spoolGentleRowsMax);
  assert.equal(await second(1_000, 1_000 * spoolGentleLead - 1), most);
  assert.equal(await second(0, 1), spoolGentleRowsMax);
});
