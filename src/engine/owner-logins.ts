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
  readonly owner: string;
  readonly config: ClientConfig;
  /** The same without the owner's role, which may not end the login's processes. */
  readonly ending: ClientConfig;
}

export interface OwnerLoginsOptions {
  readonly engine: Pick<Engine, 'kind' | 'clientConfig' | 'defaultDatabase'>;
  /** The password of a login, and what PostgreSQL stores of it; null: nobody is asked for one. */
  readonly passwords: LoginPasswords | null;
}

export interface LoginPasswords {
  readonly password: (login: string) => string;
  /** The same each time: https://www.postgresql.org/docs/current/catalog-pg-authid.html */
  readonly verifier: (login: string) => string;
}

interface Found {
  readonly owner: string;
  readonly made: boolean;
  readonly fit: boolean;
}

export class OwnerLogins implements Closable {
  readonly #options: OwnerLoginsOptions;
  readonly #questions: Pool;
  /** Logins that are being made. */
  readonly #making = new Map<string, Promise<boolean>>();

  constructor(options: OwnerLoginsOptions) {
    this.#options = options;
    const { engine } = options;
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
      if (tries > attemptsMax)
        throw new LoginRefused(
          `role "${login}" is not what Headgate makes, or it is locked: DROP ROLE ${login}`,
        );
      const making = this.#making.get(login) ?? this.#make(owner, login, found);
      this.#making.set(login, making);
      const isNew = await making.finally(() => this.#making.delete(login));
      if (isNew) return this.#login(database, login, found.owner);
    }
  }

  /** Sets the password again: the owner's code may have set another one. */
  async mend(owner: number): Promise<void> {
    const { passwords } = this.#options;
    const login = `${ownerLoginPrefix}${owner}`;
    if (passwords !== null)
      await this.#ask(`alter role ${login} password ${quoteLiteral(passwords.verifier(login))}`);
  }

  close(): Promise<void> {
    return this.#questions.end();
  }

  #login(database: string, login: string, owner: string): OwnerLogin {
    const { engine, passwords } = this.#options;
    const base = engine.clientConfig(database);
    const password = passwords === null ? {} : { password: passwords.password(login) };
    const of = (role: string): ClientConfig => ({
      ...base,
      user: login,
      ...password,
      options: [base.options ?? '', ...settings, `role=${escaped(role)}`].join(' -c ').trim(),
    });
    return { owner, config: of(owner), ending: of('none') };
  }

  async #look(owner: number, login: string): Promise<Found | null> {
    const never = this.#options.passwords === null ? `h.rolvaliduntil = '-infinity'` : 'true';
    const [found] = await this.#ask<Found>(`
      select o.rolname::text as owner, h.oid is not null as made, coalesce(h.rolcanlogin and h.rolinherit and h.rolconnlimit = -1 and ${never}
        and not (h.rolsuper or h.rolcreatedb or h.rolcreaterole or h.rolreplication or h.rolbypassrls)
        and (select count(*) > 0 and bool_and(m.roleid = o.oid and not m.admin_option) from pg_auth_members m where m.member = h.oid)
        and not exists (select from pg_auth_members m join pg_roles r on r.oid = m.member where m.roleid = h.oid and r.rolname <> current_user)
        and not exists (select from pg_db_role_setting s where s.setrole = h.oid), false) as fit
      from pg_roles o left join pg_roles h on h.rolname = ${quoteLiteral(login)} where o.oid = ${owner}`);
    return found ?? null;
  }

  /** What somebody else has made of the name is taken back. Whether the role is new, and nobody can have changed it. */
  async #make(owner: number, login: string, { owner: name, made }: Found): Promise<boolean> {
    const { passwords } = this.#options;
    const verifier = passwords?.verifier(login) ?? null;
    const comment = `whom Headgate logs in as to store rows for the role with oid ${owner}`;
    try {
      await this.#ask(`${ownRoleSql(login, owner, verifier, comment)}; grant ${quote(name)} to ${login}`);
      return !made;
    } catch (error) {
      // Another Headgate makes it, too, or changes it at this moment; or its owner's code keeps it locked.
      if (/^(42710|23505|XX000|55P03)$/.test(sqlstateOf(error) ?? '')) return false;
      if (!/^(42501|0LP01|2BP01|42704)$/.test(sqlstateOf(error) ?? '')) throw error;
      throw new LoginRefused(
        `Headgate cannot make a login for role "${name}" (${(error as Error).message}): let a superuser run ` +
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

const attemptsMax = 3;

/** What the session's start sets whatever somebody has set for the role. */
const settings = [
  'default_transaction_isolation=read\\ committed',
  'idle_in_transaction_session_timeout=0',
  'idle_session_timeout=0',
  'lock_timeout=0',
];

/** In the start-up option, white space ends a word. */
function escaped(value: string): string {
  return value.replaceAll(/[\s\\]/g, '\\$&');
}

/**
 * Makes a role that Headgate logs in as, if it does not exist, and takes it from whoever has made it or got into it. `owner`: the oid of the only role
 * that it may be a member of. `verifier`: of its password, as PostgreSQL stores it; null: none is ever valid.
 */
function ownRoleSql(name: string, owner: number, verifier: string | null, comment: string): string {
  const password = verifier === null ? `valid until '-infinity'` : `password ${quoteLiteral(verifier)}`;
  const isKept = verifier === null ? `r.rolvaliduntil is not distinct from '-infinity'` : 'false';
  return `do $role$
declare
  it record;
begin
  if to_regrole('${name}') is null then
    begin
      create role ${name} login nosuperuser nocreatedb nocreaterole noreplication nobypassrls inherit ${password};
      comment on role ${name} is ${quoteLiteral(comment)};
    exception when duplicate_object or unique_violation then
      -- It is being made for another database, or by another Headgate.
      null;
    end;
  end if;
  for it in
    select r.rolname as role, m.rolname as member, g.rolname as grantor from pg_auth_members a
    join pg_roles r on r.oid = a.roleid join pg_roles m on m.oid = a.member join pg_roles g on g.oid = a.grantor
    where a.member = '${name}'::regrole and (a.roleid <> ${owner} or a.admin_option) or a.roleid = '${name}'::regrole and m.rolname <> current_user
  loop
    execute format('revoke %I from %I granted by %I cascade', it.role, it.member, it.grantor);
  end loop;
  -- Only a superuser may take these away.
  if exists (select from pg_roles r where r.rolname = '${name}' and (r.rolsuper or r.rolcreatedb or r.rolcreaterole or r.rolreplication or r.rolbypassrls)) then
    alter role ${name} nosuperuser nocreatedb nocreaterole noreplication nobypassrls;
  end if;
  if exists (select from pg_roles r where r.rolname = '${name}' and not (r.rolcanlogin and r.rolinherit and r.rolconnlimit = -1 and ${isKept})) then
    alter role ${name} login inherit connection limit -1 ${password};
  end if;
  for it in
    select case when d.oid is null then '' else format('in database %I', d.datname) end as place from pg_db_role_setting s left join pg_database d on d.oid = s.setdatabase
    where s.setrole = '${name}'::regrole
  loop
    execute format('alter role ${name} %s reset all', it.place);
  end loop;
end $role$`;
}

/** The role that stores rows of tables without code on Headgate's own engine. For a connection to each database that is served. */
export const makeWriterSql = ownRoleSql(
  writerName,
  0,
  null,
  'whom Headgate logs in as to store rows in tables that run no code',
);
