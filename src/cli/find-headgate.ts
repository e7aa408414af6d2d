/**
 * Which Headgate a command talks to: one that runs on this machine, found by its data directory, or one elsewhere, named by
 * --dsn and --url or by a profile. Takes options, returns addresses; refuses with PlainError, one line, without passwords.
 *
 * Profiles are in ~/.config/headgate/profiles.json: `{"prod": {"dsn": "postgresql://…", "url": "https://…"}}`. They may
 * contain passwords, so a file that others can read is refused.
 */
import { readFile, stat } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { doorUrl, hostOf, isLoopbackHost, reachable, urlHost } from '../kit/address.ts';
import { jsonObject } from '../kit/json-values.ts';
import { PlainError } from '../kit/plain-error.ts';
import { limits } from '../config/limits.ts';
import { runningAt } from '../host/running.ts';

export interface WhereOptions {
  /** Instead of the default one, or that of `dsn`. */
  readonly database?: string;
  readonly dsn?: string;
  readonly url?: string;
  readonly profile?: string;
}

export interface Where {
  /** Of the SQL port or of the database itself. */
  readonly dsn: string;
  /** Where webhooks go: scheme, host and port; null: unknown. */
  readonly url: string | null;
  /** The same as senders call it (HEADGATE_PUBLIC_URL); absent: it is not known, or the same. */
  readonly publicUrl?: string;
}

interface LocalPorts {
  readonly listen?: { readonly host: string; readonly port: number; readonly tls?: boolean } | null;
  readonly sql?: { readonly host: string; readonly port: number };
  /** The default database, and Headgate's own role there. */
  readonly database?: string;
  readonly role?: string;
  readonly publicUrl?: string;
}

export async function whereOf(options: WhereOptions, dataDir: string): Promise<Where> {
  const profile = options.profile === undefined ? {} : await readProfile(options.profile);
  const local = await localAt(dataDir);
  const dsn = options.dsn ?? profile.dsn ?? local?.dsn;
  const url =
    options.url ??
    profile.url ??
    (options.dsn === undefined && profile.dsn === undefined ? local?.url : null);
  if (dsn === undefined)
    throw new PlainError(
      `no Headgate runs on ${dataDir}: headgate status shows those of this machine; name one with --data-dir, or one elsewhere with --dsn or --profile`,
    );
  const isLocal = url !== undefined && url !== null && url === local?.url;
  const at = {
    dsn,
    url: url === undefined || url === null ? null : baseOf(url),
    ...(isLocal && local?.publicUrl !== undefined && { publicUrl: baseOf(local.publicUrl) }),
  };
  return options.database === undefined ? at : inDatabase(at, options.database);
}

const configured = () => join(homedir(), '.config', 'headgate');

/** The history of the prompt is kept next to the profiles. */
export const historyFile = () => join(configured(), 'sql-history');

async function readProfile(name: string): Promise<{ dsn?: string; url?: string }> {
  const file = join(configured(), 'profiles.json');
  let text: string;
  try {
    const { mode, size } = await stat(file);
    if (process.platform !== 'win32' && (mode & 0o077) !== 0)
      throw new PlainError(`${file} may contain passwords but can be read by others: run chmod 600 on it`);
    if (size > limits.commandFileBytesMax) throw new PlainError(`${file} is too large`);
    text = await readFile(file, 'utf8');
  } catch (error) {
    if (error instanceof PlainError) throw error;
    throw new PlainError(
      `${file} cannot be read (${(error as NodeJS.ErrnoException).code ?? 'unknown error'})`,
    );
  }
  const all = jsonObject(text);
  const found = all !== null && Object.hasOwn(all, name) ? all[name] : undefined;
  if (typeof found !== 'object' || found === null)
    throw new PlainError(
      all === null
        ? `${file} is not a JSON object of profiles`
        : `${file} has no profile "${name}"; its profiles: ${Object.keys(all).join(', ') || 'none'}`,
    );
  const { dsn, url } = found as { dsn?: unknown; url?: unknown };
  return { ...(typeof dsn === 'string' ? { dsn } : {}), ...(typeof url === 'string' ? { url } : {}) };
}

export interface DoorAt {
  readonly name: string;
  readonly host: string;
  readonly port: number;
}

/** The doors of the Headgate that runs on this directory; empty: none runs there. */
export async function portsAt(dataDir: string): Promise<readonly DoorAt[]> {
  const ports = jsonObject(await readFile(join(dataDir, 'ports.json'), 'utf8').catch(() => '{}')) ?? {};
  return Object.entries(ports).flatMap(([name, at]) => {
    const { host, port } = (at ?? {}) as { host?: unknown; port?: unknown };
    return typeof host === 'string' && typeof port === 'number' ? [{ name, host, port }] : [];
  });
}

/** Whether the Headgate that runs on this directory has its tables in another server; false also if none runs there. */
export async function isExternalAt(dataDir: string): Promise<boolean> {
  if ((await runningAt(dataDir)) === null) return false;
  const ports = jsonObject(await readFile(join(dataDir, 'ports.json'), 'utf8').catch(() => '{}'));
  return ports?.['engine'] === 'postgres';
}

/** null: none runs there. */
async function localAt(dataDir: string): Promise<(Where & { readonly url: string | null }) | null> {
  try {
    const {
      sql,
      listen,
      role = 'root',
      database = 'dev',
      publicUrl,
    } = JSON.parse(await readFile(join(dataDir, 'ports.json'), 'utf8')) as LocalPorts;
    if (sql === undefined) return null;
    const [user, name] = [role, database].map(encodeURIComponent);
    return {
      dsn: `postgresql://${user ?? ''}@${urlHost(reachable(sql.host))}:${sql.port}/${name ?? ''}`,
      url: listen === undefined || listen === null ? null : doorUrl(listen, listen.tls === true),
      ...(typeof publicUrl === 'string' && { publicUrl }),
    };
  } catch {
    return null;
  }
}

/** The same server, with another database. */
export function inDatabase(where: Where, database: string): Where {
  const [, server = '', rest = ''] = /^([^:]*:\/\/[^/?#]*)(?:\/[^?#]*)?(.*)$/s.exec(where.dsn) ?? [];
  return { ...where, dsn: `${server}/${encodeURIComponent(database)}${rest}` };
}

/** Scheme, host and port. */
function baseOf(url: string): string {
  const read = httpUrl(url, '--url');
  return read.pathname === '/' ? read.origin : `${read.origin}${read.pathname.replace(/\/$/, '')}`;
}

export function httpUrl(text: string, option: string): URL {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || !/^https?:$/.test(url.protocol))
    throw new PlainError(`${option}: "${text}" is not an http or https URL`);
  return url;
}

/** Requests of customers leave this machine only if that was explicitly allowed. */
export function refuseRemote(url: URL, option: string, allowed: boolean): void {
  if (allowed || isLoopbackHost(hostOf(url))) return;
  throw new PlainError(
    `${option}: ${url.host} is not this machine; --allow-remote allows sending received requests there`,
  );
}

/** The URL of a table as its sender has to call it. */
export function calledUrl(where: Where, database: string, schema: string, table: string): string {
  return webhookUrl({ ...where, url: where.publicUrl ?? where.url }, database, schema, table);
}

/** Where a table takes its webhooks. */
export function webhookUrl({ url }: Where, database: string, schema: string, table: string): string {
  if (url === null)
    throw new PlainError(
      'the URL of the webhook listener is not known: set it with --url, e.g. --url https://hooks.example.com',
    );
  return `${url}/webhook/${[database, schema, table].map(encodeURIComponent).join('/')}`;
}
