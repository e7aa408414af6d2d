/** Every upgrade path leads to the same catalog, and blocks nobody without need. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { suite, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { describeCatalog } from '../../test/support/catalog-described.ts';
import { onEnd } from '../../test/support/cleanup.ts';
import { makeOldCatalog, oldVersions } from '../../test/support/old-catalog.ts';
import { testDatabase } from '../../test/support/postgres.ts';
import { migrate, readMigrations } from './migrate.ts';
import { catalogVersion } from './rights.ts';

suite('migrations lead to the current catalog', () => {
  test('a migrated old catalog equals that of a new installation, and an unreleased catalog version is refused', async (t) => {
    const client = await (await testDatabase(t)).connect();
    const migrations = readMigrations();
    assert.deepEqual(await migrate(client, migrations), { from: 0, to: migrations.version });
    const fresh = await describeCatalog(client);
    assert(fresh.length > 400);
    for (const old of oldVersions) {
      await client.query('set client_min_messages = error; drop schema headgate cascade');
      await makeOldCatalog(client, old);
      // What a table of that time holds stays.
      await client.query(`insert into headgate.secret (schema_name, name, backend, seal_id, sealed)
        values ('public', 'kept', 'meta', gen_random_uuid(), 'x')`);
      assert.deepEqual(await migrate(client, migrations), { from: old, to: migrations.version });
      assert.equal(await catalogVersion(client), migrations.version);
      assert.deepEqual(await describeCatalog(client), fresh);
      const { rows } = await client.query('select name, owner::text from headgate.secret');
      assert.equal(rows.length, 1);
    }
    for (const other of [26, 28, 91, 117]) {
      await client.query(
        `truncate headgate.migration; insert into headgate.migration (version) values (${other})`,
      );
      await assert.rejects(
        migrate(client, migrations),
        new RegExp(
          `^CatalogError: the catalog in schema headgate is of version ${other}; this Headgate brings versions 27, 118, .* up to date, and no other$`,
        ),
      );
    }
  });

  test("PostgreSQL's validators accept the body of every catalog function", async (t) => {
    const client = await (await testDatabase(t)).connect();
    await migrate(client, readMigrations());
    await client.query(`set search_path = pg_catalog, pg_temp; set check_function_bodies = on`);
    await client.query(`
      select case l.lanname when 'sql' then fmgr_sql_validator(p.oid) when 'plpgsql' then plpgsql_validator(p.oid) end
      from pg_proc p join pg_language l on l.oid = p.prolang where p.pronamespace = 'headgate'::regnamespace`);
  });

  // Databases of this number are never looked at again.
  test('a changed catalog function or view needs a new catalog number (HEADGATE_GOLDEN=write records it)', async () => {
    const { version, calledByTables, functions, views } = readMigrations();
    const lines = [calledByTables, functions, ...views.map(({ sql }) => sql)].join('\n').split('\n');
    const said = lines.map((line) => line.trim()).filter((line) => line !== '' && !line.startsWith('--'));
    const now = { version, digest: createHash('sha256').update(said.join('\n')).digest('hex') };
    const file = fileURLToPath(new URL('../../../test/support/golden/catalog.json', import.meta.url));
    const before = JSON.parse(await readFile(file, 'utf8')) as typeof now;
    if (process.env['HEADGATE_GOLDEN'] === 'write' && version > before.version)
      return writeFile(file, `${JSON.stringify(now)}\n`);
    assert.deepEqual(
      now,
      before,
      'a new numbered file, of one comment where no table changes, then HEADGATE_GOLDEN=write',
    );
  });

  test('numbered migrations hold neither functions nor views, and each view has a file of its name', async () => {
    const { numbered, views } = readMigrations();
    for (const { sql } of numbered)
      assert.doesNotMatch(sql, /^\s*CREATE (OR REPLACE )?(FUNCTION|PROCEDURE|VIEW)/im);
    for (const { name, sql } of views)
      assert.deepEqual(
        [...sql.matchAll(/CREATE (?:OR REPLACE )?(\w+) (\S+) /g)].map(([, kind, what]) => [kind, what]),
        [['VIEW', `headgate.${name}`]],
      );
  });

  test('a long transaction that has read a view does not block a migration that leaves the view unchanged', async (t) => {
    const database = await testDatabase(t);
    const client = await database.connect();
    const migrations = readMigrations();
    await migrate(client, migrations);
    await client.query(`delete from headgate.migration where version > 118;
      create view public.mine as select * from headgate.endpoints`);
    const reader = await database.connect();
    await reader.query(
      'begin; select from headgate.endpoints; select from public.mine; select from headgate.answer_rows',
    );
    assert.deepEqual(await migrate(client, migrations), { from: 118, to: migrations.version });
    assert.equal((await reader.query('select from public.mine')).rowCount, 0);
    await reader.query('commit');
  });

  test('a migration gives an existing catalog view its new columns and keeps granted and revoked rights', async (t) => {
    const client = await (await testDatabase(t)).connect();
    await makeOldCatalog(client, 27);
    const role = `reader_${(await client.query<{ name: string }>('select current_database() as name')).rows[0]?.name}`;
    await client.query(`create role ${role}; grant select on headgate.catalog_rows to ${role};
      grant execute on procedure headgate.settle() to ${role}; revoke execute on function headgate.show_tables(name[]) from public`);
    onEnd(t, 'role', async () => void (await client.query(`drop owned by ${role}; drop role ${role}`)));
    await migrate(client, readMigrations());
    const { rows } = await client.query<{ reads: boolean; settles: boolean; shows: boolean }>(
      `select has_table_privilege($1, 'headgate.catalog_rows', 'SELECT') as reads,
         has_function_privilege($1, 'headgate.settle()', 'EXECUTE') as settles,
         has_function_privilege($1, 'headgate.show_tables(name[])', 'EXECUTE') as shows`,
      [role],
    );
    assert.deepEqual(rows, [{ reads: true, settles: true, shows: false }]);
    await client.query('select collect from headgate.catalog_rows');
  });

  test('migration reports a foreign function in schema headgate before it changes anything', async (t) => {
    const database = await testDatabase(t);
    const root = await database.connect();
    const role = `hg_${database.name}`;
    await root.query(`create role ${role}; grant create on database ${database.name} to ${role}`);
    onEnd(t, 'role', async () => void (await root.query(`drop owned by ${role} cascade; drop role ${role}`)));
    await root.query(`set role ${role}`);
    const migrations = readMigrations();
    await migrate(root, migrations);
    await root.query(`reset role; delete from headgate.migration where version = ${migrations.version};
      alter procedure headgate.flush() owner to current_user`);
    await root.query(`set role ${role}`);
    await assert.rejects(
      migrate(root, migrations),
      /^CatalogError: headgate\.flush\(\) belongs to role "\w+", and a new version of the catalog replaces it: let a superuser give everything in the schema headgate to "hg_/,
    );
    await root.query('reset role');
  });
});
