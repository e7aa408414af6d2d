/**
 * The password with which a command connects, found as psql finds it: in the connection string, PGPASSWORD or ~/.pgpass, which the `pg`
 * package reads itself; in Headgate's own settings, if this shell has them; or typed, without being shown. Takes where to connect, returns the
 * same with a password if the server asks for one; refuses with PlainError. Passwords are passed on to nobody else.
 */
import type { Settings } from '../config/settings.ts';
import { parseDsn } from '../engine/dsn.ts';
import { PlainError } from '../kit/plain-error.ts';
import type { CommandIo } from '../kit/terminal.ts';
import { sqlPassword } from '../host/door-settings.ts';
import type { Where } from './find-headgate.ts';
import { connect, Unreachable } from './session.ts';

/** How often a person may mistype it. */
const attemptsMax = 3;

export async function withPassword(where: Where, settings: Settings, io: CommandIo): Promise<Where> {
  const { user, password } = parseDsn(where.dsn).servers[0]?.config ?? {};
  if (typeof password === 'string' && password !== '') return where;
  const known = await passwordInSettings(user ?? '', settings);
  let tried = known === null ? where : withPasswordIn(where, known);
  for (let attempt = 0; ; attempt++) {
    const failure = await whyNotConnected(tried);
    if (failure === null) return tried;
    if (!failure.wantsPassword) throw failure;
    if (io.ask === undefined)
      throw new PlainError(
        `${failure.message}\nset PGPASSWORD, or write the password of role "${user ?? ''}" into ~/.pgpass`,
      );
    if (attempt === attemptsMax) throw failure;
    const typed = await io.ask(`Password of role ${user ?? ''}: `);
    if (typed === null) throw new PlainError('no password was given');
    tried = withPasswordIn(where, typed);
  }
}

/** null: there is a connection. */
async function whyNotConnected({ dsn }: Where): Promise<Unreachable | null> {
  try {
    await (await connect(dsn, 'password')).close();
    return null;
  } catch (error) {
    if (error instanceof Unreachable) return error;
    throw error;
  }
}

/** Of HEADGATE_DATABASE_URL or HEADGATE_SQL_PASSWORD, if they are about this role. */
async function passwordInSettings(user: string, settings: Settings): Promise<string | null> {
  if (settings.databaseUrl === null) return user === 'root' ? sqlPassword(settings) : null;
  const own = parseDsn(settings.databaseUrl).servers[0]?.config;
  return own?.user === user && typeof own.password === 'string' ? own.password : null;
}

function withPasswordIn(where: Where, password: string): Where {
  const dsn = `${where.dsn}${where.dsn.includes('?') ? '&' : '?'}password=${encodeURIComponent(password)}`;
  return { ...where, dsn };
}
