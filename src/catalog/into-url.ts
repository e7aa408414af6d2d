/**
 * Where the rows of a table go, as its secret says: postgresql://user:password@host:port/database[?sslmode=…]. Takes that text and the hosts that are
 * allowed; throws the reason in one line, which shows nothing of it but the host.
 */
import { createHash } from 'node:crypto';
import { isIPv6 } from 'node:net';
import { parseDsn } from '../engine/dsn.ts';
import type { Into } from '../types/target.ts';

const form = 'postgresql://user:password@host:port/database, with no other option than sslmode';
/** Nothing that names a file, another host or another way to log in. */
const shape =
  /^postgres(?:ql)?:\/\/[^/?#@:,]+(?::[^/?#@]*)?@[^/?#@,%]+:\d+\/[^/?#]+(?:\?sslmode=(disable|require|verify-full))?$/;

/** `trusted`: the secret belongs to a superuser. */
export function destinationOf(text: string, hosts: readonly string[], trusted: boolean): Into {
  const [isOfForm, sslmode = 'disable'] = shape.exec(text.trim()) ?? [];
  if (isOfForm === undefined)
    throw new Error(`the secret that says where its rows go is not of the form ${form}`);
  const whole = isOfForm.includes('?') ? isOfForm : `${isOfForm}?sslmode=disable`;
  const [server] = parseDsn(whole).servers;
  const { host: given = '', port = 0, user = '', password, database = '' } = server?.config ?? {};
  const host = given.toLowerCase();
  // A NUL would end one field of the startup message, and begin another.
  if ([user, password, database].some((it) => typeof it === 'string' && hasControls(it)))
    throw new Error('the secret that says where its rows go has a control character in it');
  const place = `${isIPv6(host) ? `[${host}]` : host}:${port}`;
  if (!hosts.includes(place)) throw new Error(`HEADGATE_INTO_HOSTS does not name ${place}`);
  return {
    key: createHash('sha256')
      .update(`${trusted ? 1 : 0}${whole}`)
      .digest('hex'),
    host,
    port,
    user,
    password: typeof password === 'string' ? password : '',
    database,
    tls: sslmode === 'disable' ? 'none' : sslmode === 'require' ? 'encrypted' : 'verified',
    passwordRequired: !trusted,
  };
}

const hasControls = (text: string): boolean => /\p{Cc}/u.test(text);
