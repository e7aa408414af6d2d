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

interface Found {
  readonly owner: string;
  /** What has the name of a login of the owner; null: nothing. */
  readonly login: string | null;
  readonly made: string;
  /** It is a member of the owner, which nobody else can have made it. */
  readonly own: boolean;
  readonly fit: boolean;
}

export class OwnerLogins implements Closable {
  readonly #engine: Pick<Engine, 'kind' | 'clientConfig' | 'defaultDatabase'>;
  readonly #passwords: LoginPasswords | null;
  readonly #questions: Pool;
  /** Logins that are being made. */
  readonly #making = new Map<string, Promise<string | null>>();

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
    for (let tries = 1; ; tries++) {
      const found = await this.#look(owner, usual);
      if (found === null) throw new LoginRefused('the owner of the table is no role any more');
      if (found.fit && found.login !== null) return this.#login(database, found.login, found.owner);
      if (tries > 3) {
        const login = found.login ?? usual;
        throw new LoginRefused(`role "${login}" is not as Headgate makes it, or locked: DROP ROLE ${login}`);
      }
      const making = this.#making.get(usual) ?? this.#make(owner, usual, found);
      this.#making.set(usual, making);
      const made = await making.finally(() => this.#making.delete(usual));
      if (made !== null) return this.#login(database, made, found.owner);
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
  async #look(owner: number, usual: string): Promise<Found | null> {
    const never = this.#passwords === null ? `h.rolvaliduntil = '-infinity'` : 'true';
    const [found] = await this.#ask<Found>(`
      select o.rolname::text as owner, h.rolname::text as login, coalesce(h.oid, 0)::text as made,
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
   * The name of the login that is there now; null: look again. Where Headgate makes roles, so may others, who keep the usual name in an open transaction, or
   * give it something that is lost with the role: then the login has another name, which nobody knows before.
   */
  async #make(owner: number, usual: string, found: Found): Promise<string | null> {
    const login = found.own ? (found.login ?? usual) : usual;
    const failed = await this.#makeRole(owner, login, found);
    if (failed === null) return login;
    const state = sqlstateOf(failed) ?? '';
    const isBusy = busy.test(state);
    if (!isBusy && !denied.test(state)) throw failed;
    if (!found.own && (isBusy ? state === '55P03' : found.login !== null)) {
      const other = `${usual}_${randomUUID().replaceAll('-', '')}`;
      if ((await this.#makeRole(owner, other, { ...found, made: '0' })) === null) return other;
    }
    if (isBusy) return null;
    const first = found.login === null ? '' : `DROP OWNED BY ${login}; DROP ROLE ${login}; `;
    const statements = first + loginStatements(login, found.owner, this.#passwords?.verifier(login) ?? null);
    throw new LoginRefused(
      `Headgate cannot make a login for role "${found.owner}" (${failed.message}): let a superuser run ${statements}`,
    );
  }

  /**
   * What somebody else has made of the name is dropped: a session that has become such a role, or has logged in as it, stays it, and would have the owner's
   * rights. Returns the server's error.
   */
  async #makeRole(
    owner: number,
    login: string,
    { owner: name, made }: Pick<Found, 'owner' | 'made'>,
  ): Promise<Error | null> {
    const verifier = this.#passwords?.verifier(login) ?? null;
    const password = verifier === null ? `valid until '-infinity'` : `password ${quoteLiteral(verifier)}`;
    const drop = `do $$ begin if to_regrole('${login}')::oid = ${made} then drop role ${login}; end if; end $$`;
    try {
      await this.#ask(
        `${drop}; create role ${login} login ${plainRole} ${password}; grant ${quote(name)} to ${login};
        comment on role ${login} is 'whom Headgate logs in as to store rows for the role with oid ${owner}'`,
      );
      return null;
    } catch (error) {
      return error as Error;
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

/** Another Headgate makes the role, too, or changes it at this moment; or somebody keeps it locked. */
const busy = /^(42710|23505|XX000|55P03)$/;
const denied = /^(42501|0LP01|2BP01|42704)$/;

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
 * started, so no session has become it. It can create nothing: one that owns something, such as a function with its rights, is another role, and gets another
 * name. For a connection to each database that is served.
 */
export const makeWriterSql = `do $role$
declare
  it record;
begin
  perform from pg_authid where rolname = '${writerName}' for update;
  if exists (select from pg_shdepend where refclassid = 'pg_authid'::regclass and refobjid = to_regrole('${writerName}')::oid and deptype = 'o') then
    execute format('alter role ${writerName} nologin; alter role ${writerName} rename to %I', concat('${writerName}_', replace(gen_random_uuid()::text, '-', '')));
  end if;
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
