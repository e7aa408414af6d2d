/** Counts by minute in a real database: added up between processes, bounded to a day, and each owner's own. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { observers } from '../observe/context.ts';
import { connect, makeTable, openRejects } from '../../test/support/rejected.ts';
import { someVersion } from '../../test/support/sample.ts';
import { startServer, type TestServer } from '../../test/support/server.ts';
import { quantileMs } from '../observe/durations.ts';
import type { Target } from '../types/target.ts';
import type { Rejects } from './rejected-requests.ts';

function trafficOn(bin: string): void {
  let server: TestServer;
  before(async () => void (server = await startServer(bin)));
  after(() => server.close());

  const answer = (
    rejects: Rejects,
    target: Target,
    code: 'committed' | 'signature_failed' | 'spooled',
    ms = 1,
  ): void =>
    observers(rejects.readers)({
      kind: 'request.answered',
      table: { ...target, database: 'postgres' },
      status: 0,
      code,
      rows: code === 'committed' ? 2 : 0,
      seconds: ms / 1_000,
    });

  test('traffic counts of two processes add up, visible to the owner only', async (t) => {
    const client = await connect(t, server);
    const [hers, ours] = [await makeTable(client, 'hers'), await makeTable(client, 'ours')];
    await client.query(
      `CREATE ROLE alice; ALTER TABLE hers RENAME TO "it's ""hers""/"; ALTER TABLE "it's ""hers""/" OWNER TO alice`,
    );
    const [one, two] = [openRejects(t, server).rejects, openRejects(t, server).rejects];
    for (const rejects of [one, two]) {
      rejects.serve('postgres');
      for (let i = 0; i < 99; i++) answer(rejects, hers, 'committed');
      answer(rejects, hers, 'signature_failed', 300);
      answer(rejects, ours, 'committed', 30_000);
    }
    // What waits is written when a process ends.
    await Promise.all([one.close(), two.close()]);
    const state = { base: 'https://h', tables: { [hers.oid]: { sender: 'github', check: 'signature' } } };
    const shown = async (): Promise<unknown> =>
      (
        await client.query({
          text: 'select * from headgate.show_endpoints($1)',
          values: [state],
          rowMode: 'array',
        })
      ).rows.map((row: unknown[]) => row.filter((it) => !(it instanceof Date)));
    const path = 'https://h/webhook/postgres/public';
    const herRow = [
      'it\'s "hers"/',
      'public',
      `${path}/it%27s%20%22hers%22%2F`,
      'github',
      'signature',
      '198',
      '2',
      '0',
      '0',
      1,
      '0',
    ];
    assert.deepEqual(await shown(), [
      herRow,
      ['ours', 'public', `${path}/ours`, null, 'none', '2', '0', '0', '0', Infinity, '0'],
    ]);
    const minutes =
      'select sum(stored)::int as stored, sum(rows)::int as rows, max(p99_ms) as p99 from headgate.traffic';
    assert.deepEqual((await client.query(minutes)).rows, [{ stored: 200, rows: 400, p99: Infinity }]);
    // By the hour, whatever the minute was.
    const hours = (await client.query('select * from headgate.traffic_hours order by table_name')).rows as {
      readonly hour: Date;
      readonly took: readonly number[];
    }[];
    assert.deepEqual(
      hours.map(({ hour, took, ...figures }) => [hour.getTime() % 3_600_000, took.length, figures]),
      [
        ['it\'s "hers"/', '198', '2', 1, 1, '0'],
        ['ours', '2', '0', Infinity, Infinity, '0'],
      ].map(([name, stored, unauthorized, p50, p99, spooled]) => [
        0,
        14,
        {
          schema_name: 'public',
          table_name: name,
          stored,
          unauthorized,
          refused: '0',
          unavailable: '0',
          p50_ms: p50,
          p99_ms: p99,
          spooled,
        },
      ]),
    );
    await client.query('SET ROLE alice');
    assert.equal((await client.query('select from headgate.traffic_hours')).rows.length, 1);
    assert.deepEqual(await shown(), [herRow]);
    assert.deepEqual((await client.query(minutes)).rows, [{ stored: 198, rows: 396, p99: 1 }]);
    for (const statement of [
      'SELECT FROM headgate.traffic_minute',
      'SELECT FROM headgate.traffic_hour',
      'DELETE FROM headgate.traffic_hours',
      'DELETE FROM headgate.traffic',
      'UPDATE headgate.endpoints SET checked = true',
      'BEGIN; LOCK TABLE headgate.traffic IN ACCESS EXCLUSIVE MODE',
      'BEGIN; LOCK TABLE headgate.endpoints IN ACCESS SHARE MODE',
    ]) {
      await assert.rejects(client.query(statement), { code: /^(42501|55000)$/ }, statement);
      await client.query('ROLLBACK');
    }
    await client.query('RESET ROLE');
    await client.query(`DROP TABLE "it's ""hers""/"`);
    assert.deepEqual(
      (await client.query('select distinct relation::oid::int as oid from headgate.traffic_minute')).rows,
      [{ oid: ours.oid }],
    );
  });

  test('the traffic totals of all tables agree with their rows, for a superuser, an owner and a reader', async (t) => {
    const client = await connect(t, server);
    const [hers, ours] = [await makeTable(client, 'her_sum'), await makeTable(client, 'our_sum')];
    await client.query(`CREATE ROLE sums_owner; CREATE ROLE sums_member; CREATE ROLE sums_reader; GRANT sums_owner TO sums_member;
      ALTER TABLE her_sum OWNER TO sums_owner; GRANT SELECT ON her_sum TO sums_reader;
      UPDATE headgate.webhook_table SET options = options || '{"readers":"sums_reader"}' WHERE relation = 'her_sum'::regclass`);
    await client.query('DELETE FROM headgate.traffic_total');
    const { rejects } = openRejects(t, server);
    rejects.serve('postgres');
    for (let i = 0; i < 7; i++) answer(rejects, hers, i < 5 ? 'committed' : 'signature_failed');
    answer(rejects, hers, 'spooled', 30_000);
    answer(rejects, ours, 'committed');
    await rejects.close();
    const figures = `sum(stored)::int AS stored, sum(unauthorized)::int AS unauthorized, sum(spooled)::int AS spooled, sum(took[1])::int AS fast,
      sum(took[14])::int AS slow`;
    const as = async (role: string, of: string): Promise<unknown> => {
      await client.query(`SET ROLE ${role}`);
      const { rows } = await client.query(of);
      await client.query('RESET ROLE');
      return rows;
    };
    const totals = `SELECT per, ${figures} FROM headgate.traffic_totals GROUP BY per ORDER BY per`;
    const all = { stored: 7, unauthorized: 2, spooled: 1, fast: 8, slow: 1 };
    const her = { ...all, stored: 6, fast: 7 };
    const both = (of: typeof all) => ['hour', 'minute'].map((per) => ({ per, ...of }));
    assert.deepEqual(await as('root', totals), both(all));
    for (const role of ['sums_owner', 'sums_member', 'sums_reader']) {
      assert.deepEqual(await as(role, totals), both(her), role);
      // As the rows of each table say.
      for (const [per, view] of [
        ['hour', 'traffic_hours'],
        ['minute', 'traffic'],
      ])
        assert.deepEqual(await as(role, `SELECT '${per}' AS per, ${figures} FROM headgate.${view}`), [
          { per, ...her },
        ]);
    }
    await client.query(`REVOKE SELECT ON her_sum FROM sums_reader`);
    assert.deepEqual(await as('sums_reader', totals), []);
    await assert.rejects(as('sums_reader', 'SELECT FROM headgate.traffic_total'), { code: '42501' });
    await client.query('RESET ROLE');
    // What has come stays counted when its table is gone.
    await client.query('DROP TABLE her_sum');
    for (const role of ['root', 'sums_owner'])
      assert.deepEqual(await as(role, totals), both(role === 'root' ? all : her));
    // They are the role's, whatever it is called, and not those of another one that has its name later.
    await client.query('ALTER ROLE sums_owner RENAME TO sums_renamed; CREATE ROLE sums_owner');
    assert.deepEqual(await as('sums_renamed', totals), both(her));
    assert.deepEqual(await as('sums_owner', totals), []);
    const theirs = await makeTable(client, 'their_sum');
    await client.query('ALTER TABLE their_sum OWNER TO sums_owner');
    const third = openRejects(t, server).rejects;
    third.serve('postgres');
    answer(third, theirs, 'committed');
    await third.close();
    const lone = { stored: 1, unauthorized: 0, spooled: 0, fast: 1, slow: 0 };
    assert.deepEqual(await as('sums_owner', totals), both(lone));
    assert.deepEqual(await as('sums_renamed', totals), both(her));
    // In a copy on another server roles have other oids: names tell them.
    await client.query(
      'UPDATE headgate.traffic_total SET owner_oid = (owner_oid::bigint + 1000000)::oid WHERE owner_oid <> 0',
    );
    assert.deepEqual(await as('sums_owner', totals), []);
    await client.query('CALL headgate.place_totals()');
    assert.deepEqual(await as('sums_owner', totals), both(lone));
    assert.deepEqual(await as('sums_renamed', totals), []);
    // After a day, and after 31, their places are taken.
    await client.query(`DELETE FROM headgate.traffic_total o USING headgate.traffic_total t WHERE t.owner_oid = o.owner_oid AND t.per = o.per AND t.at > o.at;
      UPDATE headgate.traffic_total SET at = at - CASE per WHEN 'minute' THEN interval '1 day' ELSE interval '31 days' END;
      UPDATE headgate.traffic_total SET slot = extract(epoch FROM now())::bigint / 60 % 1440 WHERE per = 'minute';
      UPDATE headgate.traffic_total SET slot = extract(epoch FROM now())::bigint / 3600 % 744 WHERE per = 'hour'`);
    assert.deepEqual(await as('root', totals), []);
    const again = openRejects(t, server).rejects;
    again.serve('postgres');
    answer(again, ours, 'committed');
    await again.close();
    assert.deepEqual(await as('root', totals), both(lone));
  });

  test('traffic counts by minute are overwritten after a day, and the time of the last request stays known', async (t) => {
    const client = await connect(t, server);
    const target = await makeTable(client, 't');
    const count = async (): Promise<void> => {
      const { rejects } = openRejects(t, server);
      rejects.serve('postgres');
      answer(rejects, target, 'committed');
      await rejects.close();
    };
    await count();
    await client.query(
      `UPDATE headgate.traffic_minute SET minute = minute - interval '1 day', last_at = last_at - interval '1 day';
       UPDATE headgate.traffic_since SET last_at = last_at - interval '1 day'`,
    );
    const read = async (): Promise<unknown> =>
      (
        await client.query(
          `select stored::int, last_at > now() - interval '1 hour' as fresh, last_at is null as never from headgate.endpoints where table_name = 't'`,
        )
      ).rows;
    assert.deepEqual(await read(), [{ stored: 0, fresh: false, never: false }]);
    await client.query(
      `UPDATE headgate.traffic_minute SET slot = (extract(epoch from now())::bigint / 60) % 1440`,
    );
    await count();
    assert.deepEqual(await read(), [{ stored: 1, fresh: true, never: false }]);
  });

  test("the console's quantile of durations equals PostgreSQL's", async (t) => {
    const client = await connect(t, server);
    const some = Array.from({ length: 200 }, (_, n) =>
      Array.from({ length: 14 }, (_, i) => ((n * 31 + i * 17) % 7 < 4 ? 0 : (n * 7 + i * i) % 23)),
    );
    for (const took of [[], Array.from({ length: 14 }, () => 0), ...some])
      for (const part of [0.5, 0.99]) {
        const { rows } = await client.query('select headgate.quantile($1, $2) as ms', [took, part]);
        assert.deepEqual(rows, [{ ms: quantileMs(took, part) }], JSON.stringify(took));
      }
  });

  test('traffic counts by hour stay for 30 days, are overwritten after 31, and count spooled requests as stored', async (t) => {
    const client = await connect(t, server);
    const target = await makeTable(client, 'h');
    const count = async (code: 'committed' | 'spooled'): Promise<void> => {
      const { rejects } = openRejects(t, server);
      rejects.serve('postgres');
      answer(rejects, target, code);
      await rejects.close();
    };
    await count('committed');
    await count('spooled');
    const read = async (): Promise<unknown> =>
      (
        await client.query(
          `select sum(stored)::int as stored, sum(spooled)::int as spooled, count(*)::int as hours, (select sum(spooled)::int from headgate.traffic where table_name = 'h') as minutes
           from headgate.traffic_hours where table_name = 'h' and hour > now() - interval '30 days'`,
        )
      ).rows[0];
    assert.deepEqual(await read(), { stored: 2, spooled: 1, hours: 1, minutes: 1 });
    const move = (days: number) =>
      client.query(
        `UPDATE headgate.traffic_hour SET hour = hour - $1::int * interval '1 day', slot = (extract(epoch FROM hour)::bigint / 3600 - $1::int * 24) % 744 WHERE relation = 'h'::regclass`,
        [days],
      );
    await move(29);
    await count('spooled');
    assert.deepEqual(await read(), { stored: 3, spooled: 2, hours: 2, minutes: 2 });
    await client.query(
      `DELETE FROM headgate.traffic_hour WHERE relation = 'h'::regclass AND hour > now() - interval '1 day'`,
    );
    // The first is 31 days old now, and has the place of the present hour.
    await move(2);
    await count('committed');
    assert.deepEqual(await read(), { stored: 1, spooled: 0, hours: 1, minutes: 2 });
  });
}

for (const [version, bin] of someVersion())
  suite(`requests are counted by minute on PostgreSQL ${version}`, () => trafficOn(bin));
