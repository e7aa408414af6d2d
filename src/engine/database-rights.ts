/**
 * Whether a role may drop, rename or move a database, or copy it: asked before Headgate lets go of a database because of such a statement, which anybody
 * may send. Takes the role that a client has logged in as, and may be a member of others; returns false if that cannot be found out. Opens a
 * connection for each question, one at a time: an open one would be in the way.
 */
import { limits } from '../config/limits.ts';
import { Semaphore } from '../kit/semaphore.ts';
import { withClient } from './close-client.ts';
import type { Engine } from './engine.ts';

/** $1 role, $2 database. Whoever may create databases may copy a template. */
const asks = `select from pg_catalog.pg_database d where d.datname operator(pg_catalog.=) $2::pg_catalog.name and (
  pg_catalog.pg_has_role($1::pg_catalog.name, d.datdba, 'MEMBER') or d.datistemplate and exists (
    select from pg_catalog.pg_roles r where r.rolcreatedb and pg_catalog.pg_has_role($1::pg_catalog.name, r.oid, 'MEMBER')))`;

export class DatabaseRights {
  readonly #engine: Pick<Engine, 'kind' | 'clientConfig' | 'defaultDatabase'>;
  readonly #turns = new Semaphore(1);

  constructor(engine: Pick<Engine, 'kind' | 'clientConfig' | 'defaultDatabase'>) {
    this.#engine = engine;
  }

  /** Whether a role may drop, rename, move or copy a database. */
  async may(role: string, database: string): Promise<boolean> {
    const done = await this.#turns.turn();
    const { kind, clientConfig, defaultDatabase } = this.#engine;
    const home = clientConfig(kind === 'embedded' ? 'postgres' : defaultDatabase);
    const config = { ...home, application_name: 'headgate rights' };
    try {
      return await withClient(
        config,
        limits.engineAnswerMs,
        async (client) => (await client.query(asks, [role, database])).rowCount === 1,
      );
    } catch {
      return false;
    } finally {
      done();
    }
  }
}
