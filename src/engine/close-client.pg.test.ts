import assert from 'node:assert/strict';
import { test } from 'node:test';
import { testDatabase } from '../../test/support/postgres.ts';
import { mostReadInOneTurn, streamOf } from '../../test/support/read-in-turn.ts';
import { limits } from '../config/limits.ts';
import { boundAnswers } from './close-client.ts';

test("the messages of a session with an owner's code are read in bounded pieces", async (t) => {
  const client = await (await testDatabase(t)).connect();
  boundAnswers(client);
  let messages = 0;
  client.on('notice', () => (messages += 1));
  const most = await mostReadInOneTurn(streamOf(client), () =>
    client.query(`do $$ begin for i in 1..40000 loop raise warning ''; end loop; end $$`),
  );
  assert.equal(messages, 40_000);
  // A piece of Node's is 64 KiB; the next one may have been read ahead.
  assert.ok(most <= limits.answerAtOnceBytes + 2 * 65_536, `${most} bytes`);
});
