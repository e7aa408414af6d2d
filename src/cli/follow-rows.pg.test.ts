import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { testDatabase } from '../../test/support/postgres.ts';
import { runOurs } from '../../test/support/webhook-tables.ts';
import { onEnd } from '../../test/support/cleanup.ts';
import { Following } from './follow-rows.ts';
import { connect } from './session.ts';
import type { CommandSession } from './session.ts';

/** A developer who follows, with what was saved last. */
class Follower {
  saved = '';
  readonly got: string[] = [];
  following: Following;
  readonly session: CommandSession;

  constructor(session: CommandSession, names: readonly string[]) {
    this.session = session;
    this.following = this.#made(names);
  }

  #made(names: readonly string[]): Following {
    return new Following(names, names.length > 0, async (state) => void (this.saved = state));
  }

  /** As after a restart of the command; `state` null: without a file. */
  async restart(names: readonly string[], state: string | null = this.saved): Promise<boolean> {
    this.following = this.#made(names);
    if (state !== null && state !== '') assert.equal(this.following.resume(state), true);
    return (await this.following.begin(this.session)).isAnother;
  }

  /** What is new, of at most so many rows; the one behind them is cut off while it is being sent. */
  async look(max = Infinity): Promise<string[]> {
    const rows: string[] = [];
    for await (const { table, request } of this.following.look(this.session)) {
      if (rows.length === max) break;
      rows.push(`${table.table} ${request.body.toString()}`);
    }
    this.got.push(...rows);
    return rows;
  }
}

async function stage(t: TestContext, names: readonly string[] = []) {
  const database = await testDatabase(t, { catalog: true });
  const client = await database.connect();
  await runOurs(client, "CREATE TABLE t (data JSONB) WITH (connector = 'webhook')");
  const session = await connect(database.connectionString, 'test');
  onEnd(t, 'session', () => session.close());
  const follower = new Follower(session, names);
  await follower.restart(names, null);
  return { client, follower, database };
}

test(
  'followed rows of a table arrive once and in order, and an interrupted page is read again',
  { timeout: 60_000 },
  async (t) => {
    const { client, follower } = await stage(t);
    assert.deepEqual(await follower.look(), []);
    await client.query(`INSERT INTO t SELECT jsonb_build_object('n', i) FROM generate_series(1, 5) i`);
    const row = (n: number) => `t {"n": ${n}}`;
    assert.deepEqual(await follower.look(2), [row(1), row(2)]);
    await follower.restart([]);
    assert.deepEqual(await follower.look(), [row(3), row(4), row(5)]);
    assert.deepEqual(await follower.look(), []);
    // Its rows lie elsewhere then.
    await client.query(`INSERT INTO t VALUES ('{"n": 6}')`);
    await client.query('VACUUM FULL t');
    assert.deepEqual(await follower.look(), [row(6)]);
    await client.query(`INSERT INTO t VALUES ('{"n": 7}'); TRUNCATE t; INSERT INTO t VALUES ('{"n": 8}')`);
    assert.deepEqual(await follower.look(), [row(8)]);
  },
);

test(
  'followed rows include reused space, late transactions, partitions and new tables',
  { timeout: 120_000 },
  async (t) => {
    const { client, follower, database } = await stage(t);
    // More than the end of the file that is looked at often, and most of it free again.
    await client.query(`ALTER TABLE t SET (autovacuum_enabled = off);
    INSERT INTO t SELECT jsonb_build_object('old', i, 'filler', repeat('x', 1500)) FROM generate_series(1, 6000) i;
    ALTER TABLE t ALTER data SET STORAGE PLAIN`);
    assert.equal((await follower.look()).length, 6_000);
    await client.query('DELETE FROM t WHERE (data->>$$old$$)::int % 2 = 0');
    await client.query('VACUUM (TRUNCATE off) t');
    const late = await database.connect();
    await late.query(`BEGIN; INSERT INTO t VALUES ('{"n": 0}')`);
    await client.query(
      `INSERT INTO t SELECT jsonb_build_object('n', i, 'filler', repeat('y', 1500)) FROM generate_series(1, 2000) i`,
    );
    assert.deepEqual(await follower.look(), [], 'a transaction that is open holds up what is behind it');
    await late.query('COMMIT');
    const seen = new Set<string>();
    while (seen.size < 2_001)
      for (const row of await follower.look()) {
        const n = /"n": (\d+)/.exec(row)?.[1] ?? '';
        assert.ok(!seen.has(n), `${n} twice`);
        seen.add(n);
      }

    await runOurs(client, "CREATE TABLE made (data JSONB) WITH (connector = 'webhook')");
    await client.query(`INSERT INTO made VALUES ('{"n": 1}')`);
    await runOurs(
      client,
      "CREATE TABLE parted (data JSONB) PARTITION BY LIST ((data->>'day')) WITH (connector = 'webhook')",
    );
    await client.query(`CREATE TABLE p1 PARTITION OF parted FOR VALUES IN ('1');
    INSERT INTO parted VALUES ('{"day": 1}')`);
    assert.deepEqual((await follower.look()).toSorted(), ['made {"n": 1}', 'parted {"day": 1}']);
    await client.query(`CREATE TABLE p2 PARTITION OF parted FOR VALUES IN ('2');
    INSERT INTO parted VALUES ('{"day": 2}'), ('{"day": 1, "n": 2}')`);
    assert.deepEqual((await follower.look()).toSorted(), ['parted {"day": 2}', 'parted {"n": 2, "day": 1}']);
    await client.query('DROP TABLE made');
    assert.deepEqual(await follower.look(), []);
  },
);

test(
  'a followed request of 24 MiB has the method, query, headers and body stored by INCLUDE',
  { timeout: 60_000 },
  async (t) => {
    const { client, follower } = await stage(t);
    await runOurs(
      client,
      `CREATE TABLE whole (data JSONB) INCLUDE BODY AS raw INCLUDE METHOD AS method INCLUDE QUERY AS query
      INCLUDE HEADERS AS headers INCLUDE HEADER 'x-signature' AS signature WITH (connector = 'webhook')`,
    );
    const body = `{"a":  1.0, "b": "${'x'.repeat(24 * 1024 * 1024)}"}`;
    await client.query(
      `INSERT INTO whole (data, raw, method, query, headers, signature) VALUES ('{}', $1, 'PUT', 'a=1&b=%20', '{"x-kind": "push", "host": "elsewhere"}', 'sha256=1')`,
      [Buffer.from(body)],
    );
    const requests = [];
    for await (const { request } of follower.following.look(follower.session)) requests.push(request);
    const [request, ...others] = requests;
    assert.equal(others.length, 0);
    assert.deepEqual(
      { ...request, body: request?.body.toString() === body },
      {
        method: 'PUT',
        query: 'a=1&b=%20',
        headers: { 'x-kind': 'push', 'x-signature': 'sha256=1' },
        body: true,
        hasBody: true,
        hasHeaders: true,
      },
    );
  },
);

test(
  'a saved position of another database is recognised, and a malformed one is refused',
  { timeout: 60_000 },
  async (t) => {
    const { follower } = await stage(t);
    assert.equal(await follower.restart([]), false);
    assert.equal(await follower.restart([], '{"since":"9000000000000","places":[]}'), true);
    assert.equal(await follower.restart([], '{"since":"1","places":["1.2-9000000000000"]}'), true);
    for (const odd of [
      '',
      '{}',
      '[]',
      '{"since":1,"places":[]}',
      '{"since":"1","places":["x"]}',
      '{"since":"1","places":[null]}',
    ])
      assert.equal(new Following([], false, async () => {}).resume(odd), false, odd);
  },
);
