/**
 * Functions for the role of the events gateway, which may use nothing in schema `headgate`: the statements that store its rows ask them about the table
 * (commit/plan-lock.ts), as those for webhook tables ask headgate.stays() (relations/owner-code.ts). They are in each database of the embedded engine
 * (engine/gateway-role.ts), and on no other: `Code.functionsIn`, which relations.ts sets. They run with the caller's rights,
 * every name in them refers to PostgreSQL's own object, and the role could do what they do without them, at a higher cost. SQL, pure.
 */
import { namedRelation } from '../relations/identifier-check.ts';
import { confirmFunctions } from '../relations/owner-code.ts';

const schema = 'headgate_functions';

/** Run by the superuser that owns the schema, in a transaction. */
export const gatewayFunctions = `${confirmFunctions(schema, '')}
${namedRelation(schema)}
drop function if exists ${schema}.hold_inert(text, oid, text)`;

/**
 * Whether the current role may use these functions, and their owner could do all that the role can. They are used only
 * with a relation that the role may read, because the statements read from each stored row which table it is in.
 */
export const hasGatewayFunctions = (relation: string): string => `exists (
  select from pg_catalog.pg_namespace n join pg_catalog.pg_roles o on o.oid operator(pg_catalog.=) n.nspowner
  where n.nspname operator(pg_catalog.=) '${schema}' and o.rolsuper and pg_catalog.has_schema_privilege(n.oid, 'USAGE')
    and exists (select from pg_catalog.pg_type t where t.typname operator(pg_catalog.=) 'named_relation'
      and t.typnamespace operator(pg_catalog.=) n.oid and t.typowner operator(pg_catalog.=) n.nspowner)
    and 2 operator(pg_catalog.=) (
      select pg_catalog.count(*) from pg_catalog.pg_proc p
      where p.pronamespace operator(pg_catalog.=) n.oid and p.proowner operator(pg_catalog.=) n.nspowner
        and p.proname in ('confirm', 'stays') and pg_catalog.oidvectortypes(p.proargtypes) operator(pg_catalog.=) 'text, oid, text, oid'
        and pg_catalog.has_function_privilege(p.oid, 'EXECUTE')))
  and pg_catalog.has_table_privilege(${relation}, 'SELECT')`;
