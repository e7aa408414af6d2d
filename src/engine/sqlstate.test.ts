import assert from 'node:assert/strict';
import { test } from 'node:test';
import { faultOf, isConnectionLost, isTransient, sqlstateOf } from './sqlstate.ts';

const engineError = (code: string, severity = 'ERROR', routine = ''): Error =>
  Object.assign(new Error('x'), { code, severity, routine });

test("every SQLSTATE of a failed write is classified as the row's, the engine's or another fault", () => {
  const expected = {
    row: '22P02 22P05 22003 22021 22001 22P03 23502 23505 23514 23503 23P01 44000 54000 54001 P0001 21000 38000 40002 20000 2D000 2F005',
    suspect:
      '42P01 42703 42501 42804 42809 42601 3F000 3D000 0A000 55000 55006 XX000 25001 34000 01000 ZZ999',
    conflict: '40001 40P01 55P03',
    beyond: '08006 08P01 28P01 HV00N 58P01 XX001 XX002',
    engine: '53100 53200 53300 57014 57P01 57P02 57P03 25006 58030 26000 42P05 25P02 3B001',
    bug: '22P04',
  };
  for (const [fault, states] of Object.entries(expected))
    for (const state of states.split(' ')) assert.equal(faultOf(state), fault, state);
});

test('a socket error, or a connection error of pg, counts as a lost connection', () => {
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
    assert.equal(isConnectionLost(error), true);
    assert.equal(sqlstateOf(error), null);
  }
});

test('an ended session is told from a failed statement and from a bug', () => {
  assert.equal(isConnectionLost(new TypeError('x is not a function')), false);
  assert.equal(isConnectionLost('text'), false);
  assert.equal(isConnectionLost(engineError('57P01', 'FATAL')), true);
  assert.equal(isConnectionLost(engineError('57P01')), false);
  assert.equal(isConnectionLost(engineError('57014')), false);
  assert.equal(isConnectionLost(engineError('08006', 'FATAL')), true);
  assert.equal(isConnectionLost(engineError('08006')), false);
  // A server that speaks Russian.
  assert.equal(isConnectionLost(engineError('57P01', 'ВАЖНО', 'ProcessInterrupts')), true);
  assert.equal(isConnectionLost(engineError('57P01', 'ОШИБКА', 'exec_stmt_raise')), false);
  assert.equal(isTransient(engineError('53100')), true);
  assert.equal(isTransient(engineError('53100', 'ERROR', 'exec_stmt_raise')), false);
  assert.equal(isConnectionLost(engineError('23505')), false);
});
