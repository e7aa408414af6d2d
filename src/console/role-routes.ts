/**
 * What a session with a role asks the console of its database: who it is, SQL of the editor, and what PostgreSQL says this role may see of Headgate's
 * own knowledge. Takes requests whose Host and origin were checked; answers in JSON. Refuses with `login_required`, `malformed_request`, and with the
 * engine's own errors.
 */
import type { Machine, Me, SqlCall, SqlTable } from './api.ts';
import { readObject, readOids, readSqlCall } from './body.ts';
import { writeJson } from './headers.ts';
import { isWorthKeeping, refusals, restsOnCatalog } from '../errors/refusals.ts';
import type { RefusalCode } from '../errors/refusals.ts';
import { consoleRefusals } from '../errors/refusals-console.ts';
import { goneOf } from './request-sessions.ts';
import type { Asked, RequestSessions } from './request-sessions.ts';
import { visibleTables } from './statements.ts';

/** What other rooms know, and not every role may see. */
export interface RoleAnswers {
  machine(): Promise<Machine>;
  /** Why requests for these tables cannot be taken, by oid: of those alone for which they cannot. */
  unusable(database: string, oids: readonly number[]): Promise<Readonly<Record<string, string>>>;
  /** What is the same for all sessions. */
  about(
    role: string,
    database: string,
  ): Omit<Me, 'role' | 'superuser' | 'creates' | 'database' | 'shared' | 'login' | 'codes' | 'keptCodes'>;
}

export class RoleRoutes {
  readonly #answers: RoleAnswers;
  readonly #requests: RequestSessions;

  constructor(answers: RoleAnswers, requests: RequestSessions) {
    this.#answers = answers;
    this.#requests = requests;
  }

  async me(asked: Asked): Promise<void> {
    const { who } = this.#requests.ofRole(asked.request);
    // It names nothing of the catalog: the database may have none.
    const sql = `SELECT pg_catalog.current_database(), current_user, (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user),
  has_database_privilege(pg_catalog.current_database(), 'CREATE'::text) OR EXISTS (SELECT FROM pg_catalog.pg_namespace n
    WHERE n.nspname NOT IN ('pg_catalog', 'pg_toast', 'information_schema') AND has_schema_privilege(n.oid, 'CREATE'::text))`;
    const rows = await this.#read(asked, sql);
    if (rows === null) return;
    const [database, role, superuser, creates] = rows[0] ?? [];
    const { login } = this.#requests.session(asked.request);
    const me: Me = {
      role: role ?? who.user,
      superuser: superuser === 't',
      creates: creates === 't',
      database: database ?? who.database,
      shared: login.maker !== null,
      login: login.id,
      codes: filterCodes,
      keptCodes: filterCodes.filter(isWorthKeeping),
      ...this.#answers.about(who.user, who.database),
    };
    writeJson(asked.response, 200, me);
  }

  /** Details of the machine are shown to the roles to which PostgreSQL would show such things. */
  async machine(asked: Asked): Promise<void> {
    const rows = await this.#read(asked, `SELECT pg_has_role('pg_monitor', 'USAGE')`);
    if (rows === null) return;
    const may = rows[0]?.[0] === 't';
    writeJson(asked.response, 200, may ? await this.#answers.machine() : null);
  }

  async sql(asked: Asked): Promise<void> {
    const { runner } = this.#requests.ofRole(asked.request);
    const call = readSqlCall(await readObject(asked.request));
    const answer = await this.#requests.run(asked, () => runner.run(call, goneOf(asked.response)));
    if (answer !== null) writeJson(asked.response, 200, answer);
  }

  async unusable(asked: Asked): Promise<void> {
    const { who } = this.#requests.ofRole(asked.request);
    const oids = readOids(await readObject(asked.request));
    if (oids.length === 0) return writeJson(asked.response, 200, {});
    const seen = await this.#read(asked, visibleTables(oids));
    if (seen === null) return;
    const visible = seen.map(([oid]) => Number(oid));
    const answer = await this.#requests.run(asked, () => this.#answers.unusable(who.database, visible));
    if (answer !== null) writeJson(asked.response, 200, answer);
  }

  /** null: the engine has refused it, and the refusal was answered. */
  async #read(asked: Asked, sql: string): Promise<SqlTable['rows'] | null> {
    const { runner } = this.#requests.ofRole(asked.request);
    const call: SqlCall = { sql, write: false, own: true };
    const answer = await this.#requests.run(asked, () => runner.run(call, goneOf(asked.response)));
    return answer === null ? null : (answer.tables[0]?.rows ?? []);
  }
}

/** Every one but those of the console itself: first those that a table and its check decide, then what else is kept for the owner of a table. */
const filterCodes = (Object.keys(refusals) as RefusalCode[])
  .filter((code) => !Object.hasOwn(consoleRefusals, code))
  .toSorted((a, b) => placeOf(a) - placeOf(b));

function placeOf(code: RefusalCode): number {
  return (isWorthKeeping(code) ? 0 : 2) + (restsOnCatalog(code) ? 0 : 1);
}
