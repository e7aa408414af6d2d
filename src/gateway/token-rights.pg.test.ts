/** Who owns a token when roles and tables are created, are dropped, and are restored from another server. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { onEnd } from '../../test/support/cleanup.ts';
import { testDatabase } from '../../test/support/postgres.ts';
import { migrate, readMigrations } from '../catalog/migrate.ts';

test('a token belongs to its role across dump and restore, and to no role once that is dropped', async (t) => {
  const database = await testDatabase(t, { catalog: true });
  const client = await database.connect();
  await migrate(client, readMigrations());
  const [one, two] = [`${database.name}_one`, `${database.name}_two`];
  await client.query(`create role ${one}; create role ${two}; create table kept (n int); create table gone (n int);
    grant insert on kept, gone to ${one}, ${two}`);
  onEnd(t, 'roles', async () => {
    const { rows } = await client.query<{ name: string }>(
      `select rolname as name from pg_roles where starts_with(rolname, '${database.name}_')`,
    );
    for (const { name } of rows) await client.query(`drop owned by ${name}; drop role ${name}`);
  });
  const make = async (role: string, name: string, table: string): Promise<string> => {
    await client.query(`set role ${role}`);
    const { rows } = await client.query<{ Token: string }>(
      `select * from headgate.create_token('${name}', array['${table}'::regclass], '[]', null)`,
    );
    await client.query('reset role');
    return createHash('sha256')
      .update(rows[0]?.Token ?? '')
      .digest('hex');
  };
  const may = async (hash: string): Promise<readonly number[] | null> => {
    const { rows } = await client.query<{ id: string | null; relations: number[] }>(
      'select id, relations from headgate.token_rights(array[$1], array[null])',
      [hash],
    );
    return rows[0]?.id === null ? null : (rows[0]?.relations ?? null);
  };
  const owner = async (name: string) =>
    (await client.query('select owner, owner_oid from headgate.token where name = $1', [name])).rows[0];
  const settle = () => client.query('call headgate.settle()');

  const ofOne = await make(one, 'of_one', 'kept');
  const ofTwo = await make(two, 'of_two', 'gone');
  assert.equal((await may(ofOne))?.length, 1);
  await client.query(`alter role ${one} rename to ${one}_renamed`);
  await settle();
  assert.equal((await owner('of_one')).owner, `${one}_renamed`);

  // From another server: its oids mean nothing here, and names say once who is meant.
  await client.query(`update headgate.cluster set identity = 'elsewhere';
    update headgate.token set owner_oid = 10; update headgate.token set owner = 'nobody_here' where name = 'of_two'`);
  await settle();
  const { rows } = await client.query(`select oid from pg_roles where rolname = '${one}_renamed'`);
  assert.deepEqual(await owner('of_one'), { owner: `${one}_renamed`, owner_oid: rows[0].oid });
  assert.deepEqual(await owner('of_two'), { owner: null, owner_oid: null });
  assert.equal((await may(ofOne))?.length, 1);
  assert.equal(await may(ofTwo), null);

  // A table that goes where no event trigger sees it.
  const again = await make(two, 'again', 'gone');
  await client.query('alter event trigger headgate_drop disable; drop table gone');
  assert.deepEqual(await may(again), []);
  await settle();
  assert.equal((await client.query('select from headgate.token_table')).rowCount, 1);

  await client.query(
    `drop owned by ${one}_renamed; drop role ${one}_renamed; create role ${one}_renamed; grant insert on kept to ${one}_renamed`,
  );
  assert.equal(await may(ofOne), null);
  await settle();
  assert.deepEqual(await owner('of_one'), { owner: null, owner_oid: null });
});

test('roles with their maximum number of tokens leave other roles their own maximum', async (t) => {
  const database = await testDatabase(t, { catalog: true });
  const client = await database.connect();
  const roles = Array.from({ length: 12 }, (_, i) => `${database.name}_${i}`);
  await client.query(
    `create table t (n int); ${roles.map((role) => `create role ${role}; grant insert on t to ${role}`).join('; ')}`,
  );
  onEnd(t, 'roles', async () => {
    await client.query(
      `reset role; ${roles.map((role) => `drop owned by ${role}; drop role ${role}`).join('; ')}`,
    );
  });
  const make = (role: string, name: string) =>
    client.query(
      `set role ${role}; select headgate.create_token('${name}', array['t'::regclass], '[]', null); reset role`,
    );
  const [last = '', ...others] = roles;
  for (const role of others)
    await client.query(`insert into headgate.token (name, owner, owner_oid, hash, origins)
      select concat('${role}_', n), '${role}', '${role}'::regrole, sha256(concat('${role} ', n)::bytea), '{}' from generate_series(1, 1000) n`);
  await assert.rejects(make(others[0] ?? '', 'one_more'), { code: '54000', message: /at most 1000 tokens/ });
  await client.query('reset role');
  await make(last, 'first');
});
