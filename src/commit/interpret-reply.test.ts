import assert from 'node:assert/strict';
import { test } from 'node:test';
import { failedHere, isInDoubt, isRaised, told, verdictOf } from './interpret-reply.ts';

const elsewhere = (sqlstate: string, where: string) => ({
  ...failedHere(sqlstate, ''),
  routine: 'ReportResultError',
  where: `${where}\nwhile executing command on 10.0.0.1:5432`,
});
const raised =
  'PL/pgSQL function app.check_it(text) line 3 at RAISE\nSQL statement "SELECT app.check_it(new.c)"';

test("an error from a Citus worker is the row's fault where its code raised it, whatever the SQLSTATE", () => {
  for (const sqlstate of ['08006', '53100', '57014', '57P01', '58030', 'XX000', '40001', '22P04', 'HG001']) {
    const failed = elsewhere(sqlstate, raised);
    assert.equal(isRaised(failed), true);
    assert.equal(verdictOf(failed), 'row', sqlstate);
    assert.equal(isInDoubt({ ...failed, atCommit: true }), false, sqlstate);
  }
});

test('the error of a failing Citus worker concerns its own rows, and leaves a COMMIT in doubt', () => {
  const called = 'PL/pgSQL function "line 1 at RAISE x"() line 2 at SQL statement';
  for (const where of ['', called])
    for (const [sqlstate, verdict] of [
      ['53100', 'beyond'],
      ['57P01', 'beyond'],
      ['58030', 'beyond'],
      ['08006', 'beyond'],
      ['XX000', 'suspect'],
      ['23514', 'row'],
    ] as const) {
      const failed = elsewhere(sqlstate, where);
      assert.equal(verdictOf(failed), verdict, sqlstate);
      assert.equal(isInDoubt({ ...failed, atCommit: true }), sqlstate !== '23514', sqlstate);
    }
});

test("a disk error raised by PostgreSQL itself is an engine error, and one raised by a statement is the row's", () => {
  assert.equal(verdictOf({ sqlstate: '53100', routine: 'mdextend', where: raised }), 'engine');
  assert.equal(verdictOf({ sqlstate: '53100', routine: 'exec_stmt_raise', where: '' }), 'row');
});

test("a value that the engine cannot read is the row's fault, unless it stands in the statement's own text", () => {
  const unread = { ...failedHere('22P02', ''), routine: 'boolin' };
  const steps = [{ statement: null, messages: () => [] }];
  for (const [change, verdict] of [
    [{}, 'row'],
    [{ placed: true }, 'table'],
    [{ placed: true, where: raised, routine: 'exec_stmt_raise' }, 'row'],
    [{ placed: true, where: 'SQL function "f" statement 1' }, 'row'],
    [{ placed: true, atCommit: true }, 'row'],
  ] as const)
    assert.equal(verdictOf(told({ ...unread, ...change }, steps, 0)), verdict, JSON.stringify(change));
});
