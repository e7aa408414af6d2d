/** Commands that look at all tables there are, as a superuser, in a database in which a role has a table with code of its own. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { clientOf } from '../../test/support/owners.ts';
import { Door } from '../../test/support/ddl-door.ts';
import { onEnd } from '../../test/support/cleanup.ts';
import { startServer } from '../../test/support/server.ts';
import { migrate, readMigrations } from '../catalog/migrate.ts';
import type { CommandIo } from '../kit/terminal.ts';
import { endpointsCommand } from './endpoints.ts';
import { Following, unreadText } from './follow-rows.ts';
import { connect } from './session.ts';

test('a headgate command without a table name runs no code of other owners and names the omitted tables', async (t) => {
  const server = await startServer();
  onEnd(t, 'server', () => server.close());
  const root = new Door(server.socketDir, 'root');
  onEnd(t, 'root', () => root.client.end());
  await root.client.connect();
  await migrate(root.client, readMigrations());
  const columns = '(data JSONB, done_at timestamptz, attempts int, run_after timestamptz, last_error text)';
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
  const io = {
    print: (text: string) => void printed.push(text),
    note: () => undefined,
  } as unknown as CommandIo;
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
  const rows = async (names: readonly string[]) => {
    const following = new Following(names, async () => undefined);
    following.resume(JSON.stringify({ since: '3', places: [] }));
    const { tables, unread } = await following.begin(session);
    const found: string[] = [];
    for await (const { table, request } of following.look(session))
      found.push(`${table.schema} ${(JSON.parse(request.body.toString()) as { data: number }).data}`);
    return { tables: tables.map(({ schema }) => schema), said: unreadText(unread), found };
  };
  assert.deepEqual(await rows([]), {
    tables: ['public'],
    said: 'not read unless named, because that runs code of their owners: mal.jobs\n',
    found: ['public 1'],
  });
  assert.deepEqual(await ran(), []);
  // Whoever names a table trusts its owner.
  assert.deepEqual((await rows(['mal.jobs'])).found, ['mal 2']);
  assert.deepEqual(await ran(), [{ who: 'root' }]);
});
