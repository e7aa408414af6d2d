/** Streams over several listener processes: what a client sends again never comes before what it had sent. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { onEnd } from '../support/cleanup.ts';
import { onSomeEngine } from '../support/doors.ts';
import type { Doors } from '../support/doors.ts';
import { logOf, metricsOf } from '../support/listeners.ts';
import { times } from '../support/sample.ts';
import { within } from '../support/within.ts';
import { WsClient, WsSender } from '../support/ws-client.ts';

const value = (v: number) => [{ op: 'upsert', data: { k: 1, v } }] as const;

/** How many connections each listener process has. */
async function connections({ headgate }: Doors): Promise<readonly number[]> {
  const metrics = await metricsOf(headgate);
  return [1, 2].map((i) => metrics.get(`headgate_listener_process_connections{listener="${i}"}`) ?? 0);
}

/** Resolves with the only one that has a connection, counted from 1. */
async function placeOf(doors: Doors): Promise<number> {
  let place = 0;
  await within(5_000, async () => {
    const all = await connections(doors);
    assert.deepEqual(
      all.toSorted((a, b) => a - b),
      [0, 1],
    );
    place = all.indexOf(1) + 1;
  });
  return place;
}

const noneIsOpen = (doors: Doors) =>
  within(5_000, async () => assert.deepEqual(await connections(doors), [0, 0]));

/** A connection, before its first message, to another process than this one. */
async function connectBeside(doors: Doors, url: string, place: number): Promise<WsClient> {
  for (;;) {
    const ws = await WsClient.connect(url);
    if ((await placeOf(doors)) !== place) return ws;
    await ws.kill();
    await noneIsOpen(doors);
  }
}

/** Time enough for what was sent to be stored, were it not kept waiting: all processes have answered, and several times. */
async function askedAll({ headgate }: Doors): Promise<void> {
  for (let i = 0; i < 10; i++) await metricsOf(headgate);
}

function pidOf({ headgate }: Doors, place: number): number {
  const started = logOf(headgate).filter(
    ({ kind, listener }) => kind === 'listener.started' && listener === place,
  );
  return started.at(-1)?.pid ?? 0;
}

/** A table in which the value 1 waits for a lock, and the lock. */
async function heldTable(t: TestContext, doors: Doors, table: string) {
  const { client, headgate, database } = doors;
  await client.query(`CREATE TABLE ${table} (k int PRIMARY KEY, v int) WITH (connector = 'webhook')`);
  await client.query(`
    CREATE OR REPLACE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$ begin
      if new.v = 1 then perform pg_advisory_xact_lock(77); end if;
      return new;
    end $$`);
  await client.query(
    `CREATE TRIGGER hold BEFORE INSERT OR UPDATE ON ${table} FOR EACH ROW EXECUTE FUNCTION hold()`,
  );
  const holder = await headgate.client(t, database);
  const waiting = async () => {
    const { rowCount } = await holder.query(
      `select from pg_stat_activity where application_name like 'headgate commit%' and wait_event = 'advisory'`,
    );
    return rowCount;
  };
  return {
    url: `ws://127.0.0.1:${headgate.ports.listen.port}/ingest/${database}/public/${table}`,
    hold: () => holder.query('select pg_advisory_lock(77)'),
    letGo: () => holder.query('select pg_advisory_unlock(77)'),
    waiting,
    /** Resolves when the engine has the value 1, and waits with it. */
    waits: () => within(5_000, async () => assert.equal(await waiting(), 1)),
    /** Resolves when the engine stores nothing. */
    rests: () =>
      within(5_000, async () => {
        const { rowCount } = await holder.query(
          `select from pg_stat_activity where application_name like 'headgate commit%' and state <> 'idle'`,
        );
        assert.equal(rowCount, 0);
      }),
  };
}

onSomeEngine(
  'WebSocket clients that reconnect to another listener process lose and double nothing',
  async (t, doors) => {
    const { rows } = doors;

    await t.test(
      'a WebSocket client that reconnects to another listener process finds its earlier batches stored',
      async (t) => {
        const { url, hold, letGo, waits, waiting, rests } = await heldTable(t, doors, 'ended');
        for (let round = 0; round < times(2, 4); round++) {
          await hold();
          const first = await WsClient.open(url);
          first.send(1, value(1));
          await waits();
          const place = await placeOf(doors);
          await first.kill();
          await noneIsOpen(doors);
          const second = await connectBeside(doors, url, place);
          second.init();
          second.send(1, value(2));
          await askedAll(doors);
          if (second.acks.length > 0) assert.equal(await waiting(), 0);
          await letGo();
          await second.acked(1);
          await rests();
          assert.deepEqual(await rows('SELECT k, v FROM ended'), [['1', '2']]);
          await second.kill();
          await noneIsOpen(doors);
        }
      },
    );

    await t.test(
      'a WebSocket client whose listener process was killed finds its earlier batches stored',
      async (t) => {
        const { url, hold, letGo, waits, waiting, rests } = await heldTable(t, doors, 'killed');
        for (let round = 0; round < times(2, 4); round++) {
          await hold();
          const first = await WsClient.open(url);
          first.send(1, value(1));
          await waits();
          process.kill(pidOf(doors, await placeOf(doors)), 'SIGKILL');
          await first.ended;
          const second = await WsClient.connect(url);
          second.init();
          second.send(1, value(2));
          await askedAll(doors);
          if (second.acks.length > 0) assert.equal(await waiting(), 0);
          await letGo();
          await second.acked(1);
          await rests();
          assert.deepEqual(await rows('SELECT k, v FROM killed'), [['1', '2']]);
          await second.kill();
          await within(10_000, async () => {
            const metrics = await metricsOf(doors.headgate);
            assert.equal(metrics.get('headgate_listener_processes{state="serving"}'), 2);
          });
          await noneIsOpen(doors);
        }
      },
    );

    await t.test(
      'a WebSocket client gets a retryable refusal while a hung listener process may hold its earlier batches',
      async (t) => {
        const { url } = await heldTable(t, doors, 'hung');
        const ws = await WsClient.connect(url);
        const place = await placeOf(doors);
        const hung = pidOf(doors, 3 - place);
        process.kill(hung, 'SIGSTOP');
        onEnd(t, 'hung', () => void process.kill(hung, 'SIGCONT'));
        ws.init();
        ws.send(1, value(3));
        assert.deepEqual(await ws.ended, {
          code: 1013,
          fatal: 'table lookup failed: rows of an earlier connection are still being stored',
          acks: [],
        });
        assert.deepEqual(await rows('SELECT k, v FROM hung'), []);
        process.kill(hung, 'SIGCONT');
        const again = new WsSender(() => url);
        onEnd(t, 'sender', () => again.stop());
        again.send(value(4));
        await again.drained();
        assert.deepEqual(await rows('SELECT k, v FROM hung'), [['1', '4']]);
      },
    );
  },
  { HEADGATE_LISTENERS: '2', HEADGATE_LOG_LEVEL: 'debug' },
);
