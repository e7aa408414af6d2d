/**
 * Brings the schema `headgate` of one database to the version that this program knows, in one transaction under a lock of
 * Headgate's own, so that two Headgates starting at once create one catalog. Objects that hold data are created by the numbered
 * files in migrations/, each run once, in order: a catalog of a file's version is brought up to date, and one between two files, which was never
 * released, is not. Functions and views
 * exist once, in their current form, in functions/ and views/ of this room and of those that call them alone, and are recreated whenever the version differs (decision 0153). Refuses (throws
 * CatalogError) if the catalog has a later version, or one that no file leads from, if a right is missing, or if the schema cannot be trusted.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { ClientBase } from 'pg';
import { quoteIdentifier as quote } from '../kit/sql-text.ts';
import { sqlstateOf } from '../engine/sqlstate.ts';
import { limits } from '../config/limits.ts';
import { holdCodeFunction } from '../relations/lock-code.ts';
import { confirmFunctions, lacksLoginFunction } from '../relations/owner-code.ts';
import { namedRelation } from '../relations/identifier-check.ts';
import { CatalogError, catalogVersion, readRights, refuseMissing } from './rights.ts';
import { pinned } from './queries.ts';

export interface Migrations {
  /** The version of the last numbered file. */
  readonly version: number;
  readonly numbered: readonly { readonly version: number; readonly sql: string }[];
  /** What the checks, policies and triggers of tables call: created before the tables. */
  readonly calledByTables: string;
  readonly functions: string;
  readonly views: readonly { readonly name: string; readonly sql: string }[];
}

/** Synchronous: waiting for some fifty small files took longer at startup than reading them. */
export function readMigrations(): Migrations {
  const files = readFolder('migrations');
  const numbered = files.map(({ name, sql }) => ({ version: Number(name.slice(0, 4)), sql }));
  const functions = readFolder('functions');
  const named = (name: string) => functions.filter((file) => file.name === name);
  const others = functions.filter(({ name }) => !['tables', 'actions', 'rights'].includes(name));
  return {
    version: Math.max(...numbered.map(({ version }) => version)),
    numbered,
    calledByTables: joined([...named('tables'), ...named('actions')]),
    functions: joined([
      ...others,
      { name: 'confirm', sql: confirmFunctions('headgate', isWebhookTable) },
      { name: 'hold_code', sql: holdCodeFunction },
      { name: 'lacks_login', sql: lacksLoginFunction },
      { name: 'named_relation', sql: namedRelation('headgate') },
      ...named('rights'),
    ]),
    views: readFolder('views'),
  };
}

const isWebhookTable =
  ' and exists (select from headgate.webhook_table w where w.relation operator(pg_catalog.=) c.oid)';

interface SqlFile {
  readonly name: string;
  readonly sql: string;
}

/** Rooms with SQL of their own, which is defined with the catalog's: functions that no other room calls, and what they show. */
const rooms = ['catalog', 'acme', 'alerts', 'ingest', 'reconcile', 'console'] as const;

function readFolder(name: 'migrations' | 'functions' | 'views'): readonly SqlFile[] {
  return rooms.flatMap((room) => {
    const folder = new URL(`../${room}/${name}/`, import.meta.url);
    if (!existsSync(folder)) return [];
    const names = readdirSync(fileURLToPath(folder)).filter((file) => file.endsWith('.sql'));
    return names
      .toSorted()
      .map((file) => ({ name: file.slice(0, -4), sql: readFileSync(new URL(file, folder), 'utf8') }));
  });
}

const joined = (files: readonly SqlFile[]) => files.map(({ sql }) => sql).join('\n');

/** Returns the versions before and after. The client must not be in a transaction. */
export async function migrate(
  client: ClientBase,
  migrations: Migrations,
): Promise<{ readonly from: number; readonly to: number }> {
  const to = migrations.version;
  const before = await catalogVersion(client);
  if (before > to) throw tooNew(before, to);
  return { from: before === to ? to : await bringUpToDate(client, migrations), to };
}

/** How often the schema is attempted if another Headgate is creating it at the same time. */
const attemptsMax = 3;

/** Returns the version before. */
async function bringUpToDate(client: ClientBase, migrations: Migrations): Promise<number> {
  for (let attempt = 1; ; attempt++) {
    await client.query('begin');
    try {
      const from = await migrateHere(client, migrations);
      await client.query('commit');
      return from;
    } catch (error) {
      await client.query('rollback');
      // Another Headgate has created the schema or its first table in the meantime.
      const met = ['42P06', '42P07', '23505'].includes(sqlstateOf(error) ?? '');
      if (!met || attempt === attemptsMax) throw error;
    }
  }
}

async function migrateHere(client: ClientBase, migrations: Migrations): Promise<number> {
  await client.query(`select pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true)`);
  // A long transaction that has read the catalog delays the new version, which must not hold up everyone that queues after it.
  await client.query(`set local lock_timeout = ${limits.catalogLockMs}`);
  // The catalog belongs to this node only. Without Citus these are ordinary settings that nobody reads.
  for (const setting of ['enable_ddl_propagation', 'enable_schema_based_sharding'])
    await client.query(`select set_config('citus.${setting}', 'off', true)`);
  const rights = await readRights(client);
  refuseMissing(rights);
  await refuseWorker(client);
  if (!rights.exists) await client.query('create schema headgate');
  if (rights.owner === null)
    await client.query(
      'create table headgate.migration (version int primary key, applied_at timestamptz not null default now())',
    );
  // A Headgate that has waited here finds the work done: the version is read again under the lock.
  await client.query('lock table headgate.migration in share row exclusive mode');
  const from = await catalogVersion(client);
  const { version: known, numbered, calledByTables, functions, views } = migrations;
  if (from > known) throw tooNew(from, known);
  const brought = numbered.map(({ version }) => version);
  if (from > 0 && !brought.includes(from))
    throw new CatalogError(
      `the catalog in schema headgate is of version ${from}; this Headgate brings versions ${brought.join(', ')} up to date, and no other`,
    );
  if (from < known) {
    await refuseForeign(client);
    // So that functions that call each other may be in any order.
    await client.query('set local check_function_bodies = off');
    await client.query(calledByTables);
    for (const { version, sql } of numbered) if (version > from) await client.query(sql);
    await client.query(functions);
    for (const view of views) await makeView(client, view);
    await client.query(
      `insert into headgate.migration (version)
       select version from unnest($1::int[]) as version where version > $2 on conflict do nothing`,
      [brought, from],
    );
  }
  const { rows } = await client.query<{ usable: boolean }>(
    `select has_schema_privilege('public', 'headgate', 'USAGE') as usable`,
  );
  if (rows[0]?.usable !== true)
    throw new CatalogError(
      'roles may not use the schema headgate: let its owner run GRANT USAGE ON SCHEMA headgate TO PUBLIC',
    );
  return from;
}

/**
 * Only if the view is not yet what it should be: replacing a view waits for every open transaction that has read it, and anybody may read most of
 * them. A view runs with the rights of its owner, to whom row-level security does not apply, while current_user remains the caller: so its file has the
 * condition (security_invoker is known from PostgreSQL 15 on), behind a barrier, and grants columns: a privilege on the whole view would allow LOCK TABLE.
 */
async function makeView(client: ClientBase, { name, sql }: SqlFile): Promise<void> {
  const [statement = ''] = /^CREATE .*?;$/ms.exec(sql) ?? [];
  await client.query(statement.replace(`VIEW headgate.${name} `, 'VIEW headgate.next '));
  const { rows } = await client.query<{ same: boolean }>(
    `select pg_get_viewdef(a.oid) = pg_get_viewdef(b.oid) and a.reloptions is not distinct from b.reloptions as same
     from pg_class a, pg_class b where a.oid = to_regclass('headgate.next') and b.oid = to_regclass($1)`,
    [`headgate.${name}`],
  );
  await client.query('drop view headgate.next');
  if (rows[0]?.same !== true) await client.query(sql);
}

function tooNew(found: number, known: number): CatalogError {
  return new CatalogError(
    `the catalog in schema headgate is of version ${found}, this Headgate knows ${known}: start a newer Headgate`,
  );
}

/** Every new version replaces every function, which only its owner may do. */
async function refuseForeign(client: ClientBase): Promise<void> {
  const [foreign] = await pinned<{ name: string; owner: string; role: string }>(
    client,
    `select o.name, r.rolname::text as owner, current_user::text as role from (
       select p.oid::regprocedure::text as name, p.proowner as owner from pg_proc p where p.pronamespace = to_regnamespace('headgate')
       union all
       select c.oid::regclass::text, c.relowner from pg_class c where c.relnamespace = to_regnamespace('headgate') and c.relkind in ('r', 'v')
     ) as o join pg_roles r on r.oid = o.owner where not pg_has_role(o.owner, 'USAGE') order by 1 limit 1`,
  );
  if (foreign === undefined) return;
  const role = quote(foreign.role);
  throw new CatalogError(
    `${foreign.name} belongs to role ${quote(foreign.owner)}, and a new version of the catalog replaces it: let a superuser give ` +
      `everything in the schema headgate to ${role}, or run GRANT ${quote(foreign.owner)} TO ${role}`,
  );
}

/** A table is created at the coordinator of a Citus cluster, and only there is it known which tables are webhook tables. */
async function refuseWorker(client: ClientBase): Promise<void> {
  const groups = 'pg_catalog.pg_dist_local_group';
  const [known] = await pinned<{ citus: boolean }>(
    client,
    `select to_regclass('${groups}') is not null as citus`,
  );
  if (known?.citus !== true) return;
  const [worker] = await pinned<{ groupid: number }>(
    client,
    `select groupid from ${groups} where groupid <> 0`,
  );
  if (worker !== undefined)
    throw new CatalogError(
      'this server is a worker of a Citus cluster: start Headgate at its coordinator; headgate gateway may run here',
    );
}
