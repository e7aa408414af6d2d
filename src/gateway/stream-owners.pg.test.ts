/** GET /v1/events of a table whose owner attacks the role that reads it: whatever its code is, it gains nothing. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { onEnd } from '../../test/support/cleanup.ts';
import { openTestGateway, request } from '../../test/support/gateway.ts';
import { ownerLogins } from '../../test/support/owner-logins.ts';
import { versions } from '../../test/support/owners-room.ts';
import { clientOf } from '../../test/support/owners.ts';
import { sampleOf, times } from '../../test/support/sample.ts';
import { startServer } from '../../test/support/server.ts';
import { numbers, StreamReader } from '../../test/support/stream-reader.ts';
import { until } from '../../test/support/until.ts';
import { limits } from '../config/limits.ts';
import { openPostgresEngine } from '../engine/postgres.ts';

/** What the role `reader` was given by others, and mallory's code, which notes whom it runs as and takes what it can. */
const setUp = `
  CREATE ROLE reader LOGIN; CREATE ROLE mallory LOGIN; CREATE ROLE alice LOGIN;
  CREATE SCHEMA mal AUTHORIZATION mallory; CREATE SCHEMA other; CREATE TABLE other.private (secret text);
  INSERT INTO other.private VALUES ('hidden'); GRANT USAGE ON SCHEMA other TO reader; GRANT ALL ON other.private TO reader;
  GRANT CREATE ON DATABASE postgres TO mallory`;
const setTraps = `
  GRANT USAGE, CREATE ON SCHEMA mal TO PUBLIC;
  CREATE TABLE mal.seen (who name, session name, got text); GRANT ALL ON mal.seen TO PUBLIC;
  CREATE FUNCTION mal.evil() RETURNS bool LANGUAGE plpgsql AS $$
  DECLARE got text; who name := current_user;
  BEGIN
    BEGIN EXECUTE 'RESET ROLE'; EXCEPTION WHEN OTHERS THEN NULL; END;
    BEGIN SELECT secret INTO got FROM other.private; INSERT INTO other.private VALUES ('mine'); EXCEPTION WHEN OTHERS THEN NULL; END;
    BEGIN EXECUTE format('DECLARE %I CURSOR WITH HOLD FOR SELECT mal.late()', random()); EXCEPTION WHEN OTHERS THEN NULL; END;
    INSERT INTO mal.seen VALUES (who, session_user, got);
    RETURN true;
  END $$;
  CREATE FUNCTION mal.late() RETURNS void LANGUAGE sql AS $$INSERT INTO mal.seen VALUES (current_user, session_user, 'at COMMIT')$$;
  CREATE FUNCTION mal.pure(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$BEGIN RETURN CASE WHEN (SELECT mal.evil()) THEN 1 END; END$$;
  CREATE TABLE mal.t (n int); GRANT SELECT ON mal.t TO reader; INSERT INTO mal.t VALUES (1)`;

const codes = {
  'an expression of CREATE STATISTICS': 'CREATE STATISTICS mal.s ON (mal.pure(1)) FROM mal.t',
  'an index expression': 'CREATE INDEX ON mal.t ((mal.pure(1)))',
  'an index predicate': 'CREATE INDEX ON mal.t (n) WHERE mal.pure(1) = 1',
  'a check, where constraints exclude tables': `ALTER TABLE mal.t ADD CHECK (mal.pure(1) = 1)`,
};

async function room(t: TestContext, bin: string) {
  const server = await startServer(bin);
  onEnd(t, 'server', () => server.close());
  const config = { host: server.socketDir, database: 'postgres' };
  const root = await clientOf(t, { ...config, user: 'root' });
  await root.query(setUp);
  const owner = await clientOf(t, { ...config, user: 'mallory' });
  await owner.query(setTraps);
  const observe = () => undefined;
  const dsn = `postgresql://reader@/postgres?host=${encodeURIComponent(server.socketDir)}`;
  const engine = await openPostgresEngine({ databaseUrl: dsn, observe });
  onEnd(t, 'engine', () => engine.close());
  const logins = ownerLogins(t, () => ({ ...config, user: 'root' }));
  // The database of this gateway is called otherwise by its clients.
  const ofServer = { owner: (_: string, owner: number) => logins.owner('postgres', owner) };
  const gateway = await openTestGateway(
    t,
    { engine },
    {
      instead: (rooms) => ({
        ...rooms,
        sql: { ...rooms.sql, logins: Object.assign(Object.create(logins), ofServer) },
      }),
    },
  );
  /** Nothing was gained: the code ran as whom the statement says. Returns how often. */
  const seen = async (name: string): Promise<number> => {
    const { rows } = await root.query<{ who: string; session: string; got: string | null }>(
      `SELECT DISTINCT who, regexp_replace(session, concat('^headgate_as_', 'mallory'::regrole::oid, '_.*'), 'mallory') AS session, got FROM mal.seen ORDER BY got`,
    );
    for (const { who, session, got } of rows)
      assert.deepEqual([who, session, got === 'hidden'], ['mallory', 'mallory', false], name);
    assert.deepEqual((await root.query('TABLE other.private')).rows, [{ secret: 'hidden' }], name);
    return rows.length;
  };
  const refusal = async (name: string) => {
    const { status, json } = await request(`${gateway.url}/v1/events?name=${name}&after=0`, {});
    return [status, json.code, json.error];
  };
  return { server, root, owner, engine, gateway, seen, refusal };
}

/** More streams of one table than the sessions of one owner, or of all of the gateway; their statuses. They are read until the test ends. */
function openMany(t: TestContext, url: string): Promise<number[]> {
  const leave = new AbortController();
  t.after(() => leave.abort());
  const open = async (): Promise<number> => {
    const { status, body } = await fetch(url, { signal: leave.signal });
    void body?.pipeTo(new WritableStream()).catch(() => undefined);
    return status;
  };
  return Promise.all(Array.from({ length: 40 }, open));
}

const sessionsOfOwner = limits.streamSessionsOfOwnerMax;

const installed = versions.filter(({ bin }) => existsSync(bin));
for (const { version, bin } of sampleOf(installed, 1)) {
  suite(`streams of tables of hostile owners give them no rights on PostgreSQL ${version}`, () => {
    test("code that runs while a stream's query is planned has the rights of the table's owner only", async (t) => {
      const { root, owner, gateway, seen } = await room(t, bin);
      await root.query('ALTER DATABASE postgres SET constraint_exclusion = on');
      for (const [name, code] of Object.entries(codes)) {
        await owner.query(`DROP SCHEMA mal CASCADE`).catch(() => undefined);
        await root.query('CREATE SCHEMA IF NOT EXISTS mal AUTHORIZATION mallory');
        await owner.query(`${setTraps}; ${code}; TRUNCATE mal.seen`);
        const [all, late] = [
          await StreamReader.open(t, gateway, 'name=mal.t&after=0'),
          await StreamReader.open(t, gateway, 'name=mal.t'),
        ];
        assert.deepEqual(numbers(await all.rows(1)), [1], name);
        await owner.query(
          'INSERT INTO mal.t VALUES (2); TRUNCATE mal.seen; ANALYZE mal.t; INSERT INTO mal.t VALUES (3)',
        );
        for (const reader of [all, late]) assert.deepEqual(numbers(await reader.rows(2)), [2, 3], name);
        await until(async () => (await seen(name)) > 0);
        for (const reader of [all, late]) reader.leave();
      }
    });

    test('a row-level policy, a revoked privilege or a revoked schema ends the stream with its reason', async (t) => {
      const { root, owner, gateway, seen, refusal } = await room(t, bin);
      const open = () => StreamReader.open(t, gateway, 'name=mal.t');
      for (const [takes, gives, code, says] of [
        [
          'REVOKE SELECT ON mal.t FROM reader',
          'GRANT SELECT ON mal.t TO reader',
          '42501',
          /denied for table "mal"."t"/,
        ],
        [
          'REVOKE ALL ON SCHEMA mal FROM PUBLIC',
          'GRANT USAGE ON SCHEMA mal TO PUBLIC',
          '42501',
          /denied for schema "?mal/,
        ],
        [
          'ALTER TABLE mal.t ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON mal.t USING (mal.evil())',
          'ALTER TABLE mal.t DISABLE ROW LEVEL SECURITY',
          'relation_not_streamed',
          /row-level security of "mal"."t" is code of its owner "mallory"/,
        ],
      ] as const) {
        const reader = await open();
        await owner.query(`${takes}; INSERT INTO mal.t VALUES (2)`);
        const { event, data } = (await reader.next()) ?? { event: null, data: '' };
        assert.deepEqual([event, (JSON.parse(data) as { code: string }).code], ['refused', code]);
        assert.match(data.replaceAll('\\"', '"'), says);
        const [status, again, error] = await refusal('mal.t');
        assert.deepEqual([status, again], [400, code]);
        assert.match(String(error), says);
        await owner.query(gives);
      }
      assert.equal(await seen('ended'), 0);
      await root.query('ALTER TABLE mal.t OWNER TO alice; ALTER TABLE mal.t ENABLE ROW LEVEL SECURITY');
    });

    test('a stream of a table that changes its owner or schema reads it with the rights of its present owner', async (t) => {
      const { root, owner, gateway, seen } = await room(t, bin);
      await owner.query(`CREATE SCHEMA decoy; GRANT ALL ON SCHEMA decoy TO PUBLIC; CREATE TABLE decoy.t (n int);
        CREATE INDEX ON decoy.t ((mal.pure(1))); GRANT SELECT ON decoy.t TO PUBLIC`);
      await root.query('GRANT mallory TO alice');
      const reader = await StreamReader.open(t, gateway, 'name=mal.t');
      let n = 10;
      for (let next = 0; next < times(6, 60); next++) {
        await root.query(
          `ALTER TABLE mal.t OWNER TO ${next % 2 === 0 ? 'alice' : 'root'}; INSERT INTO mal.t VALUES (${(n += 1)})`,
        );
        await owner.query(`TRUNCATE mal.seen; BEGIN; ALTER SCHEMA mal RENAME TO away; ALTER SCHEMA decoy RENAME TO mal; COMMIT;
          BEGIN; ALTER SCHEMA mal RENAME TO decoy; ALTER SCHEMA away RENAME TO mal; COMMIT`);
        await root.query(`ALTER TABLE mal.t OWNER TO mallory`);
        await owner.query(
          `CREATE STATISTICS mal.s ON (mal.pure(1)) FROM mal.t; INSERT INTO mal.t VALUES (${(n += 1)}); DROP STATISTICS mal.s`,
        );
        await seen(String(next));
      }
      const found = new Set<number>();
      while (!found.has(n)) for (const row of await reader.rows(1)) found.add(Number(row['n']));
      assert.equal(found.size, n - 10);
      await seen('at last');
    });

    test('a table that its owner keeps locked delays no stream of another table', async (t) => {
      const { root, owner, gateway } = await room(t, bin);
      await root.query(
        'CREATE TABLE alices (n int); ALTER TABLE alices OWNER TO alice; GRANT SELECT ON alices TO reader',
      );
      const early = await StreamReader.open(t, gateway, 'name=alices');
      await owner.query('BEGIN; LOCK TABLE mal.t IN ACCESS EXCLUSIVE MODE');
      const answers = openMany(t, `${gateway.url}/v1/events?name=mal.t`);
      const waiting = `SELECT count(*)::int AS n FROM pg_locks WHERE relation = 'mal.t'::regclass AND NOT granted`;
      await until(async () => (await root.query<{ n: number }>(waiting)).rows[0]?.n === sessionsOfOwner);
      const late = await StreamReader.open(t, gateway, 'name=alices');
      await root.query('INSERT INTO alices VALUES (5)');
      for (const reader of [early, late]) assert.deepEqual(numbers(await reader.rows(1)), [5]);
      assert.equal((await root.query<{ n: number }>(waiting)).rows[0]?.n, sessionsOfOwner);
      await owner.query('ROLLBACK');
      for (const status of await answers) assert.ok(status === 200 || status === 503, String(status));
    });

    test("slow code of a table's owner delays no stream of another table that catches up", async (t) => {
      const { root, owner, gateway } = await room(t, bin);
      await root.query(`CREATE TABLE alices (n int); ALTER TABLE alices OWNER TO alice; GRANT SELECT ON alices TO reader;
        CREATE TABLE roots (n int); GRANT SELECT ON roots TO reader; INSERT INTO alices VALUES (1); INSERT INTO roots VALUES (1);
        SELECT pg_advisory_lock(7)`);
      await owner.query(`CREATE FUNCTION mal.waits(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
        BEGIN IF session_user <> 'mallory' THEN PERFORM pg_advisory_xact_lock_shared(7); END IF; RETURN 1; END$$;
        CREATE INDEX ON mal.t ((mal.waits(1)))`);
      await openMany(t, `${gateway.url}/v1/events?name=mal.t&after=0`);
      const waiting = `SELECT count(*)::int AS n FROM pg_locks WHERE locktype = 'advisory' AND NOT granted`;
      await until(async () => ((await root.query<{ n: number }>(waiting)).rows[0]?.n ?? 0) > 1);
      for (const table of ['alices', 'roots']) {
        const reader = await StreamReader.open(t, gateway, `name=${table}&after=0`);
        assert.deepEqual(numbers(await reader.rows(1)), [1], table);
      }
      await root.query('SELECT pg_advisory_unlock(7)');
    });

    test('a stream without owner sessions is refused with the GRANT that it needs, and works after that GRANT', async (t) => {
      const { root, owner, engine } = await room(t, bin);
      await owner.query('CREATE TABLE mal.mine (n int); GRANT SELECT ON mal.mine TO reader');
      const gateway = await openTestGateway(t, { engine });
      const { status, json } = await request(`${gateway.url}/v1/events?name=mal.mine`, {});
      assert.deepEqual([status, json.code], [400, 'relation_not_streamed']);
      const [, grant = ''] = /run (GRANT "reader" TO "mallory")$/.exec(json.error ?? '') ?? [];
      await root.query(grant);
      const reader = await StreamReader.open(t, gateway, 'name=mal.mine');
      await owner.query('INSERT INTO mal.mine VALUES (7)');
      assert.deepEqual(numbers(await reader.rows(1)), [7]);
      // It could do that anyway. What it may no longer do ends with the next page.
      await root.query('REVOKE reader FROM mallory; INSERT INTO mal.mine VALUES (8)');
      assert.match((await reader.next())?.data ?? '', /"relation_not_streamed"/);
    });
  });
}
