/**
 * The function through which rows are stored with the rights of a table's owner: SECURITY DEFINER, owned by that role, in a schema
 * that only Headgate's role may use, so that the owner cannot name the function and thus cannot change it. Texts only.
 *
 * The caller detects what the owner's DROP OWNED or REASSIGN OWNED does to the function: the call checks in the same statement whether
 * the function is still what Headgate has created.
 *
 * SECURITY DEFINER alone does not contain the code that runs inside. Code that would run after the function, at COMMIT and with the
 * session's rights, is brought to its end inside it: deferred triggers are fired, cursors WITH HOLD are closed, and if a trigger could
 * still be pending the function raises an error. What a session remembers by name (prepared statements) is not used in such a session.
 */
import { createHash } from 'node:crypto';
import {
  involvedSql,
  lateCodeSql,
  ownersSql,
  roleIsChosenSql,
  trustedSql,
  versionSql,
} from './owner-code.ts';
import { nameBytesMax, quoteIdentifier as quote, quoteLiteral } from '../kit/sql-text.ts';
import type { Code } from '../types/target.ts';

/** The SQLSTATE of a group whose function cannot be created. */
export const executorUnfit = 'HG002';
/** The SQLSTATE if code of the table could run at COMMIT. */
export const lateCode = 'HG003';

const parameters =
  'table_name text, table_oid oid, known_version text, statement text, documents json, code_path text, deletes bytea';
const types = 'text, oid, text, text, json, text, bytea';
const typed = types
  .split(', ')
  .map((type, i) => `$${i + 1}::pg_catalog.${type}`)
  .join(', ');

/** Its statement reads the documents as `$1`, the path for the table's own code as `$2`, and the rows to delete as `$3`. */
const body = `
DECLARE
  same boolean;
  -- Other relations take part: partitions, a view's tables, rows that change with others.
  shared boolean;
  own boolean;
  late name;
BEGIN
  EXECUTE 'LOCK TABLE ONLY ' || table_name || ' IN ROW EXCLUSIVE MODE';
  SELECT c.oid = pg_catalog.to_regclass(table_name)::pg_catalog.oid
      AND pg_catalog.pg_get_userbyid(c.relowner) = current_user AND ${versionSql('c')} = known_version,
    c.relkind <> 'r' OR c.relispartition OR c.relhassubclass OR c.relhastriggers
  INTO same, shared FROM pg_catalog.pg_class c WHERE c.oid = table_oid;
  IF same AND shared THEN
    same := NOT EXISTS (SELECT FROM (${ownersSql(involvedSql('table_oid', 'inFunction'))}) AS o WHERE o.name <> current_user
      AND NOT ${trustedSql('o.relowner', 'session_user')});
  END IF;
  IF same IS NOT TRUE THEN
    RAISE EXCEPTION USING ERRCODE = 'HG001', MESSAGE = 'the table has changed since the request was checked';
  END IF;
  EXECUTE statement USING documents, code_path, deletes;
  -- From here on nothing of the table may be left to run. What its code has set holds no longer either. Others' deferred triggers
  -- are looked for first: before PostgreSQL 18 they would run with the rights of this owner.
  FOREACH own IN ARRAY ARRAY[false, true] LOOP
    IF own THEN
      SET CONSTRAINTS ALL IMMEDIATE;
      EXECUTE 'CLOSE ALL';
    END IF;
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false);
    SELECT t.tgname INTO late
    FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_trigger t ON t.tgrelid = l.relation JOIN pg_catalog.pg_class c ON c.oid = l.relation
    WHERE l.pid = pg_catalog.pg_backend_pid() AND l.locktype = 'relation' AND l.mode NOT IN ('AccessShareLock', 'RowShareLock')
      AND (own OR pg_catalog.pg_get_userbyid(c.relowner) <> current_user) AND ${lateCodeSql('t')}
    LIMIT 1;
    IF late IS NOT NULL THEN
      RAISE EXCEPTION USING ERRCODE = '${lateCode}', MESSAGE = late;
    END IF;
  END LOOP;
  RETURN true;
END
`;

const bodyMd5 = createHash('md5').update(body).digest('hex');

const schemaPrefix = 'headgate_owner_';

/** The schema of Headgate's role `role`. */
export function executorSchema(role: string): string {
  const name = schemaPrefix + role;
  if (Buffer.byteLength(name) <= nameBytesMax) return name;
  return schemaPrefix + createHash('sha256').update(role).digest('hex').slice(0, 32);
}

/** The empty tables of each owner that transactions lock instead of those of all (commit/statements.ts): its own tables share them. */
const slots = [0, 1, 2, 3] as const;

/** By the owner's name: in a dump it means the same role. */
function lockName({ ownerName }: Pick<Code, 'ownerName'>, slot: number): string {
  return `lock ${slot} ${createHash('sha256').update(ownerName).digest('hex').slice(0, 32)}`;
}

/**
 * What headgate.lock_keys() is for tables whose code may keep a transaction for as long as it likes: no rows of other owners wait for it.
 * In a block, because LOCK TABLE is not allowed in the implicit transactions of the extended protocol; it runs no code, whatever has the name.
 */
export function executorLock(
  role: string,
  code: Pick<Code, 'ownerName'>,
  table: number,
  mode: 'shared' | 'alone',
): string {
  const name = `${quote(executorSchema(role))}.${quote(lockName(code, table % slots.length))}`;
  const strength = mode === 'alone' ? 'exclusive' : 'row share';
  return `do language plpgsql ${quoteLiteral(`begin lock table ${name} in ${strength} mode; end`)}`;
}

/**
 * Gives a schema of that name that is another role's a name of no meaning, if Headgate's role is a superuser: any role that may create
 * schemas could otherwise keep the rows of all owners with code from being stored. Runs no code of anybody.
 */
function moveAside(schema: string): string {
  const name = `${quoteLiteral(schema)}::pg_catalog.name`;
  return `do language plpgsql ${quoteLiteral(`declare
  other pg_catalog.name; aside pg_catalog.text;
begin
  select o.rolname into other from pg_catalog.pg_namespace n join pg_catalog.pg_roles o on o.oid operator(pg_catalog.=) n.nspowner
  where n.nspname operator(pg_catalog.=) ${name} and o.rolname operator(pg_catalog.<>) current_user and exists (
    select from pg_catalog.pg_roles r where r.rolname operator(pg_catalog.=) current_user and r.rolsuper);
  if other is not null then
    aside := pg_catalog.concat('not_headgates_', pg_catalog.gen_random_uuid());
    execute pg_catalog.format('alter schema %I rename to %I', ${name}, aside);
    raise warning 'schema "%" belongs to role "%", and is now named "%": the name is Headgate''s', ${name}, other, aside;
  end if;
end`)}`;
}

/**
 * Recreates the function in one transaction, and only there may its owner use the schema: PostgreSQL transfers a function
 * only to a role that may create objects in its schema, and only the owner can grant EXECUTE to Headgate's role.
 */
export function makeExecutorSql(role: string, code: Pick<Code, 'ownerName'>): string {
  const { ownerName } = code;
  const [name, owner] = [executorSchema(role), quote(ownerName)];
  const schema = quote(name);
  const it = `function ${schema}.${owner}(${types})`;
  return [
    moveAside(name),
    `create schema if not exists ${schema}`,
    ...slots.map((slot) => `create table if not exists ${schema}.${quote(lockName(code, slot))} ()`),
    `drop function if exists ${schema}.${owner}(${types})`,
    `create function ${schema}.${owner}(${parameters}) returns boolean language plpgsql security definer ` +
      `set search_path = pg_catalog, pg_temp as ${quoteLiteral(body)}`,
    `revoke all on ${it} from public`,
    // Takes a lock of the schema that conflicts with itself, since two sessions that change one schema's rights at one time fail each
    // other. Only now: the statements above wait for whatever the owner does to the function, and other owners must not.
    `comment on schema ${schema} is null`,
    `grant usage, create on schema ${schema} to ${owner}`,
    `alter ${it} owner to ${owner}`,
    `set local role ${owner}`,
    `grant execute on ${it} to ${quote(role)}`,
    `reset role`,
    // If the owner is Headgate's own role, it must not revoke its own rights.
    `${ownerName === role ? 'grant all on schema' : 'revoke all on schema'} ${schema} ${ownerName === role ? 'to' : 'from'} ${owner}`,
  ].join('; ');
}

/** How many statements makeExecutorSql returns. */
export const makeExecutorCount = 12 + slots.length;

/** What Headgate's role itself must be allowed to do to the table, as without the function. */
export type Privilege = 'INSERT' | 'UPDATE' | 'DELETE';

/**
 * Whether the function, and the last of the tables to lock, are what makeExecutorSql has created. Its owner can afterwards drop the function or
 * give it away; it detects itself a call under another role than the table's owner. Only Headgate's role and superusers can replace it,
 * if that role is Headgate's own choice.
 */
export function executorFit(role: string, { owner, ownerName }: Pick<Code, 'owner' | 'ownerName'>): string {
  return `exists (select from pg_catalog.pg_proc p join pg_catalog.pg_namespace n
    on n.oid operator(pg_catalog.=) p.pronamespace
    where n.nspname operator(pg_catalog.=) ${quoteLiteral(executorSchema(role))}::pg_catalog.name
      and p.proname operator(pg_catalog.=) ${quoteLiteral(ownerName)}::pg_catalog.name
      and p.prosecdef and p.proowner operator(pg_catalog.=) ${owner}::pg_catalog.oid
      and pg_catalog.md5(p.prosrc) operator(pg_catalog.=) '${bodyMd5}'::pg_catalog.text
      and n.nspowner operator(pg_catalog.=) (
        select r.oid from pg_catalog.pg_roles r where r.rolname operator(pg_catalog.=) current_user)
      and exists (select from pg_catalog.pg_class l where l.relnamespace operator(pg_catalog.=) n.oid and l.relowner operator(pg_catalog.=) n.nspowner
        and l.relname operator(pg_catalog.=) ${quoteLiteral(lockName({ ownerName }, slots.length - 1))}::pg_catalog.name)
      and ${roleIsChosenSql}
      and not exists (select from pg_catalog.aclexplode(n.nspacl) as a where a.grantee operator(pg_catalog.<>) n.nspowner))`;
}

/** Precedes the calls of a connection. Fails with 22P02 if the function is not fit. */
export function executorCheck(role: string, code: Code): string {
  return `select (case when ${executorFit(role, code)} then 'true' else 'executor_unfit' end)::pg_catalog.bool`;
}

/** Precedes the calls of a transaction: may Headgate's role do to the table what is requested? Fails with 22P02 if not. */
export function permissionCheck(oid: number, privileges: readonly Privilege[]): string {
  const checks = privileges.map((it) => `pg_catalog.has_table_privilege(${oid}::pg_catalog.oid, '${it}')`);
  return `select (case when ${checks.join(' and ')} then 'true' else 'not_permitted' end)::pg_catalog.bool`;
}

/**
 * Calls the function with `$1` to `$7`: name, oid and version of the table, statement, documents, path, deletions. With their types, so that
 * no other function of that name is meant.
 */
export function executorCall(role: string, { ownerName }: Pick<Code, 'ownerName'>): string {
  return `select ${quote(executorSchema(role))}.${quote(ownerName)}(${typed})`;
}
