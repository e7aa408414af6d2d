import assert from 'node:assert/strict';
import { test } from 'node:test';
import { classify, faultOf, isConnectionLost, sqlstateOf } from './sqlstate.ts';

const engineError = (code: string): Error => Object.assign(new Error('x'), { code, severity: 'ERROR' });

test('every SQLSTATE that writing rows can meet has its meaning', () => {
  const expected = {
    row: '22P02 22P05 22003 22021 22001 23502 23505 23514 23503 23P01 44000 54000 54001 P0001 21000 38000 40002 20000 2D000 2F005',
    catalog: '42P01 42703 42501 42804 42809 3F000 3D000 0A000 55000 42704 XX000',
    transient:
      '08006 08P01 53100 53200 53300 57014 57P01 57P02 57P03 55P03 55006 40001 40P01 25006 58030 28P01 26000',
    bug: '42601 22P04 25P02 XX001 34000 ZZ999',
  };
  for (const [fault, states] of Object.entries(expected)) {
    for (const state of states.split(' ')) {
      assert.equal(faultOf(state), fault, state);
      assert.equal(classify(engineError(state)), fault, state);
    }
  }
});

test('an error of a socket, and of pg itself, is transient', () => {
  const refused = Object.assign(new Error('connect ECONNREFUSED'), {
    code: 'ECONNREFUSED',
    syscall: 'connect',
  });
  const pipe = Object.assign(new Error('write EPIPE'), { code: 'EPIPE', syscall: 'write' });
  for (const error of [
    refused,
    pipe,
    new Error('Connection terminated unexpectedly'),
    new Error('timeout expired'),
    new Error('Client has encountered a connection error and is not queryable'),
  ]) {
    assert.equal(classify(error), 'transient');
    assert.equal(isConnectionLost(error), true);
    assert.equal(sqlstateOf(error), null);
  }
});

test('our own mistakes are bugs, and a session that ended is told from a statement that failed', () => {
  assert.equal(classify(new TypeError('x is not a function')), 'bug');
  assert.equal(classify('text'), 'bug');
  assert.equal(isConnectionLost(engineError('57P01')), true);
  assert.equal(isConnectionLost(engineError('57014')), false);
  assert.equal(isConnectionLost(engineError('08006')), true);
  assert.equal(isConnectionLost(engineError('23505')), false);
});
