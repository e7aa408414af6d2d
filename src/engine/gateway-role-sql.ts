/**
 * The statements of gateway-role.ts, run as the superuser with only pg_catalog on the search_path.
 *
 * The role gets grants and not the ownership of databases: the owner of a database owns its schema `public`, may drop
 * every table in it, and determines with ALTER DATABASE how everybody else's sessions begin. It gets no predefined
 * role: pg_read_all_data reads pg_authid and the sealed secrets in schema `headgate`.
 */
import { createHash } from 'node:crypto';
import { makeOwnRole } from './owner-logins.ts';

export const roleName = 'headgate_gateway';

/** The functions that the role may call. Not in a schema with its name, which every search_path begins with. */
const functionsSchema = 'headgate_functions';

/**
 * It logs in over the engine's own socket, where nobody is asked for a password. A password that it gives itself, as
 * every role may, has long expired. What the owner alters later stays, except for that, and that it is no superuser.
 */
export const makeRole = `
do $$
begin
  ${makeOwnRole(roleName, 'whom the events gateway of Headgate logs in as; HEADGATE_EVENTS_ROLE names another')}
  if exists (select from pg_roles where rolname = '${roleName}' and (rolsuper or coalesce(rolvaliduntil > now(), true))) then
    alter role ${roleName} nosuperuser valid until '-infinity';
  end if;
end $$`;

export const readRole = `select rolcanlogin as login from pg_roles where rolname = $1`;

export const readDatabase = `
  select oid::text as oid, datallowconn and not datistemplate as open, has_database_privilege($2, oid, 'CONNECT') as permitted,
    datname = 'postgres' as system
  from pg_database where datname = $1`;

/**
 * The schemas of root, without PostgreSQL's, Headgate's (including those of the owners' functions) and this role's.
 * `public` belongs to the database's owner.
 */
const schemas = `
  select n.oid from pg_namespace as n
  where n.nspname !~ '^(pg_|headgate_owner_)' and n.nspname not in ('information_schema', 'headgate', '${roleName}', '${functionsSchema}')
    and (n.nspowner = current_user::regrole or n.nspname = 'public')`;

/** Grants on relations of root's for which `condition` is true. The block that contains it declares `relation`. */
const grantOn = (condition: string) => `
  for relation in
    select c.oid::regclass as name, c.relkind = 'S' as is_sequence from pg_class as c
    where ${condition} and c.relowner = current_user::regrole
      and c.relkind in ('r', 'p', 'v', 'm', 'f', 'S')
      and not exists (select from pg_depend as d
        where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')
  loop
    if relation.is_sequence then
      execute format('grant usage, select on sequence %s to ${roleName}', relation.name);
    else
      execute format('grant select, insert, update, delete on table %s to ${roleName}', relation.name);
    end if;
  end loop;`;

/**
 * Only what root owns now: an extension's relations have the privileges that the extension gives them. Relations that root creates
 * later get them from the default privileges of each schema. Those of a whole database would apply to schema `headgate`, too.
 */
const admit = `
create or replace function ${roleName}.admit(place oid) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $admit$
declare
  schema name := (select nspname from pg_namespace where oid = place);
  relation record;
begin
  execute format('grant usage on schema %I to ${roleName}', schema);
  execute format('alter default privileges for role %I in schema %I
    grant select, insert, update, delete on tables to ${roleName}', current_user, schema);
  execute format('alter default privileges for role %I in schema %I
    grant usage, select on sequences to ${roleName}', current_user, schema);
  ${grantOn('c.relnamespace = place')}
end $admit$`;

/** What the role could get others to run by a name alone: PostgreSQL prefers a function or an operator that fits the arguments better to its own, and calls a type like a function. */
const commands = [
  'FUNCTION',
  'PROCEDURE',
  'AGGREGATE',
  'OPERATOR',
  'ROUTINE',
  'DOMAIN',
  'TYPE',
  'SCHEMA',
].flatMap((of) => [`CREATE ${of}`, `ALTER ${of}`]);

/**
 * Lets the role into new schemas. Refuses what of its own would be on the search_path of others: schemas with a role's name ("$user") or `public`, and
 * functions, operators and types in schemas that are not its own, except row types. Superusers may: they restore dumps. Does nothing if the database was restored on
 * a server without the role.
 */
const onSchema = `
create or replace function ${roleName}.on_schema() returns event_trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $on_schema$
declare
  own oid := to_regrole('${roleName}');
  is_free constant boolean := (select r.rolsuper from pg_roles as r where r.rolname = session_user);
begin
  if own is null then return; end if;
  if not is_free and exists (
    select from pg_event_trigger_ddl_commands() as made join pg_namespace as n on n.oid = made.objid
    where made.classid = 'pg_namespace'::regclass and n.nspowner = own
      and (n.nspname = 'public' or exists (select from pg_roles as r where r.rolname = n.nspname)))
  then
    raise exception using errcode = '42501', message = 'a schema of the events gateway cannot have the name of a role, or "public"',
      hint = 'It would be on the search_path of that role.';
  elsif not is_free and exists (
    select from pg_event_trigger_ddl_commands() as made
    left join pg_proc as p on made.classid = 'pg_proc'::regclass and p.oid = made.objid
    -- Or one that is named as a commutator, which is made with it, and only fails.
    left join pg_operator as o on made.classid = 'pg_operator'::regclass and (o.oid = made.objid or o.oprcode = 0 and o.oprowner = own)
    -- A range comes with a multirange, which may have a name in another schema.
    left join pg_range as m on made.classid = 'pg_type'::regclass and m.rngtypid = made.objid
    left join pg_type as t on made.classid = 'pg_type'::regclass and t.oid in (made.objid, m.rngmultitypid) and t.typtype <> 'c'
    join pg_namespace as n on n.oid in (p.pronamespace, o.oprnamespace, t.typnamespace)
    where own in (p.proowner, o.oprowner, t.typowner) and n.nspowner <> own and n.oid <> pg_my_temp_schema())
  then
    raise exception using errcode = '42501', message = 'the events gateway makes functions, operators and types in schemas of its own only',
      hint = 'Others would call them by a name alone. Create a schema, and name it: CREATE FUNCTION app.f() ...';
  end if;
  perform ${roleName}.admit(made.objid) from pg_event_trigger_ddl_commands() as made
  where made.classid = 'pg_namespace'::regclass and made.command_tag = 'CREATE SCHEMA'
    and made.objid in (${schemas});
end $on_schema$`;

/** A schema's owner can change what is in it, and a function's owner the function. */
export const readForeign = `
  select n.nspname as name from pg_namespace as n left join pg_proc as p on p.pronamespace = n.oid
  where n.nspname in ('${roleName}', '${functionsSchema}') and exists (
    select from pg_roles as o where o.oid in (n.nspowner, p.proowner) and not o.rolsuper)`;

const makeTrigger = `create event trigger ${roleName} on ddl_command_end when tag in (${commands.map((tag) => `'${tag}'`).join(', ')})
      execute function ${roleName}.on_schema()`;

/** With the commands of this version. A disabled one stays so. */
const renewTrigger = `
      if exists (select from pg_event_trigger where evtname = '${roleName}' and evtenabled <> 'D') then
        drop event trigger ${roleName};
        ${makeTrigger};
      end if;`;

/** Its function may be a stranger's. */
export const dropTrigger = `drop event trigger if exists ${roleName}`;

/** What gives the role access to one database. `functions`: statements that create what it may call. */
export interface LetInSql {
  /** `known`: all of it was done before. */
  readonly readKnown: string;
  readonly letIn: string;
  /** If `known` is false after that, for what others were just creating. */
  readonly readUnfinished: string;
  readonly letInMissed: string;
  readonly mark: string;
}

/**
 * Once for each database: the comment on the event trigger says for which, since a database that is created from another one
 * inherits the event trigger, but not the privileges on the database itself; and with which functions. If grants were only
 * just made it says `unfinished` first. A restored database has its privileges: a table there from which root has revoked
 * everything may look like one that was missed, and such tables are not looked for.
 */
export function letInSql(functions: string): LetInSql {
  const made = createHash('sha256').update(`${functions}${onSchema}`).digest('hex').slice(0, 16);
  const marked = `(select obj_description(oid, 'pg_event_trigger') from pg_event_trigger where evtname = '${roleName}')`;
  const mark = `(select format('database %s, functions ${made}', oid) from pg_database where datname = current_database())`;
  const comment = `execute format('comment on event trigger ${roleName} is %L', ${mark})`;
  const letIn = `
do $let_in$
declare
  database record;
  known text := ${marked};
  let_in_before boolean := exists (select from pg_event_trigger where evtname = '${roleName}');
begin
  select oid, datname, format('database %s', oid) as mark into database
  from pg_database where datname = current_database();
  -- Whoever may create schemas could make this one its own, before Headgate fills it as the superuser.
  create schema if not exists headgate;
  create schema if not exists ${roleName};
  create schema if not exists ${functionsSchema};
  if exists (${readForeign}) then
    raise exception using errcode = '42501', message = 'schemas of Headgate''s names are not Headgate''s';
  end if;
  ${functions};
  grant usage on schema ${functionsSchema} to ${roleName};
  if split_part(known, ',', 1) is distinct from database.mark then
    execute format('grant create, temporary on database %I to ${roleName}', database.datname);
  end if;
  ${admit};
  ${onSchema};
  revoke execute on function ${roleName}.admit(oid), ${roleName}.on_schema() from public;
  if not let_in_before then
    perform ${roleName}.admit(schema.oid) from (${schemas}) as schema;
    if to_regnamespace('public') is not null then
      grant create on schema public to ${roleName};
    end if;
    ${makeTrigger};
    known := format('%s, unfinished', database.mark);
    execute format('comment on event trigger ${roleName} is %L', known);
  end if;
  if known is distinct from format('%s, unfinished', database.mark) then
    if let_in_before then ${renewTrigger} end if;
    ${comment};
  end if;
end $let_in$`;
  return {
    readKnown: `select coalesce(${marked} = ${mark}, false) as known`,
    letIn,
    readUnfinished,
    letInMissed,
    mark: `do $mark$ begin ${comment}; end $mark$`,
  };
}

/**
 * Transactions that may have created a relation or a schema before they could see the role's default privileges: creating
 * a relation locks its schema first, and the lock is kept to the end of the transaction. `$1`: only these; null: all.
 */
const readUnfinished = `
  select distinct l.virtualtransaction as transaction
  from pg_locks as l join pg_stat_activity as a on a.pid = l.pid
  where a.datname = current_database() and l.pid <> pg_backend_pid() and l.granted
    and (l.locktype = 'transactionid' or (l.locktype = 'object' and l.classid = 'pg_namespace'::regclass))
    and ($1::text[] is null or l.virtualtransaction = any($1))`;

/** Relations with neither grants nor revokes, in a schema in which the role has default privileges; and schemas likewise. */
const letInMissed = `
do $missed$
declare
  relation record;
begin
  perform ${roleName}.admit(schema.oid) from (${schemas} and n.nspacl is null) as schema
  where exists (select from pg_event_trigger where evtname = '${roleName}' and evtenabled <> 'D');
  ${grantOn(`c.relacl is null and c.relnamespace in (${schemas}) and exists (
      select from pg_default_acl as p, aclexplode(p.defaclacl) as a
      where p.defaclnamespace = c.relnamespace and p.defaclrole = c.relowner
        and p.defaclobjtype = case c.relkind when 'S' then 'S' else 'r' end and a.grantee = to_regrole('${roleName}'))`)}
end $missed$`;
