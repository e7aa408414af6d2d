import type { ClientBase } from 'pg';

const describeSql = `
with it as (
  select c.oid, c.oid::regclass::text as name, c.relkind, c.relowner, c.relrowsecurity, c.reloptions, c.relacl from pg_class c
  where c.relnamespace = 'headgate'::regnamespace
)
select kind || ' ' || name || ': ' || text as line from (
  select 'routine' as kind, p.oid::regprocedure::text as name, concat_ws(' ', pg_get_userbyid(p.proowner), pg_get_functiondef(p.oid),
    coalesce(p.proacl, acldefault('f', p.proowner))::text) as text
  from pg_proc p where p.pronamespace = 'headgate'::regnamespace
  union all
  select 'relation', it.name, concat_ws(' ', it.relkind, pg_get_userbyid(it.relowner), it.relrowsecurity, it.reloptions::text,
    coalesce(it.relacl, acldefault('r', it.relowner))::text, case it.relkind when 'v' then pg_get_viewdef(it.oid)
    when 'i' then pg_get_indexdef(it.oid) end) from it
  union all
  select 'column', concat(it.name, '.', a.attname), concat_ws(' ', format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity, a.attgenerated, pg_get_expr(d.adbin, d.adrelid), a.attacl::text)
  from it join pg_attribute a on a.attrelid = it.oid and a.attnum > 0 and not a.attisdropped
  left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum where it.relkind in ('r', 'v')
  union all
  select 'constraint', concat(it.name, '.', k.conname), replace(pg_get_constraintdef(k.oid), ' NOT VALID', '')
  from it join pg_constraint k on k.conrelid = it.oid
  union all
  select 'policy', concat(it.name, '.', p.polname), concat_ws(' ', p.polcmd, p.polroles::text, pg_get_expr(p.polqual, p.polrelid),
    pg_get_expr(p.polwithcheck, p.polrelid)) from it join pg_policy p on p.polrelid = it.oid
  union all
  select 'trigger', concat(it.name, '.', t.tgname), concat(pg_get_triggerdef(t.oid), t.tgenabled)
  from it join pg_trigger t on t.tgrelid = it.oid where not t.tgisinternal
  union all
  select 'event trigger', e.evtname, concat_ws(' ', e.evtevent, e.evtfoid::regprocedure, e.evttags::text, e.evtenabled)
  from pg_event_trigger e
) as described order by 1`;

/** Everything the schema `headgate` consists of, one line each: functions, relations, columns in no order, rights. Not its content. */
export async function describeCatalog(client: ClientBase): Promise<readonly string[]> {
  const { rows } = await client.query<{ line: string }>(describeSql);
  return rows.map(({ line }) => line);
}
