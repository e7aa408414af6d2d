/**
 * Whether a role and its database are allowed as many connections as Headgate cannot do without, and how many all roles are. Asked on each new connection;
 * throws TooFewConnections. A superuser has no limit, and behind a pooler the limit applies to the pooler's own connections.
 */
import type { Client } from 'pg';
import { quoteIdentifier as quote } from '../kit/sql-text.ts';
import { EngineError } from './engine.ts';

export class TooFewConnections extends EngineError {}

interface Limit {
  readonly what: string;
  readonly name: string;
  readonly most: number;
}

const limitsSql = `
  select w.what, w.name, w.most
  from pg_catalog.pg_roles r, pg_catalog.pg_database d, lateral (
    values ('ROLE', r.rolname::pg_catalog.text, r.rolconnlimit), ('DATABASE', d.datname::pg_catalog.text, d.datconnlimit)
  ) as w (what, name, most)
  where r.rolname operator(pg_catalog.=) session_user and d.datname operator(pg_catalog.=) pg_catalog.current_database()
    and not r.rolsuper and w.most operator(pg_catalog.>=) 0 and w.most operator(pg_catalog.<) $1
    and pg_catalog.pg_backend_pid() operator(pg_catalog.=) $2 limit 1`;

const serverSql = `
  select least(pg_catalog.current_setting('max_connections')::pg_catalog.int4, case when d.datconnlimit operator(pg_catalog.>=) 0 then d.datconnlimit end) as most
  from pg_catalog.pg_database d
  where d.datname operator(pg_catalog.=) pg_catalog.current_database() and pg_catalog.pg_backend_pid() operator(pg_catalog.=) $1`;

/** How many connections to this database the server allows, to all roles together; 0: behind a pooler, which has a bound of its own. */
export async function connectionsOf(client: Client): Promise<number> {
  const { processID } = client as unknown as { readonly processID: number | null };
  const { rows } = await client.query<{ most: number }>(serverSql, [processID ?? 0]);
  return rows[0]?.most ?? 0;
}

export async function refuseTooFew(client: Client, least: number): Promise<void> {
  const { processID } = client as unknown as { readonly processID: number | null };
  const { rows } = await client.query<Limit>(limitsSql, [least, processID ?? 0]);
  const [found] = rows;
  if (found === undefined) return;
  const { what, name, most } = found;
  throw new TooFewConnections(
    `${what.toLowerCase()} ${quote(name)} may have ${most} ${most === 1 ? 'connection' : 'connections'}, and Headgate needs ${least} at ` +
      `least: ALTER ${what} ${quote(name)} CONNECTION LIMIT 20`,
  );
}
