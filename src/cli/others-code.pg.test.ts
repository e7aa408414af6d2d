/** Commands that look at all tables there are, as a superuser, in a database in which a role has a table with code of its own. */
import assert from 'node:assert/strict';
import { Writable } from 'node:stream';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { clientOf } from '../../test/support/owners.ts';
import { Door } from '../../test/support/ddl-door.ts';
import { onEnd } from '../../test/support/cleanup.ts';
import { startServer } from '../../test/support/server.ts';
import { migrate, readMigrations } from '../catalog/migrate.ts';
import type { CommandIo } from '../kit/terminal.ts';
import { deliverCommand } from './deliver.ts';
import { endpointsCommand } from './endpoints.ts';
import { exportCommand } from './export.ts';
import { Following, unreadText } from './follow-rows.ts';
import { inferCommand } from './infer.ts';
import { listenCommand } from './listen.ts';
import { replayCommand } from './replay.ts';
import { connect } from './session.ts';

const omitted =
  'not read, because that runs code of their owners: mal.jobs: log in as the owner (--dsn), or give --trust-owner if you trust that role\n';
const columns = '(data JSONB, done_at timestamptz, attempts int, run_after timestamptz, last_error text)';

/** A server with root's table `jobs` and mallory's `mal.jobs`, whose planning runs code of hers that notes as which role, in `mal.seen`. */
async function stage(t: TestContext) {
  const server = await startServer();
  onEnd(t, 'server', () => server.close());
  const root = new Door(server.socketDir, 'root');
  onEnd(t, 'root', () => root.client.end());
  await root.client.connect();
  await migrate(root.client, readMigrations());
  await root.run('CREATE ROLE mallory LOGIN; CREATE SCHEMA mal AUTHORIZATION mallory');
  await root.run(`CREATE TABLE jobs ${columns} WITH (connector = 'webhook')`);
  const mallory = new Door(server.socketDir, 'mallory');
  onEnd(t, 'mallory', () => mallory.client.end());
  await mallory.client.connect();
  await mallory.run(`CREATE TABLE mal.seen (who name); GRANT USAGE ON SCHEMA mal TO PUBLIC; GRANT INSERT ON mal.seen TO PUBLIC;
    CREATE FUNCTION mal.evil() RETURNS int LANGUAGE sql AS 'INSERT INTO mal.seen VALUES (current_user) RETURNING 1';
    CREATE FUNCTION mal.pure(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN (SELECT mal.evil()); END'`);
  await mallory.run(`CREATE TABLE mal.jobs ${columns} WITH (connector = 'webhook')`);
  await mallory.run('CREATE STATISTICS mal.planned ON (mal.pure(1)) FROM mal.jobs');
  await root.run(`INSERT INTO jobs VALUES ('1'); INSERT INTO mal.jobs VALUES ('2')`);
  const seen = await clientOf(t, { host: server.socketDir, user: 'root', database: 'postgres' });
  const ran = async () => (await seen.query('SELECT DISTINCT who FROM mal.seen')).rows;
  await root.run('TRUNCATE mal.seen');
  const dsn = `postgresql://root@/postgres?host=${encodeURIComponent(server.socketDir)}`;
  const printed: string[] = [];
  const noted: string[] = [];
  const io = {
    print: (text: string) => void printed.push(text),
    note: (text: string) => void noted.push(text),
    read: async () => Buffer.from('whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz'),
    signal: new AbortController().signal,
    elapsed: () => performance.now(),
  } as unknown as CommandIo;
  return { root, mallory, dsn, printed, noted, io, ran };
}

test('a headgate command without a table name runs no code of other owners and names the omitted tables', async (t) => {
  const { dsn, printed, io, ran } = await stage(t);
  assert.equal(
    await endpointsCommand(
      { dsn, url: 'http://x' } as Parameters<typeof endpointsCommand>[0],
      'one',
      true,
      io,
    ),
    0,
  );
  const told = printed
    .join('')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  assert.deepEqual(
    told.map(({ schema, open }) => [schema, open]),
    [
      ['mal', undefined],
      ['public', 1],
    ],
  );
  assert.deepEqual(await ran(), []);

  const session = await connect(dsn, 'test');
  onEnd(t, 'session', () => session.close());
  const rows = async (names: readonly string[], trustsAll = false) => {
    const following = new Following(names, trustsAll, async () => undefined);
    following.resume(JSON.stringify({ since: '3', places: [] }));
    const { tables, unread } = await following.begin(session);
    const found: string[] = [];
    for await (const { table, request } of following.look(session))
      found.push(`${table.schema} ${(JSON.parse(request.body.toString()) as { data: number }).data}`);
    return { tables: tables.map(({ schema }) => schema), said: unreadText(unread), found };
  };
  assert.deepEqual(await rows([]), {
    tables: ['public'],
    said: omitted,
    found: ['public 1'],
  });
  const named = await rows(['mal.jobs']);
  assert.deepEqual([named.found, named.said], [[], omitted]);
  assert.deepEqual(await ran(), []);
  assert.deepEqual((await rows(['mal.jobs'], true)).found, ['mal 2']);
  assert.deepEqual(await ran(), [{ who: 'root' }]);
});

test('a headgate command with a table name runs no code of other owners without --trust-owner', async (t) => {
  const { root, mallory, dsn, printed, noted, io, ran } = await stage(t);
  await mallory.run(`CREATE VIEW mal.v AS SELECT '{"a": 1}'::jsonb AS data WHERE mal.evil() = 1;
    CREATE FUNCTION mal.differs(int, int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN mal.evil() = 1; END';
    CREATE OPERATOR mal.<<>> (LEFTARG = int, RIGHTARG = int, FUNCTION = mal.differs)`);
  await root.run(`CREATE VIEW over_table AS SELECT data FROM mal.jobs; CREATE VIEW over_view AS SELECT * FROM over_table;
    CREATE VIEW calling AS SELECT '{"a": 1}'::jsonb AS data WHERE mal.pure(1) = 1; CREATE VIEW comparing AS SELECT '{"a": 1}'::jsonb AS data WHERE 1 OPERATOR(mal.<<>>) 2;
    CREATE TABLE parted (data jsonb) PARTITION BY HASH ((data ->> 'a')); CREATE TABLE part PARTITION OF parted FOR VALUES WITH (MODULUS 1, REMAINDER 0);
    CREATE STATISTICS mal.of_part ON (mal.pure(1)) FROM part; ALTER TABLE part OWNER TO mallory;
    CREATE VIEW own AS SELECT data FROM jobs; TRUNCATE mal.seen`);
  const where = { dsn, url: 'http://127.0.0.1:9' } as Parameters<typeof endpointsCommand>[0];
  const to = new Writable({ write: (_, __, done) => done() });
  const exported = (name: string, trusted = {}) =>
    exportCommand(where, name, { format: 'csv', ...trusted }, to, io);
  const inferred = (table: string, trusted = {}) =>
    inferCommand(async () => where, undefined, { table, column: 'data', ...trusted }, io);
  const because = (name: string, what: string) => ({
    message: `${name}: reading it runs code of the role mallory (${what}) with the rights of root: log in as mallory (--dsn), or give --trust-owner if you trust that role`,
  });
  for (const [name, what] of [
    ['mal.v', 'view mal.v'],
    ['mal.jobs', 'table mal.jobs'],
    ['over_table', 'table mal.jobs'],
    ['over_view', 'table mal.jobs'],
    ['calling', 'function mal.pure(integer)'],
    ['comparing', 'operator mal.<<>>(integer,integer)'],
    ['parted', 'table public.part'],
  ] as const)
    for (const read of [exported, inferred]) await assert.rejects(read(name), because(name, what));
  const there = { to: 'http://127.0.0.1:9' };
  await assert.rejects(replayCommand(where, 'mal.jobs', there, io), because('mal.jobs', 'table mal.jobs'));
  await assert.rejects(listenCommand(where, ['mal.jobs'], { forwardTo: there.to }, io), {
    message: omitted.trim(),
  });
  const receiver = { to: 'http://127.0.0.1:9', secretFile: '-' };
  const network = { deliver: null, deliverHosts: ['127.0.0.1:9'], deliverNetworks: '127.0.0.0/8' };
  await assert.rejects(
    deliverCommand(where, 'mal.jobs', receiver, network, io),
    because('mal.jobs', 'table mal.jobs'),
  );
  assert.deepEqual(await ran(), []);

  for (const name of ['own', 'jobs']) assert.equal(await exported(name), 0);
  // Now its code runs.
  await assert.rejects(
    exported('mal.v', { trustOwner: true }),
    /cannot execute INSERT in a read-only transaction/,
  );

  assert.deepEqual([printed, noted.filter((text) => !/rows; position|^waiting/.test(text))], [[], []]);
  // As in psql, the schema of the role's name comes first; the command says so.
  await root.run('CREATE SCHEMA root; CREATE TABLE root.jobs (data jsonb)');
  assert.equal(await exported('jobs'), 0);
  assert.match(noted.splice(-2).join(''), /^several schemas have jobs: this is that of root\n0 rows; /);
  assert.equal(await exported('public.jobs'), 0);
  assert.match(noted.at(-1) ?? '', /^1 rows; /);
});
