/**
 * The roles that Headgate logs in as to store rows: `headgate_commit` for tables without code, on its own engine, and for each owner of a table with
 * code a login that is a member of that role. Takes an engine; returns configurations for clients; refuses with LoginRefused, in
 * one sentence with what has to be run. Makes and repairs roles, over connections of its own as Headgate's role.
 *
 * A login of its own, and not the owner: what the owner's role is set to (CONNECTION LIMIT, NOLOGIN, VALID UNTIL, ALTER ROLE … SET) is not meant for
 * these sessions, and the owner's other sessions cannot end them. The role is set when the session starts, so RESET ROLE and DISCARD ALL lead back to the
 * owner, and SET ROLE NONE to the login, which has the owner's rights and no others.
 */
import { randomUUID } from 'node:crypto';
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
  readonly login: string;
  readonly config: ClientConfig;
  /** The same without the owner's role, which may not end the login's processes. */
  readonly ending: ClientConfig;
}

export interface LoginPasswords {
  readonly password: (login: string) => string;
  /** The same each time: https://www.postgresql.org/docs/current/catalog-pg-authid.html */
  readonly verifier: (login: string) => string;
}

interface FoundLogin {
  readonly owner: string;
  /** A login of the owner, or what has the name that a superuser gives one; null: nothing. */
  readonly login: string | null;
  /** It is a member of the owner, which nobody else can have made it. */
  readonly own: boolean;
  readonly fit: boolean;
}

export class OwnerLogins implements Closable {
  readonly #engine: Pick<Engine, 'kind' | 'clientConfig' | 'defaultDatabase'>;
  readonly #passwords: LoginPasswords | null;
  readonly #questions: Pool;
  /** Logins that are being made. */
  readonly #making = new Map<string, Promise<void>>();

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
    const usual = `${ownerLoginPrefix}${owner}`;
    let failed: unknown;
    for (let tries = 1; ; tries++) {
      const found = await this.#look(owner, usual);
      if (found === null) throw new LoginRefused('the owner of the table is no role any more');
      if (found.fit && found.login !== null) return this.#login(database, found.login, found.owner);
      if (tries > 3 || denied.test(sqlstateOf(failed) ?? '')) throw this.#refused(usual, found, failed);
      const making = this.#making.get(usual) ?? this.#make(owner, usual, found);
      this.#making.set(usual, making);
      failed = await making.catch((error: unknown) => error);
      this.#making.delete(usual);
      if (failed !== undefined && !retried.test(sqlstateOf(failed) ?? '')) throw failed;
    }
  }

  /** Sets the password again: the owner's code may have set another one, or the master key is another. */
  async mend(login: string): Promise<void> {
    const verifier = this.#passwords?.verifier(login);
    if (verifier === undefined) return;
    const statement = `ALTER ROLE ${login} PASSWORD ${quoteLiteral(verifier)}`;
    try {
      await this.#ask(statement);
    } catch (error) {
      if (!denied.test(sqlstateOf(error) ?? '')) throw error;
      throw new LoginRefused(
        `role "${login}" has not the password that Headgate has for it, and Headgate may not set it (${(error as Error).message}): let a superuser run ${statement}`,
      );
    }
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
    return { login, config: of(owner), ending: of('none') };
  }

  /**
   * A login with other roles than its owner's is not fit, unless they are a gift of whoever may give them away: anybody may give the login something, and
   * must not stop it so. In a restored dump the oid in its name, and the roles that a superuser or Headgate has given it, are those of another server.
   */
  async #look(owner: number, usual: string): Promise<FoundLogin | null> {
    const never = this.#passwords === null ? `h.rolvaliduntil = '-infinity'` : 'true';
    const [found] = await this.#ask<FoundLogin>(`
      select o.rolname::text as owner, h.rolname::text as login,
        exists (select from pg_auth_members m where m.member = h.oid and m.roleid = o.oid) as own,
        coalesce(h.rolcanlogin and h.rolinherit and h.rolconnlimit = -1 and ${never}
        and not (h.rolsuper or h.rolcreatedb or h.rolcreaterole or h.rolreplication or h.rolbypassrls)
        and (select bool_or(m.roleid = o.oid) and bool_and(m.roleid = o.oid and not m.admin_option or not coalesce(g.rolsuper or g.rolname = current_user, true))
          from pg_auth_members m left join pg_roles g on g.oid = m.grantor where m.member = h.oid)
        and not exists (select from pg_auth_members m join pg_roles r on r.oid = m.member where m.roleid = h.oid and r.rolname <> current_user)
        and not exists (select from pg_db_role_setting s where s.setrole = h.oid), false) as fit
      from pg_roles o left join lateral (
        select r.* from pg_roles r where r.rolname = ${quoteLiteral(usual)}
        union all
        select r.* from pg_auth_members m join pg_roles r on r.oid = m.member where m.roleid = o.oid and starts_with(r.rolname, ${quoteLiteral(`${usual}_`)})
      ) as h on true where o.oid = ${owner} order by fit desc, own desc limit 1`);
    return found ?? null;
  }

  /**
   * By a name that nobody knows before: where Headgate makes roles, so may others, and a session that has become such a role, or has logged in as it, stays
   * it. In the place of one that is not as Headgate makes it.
   */
  async #make(owner: number, usual: string, { owner: name, login: found, own }: FoundLogin): Promise<void> {
    const login = `${usual}_${randomUUID().replaceAll('-', '')}`;
    const verifier = this.#passwords?.verifier(login) ?? null;
    const password = verifier === null ? `valid until '-infinity'` : `password ${quoteLiteral(verifier)}`;
    await this.#ask(
      `${own ? `drop role ${found}; ` : ''}create role ${login} login ${plainRole} ${password}; grant ${quote(name)} to ${login};
      comment on role ${login} is 'whom Headgate logs in as to store rows for the role with oid ${owner}'`,
    );
  }

  #refused(usual: string, { owner, login }: FoundLogin, failed: unknown): LoginRefused {
    const first = login === null ? '' : `DROP OWNED BY ${login}; DROP ROLE ${login}; `;
    const statements = first + loginStatements(usual, owner, this.#passwords?.verifier(usual) ?? null);
    const why = failed instanceof Error ? failed.message : 'others change it';
    return new LoginRefused(
      `Headgate cannot make a login for role "${owner}" (${why}): let a superuser run ${statements}`,
    );
  }

  /** Names mean PostgreSQL's own objects, whatever others have made in the database. */
  async #ask<R extends object>(sql: string): Promise<readonly R[]> {
    const results = (await this.#questions.query(
      `begin; set local search_path = pg_catalog, pg_temp; set local lock_timeout = ${limits.loginLockMs}; ${sql}; commit`,
    )) as unknown as readonly { readonly command: string; readonly rows: readonly R[] }[];
    return results.find(({ command }) => command === 'SELECT')?.rows ?? [];
  }
}

const denied = /^(42501|0LP01|2BP01)$/;
/** The role is looked at again: another Headgate changes it at this moment, or has dropped it; somebody keeps it locked; or that is denied. */
const retried = /^(42704|XX000|55P03|42501|0LP01|2BP01)$/;

/** What the session's start sets whatever somebody has set for the role. */
const settings = [
  'default_transaction_isolation=read\\ committed',
  'idle_in_transaction_session_timeout=0',
  'idle_session_timeout=0',
  'lock_timeout=0',
  'row_security=on',
];

const plainRole = 'nosuperuser nocreatedb nocreaterole noreplication nobypassrls inherit';

/**
 * PL/pgSQL that makes a role of Headgate's own, run as a superuser. The superuser is made a member of it: nobody else can write a grant of a superuser's, and
 * without it somebody else has made the role, also if that role is gone. PostgreSQL lets whoever makes a role become it, and it may have left functions with its
 * rights: it gets another name. `comment`: on the role; `isLost`: whether one of Headgate's has to be given up, too.
 */
export const makeOwnRole = (name: string, comment: string, isLost = 'false'): string => `
  if to_regrole('${name}') is not null and (${isLost} or not exists (
    select from pg_auth_members m join pg_roles g on g.oid = m.grantor
    where m.roleid = to_regrole('${name}') and m.member = current_user::regrole and g.rolsuper))
  then
    execute format('alter role ${name} nologin; alter role ${name} rename to %I', concat('${name}_', replace(gen_random_uuid()::text, '-', '')));
  end if;
  if to_regrole('${name}') is null then
    begin
      create role ${name} login ${plainRole} valid until '-infinity' role current_user;
      comment on role ${name} is '${comment}';
    exception when duplicate_object or unique_violation then
      -- It is being made for another database, or by another Headgate.
      null;
    end;
  end if;`;

/**
 * Makes the roles of an earlier version, which did not make that grant, Headgate's own. As that version did, it leaves out a role that one with
 * CREATEROLE has made, whose grant is ADMIN and nothing else.
 */
export const markOwnRolesSql = `do $mark$
declare
  role name;
begin
  for role in
    select r.rolname from pg_roles r where r.rolname in ('${writerName}', 'headgate_gateway') and not exists (
      select from pg_auth_members m join pg_roles o on o.oid = m.member
      where m.roleid = r.oid and m.admin_option and to_jsonb(m) ->> 'set_option' = 'false' and not o.rolsuper)
  loop
    execute format('grant %I to current_user', role);
  end loop;
end $mark$`;

/**
 * The role that stores rows of tables without code on Headgate's own engine. It can create nothing: one that owns something, such as a function with its
 * rights, is given up. For a connection to each database that is served.
 */
export const makeWriterSql = `do $role$
declare
  it record;
begin
  perform from pg_authid where rolname = '${writerName}' for update;
  ${makeOwnRole(
    writerName,
    'whom Headgate logs in as to store rows in tables that run no code',
    `exists (select from pg_shdepend where refclassid = 'pg_authid'::regclass and refobjid = to_regrole('${writerName}')::oid and deptype = 'o')`,
  )}
  for it in
    select format('alter role ${writerName} %s reset all', place) as undo
    from unnest(array['', 'in database ' || quote_ident(current_database())]) as place
    union all
    select format('revoke all on %s from %I', o.name, r.rolname) from (
      select c.oid::regclass::text, c.relacl from headgate.webhook_table w join pg_class c on c.oid = w.relation
      union all
      select concat('routine ', p.oid::regprocedure), p.proacl from pg_proc p where p.pronamespace = 'headgate'::regnamespace
    ) as o (name, acl) cross join lateral aclexplode(o.acl) as a join pg_roles r on r.oid = a.grantee
    where r.rolname ~ '^${writerName}_[0-9a-f]{32}$'
  loop
    execute it.undo;
  end loop;
end $role$`;
