import assert from 'node:assert/strict';
import { Socket } from 'node:net';
import { test } from 'node:test';
import { onEnd } from '../../test/support/cleanup.ts';
import { testDatabase } from '../../test/support/postgres.ts';
import { mostReadInOneTurn } from '../../test/support/read-in-turn.ts';
import { limits } from '../config/limits.ts';
import { RunningStatements, SqlRunner } from './request-sessions.ts';

test('the console reads a large SQL result in bounded pieces, so that other sessions are served meanwhile', async (t) => {
  const { clientConfig, name } = await testDatabase(t);
  const stream = new Socket();
  const door = { ...clientConfig, role: 'root', stream };
  const who = { user: 'root', password: null, database: name };
  const runner = new SqlRunner(door, who, new RunningStatements());
  onEnd(t, 'runner', () => runner.close());
  const sql = `do $$ begin for i in 1..20000 loop raise warning ''; end loop; end $$; select 1 from generate_series(1, 100000)`;
  const most = await mostReadInOneTurn(stream, async () => {
    const { tables, notices } = await runner.run({ sql, write: true }, new AbortController().signal);
    assert.deepEqual([tables.length, tables[1]?.more, notices.length], [2, true, limits.consoleNoticesMax]);
  });
  // A piece of Node's is 64 KiB; the next one may have been read ahead.
  assert.ok(most <= limits.answerAtOnceBytes + 2 * 65_536, `${most} bytes`);
});
