/**
 * What Headgate's role needs to create the catalog or to bring it up to date, and which roles it trusts with the
 * schema: checked before anything is done, so that what is missing is reported in one sentence. Reads the version of a catalog that it
 * trusts, and lets in the role that stores rows. Throws CatalogError.
 */
import type { ClientBase } from 'pg';
import type { Engine } from '../engine/engine.ts';
import { writerName } from '../engine/login-names.ts';
import { makeWriterSql, markOwnRolesSql } from '../engine/owner-logins.ts';
import { quoteIdentifier as quote } from '../kit/sql-text.ts';
import { trustedSql } from '../relations/owner-code.ts';
import { pinned } from './queries.ts';

export class CatalogError extends Error {
  override readonly name: string = 'CatalogError';
}

/** The schema, or something in it, belongs to a role that must not act as Headgate's. */
export class UntrustedSchema extends CatalogError {
  override readonly name = 'UntrustedSchema';
}

export interface RoleRights {
  readonly role: string;
  readonly database: string;
  readonly creates_schemas: boolean;
  /** The schema exists. */
  readonly exists: boolean;
  readonly schema_owner: string | null;
  /**
   * Every owner of the schema or of anything in it may act as Headgate's role: what it owns there runs with the rights of Headgate's
   * session.
   */
  readonly trusted: boolean;
  /** The role of the session is Headgate's own choice, and not a setting of the database. */
  readonly chosen: boolean;
  /** Headgate logs in as a superuser, or acts as one. */
  readonly superuser: boolean;
  readonly creates_tables: boolean | null;
  /** The owner of the catalog; null: it does not exist. */
  readonly owner: string | null;
  readonly owned: boolean | null;
}

/**
 * Whether the role of the session was chosen by Headgate's login (`ALTER ROLE … SET role`, or not at all), and not by the owner of the
 * database for everybody: `ALTER DATABASE … SET role` makes even a superuser's session act as that role, whose code can return to the login.
 */
const roleIsChosenSql = `(current_user operator(pg_catalog.=) session_user or not exists (
    select from pg_catalog.pg_db_role_setting s join pg_catalog.pg_database d on d.oid operator(pg_catalog.=) s.setdatabase
    cross join pg_catalog.unnest(s.setconfig) as c (line)
    where s.setrole operator(pg_catalog.=) 0::pg_catalog.oid and d.datname operator(pg_catalog.=) pg_catalog.current_database()
      and pg_catalog.starts_with(c.line, 'role=')))`;

/**
 * A superuser trusts only roles that could become one. Any other role also trusts the owner of the database, who may have created the schema
 * for it, and the roles whose rights it has.
 */
const readRightsSql = `
with me as (
  select pg_catalog.bool_or(r.rolsuper) as superuser from pg_roles r where r.rolname in (current_user, session_user)
), trusted as (
  select r.oid from pg_roles r, pg_database d, me
  where d.datname = current_database() and (${trustedSql('r.oid')} or r.rolname = current_user or not me.superuser and (
    r.oid = d.datdba or r.rolname = 'pg_database_owner' or pg_has_role(r.oid, 'USAGE')))
)
select current_user::text as role, current_database()::text as database,
  has_database_privilege(current_database(), 'CREATE') as creates_schemas,
  n.oid is not null as exists, o.rolname::text as schema_owner,
  ${roleIsChosenSql} as chosen, me.superuser,
  not exists (
    select n.nspowner where n.oid is not null
    union all select p.proowner from pg_proc p where p.pronamespace = n.oid
    union all select c.relowner from pg_class c where c.relnamespace = n.oid
    except select oid from trusted
  ) as trusted,
  case when n.oid is not null then has_schema_privilege(n.oid, 'CREATE') and has_schema_privilege(n.oid, 'USAGE') end
    as creates_tables,
  m.rolname::text as owner, pg_has_role(m.oid, 'USAGE') as owned
from me cross join pg_database d
left join pg_namespace n on n.nspname = 'headgate'
left join pg_roles o on o.oid = n.nspowner
left join pg_class c on c.relnamespace = n.oid and c.relname = 'migration'
left join pg_roles m on m.oid = c.relowner
where d.datname = current_database()`;

export async function readRights(client: ClientBase): Promise<RoleRights> {
  const [rights] = await pinned<RoleRights>(client, readRightsSql);
  if (rights === undefined) throw new Error('the database does not know itself');
  return rights;
}

/** A role that could create a schema of that name, or own it, could otherwise run its code with the rights of Headgate's role. */
export function refuseUntrusted(rights: RoleRights): void {
  const { database, superuser, schema_owner: owner } = rights;
  const role = quote(rights.role);
  if (!rights.chosen)
    throw new UntrustedSchema(
      `every session in database ${quote(database)} acts as role ${role}, because of ALTER DATABASE … SET role: let its owner run ` +
        `ALTER DATABASE ${quote(database)} RESET role`,
    );
  if (rights.trusted) return;
  const others = superuser ? 'a superuser' : 'the owner of the database nor a superuser';
  throw new UntrustedSchema(
    `the schema headgate, of role ${quote(owner ?? rights.role)}, or something in it was made by neither ${role} nor ${others}, ` +
      `and is not used for that: let a superuser look at it, and drop it or give it and all that is in it to ${role}`,
  );
}

export function refuseMissing(rights: RoleRights): void {
  const role = quote(rights.role);
  if (!rights.exists) {
    if (rights.creates_schemas) return;
    throw new CatalogError(
      `role ${role} may not make the schema headgate in database ${quote(rights.database)}: let the owner of the ` +
        `database run GRANT CREATE ON DATABASE ${quote(rights.database)} TO ${role}`,
    );
  }
  if (rights.owner !== null && rights.owned !== true)
    throw new CatalogError(
      `the catalog in schema headgate belongs to role ${quote(rights.owner)}: start Headgate as it, or let a superuser run ` +
        `GRANT ${quote(rights.owner)} TO ${role}`,
    );
  if (rights.owner === null && rights.creates_tables !== true)
    throw new CatalogError(
      `role ${role} may not create in the schema headgate: let its owner run GRANT USAGE, CREATE ON SCHEMA headgate TO ${role}`,
    );
}

/** The version of this database's catalog; 0 if there is none. Throws CatalogError if the catalog cannot be trusted. */
export async function catalogVersion(client: ClientBase): Promise<number> {
  const rights = await readRights(client);
  refuseUntrusted(rights);
  if (rights.owner === null) return 0;
  refuseMissing(rights);
  const [found] = await pinned<{ version: number }>(
    client,
    'select coalesce(max(version), 0)::int as version from headgate.migration',
  );
  return found?.version ?? 0;
}

/**
 * How many tables of the database Headgate could write before it had this catalog: those of an earlier one, or of a dump without its schema headgate. On
 * servers of others such a table has no mark, and 0 is returned.
 */
export async function tablesOfBefore(client: ClientBase, kind: Engine['kind']): Promise<number> {
  if (kind !== 'embedded') return 0;
  const [found] = await pinned<{ tables: number }>(
    client,
    `select count(*)::int as tables from pg_class c where c.relkind in ('r', 'p') and exists (
      select from aclexplode(c.relacl) a join pg_roles r on r.oid = a.grantee where r.rolname = '${writerName}')`,
  );
  return found?.tables ?? 0;
}

/** The comment on a schema headgate that replaces one that was lost, for `headgate doctor`. */
export const madeAnew = (tables: number): string =>
  `made anew, and empty: there was a schema headgate before, which knew ${tables} webhook ${tables === 1 ? 'table' : 'tables'} of this database. Their requests get 404, and their secrets are gone, until it is restored from a backup, or they are created again`;

/** Catalogs before this version are of Headgates that did not mark the roles that they had made on their own engine. */
const marksRolesFrom = 166;

/** Before `migrate`: Headgate's own roles stay its own. Throws as `catalogVersion`. */
export async function markOwnRoles(client: ClientBase, kind: Engine['kind']): Promise<void> {
  const from = kind === 'embedded' ? await catalogVersion(client) : 0;
  if (from > 0 && from < marksRolesFrom) await pinned(client, markOwnRolesSql);
}

/**
 * Lets the role in that stores rows of tables without code: on Headgate's own engine `headgate_commit`, on others Headgate's role is that
 * role (functions/writer.sql). Throws the engine's error.
 */
export async function letWriterIn(client: ClientBase, kind: Engine['kind']): Promise<void> {
  if (kind === 'embedded') {
    await pinned(client, makeWriterSql);
    await pinned(client, `call headgate.let_writer_in('${writerName}')`);
    return;
  }
  const [known] = await pinned(client, 'select name from headgate.writer_role');
  // The database was restored from one of such an engine.
  if (known !== undefined) await pinned(client, 'call headgate.let_writer_in(null)');
}
