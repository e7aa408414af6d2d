/**
 * What the stand-in enforces, each in RisingWave's words. On a server of HEADGATE_RISINGWAVE_DSN the same is asked of it: then this is the
 * list of what is believed of RisingWave, compared with RisingWave.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { suite, test } from 'node:test';
import { Client } from 'pg';
import type { DatabaseError } from 'pg';
import { openPostgresEngine } from '../../src/engine/postgres.ts';
import { int16, int32, message, zeroEnded } from '../../src/kit/postgres-message.ts';
import { openRisingWave } from './support.ts';

/** SQL, and what the error has to say. */
const refused: readonly (readonly [string, RegExp])[] = [
  ['LISTEN x', /sql parser error: expected statement, found: LISTEN/],
  ['NOTIFY x', /sql parser error: expected statement, found: NOTIFY/],
  ['SAVEPOINT x', /sql parser error: expected statement, found: SAVEPOINT/],
  ['RELEASE x', /sql parser error: expected statement, found: RELEASE/],
  ['ROLLBACK TO x', /sql parser error: expected end of statement, found: TO/],
  ['ROLLBACK TO SAVEPOINT x', /sql parser error: expected end of statement, found: TO/],
  ['COMMIT AND CHAIN', /not yet implemented: COMMIT AND CHAIN/],
  ['CALL f()', /sql parser error: expected statement, found: CALL/],
  ['DO $$ BEGIN END $$', /sql parser error/],
  ['LOCK TABLE t', /sql parser error: expected statement, found: LOCK/],
  [
    'INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING',
    /sql parser error: expected end of statement, found: ON/,
  ],
  ['INSERT INTO t VALUES (DEFAULT)', /sql parser error/],
  ['COPY t FROM STDIN', /sql parser error/],
  ['SELECT', /sql parser error/],
  ['CREATE TEMP TABLE x (a INT)', /not yet implemented/],
  ['CREATE OR REPLACE VIEW x AS SELECT 1', /not yet implemented: CREATE OR REPLACE VIEW/],
  ['CREATE UNIQUE INDEX x ON t (a)', /create unique index/i],
  ['SELECT pg_advisory_lock(1)', /pg_advisory_lock/],
  ['SELECT nonsense', /Failed to run the query\n\nCaused by/],
];

suite('RisingWave behaves as Headgate relies on', () => {
  test('RisingWave refuses statements it does not have', async (t) => {
    const { client, table } = await openRisingWave(t);
    const name = table();
    await client.query(`CREATE TABLE ${name} (a INT)`);
    for (const [sql, words] of refused) {
      await assert.rejects(client.query(sql.replace(/\bt\b/, name)), (error: DatabaseError) => {
        assert.match(error.message, words, sql);
        const { severity, position, detail, hint } = error;
        assert.deepEqual([severity, position, detail, hint], ['ERROR', undefined, undefined, undefined], sql);
        return true;
      });
    }
  });

  test("RisingWave's transactions have no effect", async (t) => {
    const { client, table } = await openRisingWave(t);
    const name = table();
    await client.query(`CREATE TABLE ${name} (a INT)`);
    const notices: string[] = [];
    client.on('notice', (notice) => notices.push(notice.message ?? ''));
    await client.query('BEGIN');
    await client.query(`INSERT INTO ${name} VALUES (1)`);
    await assert.rejects(client.query(`INSERT INTO ${name} VALUES ('x')`));
    // No "current transaction is aborted".
    await client.query(`INSERT INTO ${name} VALUES (2)`);
    await client.query('ROLLBACK');
    await client.query('FLUSH');
    const { rows } = await client.query(`SELECT count(*)::int AS n FROM ${name}`);
    assert.deepEqual(rows, [{ n: 2 }]);
    assert.match(notices[0] ?? '', /Read-write transaction is not supported yet/);
    await client.query(`INSERT INTO ${name} VALUES (3); FLUSH; INSERT INTO ${name} VALUES (4)`);
    await assert.rejects(client.query(`INSERT INTO ${name} VALUES (5); SELECT nonsense`));
    await client.query('FLUSH');
    assert.deepEqual((await client.query(`SELECT count(*)::int AS n FROM ${name}`)).rows, [{ n: 5 }]);
    // What cannot be parsed keeps all of its text from being run.
    await assert.rejects(client.query(`INSERT INTO ${name} VALUES (6); LISTEN x`));
    await client.query('FLUSH');
    assert.deepEqual((await client.query(`SELECT count(*)::int AS n FROM ${name}`)).rows, [{ n: 5 }]);
  });

  test("RisingWave's extended protocol accepts one statement a Parse, and text parameters", async (t) => {
    const { client, table } = await openRisingWave(t);
    const name = table();
    await client.query(`CREATE TABLE ${name} (a INT, b VARCHAR[])`);
    await client.query(`INSERT INTO ${name} VALUES ($1, $2)`, [1, '{x,"y,z"}']);
    await client.query('FLUSH');
    assert.deepEqual((await client.query(`SELECT a, b FROM ${name} WHERE a = $1`, [1])).rows, [
      { a: 1, b: ['x', 'y,z'] },
    ]);
    await assert.rejects(
      client.query('SELECT $1::int; SELECT 2', [1]),
      /Only one statement is allowed in extended query mode/,
    );
    await client.query({ name: 'one', text: 'SELECT $1::int AS a', values: [1] });
    const again = client.query({ name: 'one', text: 'SELECT $1::int AS a', values: [2] });
    assert.deepEqual((await again).rows, [{ a: 2 }]);
  });

  test('RisingWave reports PostgreSQL 13, and itself in version() only', async (t) => {
    const { client, dsn } = await openRisingWave(t);
    const { rows } = await client.query<{ version: string }>('SELECT version()');
    assert.match(rows[0]?.version ?? '', /^PostgreSQL 13\.14\.0-RisingWave-/);
    assert.deepEqual((await client.query("SELECT current_setting('server_version_num') AS n")).rows, [
      { n: '130014' },
    ]);
    const engine = await openPostgresEngine({ databaseUrl: dsn, observe: () => undefined });
    t.after(() => engine.close());
    const why = /^the server is a RisingWave, which only headgate gateway can serve/;
    assert.match(engine.unavailable ?? '', why);
  });

  test('RisingWave ends a connection on protocols other than 3.0, COPY data and over 32,767 parameters', async (t) => {
    const { dsn } = await openRisingWave(t);
    const { host, port, user, database } = new Client(dsn);
    const words = ['user', user ?? 'root', 'database', database ?? 'dev'].map(zeroEnded);
    const opening = (version: number): Buffer => {
      const body = Buffer.concat([int32(version), ...words, Buffer.of(0)]);
      return Buffer.concat([int32(body.length + 4), body]);
    };
    const three = opening(196_608);
    const many = Buffer.concat([
      message('P', zeroEnded(''), zeroEnded('SELECT 1'), int16(0)),
      message(
        'B',
        zeroEnded(''),
        zeroEnded(''),
        int16(0),
        int16(40_000),
        ...Array.from({ length: 40_000 }, () => int32(-1)),
        int16(0),
      ),
      message('S'),
    ]);
    for (const bytes of [
      opening(196_610),
      Buffer.concat([three, message('d', Buffer.from('1\n'))]),
      Buffer.concat([three, many]),
    ]) {
      const socket = connect(port, host);
      socket.on('error', () => undefined);
      socket.resume();
      socket.write(bytes);
      await once(socket, 'close');
    }
  });

  test("RisingWave resolves key conflicts by the table's ON CONFLICT", async (t) => {
    const { client, table } = await openRisingWave(t);
    const [overwrites, ignores] = [table(), table()];
    await client.query(`CREATE TABLE ${overwrites} (id INT PRIMARY KEY, v VARCHAR)`);
    await client.query(
      `CREATE TABLE ${ignores} (id INT, v VARCHAR, PRIMARY KEY (id)) ON CONFLICT DO NOTHING`,
    );
    for (const [name, kept] of [
      [overwrites, 'b'],
      [ignores, 'a'],
    ] as const) {
      await client.query(`INSERT INTO ${name} VALUES (1, 'a'), (1, 'b')`);
      await client.query('FLUSH');
      assert.deepEqual((await client.query(`SELECT v FROM ${name}`)).rows, [{ v: kept }]);
    }
  });

  test("RisingWave's rw_catalog lists tables and columns as declared", async (t) => {
    const { client, table } = await openRisingWave(t);
    const name = table();
    await client.query(
      `CREATE TABLE ${name} (id INT, s STRUCT<a INT, b STRUCT<c VARCHAR>>[], m MAP(VARCHAR, BIGINT), n RW_INT256, d INT[][])`,
    );
    const { rows } = await client.query<Record<string, unknown>>(
      `SELECT c.name, c.data_type, c.is_hidden, r.definition FROM rw_catalog.rw_columns c JOIN rw_catalog.rw_relations r ON r.id = c.relation_id
       WHERE r.name = '${name}' ORDER BY c.position`,
    );
    assert.deepEqual(
      rows.filter((it) => it['is_hidden'] === false).map((it) => it['data_type']),
      [
        'integer',
        'struct<a integer, b struct<c character varying>>[]',
        'map(character varying,bigint)',
        'rw_int256',
        'integer[][]',
      ],
    );
    assert.deepEqual(
      rows.filter((it) => it['is_hidden'] === true).map((it) => it['name']),
      ['_row_id'],
    );
    assert.match(String(rows[0]?.['definition']), new RegExp(`CREATE TABLE ${name} `, 'i'));
  });
});
