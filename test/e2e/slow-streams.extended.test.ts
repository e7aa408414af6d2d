/** WebSockets of a slow table over two listener processes: nobody is shut out by what others have waiting. */
import assert from 'node:assert/strict';
import { onEnd } from '../support/cleanup.ts';
import { onSomeEngine } from '../support/doors.ts';
import { within } from '../support/within.ts';
import { WsClient, WsSender } from '../support/ws-client.ts';

onSomeEngine(
  'eight WebSocket clients of a slow table on two listener processes are all served',
  async (t, { client, database, headgate }) => {
    await client.query(`CREATE TABLE slow (k int, v int) WITH (connector = 'webhook')`);
    await client.query(`
      CREATE FUNCTION slowly() RETURNS trigger LANGUAGE plpgsql AS $$ begin perform pg_sleep(0.01); return new; end $$`);
    await client.query('CREATE TRIGGER slowly BEFORE INSERT ON slow FOR EACH ROW EXECUTE FUNCTION slowly()');
    const url = `ws://127.0.0.1:${headgate.ports.listen.port}/ingest/${database}/public/slow`;
    const sender = (batches: number, query = '') => {
      const made = new WsSender(() => url + query);
      onEnd(t, 'sender', () => made.stop());
      for (let k = 1; k <= batches; k++) made.send([{ op: 'insert', data: { k, v: 1 } }]);
      return made;
    };
    // Several seconds of work; longer than a stream waits for a process that does not get on.
    const busy = Array.from({ length: 4 }, () => sender(400));
    await within(60_000, async () => {
      assert.ok(busy.every(({ unacked }) => unacked < 400));
    });
    const named = ['a', 'b'].map((name) => sender(20, `?client=${name}`));
    const late = [sender(20), sender(20)];
    await Promise.all([...busy, ...named, ...late].map((it) => it.drained()));
    for (const { fatals } of [...busy, ...named, ...late])
      assert.doesNotMatch(fatals.join(), /rows of an earlier connection/);
    const bad = await WsClient.open(`${url}?client=${'x'.repeat(129)}`);
    const { code, fatal } = await bad.ended;
    assert.deepEqual([code, fatal], [1008, 'table lookup failed: client must have 1 to 128 characters']);
  },
  { HEADGATE_LISTENERS: '2' },
);
