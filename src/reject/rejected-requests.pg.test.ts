import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import fc from 'fast-check';
import { observers } from '../observe/context.ts';
import { connect, makeTable, openRejects, refused } from '../../test/support/rejected.ts';
import { openPooler } from '../../test/support/pooler.ts';
import { someVersion } from '../../test/support/sample.ts';
import { startServer, type TestServer } from '../../test/support/server.ts';
import { within } from '../../test/support/within.ts';
import type { KeptRequest } from '../types/journal.ts';
import type { Outcome } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import { deferred } from '../kit/promises.ts';
import { refusal } from '../errors/refusals.ts';

function rejectsOn(bin: string): void {
  let server: TestServer;
  before(async () => void (server = await startServer(bin)));
  after(() => server.close());

  test('rejected requests are stored as they arrived, without touching their table', async (t) => {
    const client = await connect(t, server);
    const target = await makeTable(client, 't');
    const { rejects, settled, counted } = openRejects(t, server);
    rejects.serve('postgres');
    const bytes = fc.uint8Array({ maxLength: 300 }).map((it) => Buffer.from(it));
    const latin1 = bytes.map((it) => it.toString('latin1'));
    const request = fc.record({
      body: bytes,
      value: latin1,
      name: latin1,
      requestTarget: latin1,
      method: latin1,
    });
    const requests = fc.sample(request, 200);
    for (const { value, name, ...rest } of requests)
      rejects.keep(refused(target, { ...rest, rawHeaders: [`x-${name}`, value] }));
    await settled(requests.length);
    assert.equal(counted('stored'), requests.length);
    const { rows } = await client.query<{ body: Buffer; size: string; headers: number }>(
      `select body, body_bytes as size, (select count(*)::int from jsonb_object_keys(headers)) + cardinality(headers_left_out)
        as headers from headgate.rejected_requests order by id`,
    );
    assert.deepEqual(
      rows.map(({ body }) => body),
      requests.map(({ body }) => body),
    );
    assert(rows.every(({ headers }) => headers === 1));
    assert.equal((await client.query('select from t')).rowCount, 0);
  });

  test('rejected requests expire by number, bytes and age, and half of the room is for those accepted by VALIDATE', async (t) => {
    const client = await connect(t, server);
    const target = await makeTable(client, 't');
    const kept = async () => {
      const { rows } = await client.query<{ authenticated: boolean; n: number; first: string }>(
        `select authenticated, count(*)::int as n, min(id) as first from headgate.rejected_requests group by 1 order by 1`,
      );
      return Object.fromEntries(rows.map(({ authenticated, n }) => [String(authenticated), n]));
    };
    const few = openRejects(t, server, { rowsMax: 40 });
    few.rejects.serve('postgres');
    for (let i = 0; i < 30; i++) few.rejects.keep(refused(target));
    for (let i = 0; i < 300; i++)
      few.rejects.keep(refused(target, { authenticated: false, code: 'signature_failed' }));
    await few.settled(330);
    await within(5_000, async () => assert.deepEqual(await kept(), { false: 20, true: 20 }));
    for (let i = 0; i < 40; i++) few.rejects.keep(refused(target));
    await few.settled(370);
    await within(5_000, async () => assert.deepEqual(await kept(), { false: 20, true: 20 }));
    await client.query('delete from headgate.rejected_requests where not authenticated');
    for (let i = 0; i < 40; i++) few.rejects.keep(refused(target));
    await few.settled(410);
    await within(5_000, async () => assert.deepEqual(await kept(), { true: 40 }));
    await few.rejects.close();
    await client.query(
      `update headgate.rejected_requests set received_at = now() - interval '25 hours' where id % 2 = 0`,
    );
    const fresh = openRejects(t, server, { rowsMax: 40, days: 1 });
    fresh.rejects.serve('postgres');
    await within(5_000, async () => assert.deepEqual(await kept(), { true: 20 }));
    await fresh.rejects.close();
    const small = openRejects(t, server, { rowsMax: 40, limits: { rejectedBytesMax: 35_000 } });
    small.rejects.serve('postgres');
    for (let i = 0; i < 10; i++) small.rejects.keep(refused(target, { body: Buffer.alloc(10_000, i) }));
    await small.settled(10);
    await within(5_000, async () => assert.deepEqual(await kept(), { true: 3 }));
  });

  test('refused requests of one table displace none of another that keeps fewer, by number or bytes', async (t) => {
    const client = await connect(t, server);
    const [quiet, loud] = [await makeTable(client, 'quiet'), await makeTable(client, 't')];
    const forged = { authenticated: false, code: 'signature_failed' } as const;
    const small = openRejects(t, server, { rowsMax: 40, limits: { rejectedBytesMax: 100_000 } });
    small.rejects.serve('postgres');
    const bytes = (n: number) => ({ body: Buffer.alloc(n, 'a') });
    let sent = 0;
    const send = async (count: number, target: Target, of: Parameters<typeof refused>[1]) => {
      for (let i = 0; i < count; i++) small.rejects.keep(refused(target, of));
      await small.settled((sent += count));
    };
    const kept = async (expected: readonly (readonly [string, boolean, number])[]) => {
      await within(5_000, async () => {
        const { rows } = await client.query({
          text: `select table_name, authenticated, count(*)::int from headgate.rejected_requests group by 1, 2 order by 1, 2`,
          rowMode: 'array',
        });
        assert.deepEqual(rows, expected);
      });
    };
    await send(3, quiet, { ...bytes(5_000), ...forged });
    await send(5, quiet, bytes(6_000));
    await send(30, loud, bytes(10_000));
    await kept([
      ['quiet', false, 3],
      ['quiet', true, 5],
      ['t', true, 5],
    ]);
    await send(300, loud, bytes(1));
    await kept([
      ['quiet', false, 3],
      ['quiet', true, 5],
      ['t', true, 32],
    ]);
    // Whatever number of tables forged requests name, half is for the others.
    for (const name of ['a', 'b', 'c', 'd'])
      await send(40, await makeTable(client, name), { ...bytes(1), ...forged });
    await kept([
      ['a', false, 4],
      ['b', false, 4],
      ['c', false, 4],
      ['d', false, 5],
      ['quiet', false, 3],
      ['quiet', true, 5],
      ['t', true, 15],
    ]);
    for (const name of ['a', 'b', 'c', 'd', 'quiet']) await client.query(`drop table "${name}"`);
  });

  test('delivery ids expire even where no rejected requests are kept', async (t) => {
    const client = await connect(t, server);
    const target = await makeTable(client, 't');
    const older = openRejects(t, server);
    older.rejects.serve('postgres');
    older.rejects.keep(refused(target));
    await older.settled(1);
    await older.rejects.close();
    const rows = async (relation: string) =>
      (await client.query(`select from headgate.${relation}`)).rowCount;
    // As after dedupe = 'off', while a request was on its way.
    const claim = () =>
      client.query(`insert into headgate.delivery (relation, id) values ('t', gen_random_uuid())`);
    const forgotten = () => within(5_000, async () => assert.equal(await rows('delivery'), 0));
    await claim();
    const { rejects } = openRejects(t, server, {
      rowsMax: 0,
      limits: { deliveriesForgetMs: 1, rejectedHeartbeatMs: 20 },
    });
    rejects.serve('postgres');
    await forgotten();
    await claim();
    await forgotten();
    await within(5_000, async () => assert.equal(await rows('rejected_requests'), 0));
    const minutes = await rows('traffic_minute');
    rejects.keep(refused(target));
    const table = { database: 'postgres', schema: 'public', table: 't', oid: target.oid };
    observers(rejects.readers)({ kind: 'keys.ignored', table, documents: 1, keys: ['a'] });
    await rejects.close();
    assert.deepEqual(
      [await rows('rejected_requests'), await rows('ignored_keys'), await rows('traffic_minute')],
      [0, 0, minutes],
    );
  });

  test('expired delivery ids and tombstones are deleted in one run, however many there are', async (t) => {
    const client = await connect(t, server);
    await makeTable(client, 't');
    const left = async (relation: string) =>
      (await client.query(`select from headgate.${relation}`)).rowCount;
    for (const [few, many] of [
      [
        "delivery (relation, id) select 't', gen_random_uuid()",
        "tombstone (relation, key, version) select 't', gen_random_uuid(), '{1}'",
      ],
      [
        "tombstone (relation, key, version) select 't', gen_random_uuid(), '{1}'",
        "delivery (relation, id) select 't', gen_random_uuid()",
      ],
    ]) {
      await client.query(`insert into headgate.${few} from generate_series(1, 1)`);
      await client.query(`insert into headgate.${many} from generate_series(1, 7)`);
      const { rejects } = openRejects(t, server, {
        limits: { deliveriesForgottenMax: 2, deliveriesForgetMs: 3_600_000 },
      });
      rejects.serve('postgres');
      await within(5_000, async () =>
        assert.deepEqual([await left('delivery'), await left('tombstone')], [0, 0]),
      );
      await rejects.close();
    }
  });

  test('rejected requests of a dropped table are not kept, and a flood is cut off', async (t) => {
    const client = await connect(t, server);
    const [gone, there] = [await makeTable(client, 'gone'), await makeTable(client, 't')];
    await client.query('DROP TABLE gone');
    const { rejects, settled, counted, spy } = openRejects(t, server, {
      limits: { rejectedBurst: 5, rejectedAuthenticBurst: 7, rejectedPerSecond: 1e-6 },
    });
    rejects.serve('postgres');
    for (const target of [gone, there]) for (let i = 0; i < 100; i++) rejects.keep(refused(target));
    for (let i = 0; i < 100; i++)
      rejects.keep(refused(there, { authenticated: false, code: 'signature_failed' }));
    await settled(300);
    assert.deepEqual([counted('stored'), counted('engine'), counted('rate')], [12, 7, 281]);
    assert.deepEqual(
      spy.seen.filter(({ kind }) => kind === 'rejected.unwritable'),
      [],
    );
    for (const code of [
      'not_found',
      'engine_unavailable',
      'lane_full',
      'request_aborted',
      'internal',
    ] as const)
      rejects.keep(refused(there, { code }));
    assert.equal((await client.query('select from headgate.rejected_requests')).rowCount, 12);
  });

  test('rejected requests wait in bounded memory while the server is away; others are counted, and no answer is delayed', async (t) => {
    const client = await connect(t, server);
    const target = await makeTable(client, 't');
    const { rejects, counted, spy } = openRejects(t, server, { nowhere: true });
    rejects.serve('postgres');
    const unwritable = spy.next('rejected.unwritable');
    for (let i = 0; i < 1_500; i++) rejects.keep(refused(target));
    assert.deepEqual([counted('stored'), counted('queue')], [0, 500]);
    await unwritable;
    await rejects.close();
    assert.equal(counted('engine'), 1_000);
    rejects.keep(refused(target));
    assert.equal(counted('queue'), 501, 'closed');
    const large = openRejects(t, server, { nowhere: true });
    large.rejects.serve('postgres');
    for (let i = 0; i < 200; i++) large.rejects.keep(refused(target, { body: Buffer.alloc(1_000_000) }));
    assert(large.counted('queue') >= 70, 'bytes are bounded as well');
  });

  test('rejected requests are kept behind a pooler that refuses parameters, each statement with a timeout', async (t) => {
    const client = await connect(t, server);
    const target = await makeTable(client, 't');
    const { port } = await openPooler(t, { kind: 'unix', path: server.socket });
    const { rejects, settled, counted, spy } = openRejects(t, server, {
      port,
      limits: { rejectedStatementMs: 500 },
    });
    rejects.serve('postgres');
    for (let i = 0; i < 10; i++) rejects.keep(refused(target));
    await settled(10);
    assert.equal(counted('stored'), 10);
    assert.deepEqual(
      spy.seen.filter(({ kind }) => kind === 'rejected.unwritable'),
      [],
    );
    const holder = await connect(t, server);
    await holder.query('begin; lock table headgate.rejected_requests');
    rejects.keep(refused(target));
    await settled(11);
    await holder.query('rollback');
    rejects.keep(refused(target));
    await settled(12);
    assert.deepEqual([counted('stored'), counted('engine')], [11, 1]);
  });

  test('the connection for rejected requests is reopened after a break, and requests of the meantime are written', async (t) => {
    const client = await connect(t, server);
    const target = await makeTable(client, 't');
    const { rejects, settled, counted, spy } = openRejects(t, server);
    rejects.serve('postgres');
    rejects.keep(refused(target));
    await settled(1);
    const lost = spy.next('rejected.unwritable');
    await client.query(
      `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'headgate rejected requests'`,
    );
    await lost;
    rejects.keep(refused(target));
    await settled(2);
    assert.equal(counted('stored'), 2);
  });

  test('each retry of a rejected request runs once and records its outcome', async (t) => {
    const client = await connect(t, server);
    const target = await makeTable(client, 't');
    const ran: string[] = [];
    const outcomes: readonly Outcome[] = [
      { kind: 'committed', rows: 1 },
      { kind: 'aborted', refusal: refusal('row_refused', 'no') },
      { kind: 'unknown', refusal: refusal('commit_unknown') },
    ];
    const retry = (request: KeptRequest) => {
      const body = request.body.toString();
      ran.push(body);
      const outcome = outcomes[Number(body) % 4];
      return outcome === undefined ? Promise.reject(new Error('a bug')) : Promise.resolve(outcome);
    };
    const deps = [1, 2, 3].map(() => openRejects(t, server, { retry }));
    for (const { rejects } of deps) rejects.serve('postgres');
    const [first] = deps;
    for (let i = 0; i < 300; i++) first?.rejects.keep(refused(target, { body: Buffer.from(String(i)) }));
    await first?.settled(300);
    await client.query('select headgate.retry_rejected(id) from headgate.rejected_requests');
    first?.rejects.retryAsked('postgres');
    await within(10_000, async () => {
      const { rows } = await client.query<{ outcome: string; reason: string | null; n: number }>(
        `select retry_outcome as outcome, retry_reason as reason, count(*)::int as n from headgate.rejected_requests
         group by 1, 2 order by 1, 2`,
      );
      assert.deepEqual(rows, [
        { outcome: 'committed', reason: null, n: 75 },
        { outcome: 'row_refused', reason: 'no', n: 75 },
        { outcome: 'unknown', reason: 'a bug', n: 75 },
        { outcome: 'unknown', reason: refusal('commit_unknown').message, n: 75 },
      ]);
    });
    assert.equal(ran.length, 300);
    assert.equal(new Set(ran).size, 300);
    const again = await client.query<{ said: string; n: number }>(
      `select headgate.retry_rejected(id) as said, count(*)::int as n from headgate.rejected_requests group by 1 order by 2`,
    );
    assert.deepEqual(
      again.rows.map(({ n }) => n),
      [75, 75, 150],
    );
    await within(10_000, async () => {
      const open = await client.query(
        `select from headgate.rejected_requests where retry_outcome in ('waiting', 'running')`,
      );
      assert.equal(open.rowCount, 0);
    });
    assert.equal(ran.length, 375);
  });

  test('an interrupted retry of a rejected request is not repeated by itself', async (t) => {
    const client = await connect(t, server);
    const target = await makeTable(client, 't');
    const running = deferred<void>();
    const stuck = openRejects(t, server, {
      retry: () => {
        running.resolve();
        return new Promise(() => {});
      },
    });
    stuck.rejects.serve('postgres');
    stuck.rejects.keep(refused(target));
    await stuck.settled(1);
    const ask = async (force = false) => {
      const { rows } = await client.query<{ said: string }>(
        'select headgate.retry_rejected(id, $1) as said from headgate.rejected_requests',
        [force],
      );
      return rows[0]?.said;
    };
    await ask();
    stuck.rejects.retryAsked('postgres');
    await running.promise;
    await stuck.rejects.close();
    const next = openRejects(t, server);
    next.rejects.serve('postgres');
    next.rejects.keep(refused(target));
    await next.settled(1);
    const { rows } = await client.query<{ outcome: string }>(
      'select retry_outcome as outcome from headgate.rejected_requests order by id limit 1',
    );
    assert.equal(rows[0]?.outcome, 'running');
    await client.query('delete from headgate.rejected_requests where retry_outcome is null');
    assert.match((await ask()) ?? '', /may be stored; force => true/);
    const retried = next.spy.next('rejected.retried');
    await ask(true);
    next.rejects.retryAsked('postgres');
    assert.equal((await retried).outcome, 'committed');
  });

  test('retries of large requests run a few at a time, and one larger than the bound alone', async (t) => {
    const client = await connect(t, server);
    const target = await makeTable(client, 't');
    let running = 0;
    const most: number[] = [];
    const retry = async (): Promise<Outcome> => {
      running += 1;
      most.push(running);
      await new Promise(setImmediate);
      running -= 1;
      return { kind: 'committed', rows: 1 };
    };
    const { rejects, settled, spy } = openRejects(t, server, {
      retry,
      limits: { rejectedRetriedBytesMax: 1_000 },
    });
    rejects.serve('postgres');
    for (const bytes of [5_000, 400, 400, 400, 400])
      rejects.keep(refused(target, { body: Buffer.alloc(bytes) }));
    await settled(5);
    await client.query('select headgate.retry_rejected(id) from headgate.rejected_requests');
    rejects.retryAsked('postgres');
    await within(5_000, async () =>
      assert.equal(spy.seen.filter(({ kind }) => kind === 'rejected.retried').length, 5),
    );
    assert.deepEqual(most, [1, 1, 2, 3, 1]);
  });

  test('rejected requests that are incomplete or from a WebSocket are not retried', async (t) => {
    const client = await connect(t, server);
    const target = await makeTable(client, 't');
    const { rejects, settled, spy } = openRejects(t, server);
    rejects.serve('postgres');
    rejects.keep(refused({ ...target, check: () => true }, { body: Buffer.alloc(1_100_000) }));
    rejects.keep(refused(target, { body: null, code: 'body_too_large', authenticated: false }));
    rejects.keep(refused(target, { door: 'websocket' }));
    await settled(3);
    const { rows } = await client.query<{ said: string }>(
      'select headgate.retry_rejected(id, true) as said from headgate.rejected_requests order by id',
    );
    assert.match(rows[0]?.said ?? '', /^not retried: only 1048576 of 1100000 bytes/);
    assert.match(rows[1]?.said ?? '', /^not retried: its body was not read/);
    assert.match(rows[2]?.said ?? '', /^not retried: .*WebSocket/);
    // Who writes into the row by other means is not believed.
    const retried = spy.next('rejected.retried');
    await client.query(
      `update headgate.rejected_requests set retry_outcome = 'waiting', retry_forced = true`,
    );
    rejects.retryAsked('postgres');
    await retried;
    await within(5_000, async () => {
      const settledRows = await client.query<{ outcome: string }>(
        'select distinct retry_outcome as outcome from headgate.rejected_requests order by 1',
      );
      assert.deepEqual(settledRows.rows, [{ outcome: 'body_not_json' }, { outcome: 'signature_failed' }]);
    });
  });
}

for (const [version, bin] of someVersion())
  suite(`rejected requests are stored and retried on PostgreSQL ${version}`, () => rejectsOn(bin));
