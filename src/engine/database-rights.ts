/**
 * Whether a role may drop, rename or move a database, or copy it, and PostgreSQL would then do so: it waits 5 s for other sessions to end, and refuses. Asked before Headgate lets go of a database because of such a statement, which anybody
 * may send. Takes the role that a client has logged in as, and may be a member of others; returns false if that cannot be found out. Opens a
 * connection for each question, one at a time: an open one would be in the way.
 */
import { limits } from '../config/limits.ts';
import { Semaphore } from '../kit/semaphore.ts';
import { withClient } from './close-client.ts';
import type { Engine } from './engine.ts';

/**
 * $1 role, $2 database, $3 how many sessions may stay there; null: all. Whoever may create databases may copy a template. Sessions that Headgate can let go
 * of have names of two words; `headgate` alone watches the server, and stays. Background workers have no role.
 */
const asks = `select from pg_catalog.pg_database d where d.datname operator(pg_catalog.=) $2::pg_catalog.name and (
  pg_catalog.pg_has_role($1::pg_catalog.name, d.datdba, 'MEMBER') or d.datistemplate and exists (
    select from pg_catalog.pg_roles r where r.rolcreatedb and pg_catalog.pg_has_role($1::pg_catalog.name, r.oid, 'MEMBER')))
  and ($3::pg_catalog.int8 is null or $3 operator(pg_catalog.>=) (
    select pg_catalog.count(*) from pg_catalog.pg_stat_activity a
    where a.datid operator(pg_catalog.=) d.oid and a.usesysid is not null and not pg_catalog.starts_with(a.application_name, 'headgate ')))`;

export class DatabaseRights {
  readonly #engine: Pick<Engine, 'kind' | 'clientConfig' | 'defaultDatabase'>;
  readonly #turns = new Semaphore(1);

  constructor(engine: Pick<Engine, 'kind' | 'clientConfig' | 'defaultDatabase'>) {
    this.#engine = engine;
  }

  /** Whether a role may drop, rename, move or copy a database, in which at most so many sessions of others, or null for any number, may stay. */
  async may(role: string, database: string, sessions: number | null): Promise<boolean> {
    const done = await this.#turns.turn();
    const { kind, clientConfig, defaultDatabase } = this.#engine;
    const home = clientConfig(kind === 'embedded' ? 'postgres' : defaultDatabase);
    const config = { ...home, application_name: 'headgate rights' };
    try {
      return await withClient(
        config,
        limits.engineAnswerMs,
        async (client) => (await client.query(asks, [role, database, sessions])).rowCount === 1,
      );
    } catch {
      return false;
    } finally {
      done();
    }
  }
}
