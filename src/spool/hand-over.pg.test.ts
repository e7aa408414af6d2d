/** Requests from the disk on a real PostgreSQL: whatever happens to the connection, each arrives once. */
import assert from 'node:assert/strict';
import { performance } from 'node:perf_hooks';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { onEnd } from '../../test/support/cleanup.ts';
import { webhookRoom } from '../../test/support/commit-room.ts';
import { FaultyProxy } from '../../test/support/faulty-proxy.ts';
import { sampleOf, times } from '../../test/support/sample.ts';
import { runOurs } from '../../test/support/webhook-tables.ts';
import { CommitPools } from '../commit/commit-pools.ts';
import { readArrived, SpoolCommit } from '../commit/hand-over.ts';
import type { Engine } from '../engine/engine.ts';
import type { Target } from '../types/target.ts';
import { limits as usual } from '../config/limits.ts';
import type { Limits } from '../config/limits.ts';
import { encodeRequest, joinPayloads } from './kept-request.ts';
import { beginning } from './spool.ts';
import { TableHandOver } from './table-hand-over.ts';
import type { SlowTables } from './hand-over-failure.ts';
import type { HandOverStages } from './table-hand-over.ts';

const spool = '0123456789abcdef0123456789abcdef';
const head = { method: 'POST', requestTarget: '/', rawHeaders: [], arrivedAtMs: 1, remoteAddress: '::1' };

function roomsOn(
  t: TestContext,
  engine: Pick<Engine, 'clientConfig'>,
  target: Target,
  limits: Limits,
): HandOverStages {
  const observe = () => undefined;
  const clock = () => performance.now();
  const pools = new CommitPools(engine, limits, undefined, observe);
  onEnd(t, 'pools', () => pools.close());
  const { database } = target;
  return {
    database,
    engine: { unavailable: null },
    catalog: { current: () => target, isWatching: () => true, refresh: () => Promise.resolve() },
    pools,
    commit: new SpoolCommit({ pools, limits, observe, clock }),
    throttle: {
      groupRows: () => limits.groupRowsMax,
      rest: () => Promise.resolve(),
      record: () => undefined,
    },
    observe,
    clock,
  };
}

/** A webhook table whose rows must not say `bad`, and a way to it through a proxy. */
async function stage(t: TestContext, columns: string, bounds: Partial<Limits> = {}) {
  const limits = { ...usual, ...bounds };
  const room = await webhookRoom(t);
  await runOurs(room.client, `CREATE TABLE kept (${columns}) WITH (connector = 'webhook')`);
  const document = columns.startsWith('data');
  const again = async (): Promise<Target> => {
    const found = await (document ? room.targetOf('kept') : room.tableOf('kept'));
    return { ...found, intake: { ...found.intake, document: document ? 'data' : null } };
  };
  const target = await again();
  const { engine } = room.database;
  const proxy = await FaultyProxy.open(engine.endpoint());
  onEnd(t, 'proxy', () => proxy.close());
  const proxied = {
    clientConfig: (database: string) => ({
      ...engine.clientConfig(database),
      host: '127.0.0.1',
      port: proxy.port,
    }),
  };
  const ids = document ? `(data ->> 'id')::int` : 'id';
  const stored = async () => {
    const { rows } = await room.client.query<{ id: number }>(`select ${ids} as id from kept order by 1`);
    return rows.map(({ id }) => id);
  };
  const refused = async () => {
    const { rows } = await room.client.query<{ body: Buffer }>(
      'select body from headgate.rejected_requests order by id',
    );
    return rows.map(({ body }) => (JSON.parse(body.toString()) as { id: number }).id);
  };
  return {
    target,
    proxy,
    client: room.client,
    again,
    through: roomsOn(t, proxied, target, limits),
    beside: roomsOn(t, engine, target, limits),
    stored,
    refused,
  };
}

const bodyOf = (id: number, isBad: boolean) => Buffer.from(JSON.stringify({ id, v: isBad ? 'bad' : 'good' }));

/** As the drainer does: what has not arrived is read again from the position on. */
async function handOver(
  stages: HandOverStages,
  target: Target,
  all: ReadonlyMap<bigint, Buffer>,
  slow = new Map<number, SlowTables>(),
): Promise<boolean> {
  const arrived = await readArrived(stages.pools, stages.database, spool, 5_000).catch(() => null);
  const position = arrived === null ? null : (arrived.positions.get(target.oid) ?? 0n);
  if (position === null) return false;
  const table = {
    database: target.database,
    schema: target.schema,
    table: target.table,
    oid: target.oid,
    home: '',
  };
  const positions = new Map(position === 0n ? [] : [[target.oid, position]]);
  const over = new TableHandOver(stages, { spool: { id: spool }, positions, slow }, table, { bytes: 0 });
  for (const record of recordsOf(all)) if (record.last > position) over.push(record, beginning);
  return over.flush();
}

/** As they are sealed: together, as long as their sequences have no gap. */
function recordsOf(all: ReadonlyMap<bigint, Buffer>) {
  const records: { first: bigint; last: bigint; payloads: Buffer[] }[] = [];
  for (const [sequence, payload] of all) {
    const open = records.at(-1);
    if (open === undefined || open.last + 1n !== sequence || open.payloads.length === 32)
      records.push({ first: sequence, last: sequence, payloads: [payload] });
    else {
      open.last = sequence;
      open.payloads.push(payload);
    }
  }
  return records.map(({ first, last, payloads }) => ({ first, last, payload: joinPayloads(payloads) }));
}

const tables = [`data JSONB CHECK (data ->> 'v' <> 'bad')`, `id INT PRIMARY KEY, v TEXT CHECK (v <> 'bad')`];

suite('the hand-over of the spool stores each request once', () => {
  for (const columns of tables) {
    for (const side of ['client', 'server'] as const) {
      test(`spooled requests for (${columns}) arrive once after a reset at each message of the ${side}`, async (t) => {
        const { target, proxy, through, stored, refused } = await stage(t, columns);
        const all = new Map<bigint, Buffer>();
        const [good, bad]: [number[], number[]] = [[], []];
        let cuts = 0;
        const [first = 0] = sampleOf([0, 1, 2, 3, 4, 5, 6], 1);
        for (let round = first; ; round += times(7, 1)) {
          // The culprit stands in the middle, so that it is passed alone.
          for (const id of [0, 1, 2].map((place) => 3 * round + place)) {
            const isBad = id % 3 === 1 && round % 2 === 1;
            (isBad ? bad : good).push(id);
            // Sequences of other tables lie between.
            all.set(BigInt(4 * round + (id % 3) + 1), encodeRequest(head, bodyOf(id, isBad)));
          }
          proxy.cutAfter(side, round);
          const before = proxy.cuts;
          while (!(await handOver(through, target, all)));
          assert.deepEqual([await stored(), await refused()], [good, bad], `cut behind message ${round}`);
          if (proxy.cuts === before && round % 2 === 1) break;
          cuts += proxy.cuts - before;
        }
        t.diagnostic(`${cuts} cuts, ${all.size} requests`);
        assert(cuts > 2, `${cuts} cuts`);
      });
    }

    test(`two concurrent hand-overs of the same requests for (${columns}) store each once`, async (t) => {
      const { target, through, beside, stored, refused } = await stage(t, columns);
      const all = new Map<bigint, Buffer>();
      const count = times(300, 3_000);
      for (let id = 0; id < count; id++)
        all.set(BigInt(id + 1), encodeRequest(head, bodyOf(id, id % 500 === 7)));
      const both = [through, beside].map(async (deps) => {
        while (!(await handOver(deps, target, all)));
      });
      await Promise.all(both);
      const isBad = (id: number) => id % 500 === 7;
      const ids = Array.from({ length: count }, (_, id) => id);
      assert.deepEqual(
        await stored(),
        ids.filter((id) => !isBad(id)),
      );
      assert.deepEqual(await refused(), ids.filter(isBad));
    });
  }

  test('only Headgate moves a spool position, and SHOW SPOOL shows a role its own tables', async (t) => {
    const { target, beside, client } = await stage(t, 'data JSONB');
    const all = new Map([[1n, encodeRequest(head, bodyOf(1, false))]]);
    assert(await handOver(beside, target, all));
    const role = `stranger_${target.oid}`;
    await client.query(`create role ${role}`);
    onEnd(t, 'role', async () => void (await client.query(`reset role; drop role ${role}`)));
    const state = {
      [target.oid]: { state: 'spooling', requests: 3 },
      0: { state: 'spooling', requests: 7 },
    };
    const shown = `select "Requests"::int as requests from headgate.show_spool('${JSON.stringify(state)}') order by 1`;
    assert.deepEqual((await client.query(shown)).rows, [{ requests: 3 }, { requests: 7 }]);
    await client.query(`set role ${role}`);
    assert.deepEqual((await client.query(shown)).rows, []);
    for (const statement of [
      `select headgate.advance('${spool}', ${target.oid}, 2, 100)`,
      `select headgate.home()`,
      `insert into headgate.spool_position values ('${spool}', 1, 1)`,
      'update headgate.spool_position set position = 100',
      'delete from headgate.spool_position',
      'select from headgate.spool_position',
      'do $$ begin lock table headgate.spool_position; end $$',
    ])
      await assert.rejects(client.query(statement), /permission denied/, statement);
  });

  for (const columns of ['data JSONB', 'id INT PRIMARY KEY, v TEXT'])
    test(`a spooled request for (${columns}) that always times out blocks its table for a while, then is refused`, async (t) => {
      const { target, through, client, refused, stored, again } = await stage(t, columns, {
        commitStatementTimeoutMs: 1_000,
      });
      await client.query(`
        create function slow() returns trigger language plpgsql as $$ begin
          if to_jsonb(new)::text like '%bad%' then perform pg_sleep(60); end if;
          return new;
        end $$;
        create trigger slow before insert on kept for each row execute function slow()`);
      const shaped = await again();
      const all = new Map<bigint, Buffer>();
      for (let id = 0; id < 40; id++) all.set(BigInt(id + 1), encodeRequest(head, bodyOf(id, id === 33)));
      let now = 0;
      const deps = { ...through, catalog: { ...through.catalog, current: () => shaped }, clock: () => now };
      const slow = new Map<number, SlowTables>();
      for (let passes = 0; !(await handOver(deps, target, all, slow)); passes++) {
        assert(passes < 12);
        assert.deepEqual(await refused(), []);
        // It stands alone, in front.
        if (slow.get(target.oid)?.first === 34n) now += 31_000;
      }
      assert.ok(now > 0, 'it stands in front for its time before it is refused');
      const ids = Array.from({ length: 40 }, (_, id) => id);
      assert.deepEqual([await stored(), await refused()], [ids.filter((id) => id !== 33), [33]]);
    });

  test('a spooled request that a constraint refuses is kept for the owner even if the table has a rule', async (t) => {
    const { target, beside, client, refused, stored, again } = await stage(t, tables[0] ?? '');
    // COPY knows no rules. An INSERT would store nothing, and be done.
    await client.query('create rule nothing as on insert to kept do instead nothing');
    const ruled = await again();
    const all = new Map<bigint, Buffer>();
    for (let id = 0; id < 3; id++) all.set(BigInt(id + 1), encodeRequest(head, bodyOf(id, id === 1)));
    const stages = { ...beside, catalog: { ...beside.catalog, current: () => ruled } };
    while (!(await handOver(stages, target, all)));
    assert.deepEqual([await stored(), await refused()], [[0, 2], [1]]);
  });

  test("a trigger that raises Headgate's own SQLSTATE during the hand-over affects its own row alone", async (t) => {
    const { target, through, client, refused, stored, again } = await stage(t, 'data JSONB');
    await client.query(`
      create function lie() returns trigger language plpgsql as $$ begin
        if new.data ->> 'v' = 'bad' then raise exception 'have arrived already' using errcode = 'HG002'; end if;
        return new;
      end $$;
      create trigger lie before insert on kept for each row execute function lie()`);
    const shaped = await again();
    const all = new Map<bigint, Buffer>();
    for (let id = 0; id < 9; id++) all.set(BigInt(id + 1), encodeRequest(head, bodyOf(id, id === 4)));
    const deps = { ...through, catalog: { ...through.catalog, current: () => shaped } };
    while (!(await handOver(deps, target, all)));
    assert.deepEqual([await stored(), await refused()], [[0, 1, 2, 3, 5, 6, 7, 8], [4]]);
  });
});
