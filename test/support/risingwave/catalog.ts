/**
 * The schema rw_catalog of the stand-in: RisingWave's relations as views over PostgreSQL's (src/frontend/src/catalog/system_catalog/rw_catalog
 * of its repository), the types that PostgreSQL lacks, and triggers that handle an existing key (create_table.rs: with a primary key a table
 * overwrites, unless it was created to ignore).
 */
import { serverVersion, versionText } from './words.ts';

/** `like`: a type with its functions, under another name. */
const typeLike = (name: string, like: string, extra: string): string => `
  create type rw_catalog.${name};
  create function rw_catalog.${name}_in(cstring${extra}) returns rw_catalog.${name} as '${like}_in' language internal immutable strict;
  create function rw_catalog.${name}_out(rw_catalog.${name}) returns cstring as '${like}_out' language internal immutable strict;
  create type rw_catalog.${name} (input = rw_catalog.${name}_in, output = rw_catalog.${name}_out, like = pg_catalog.${like});
  create cast (${like} as rw_catalog.${name}) without function;`;

export const catalogSql = `
  set check_function_bodies = off;
  create schema rw_catalog;
  ${typeLike('rw_int256', 'numeric', ', oid, integer')}
  ${typeLike('rw_map', 'jsonb', '')}
  create function rw_catalog.version() returns text language sql as $$ select '${versionText}' $$;
  create function rw_catalog.current_setting(name text) returns text language sql as $$ select case name
    when 'server_version' then '${serverVersion}' when 'server_version_num' then '130014' else pg_catalog.current_setting(name) end $$;
  create function rw_catalog.map_from_key_values(keys anyarray, vals anycompatiblearray) returns rw_catalog.rw_map language sql as $$
    select coalesce(pg_catalog.jsonb_object_agg(k::text, v), '{}')::rw_catalog.rw_map from unnest(keys, vals) as u (k, v) $$;
  create function rw_catalog.shown(kind oid, relation oid, attribute int2) returns text language sql as $$
    select case when pg_catalog.col_description(relation, attribute) is not null then pg_catalog.col_description(relation, attribute)
      when t.typname = 'rw_int256' then 'rw_int256'
      when t.typtype = 'c' then pg_catalog.obj_description(t.oid, 'pg_type')
      when t.typcategory = 'A' then rw_catalog.shown(t.typelem, relation, attribute) || '[]'
      else pg_catalog.format_type(t.oid, null) end from pg_catalog.pg_type t where t.oid = kind $$;
  create function rw_catalog.oid_of(kind oid) returns int4 language sql as $$ select case
      when t.typname = 'rw_int256' then 1301 when t.typname = 'rw_map' then 1303 when t.typtype = 'c' then 2249
      when e.typname = 'rw_int256' then 1302 when e.typtype = 'c' then 2287 else t.oid::int4 end
    from pg_catalog.pg_type t left join pg_catalog.pg_type e on e.oid = t.typelem and t.typcategory = 'A' where t.oid = kind $$;
  create view rw_catalog.rw_schemas as select oid::int4 as id, nspname::text as name, nspowner::int4 as owner
    from pg_catalog.pg_namespace;
  create view rw_catalog.rw_relations as select c.oid::int4 as id, c.relname::text as name,
    case c.relkind when 'r' then 'table' when 'm' then 'materialized view' when 'i' then 'index' else 'view' end as relation_type,
    c.relnamespace::int4 as schema_id, c.relowner::int4 as owner,
    coalesce(pg_catalog.obj_description(c.oid, 'pg_class'), '') as definition
    from pg_catalog.pg_class c where c.relkind in ('r', 'v', 'm', 'i');
  create view rw_catalog.rw_columns as select a.attrelid::int4 as relation_id, a.attname::text as name, a.attnum::int4 as position,
    false as is_hidden, coalesce(a.attnum = any (i.indkey::int2[]), false) as is_primary_key, a.attgenerated <> '' as is_generated,
    not a.attnotnull as is_nullable, rw_catalog.shown(a.atttypid, a.attrelid, a.attnum) as data_type,
    rw_catalog.oid_of(a.atttypid) as type_oid
    from pg_catalog.pg_attribute a left join pg_catalog.pg_index i on i.indrelid = a.attrelid and i.indisprimary
    where a.attnum > 0 and not a.attisdropped
    union all select c.oid::int4, '_row_id', 1000, true, true, false, false, 'serial', 20 from pg_catalog.pg_class c
    where c.relkind = 'r' and not exists (select from pg_catalog.pg_index i where i.indrelid = c.oid and i.indisprimary);

  create function rw_catalog.take_row() returns trigger language plpgsql as $$
  declare key text := tg_argv[1]; there boolean;
  begin
    execute pg_catalog.format('select true from %s t where %s', tg_argv[2], key) into there using new;
    if there is not true then return new; end if;
    if tg_argv[0] = 'ignore' then return null; end if;
    execute pg_catalog.format('delete from %s t where %s', tg_argv[2], key) using new;
    return new;
  end $$;
  create function rw_catalog.own_conflicts(relation regclass, conflict text) returns void language plpgsql as $$
  declare key text;
  begin
    select pg_catalog.string_agg(pg_catalog.format('t.%1$I = ($1).%1$I', a.attname), ' and ') into key
      from pg_catalog.pg_index i join pg_catalog.pg_attribute a on a.attrelid = i.indrelid and a.attnum = any (i.indkey::int2[])
      where i.indrelid = relation and i.indisprimary;
    if key is null then return; end if;
    execute pg_catalog.format('create or replace trigger conflicts before insert on %s for each row execute function rw_catalog.take_row(%L, %L, %L)',
      relation, conflict, key, relation);
  end $$;`;

/** Types to which PostgreSQL assigns arbitrary numbers, and RisingWave's numbers for them (src/common/src/types/postgres_type.rs). */
export const ownOidsSql = `select oid, rw_catalog.oid_of(oid) as own from pg_catalog.pg_type where rw_catalog.oid_of(oid) <> oid::int4`;
