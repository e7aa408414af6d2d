/**
 * What stands in the doors, made of settings: TLS, passwords, networks and rates. Takes Settings, gives what the doors are opened with;
 * refuses with GuardError what cannot work together. Reads the files that the settings name.
 */
import { hkdfSync } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { Engine } from '../engine/engine.ts';
import { RolePasswords } from '../engine/role-passwords.ts';
import { Gate } from '../access/gate.ts';
import { GuardError } from '../access/guard-error.ts';
import { load, TlsSource } from '../access/tls-source.ts';
import type { TlsFiles } from '../access/tls-source.ts';
import type { Closer } from '../kit/closer.ts';
import { Networks } from '../kit/networks.ts';
import { parseRate, usualBurst } from '../kit/rate.ts';
import type { Observe } from '../tables/observations.ts';
import { passwordOfFile, settingsTable } from '../tables/settings.ts';
import type { SettingName, Settings } from '../tables/settings.ts';
import type { Passwords } from '../wire/authenticate.ts';
import { makeVerifier, parseVerifier, saltOf } from '../wire/scram.ts';

export interface DoorGuards {
  readonly listenTls: TlsSource | null;
  readonly sqlTls: TlsSource | null;
  readonly gate: Gate;
  readonly gateway: GatewayGuards;
  /** Reads all certificates again; null: there are none. */
  readonly reload: (() => Promise<void>) | null;
  /** null: the SQL door asks nobody for a password. */
  passwords(engine: Engine, masterKey: Buffer): Passwords | null;
}

export interface GatewayGuards {
  readonly tls: TlsSource | null;
  readonly gate: Gate;
}

/** Closed by `closer`, with what `passwords` opens later. `shared`: other processes keep the same rates. */
export async function openGuards(
  settings: Settings,
  observe: Observe,
  closer: Closer,
  shared = false,
): Promise<DoorGuards> {
  const open = (door: Door) => openTls(settings, door, observe, closer);
  const [listenTls, sqlTls] = [await open('listen'), await open('sql')];
  const gateway = await openGatewayGuards(settings, observe, closer);
  const all = [listenTls, sqlTls, gateway.tls].filter((source) => source !== null);
  const password = await sqlPassword(settings);
  return {
    listenTls,
    sqlTls,
    gate: createGate(settings, shared),
    gateway,
    reload: all.length === 0 ? null : async () => void (await Promise.all(all.map((it) => it.reload()))),
    passwords: (engine, masterKey) =>
      password === null ? null : createPasswords(engine, 'root', password, masterKey, closer),
  };
}

/** What stands in the door of the events gateway, which may be the only one. */
export async function openGatewayGuards(
  settings: Settings,
  observe: Observe,
  closer: Closer,
): Promise<GatewayGuards> {
  const { gatewayNetworks, gatewayRateMax } = settings;
  return {
    tls: await openTls(settings, 'gateway', observe, closer),
    gate: new Gate({
      trustedProxies: networksOf(settings.trustedProxies),
      forwardedHeader: settings.forwardedHeader,
      allowed: networksOf(gatewayNetworks),
      addressRate:
        gatewayRateMax === 0
          ? null
          : { count: gatewayRateMax, perMs: 1_000, burst: usualBurst(gatewayRateMax) },
      tableRate: null,
      clock: () => performance.now(),
    }),
  };
}

type Door = 'listen' | 'sql' | 'gateway';

/** Throws GuardError where the door's TLS cannot be opened. */
export async function checkTls(settings: Settings, door: Door): Promise<void> {
  const files = tlsFiles(settings, door);
  if (files !== null) await namingFile(settings, door, () => load(files));
}

/** With the name of the setting whose file the message is about. */
async function namingFile<T>(settings: Settings, door: Door, open: () => Promise<T>): Promise<T> {
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
async function openTls(
  settings: Settings,
  door: Door,
  observe: Observe,
  closer: Closer,
): Promise<TlsSource | null> {
  const files = tlsFiles(settings, door);
  if (files === null) return null;
  const source = await namingFile(settings, door, () => TlsSource.open({ door, files, observe }));
  closer.add(`TLS of the ${door} door`, () => source.close());
  return source;
}

function createGate(settings: Settings, shared: boolean): Gate {
  return new Gate({
    trustedProxies: networksOf(settings.trustedProxies),
    forwardedHeader: settings.forwardedHeader,
    allowed: networksOf(settings.listenNetworks),
    addressRate: settings.addressRate === null ? null : parseRate(settings.addressRate),
    tableRate: settings.tableRate === null ? null : parseRate(settings.tableRate),
    shared,
    clock: () => performance.now(),
  });
}

function networksOf(text: string | null): Networks | null {
  const read = text === null ? null : Networks.parse(text);
  return read instanceof Networks ? read : null;
}

/** null: the door has no TLS. */
function tlsFiles(settings: Settings, door: Door): TlsFiles | null {
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
      `${env(`${door}TlsClientCa`)} is set, but the door has no TLS: ${env(`${door}TlsCert`)} is not`,
    );
  }
  return null;
}

/** Whether a client of the SQL door has to show who it is before it is let through. */
export function sqlDoorAsks(settings: Settings): boolean {
  if (settings.sqlPassword !== null || settings.sqlPasswordFile !== null) return true;
  return asksForCertificate(settings, 'sql') && !settings.sqlTlsOptional;
}

/** Whether nobody without a certificate of the owner's authorities gets as far as a request. */
export function asksForCertificate(settings: Settings, door: Door): boolean {
  const tls = tlsFiles(settings, door);
  return tls !== null && tls.clientCa !== null && tls.clientCert === 'required';
}

/** null: there is none. */
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

/** The superuser's password is the setting; every other role's is what the engine keeps of it. */
function createPasswords(
  engine: Engine,
  superuser: string,
  password: string,
  masterKey: Buffer,
  closer: Closer,
): Passwords {
  const key = Buffer.from(hkdfSync('sha256', masterKey, '', 'headgate SQL passwords', 32));
  const roles = new RolePasswords(engine);
  closer.add('password lookups', () => roles.close());
  const own = makeVerifier(password, saltOf(superuser, key));
  return {
    key,
    verifier: async (user) => {
      const kept = await roles.of(user);
      if (user === superuser) return own;
      return kept === null ? null : parseVerifier(kept);
    },
  };
}
