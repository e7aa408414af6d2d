import { test } from 'node:test';
import { holdsTable } from '../../test/support/state-table.ts';
import { TableGate } from './table-order.ts';

function gate(...steps: readonly ((gate: TableGate) => void)[]): TableGate {
  const made = new TableGate(1);
  for (const step of steps) step(made);
  return made;
}

const fill = (it: TableGate) => it.fill(1_000);
const enter = (it: TableGate) => it.enterLane();
const hold = (it: TableGate) => void it.beginEmptying();
const append = (it: TableGate) => it.beginAppend();

/** The state that it is in then, what was answered, and whether those who wait for another state were told. */
async function after(it: TableGate, happens: (gate: TableGate) => boolean | void): Promise<string> {
  let told = false;
  void it.turn.then(() => (told = true));
  const answer = happens(it);
  await Promise.resolve();
  const open = it.state === 'open' && told ? (it.sinceMs === null ? ', forgotten' : ', remembered') : '';
  return `${it.state}${open}${told ? ', told' : ''}${answer === undefined ? '' : `: ${answer}`}`;
}

test("a table's gate follows its state table in every state at every event", async () => {
  await holdsTable(
    {
      open: {
        away: 'spooling, told',
        'the last of the lane ends': 'open',
        'nearly empty': 'open: false',
        'something is left': 'open',
        'nothing is left': 'open: false',
      },
      'open, with the lane': {
        away: 'filling, told',
        'the last of the lane ends': 'open',
        'nearly empty': 'open: false',
        'something is left': 'open',
        'nothing is left': 'open: false',
      },
      filling: {
        away: 'filling',
        'the last of the lane ends': 'spooling, told',
        'nearly empty': 'filling: false',
        'something is left': 'filling',
        'nothing is left': 'filling: false',
      },
      spooling: {
        away: 'spooling',
        'the last of the lane ends': 'spooling',
        'nearly empty': 'emptying, told: true',
        'something is left': 'spooling',
        'nothing is left': 'spooling: false',
      },
      emptying: {
        away: 'emptying',
        'the last of the lane ends': 'emptying',
        'nearly empty': 'emptying: false',
        'something is left': 'spooling, told',
        'nothing is left': 'open, forgotten, told: true',
      },
      'emptying, one is being written': {
        away: 'emptying',
        'the last of the lane ends': 'emptying',
        'nearly empty': 'emptying: false',
        'something is left': 'spooling, told',
        'nothing is left': 'emptying: false',
      },
    },
    {
      open: () => gate(),
      'open, with the lane': () => gate(enter),
      filling: () => gate(enter, fill),
      spooling: () => gate(fill),
      emptying: () => gate(fill, hold),
      'emptying, one is being written': () => gate(fill, append, hold),
    },
    {
      away: (it) => after(it, fill),
      'the last of the lane ends': (it) =>
        after(it, () => {
          // Where none is with it, one comes and goes.
          if (it.state !== 'filling') it.enterLane();
          it.leaveLane();
          if (it.state === 'open') it.leaveLane();
        }),
      'nearly empty': (it) => after(it, () => it.beginEmptying()),
      'something is left': (it) => after(it, () => it.endEmptying()),
      'nothing is left': (it) => after(it, () => it.open()),
    },
  );
});
