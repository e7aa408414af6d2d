/** A table that was locked for longer than its senders wait: requests go to the disk while their group is still at the engine. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startHeadgate } from '../support/headgate.ts';
import { post, RawClient } from '../support/raw-http.ts';
import { within } from '../support/within.ts';

const path = '/webhook/dev/public/blocked';
const once = (id: string) => `X-Id: ${id}\r\n`;
/** Larger than what is copied into a message, and than what is read without Node's parser. */
const large = (id: number, letter: string) => JSON.stringify({ id, words: letter.repeat(100_000) });

test('requests of a group that the engine gave up are spooled and stored unchanged', async (t) => {
  const headgate = await startHeadgate(t);
  const sql = await headgate.client(t);
  await sql.query(
    `CREATE TABLE blocked (id INT, words TEXT) WITH (connector = 'webhook', spool = 'fallback', dedupe = 'header:X-Id')`,
  );
  const sender = async () => {
    const client = await RawClient.connect(headgate.ports.listen.port);
    t.after(() => client.destroy());
    return client;
  };
  const first = await sender();
  first.send(post(path, large(0, 'z'), once('known')));
  assert.equal((await first.answer())?.status, 200);
  const holder = await headgate.client(t);
  await holder.query('BEGIN; LOCK TABLE blocked IN ACCESS EXCLUSIVE MODE');
  // A group of many rows, which the engine gives up after its bound on a statement: the next group then has a few rows.
  const many = Array.from({ length: 16 }, (_, i) => post(path, `{"id":${100 + i}}`, once(`small ${i}`)));
  first.send(many.join(''));
  const waitsFor = (ms: number) =>
    within(10_000, async () => {
      const { rows } = await sql.query(
        `SELECT FROM pg_stat_activity WHERE application_name = 'headgate commit' AND wait_event_type = 'Lock'
           AND clock_timestamp() - query_start > interval '${ms} ms'`,
      );
      assert.equal(rows.length, 1);
    });
  await waitsFor(700);
  // The first one is a copy: the engine refuses the group because of it, and its other rows are sent once more.
  const bodies = [large(1, 'a'), large(2, 'b'), large(3, 'c')];
  const senders = await Promise.all(bodies.map(sender));
  for (const [i, body] of bodies.entries())
    senders[i]?.send(post(path, body, once(i === 0 ? 'known' : `large ${i}`)));
  // Their lane has given them up before the engine does.
  for (const it of senders) assert.equal((await it.answer())?.status, 202);
  await holder.query('COMMIT');
  for (const _ of many) assert.equal((await first.answer())?.status, 202);
  await within(15_000, async () => assert.deepEqual((await sql.query('SHOW SPOOL')).rows, []));
  const { rows } = await sql.query(
    `SELECT id, left(words, 1) AS letter, length(words) AS length FROM blocked WHERE id < 100 OR words IS NOT NULL ORDER BY id`,
  );
  const stored = (id: number, letter: string) => ({ id, letter, length: 100_000 });
  assert.deepEqual(rows, [stored(0, 'z'), stored(2, 'b'), stored(3, 'c')]);
  const small = await sql.query('SELECT FROM blocked WHERE id >= 100');
  assert.equal(small.rows.length, many.length);
});
