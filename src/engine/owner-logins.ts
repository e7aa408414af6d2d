/**
 * The roles that Headgate logs in as to store rows: `headgate_commit` for tables without code, on its own engine, and for each owner of a table with
 * code a login that is a member of that role and of nothing else. Takes an engine; returns configurations for clients; refuses with LoginRefused, in
 * one sentence with what has to be run. Makes and repairs roles, over connections of its own as Headgate's role.
 *
 * A login of its own, and not the owner: what the owner's role is set to (CONNECTION LIMIT, NOLOGIN, VALID UNTIL, ALTER ROLE … SET) is not meant for
 * these sessions, and the owner's other sessions cannot end them. The role is set when the session starts, so RESET ROLE and DISCARD ALL lead back to the
 * owner, and SET ROLE NONE to the login, which has the owner's rights and no others.
 */
import { Pool } from 'pg';
import type { ClientConfig } from 'pg';
import type { Closable } from '../kit/closer.ts';
import { quoteIdentifier as quote, quoteLiteral } from '../kit/sql-text.ts';
import { limits } from '../config/limits.ts';
import type { Engine } from './engine.ts';
import { loginStatements, ownerLoginPrefix, writerName } from './login-names.ts';
import { sqlstateOf } from './sqlstate.ts';

/** Headgate cannot log in for the owner of a table. */
export class LoginRefused extends Error {
  override readonly name = 'LoginRefused';
}

export interface OwnerLogin {
  readonly config: ClientConfig;
  /** The same without the owner's role, which may not end the login's processes. */
  readonly ending: ClientConfig;
}

export interface LoginPasswords {
  readonly password: (login: string) => string;
  /** The same each time: https://www.postgresql.org/docs/current/catalog-pg-authid.html */
  readonly verifier: (login: string) => string;
}

interface Found {
  readonly owner: string;
  /** The oid of the login; null: it has not been made. */
  readonly made: string | null;
  readonly fit: boolean;
}

export class OwnerLogins implements Closable {
  readonly #engine: Pick<Engine, 'kind' | 'clientConfig' | 'defaultDatabase'>;
  readonly #passwords: LoginPasswords | null;
  readonly #questions: Pool;
  /** Logins that are being made. */
  readonly #making = new Map<string, Promise<boolean>>();

  /** `passwords`: the password of a login, and what PostgreSQL stores of it; null: nobody is asked for one. */
  constructor(
    engine: Pick<Engine, 'kind' | 'clientConfig' | 'defaultDatabase'>,
    passwords: LoginPasswords | null,
  ) {
    this.#engine = engine;
    this.#passwords = passwords;
    this.#questions = new Pool({
      // Not the default database of Headgate's own engine: its owner may want to drop or rename it.
      ...engine.clientConfig(engine.kind === 'embedded' ? 'postgres' : engine.defaultDatabase),
      application_name: 'headgate logins',
      max: limits.loginConnectionsMax,
      idleTimeoutMillis: 10_000,
      connectionTimeoutMillis: limits.engineAnswerMs,
      query_timeout: limits.engineAnswerMs,
    });
    this.#questions.on('error', () => undefined);
  }

  /** For a session of the role `owner` (an oid). Looks at the login each time: whoever may make roles may have changed it. */
  async owner(database: string, owner: number): Promise<OwnerLogin> {
    const login = `${ownerLoginPrefix}${owner}`;
    for (let tries = 1; ; tries++) {
      const found = await this.#look(owner, login);
      if (found === null) throw new LoginRefused('the owner of the table is no role any more');
      if (found.fit) return this.#login(database, login, found.owner);
      if (tries > 3)
        throw new LoginRefused(`role "${login}" is not as Headgate makes it, or locked: DROP ROLE ${login}`);
      const making = this.#making.get(login) ?? this.#make(owner, login, found);
      this.#making.set(login, making);
      const isMade = await making.finally(() => this.#making.delete(login));
      if (isMade) return this.#login(database, login, found.owner);
    }
  }

  /** Sets the password again: the owner's code may have set another one. */
  async mend(owner: number): Promise<void> {
    const login = `${ownerLoginPrefix}${owner}`;
    const verifier = this.#passwords?.verifier(login);
    if (verifier !== undefined) await this.#ask(`alter role ${login} password ${quoteLiteral(verifier)}`);
  }

  close(): Promise<void> {
    return this.#questions.end();
  }

  #login(database: string, login: string, owner: string): OwnerLogin {
    const passwords = this.#passwords;
    const base = this.#engine.clientConfig(database);
    const password = passwords === null ? {} : { password: passwords.password(login) };
    const of = (role: string): ClientConfig => ({
      ...base,
      user: login,
      ...password,
      // White space ends a word there.
      options: [base.options ?? '', ...settings, `role=${role.replaceAll(/[\s\\]/g, '\\$&')}`]
        .join(' -c ')
        .trim(),
    });
    return { config: of(owner), ending: of('none') };
  }

  async #look(owner: number, login: string): Promise<Found | null> {
    const never = this.#passwords === null ? `h.rolvaliduntil = '-infinity'` : 'true';
    const [found] = await this.#ask<Found>(`
      select o.rolname::text as owner, h.oid::text as made, coalesce(h.rolcanlogin and h.rolinherit and h.rolconnlimit = -1 and ${never}
        and not (h.rolsuper or h.rolcreatedb or h.rolcreaterole or h.rolreplication or h.rolbypassrls)
        and (select count(*) > 0 and bool_and(m.roleid = o.oid and not m.admin_option) from pg_auth_members m where m.member = h.oid)
        and not exists (select from pg_auth_members m join pg_roles r on r.oid = m.member where m.roleid = h.oid and r.rolname <> current_user)
        and not exists (select from pg_db_role_setting s where s.setrole = h.oid), false) as fit
      from pg_roles o left join pg_roles h on h.rolname = ${quoteLiteral(login)} where o.oid = ${owner}`);
    return found ?? null;
  }

  /**
   * What somebody else has made of the name is dropped: a session that has become such a role, or has logged in as it, stays it, and would have the owner's
   * rights. Whether the login is there.
   */
  async #make(owner: number, login: string, { owner: name, made }: Found): Promise<boolean> {
    const passwords = this.#passwords;
    const verifier = passwords?.verifier(login) ?? null;
    const password = verifier === null ? `valid until '-infinity'` : `password ${quoteLiteral(verifier)}`;
    const drop = `do $$ begin if to_regrole('${login}')::oid = ${made ?? 0} then drop role ${login}; end if; end $$`;
    try {
      await this.#ask(
        `${drop}; create role ${login} login ${plainRole} ${password}; grant ${quote(name)} to ${login};
        comment on role ${login} is 'whom Headgate logs in as to store rows for the role with oid ${owner}'`,
      );
      return true;
    } catch (error) {
      // Another Headgate makes it, too, or changes it at this moment; or its owner's code keeps it locked.
      if (/^(42710|23505|XX000|55P03)$/.test(sqlstateOf(error) ?? '')) return false;
      if (!/^(42501|0LP01|2BP01|42704)$/.test(sqlstateOf(error) ?? '')) throw error;
      const first = made === null ? '' : `DROP OWNED BY ${login}; DROP ROLE ${login}; `;
      throw new LoginRefused(
        `Headgate cannot make a login for role "${name}" (${(error as Error).message}): let a superuser run ` +
          first +
          loginStatements(login, name, verifier),
      );
    }
  }

  /** Names mean PostgreSQL's own objects, whatever others have made in the database. */
  async #ask<R extends object>(sql: string): Promise<readonly R[]> {
    const results = (await this.#questions.query(
      `begin; set local search_path = pg_catalog, pg_temp; set local lock_timeout = ${limits.loginLockMs}; ${sql}; commit`,
    )) as unknown as readonly { readonly command: string; readonly rows: readonly R[] }[];
    return results.find(({ command }) => command === 'SELECT')?.rows ?? [];
  }
}

/** What the session's start sets whatever somebody has set for the role. */
const settings = [
  'default_transaction_isolation=read\\ committed',
  'idle_in_transaction_session_timeout=0',
  'idle_session_timeout=0',
  'lock_timeout=0',
];

const plainRole = 'nosuperuser nocreatedb nocreaterole noreplication nobypassrls inherit';

/**
 * The role that stores rows of tables without code on Headgate's own engine, taken from whoever has made it or got into it: before the engine was
 * started, so no session has become it. For a connection to each database that is served.
 */
export const makeWriterSql = `do $role$
declare
  it record;
begin
  if to_regrole('${writerName}') is null then
    begin
      create role ${writerName} login ${plainRole} valid until '-infinity';
      comment on role ${writerName} is 'whom Headgate logs in as to store rows in tables that run no code';
    exception when duplicate_object or unique_violation then
      -- It is being made for another database, or by another Headgate.
      null;
    end;
  end if;
  for it in
    select format('revoke %I from %I granted by %I cascade', r.rolname, m.rolname, g.rolname) as undo from pg_auth_members a
    join pg_roles r on r.oid = a.roleid join pg_roles m on m.oid = a.member join pg_roles g on g.oid = a.grantor
    where m.rolname = '${writerName}' or r.rolname = '${writerName}' and m.rolname <> current_user
    union all
    select $$alter role ${writerName} login ${plainRole} connection limit -1 valid until '-infinity'$$ from pg_roles where rolname = '${writerName}'
      and (rolsuper or rolcreatedb or rolcreaterole or rolreplication or rolbypassrls or not rolcanlogin or not rolinherit
        or rolconnlimit <> -1 or rolvaliduntil is distinct from '-infinity')
    union all
    select concat('alter role ${writerName} ', 'in database ' || quote_ident(d.datname), ' reset all') from pg_db_role_setting s
    left join pg_database d on d.oid = s.setdatabase where s.setrole = '${writerName}'::regrole
  loop
    execute it.undo;
  end loop;
end $role$`;
