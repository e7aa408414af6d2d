/** Events whose row runs code that fails with any SQLSTATE, and a COMMIT whose answer is altered. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { onEnd } from '../../test/support/cleanup.ts';
import { errorMessage, FaultyProxy } from '../../test/support/faulty-proxy.ts';
import { openTestGateway } from '../../test/support/gateway.ts';
import type { TestGateway } from '../../test/support/gateway.ts';
import { testDatabase } from '../../test/support/postgres.ts';
import { sampleOf, sampleSeed } from '../../test/support/sample.ts';
import { limits } from '../config/limits.ts';
import type { EventStore, EventStores } from './event-store.ts';
import type { GatewayDatabases } from './gateway-options.ts';

const states = (
  '01000 08000 08006 0A000 22P02 23505 25006 25P02 26000 28000 3D000 40001 40P01 42501 42P01 53100 53300 55P03 57014 57P01 58030 ' +
  'F0000 HV000 P0001 XX000 XX001 HG001 ZZ999'
).split(' ');

const table = `CREATE TABLE t (id int, c text);
  CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF new.c = 'nosuch' THEN PERFORM nosuch(); END IF;
    IF new.c IS NOT NULL THEN RAISE EXCEPTION 'secret' USING ERRCODE = new.c; END IF; RETURN new; END $$`;
const hooks = [
  'CREATE TRIGGER f BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()',
  'CREATE TRIGGER f AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()',
];

const ids = async (gateway: TestGateway): Promise<unknown[]> =>
  (await gateway.rows('SELECT id FROM t ORDER BY id')).map(({ id }) => id);

test('an event whose row fails with any SQLSTATE gets 422 with its line, and other requests are stored', async (t) => {
  for (const hook of hooks) {
    const gateway = await openTestGateway(t, await testDatabase(t));
    await gateway.rows(`${table}; ${hook}`);
    for (const state of ['nosuch', ...sampleOf(states, 3)]) {
      const bad = `{"id":0,"c":"${state}"}`;
      const [honest, refused, other] = await Promise.all([
        gateway.events('name=t', '{"id":1}'),
        gateway.events('name=t', `{"id":0}\n${bad}`),
        gateway.events('name=t', '{"id":2}\n{"id":3}'),
      ]);
      assert.deepEqual([honest.status, other.status], [200, 200], `${state} ${sampleSeed}`);
      assert.equal(refused.status, 422, `${state}: ${refused.text}`);
      assert(!refused.text.includes('secret'), state);
      const skipping = await gateway.events('name=t&on_error=skip', `{"id":4}\n${bad}\n{"id":5}\n${bad}`);
      assert.equal(skipping.status, 200, `${state}: ${skipping.text}`);
      assert.equal(skipping.json.rows, 2);
      const skipped = skipping.json['skipped'] as readonly { readonly line: number }[];
      assert.deepEqual(
        skipped.map(({ line }) => line),
        [2, 4],
        state,
      );
      assert.deepEqual(await ids(gateway), [1, 2, 3, 4, 5], state);
      await gateway.rows('TRUNCATE t');
    }
  }
});

test('a deferred trigger that fails at the COMMIT of a large event body refuses the body', async (t) => {
  const gateway = await openTestGateway(t, await testDatabase(t));
  await gateway.rows(`${table};
    CREATE CONSTRAINT TRIGGER f AFTER INSERT ON t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION f()`);
  const filler = 'x'.repeat(1_100_000);
  for (const state of ['nosuch', ...sampleOf(states, 2)]) {
    const { status, text } = await gateway.events(
      'name=t',
      `{"id":1,"more":"${filler}"}\n{"id":2,"c":"${state}"}`,
    );
    assert.equal(status, 422, `${state}: ${text}`);
  }
  assert.deepEqual(await ids(gateway), []);
});

test("events answered 200 are stored although the COMMIT's reply is lost or altered, and doubt gets commit_unknown", async (t) => {
  const database = await testDatabase(t);
  const proxy = await FaultyProxy.open(database.engine.endpoint());
  onEnd(t, 'proxy', () => proxy.close());
  const clientConfig = (name: string) => ({
    ...database.engine.clientConfig(name),
    host: '127.0.0.1',
    port: proxy.port,
  });
  const through = { ...database, engine: { ...database.engine, clientConfig } };
  const direct = await openTestGateway(t, database);
  await direct.rows('CREATE TABLE t (id int)');
  // The table is looked up once: a look that comes again after some seconds would meet what is meant for the rows.
  const gateway = await openTestGateway(t, through, { clock: () => 0 });
  const filler = 'x'.repeat(1_100_000);
  let id = 0;
  const send = async () => {
    id += 1;
    const { status, json } = await gateway.events('name=t', `{"id":${id},"more":"${filler}"}`);
    const { length } = (await ids(direct)).filter((it) => it === id);
    if (status === 200) assert.equal(length, 1);
    else if (json.code !== 'commit_unknown') assert.equal(length, 0, json.code);
    return { status, code: json.code };
  };
  assert.equal((await send()).status, 200);
  proxy.cutAfter('server', Infinity);
  assert.equal((await send()).status, 200);
  const places = proxy.trace.length;
  const commit = proxy.trace.lastIndexOf('C');
  assert.equal(proxy.trace.slice(commit - 1), 'ZCZ');
  const all = Array.from({ length: places }, (_, place) => place);
  for (const place of [...sampleOf(all.slice(0, commit), 4), ...all.slice(commit)]) {
    for (const bytes of [errorMessage('ERROR', '57P01'), errorMessage('ERROR', '23514')]) {
      proxy.replaceAfter(place, bytes, 'cut');
      const { status, code } = await send();
      assert.equal(status, 503, `${place} of ${places}: ${code} ${sampleSeed}`);
      if (place >= commit) assert.equal(code, 'commit_unknown');
      assert.equal((await send()).status, 200);
    }
  }
  for (const sqlstate of ['XX000', '08006', '58030']) {
    proxy.replaceAfter(commit, errorMessage('ERROR', sqlstate), 'ready');
    assert.deepEqual(await send(), { status: 200, code: undefined }, sqlstate);
  }
});

test('a body whose rows are refused one by one is answered in time, whether or not its last line has an end', async (t) => {
  // A clock on which the time for an answer is over within a second.
  const clock = () => 30 * performance.now();
  const gateway = await openTestGateway(t, await testDatabase(t), { clock });
  await gateway.rows('CREATE TABLE t (id int CHECK (id < 0))');
  const lines = Array.from({ length: 6_000 }, (_, id) => `{"id":${id}}`).join('\n');
  for (const end of ['\n', '']) {
    const { status, json } = await gateway.events('name=t&on_error=skip', `${lines}${end}`);
    assert.deepEqual([status, json.code], [503, 'deadline'], JSON.stringify(end));
  }
});

test('a body whose rows are refused has the time of one request, also if they are left out afterwards', async (t) => {
  let usedMs = 0;
  const clock = () => performance.now() + usedMs;
  let events: GatewayDatabases['events'] | null = null;
  const instead = (databases: GatewayDatabases) => {
    ({ events } = databases);
    return databases;
  };
  const gateway = await openTestGateway(t, await testDatabase(t), { clock, instead });
  await gateway.rows('CREATE TABLE t (id int CHECK (id > 0))');
  assert(events !== null);
  const store: EventStore = await (events as EventStores).of('test');
  const skipping = store.skipping.bind(store);
  store.skipping = (...given) => {
    usedMs = limits.eventsDeadlineMs;
    return skipping(...given);
  };
  const { status, json } = await gateway.events('name=t&on_error=skip', '{"id":1}\n{"id":-1}');
  assert.deepEqual([status, json.code], [503, 'deadline']);
  assert.deepEqual(await ids(gateway), []);
});
