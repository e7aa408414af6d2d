/**
 * What settings say about the doors before any is open: their certificates and passwords, and what must not be open to everybody.
 * Takes Settings; returns answers and problems, one line each, or throws GuardError. Reads the files that the settings name.
 * Separate from what opens the doors, because it is needed before that is loaded.
 */
import { readFile } from 'node:fs/promises';
import { GuardError, load } from '../access/tls-source.ts';
import type { TlsFiles } from '../access/tls-source.ts';
import { isLoopbackHost } from '../kit/address.ts';
import { passwordOfFile } from '../config/resolve-settings.ts';
import { settingsTable } from '../config/settings.ts';
import type { SettingName, Settings } from '../config/settings.ts';

export type Door = 'listen' | 'sql' | 'gateway';

/** Throws GuardError if the door's TLS cannot be opened. */
export async function checkTls(settings: Settings, door: Door): Promise<void> {
  // Checked when the door is opened: an authority issues the certificate.
  if (door === 'listen' && settings.listenAcmeDomains.length > 0) return;
  const files = tlsFiles(settings, door);
  if (files !== null) await namingFile(settings, door, () => load(files));
}

/** Adds the name of the setting whose file the message is about. */
export async function namingFile<T>(settings: Settings, door: Door, open: () => Promise<T>): Promise<T> {
  try {
    return await open();
  } catch (error) {
    if (!(error instanceof GuardError)) throw error;
    const files = (['TlsClientCa', 'TlsKey', 'TlsCert'] as const).map(
      (file): SettingName => `${door}${file}`,
    );
    const about = files.find(
      (file) => settings[file] !== null && error.message.startsWith(String(settings[file])),
    );
    throw new GuardError(`${settingsTable[about ?? `${door}TlsCert`].env}: ${error.message}`);
  }
}

/** null: the door has no TLS. */
export function tlsFiles(settings: Settings, door: Door): TlsFiles | null {
  const cert = settings[`${door}TlsCert`];
  const key = settings[`${door}TlsKey`];
  const clientCa = settings[`${door}TlsClientCa`];
  const clientCert = settings[`${door}TlsClientCert`];
  const env = (name: SettingName) => settingsTable[name].env;
  if (cert !== null && key !== null) return { cert, key, clientCa, clientCert };
  if (cert !== null || key !== null) {
    const [there, missing] =
      cert !== null ? (['TlsCert', 'TlsKey'] as const) : (['TlsKey', 'TlsCert'] as const);
    throw new GuardError(
      `${env(`${door}${there}`)} is set and ${env(`${door}${missing}`)} is not: TLS needs both`,
    );
  }
  if (clientCa !== null) {
    throw new GuardError(
      `${env(`${door}TlsClientCa`)} is set, but the door has no TLS: ${env(`${door}TlsCert`)} is not set`,
    );
  }
  return null;
}

/** Whether only clients with a certificate of the configured authorities can make a request. */
function asksForCertificate(settings: Settings, door: Door): boolean {
  const tls = tlsFiles(settings, door);
  return tls !== null && tls.clientCa !== null && tls.clientCert === 'required';
}

/** Whether the SQL port requires a certificate of the configured authorities: the console has none. */
const needsCertificate = (settings: Settings): boolean =>
  asksForCertificate(settings, 'sql') && !settings.sqlTlsOptional;

/** Whether a client of the SQL door must authenticate. */
export function sqlDoorAsks(settings: Settings): boolean {
  if (settings.sqlPassword !== null || settings.sqlPasswordFile !== null) return true;
  return needsCertificate(settings);
}

/** Whether a client of the events gateway must show a token or a certificate. */
export function gatewayAsks(settings: Settings): boolean {
  return settings.gatewayToken !== null || asksForCertificate(settings, 'gateway');
}

/**
 * Whether the gateway of `headgate start` lets nobody in but tokens of CREATE TOKEN: its SQL would run as Headgate's role in a server that asks everybody
 * else for a password.
 */
export function gatewayIsClosed(settings: Settings): boolean {
  return settings.databaseUrl !== null && !settings.insecure && !gatewayAsks(settings);
}

/** Whether the gateway of `headgate start` is open to whoever reaches it, although the SQL port is not. */
export function gatewayIsOpen(settings: Settings): boolean {
  if (gatewayAsks(settings) || gatewayIsClosed(settings)) return false;
  return settings.databaseUrl !== null || sqlDoorAsks(settings);
}

/** null: there is no password. */
export async function sqlPassword(settings: Settings): Promise<string | null> {
  const { sqlPassword: password, sqlPasswordFile: file, databaseUrl } = settings;
  if (password === null && file === null) return null;
  if (databaseUrl !== null) {
    throw new GuardError(
      'HEADGATE_SQL_PASSWORD is for the embedded engine: the server of HEADGATE_DATABASE_URL asks for passwords itself',
    );
  }
  if (password !== null) return password;
  const path = file ?? '';
  const content = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new GuardError(
      `HEADGATE_SQL_PASSWORD_FILE: ${path} cannot be read (${error.code ?? 'unknown error'})`,
    );
  });
  return passwordOfFile(path, content, 'HEADGATE_SQL_PASSWORD_FILE');
}

export function consoleIsOn(settings: Settings): boolean {
  if (settings.console !== 'auto') return settings.console === 'on';
  return isLoopbackHost(settings.adminHost) && !needsCertificate(settings);
}

/** Why HEADGATE_CONSOLE=on cannot be done, in one line; null: no reason. */
export function consoleProblem(settings: Settings): string | null {
  if (settings.console !== 'on' || !needsCertificate(settings)) return null;
  return 'HEADGATE_CONSOLE=on: the console logs in at the SQL port, which requires a client certificate (HEADGATE_SQL_TLS_CLIENT_CA): make it optional, or switch the console off';
}

/** Why the gateway's door cannot be opened as configured, in one line; null: no reason. */
export function openDoorProblem(settings: Settings): string | null {
  const { gatewayHost: host, gatewayToken: token } = settings;
  if (settings.gatewayOrigins.includes('*') && token === null && !settings.insecure) {
    return 'HEADGATE_GATEWAY_ORIGINS=* would let every web page run SQL: set EVENTS_API_TOKEN too';
  }
  if (settings.insecure || isLoopbackHost(host) || gatewayAsks(settings)) return null;
  return `EVENTS_API_HOST=${host} would let in anybody who can reach it: set EVENTS_API_TOKEN or HEADGATE_GATEWAY_TLS_CLIENT_CA, keep it on 127.0.0.1, or set HEADGATE_INSECURE=true behind something that authenticates`;
}

/** Why HEADGATE_EVENTS_ROLE has no effect, in one line; null: it has, or is not set. */
export function eventsRoleProblem(settings: Settings): string | null {
  const { eventsRole, databaseUrl, eventDatabases } = settings;
  if (eventsRole === null || (databaseUrl === null && eventDatabases.length === 0)) return null;
  return 'HEADGATE_EVENTS_ROLE is for the embedded engine: in other databases the gateway logs in as the role of EVENTS_API_<DB>_DSN, or of HEADGATE_DATABASE_URL';
}
