/**
 * Whether a role and its database are allowed as many connections as Headgate cannot do without. Checked on each new connection;
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
