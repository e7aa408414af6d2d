/**
 * What guards the doors, made from settings: TLS, passwords, networks and rates. Takes Settings, returns what the doors are opened
 * with; refuses combinations that cannot work with GuardError. Reads the files that the settings name.
 */
import { hkdfSync } from 'node:crypto';
import { resolve } from 'node:path';
import type { Engine } from '../engine/engine.ts';
import { RolePasswords } from '../engine/role-passwords.ts';
import { Admission } from '../access/admission.ts';
import { TlsSource } from '../access/tls-source.ts';
import { namingFile, sqlPassword, tlsFiles } from '../host/door-settings.ts';
import type { Door } from '../host/door-settings.ts';
import type { Closer } from '../kit/closer.ts';
import { Networks } from '../kit/networks.ts';
import { parseRate, usualBurst } from '../kit/rate.ts';
import { monotonicMs } from '../observe/context.ts';
import type { Observe } from '../observe/observations.ts';
import type { Settings } from '../config/settings.ts';
import type { Passwords } from '../wire/authenticate.ts';
import { makeVerifier, parseVerifier, saltOf } from '../wire/scram.ts';

export interface DoorGuards {
  readonly listenTls: TlsSource | null;
  readonly sqlTls: TlsSource | null;
  /** null: everybody may connect as often as they like, and no proxy is trusted. */
  readonly gate: Admission | null;
  readonly gateway: GatewayGuards;
  /** Reads all certificates again; null: no door has one. */
  readonly reload: (() => Promise<void>) | null;
  /** null: the SQL door asks for no password. */
  passwords(engine: Engine, masterKey: Buffer): Passwords | null;
}

interface GatewayGuards {
  readonly tls: TlsSource | null;
  readonly gate: Admission;
}

/** Closed by `closer`, with what `passwords` opens later. `shared`: other processes enforce the same rates. */
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

/** The guards of the events gateway, which may be the only door. */
export async function openGatewayGuards(
  settings: Settings,
  observe: Observe,
  closer: Closer,
): Promise<GatewayGuards> {
  const { gatewayNetworks, gatewayRateMax } = settings;
  return {
    tls: await openTls(settings, 'gateway', observe, closer),
    gate: new Admission({
      trustedProxies: networksOf(settings.trustedProxies),
      forwardedHeader: settings.forwardedHeader,
      allowed: networksOf(gatewayNetworks),
      addressRate:
        gatewayRateMax === 0
          ? null
          : { count: gatewayRateMax, perMs: 1_000, burst: usualBurst(gatewayRateMax) },
      tableRate: null,
      clock: monotonicMs,
    }),
  };
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
  const challenge = door === 'listen' ? await challengeOf(settings) : undefined;
  const source = await namingFile(settings, door, () => TlsSource.open({ door, files, observe, challenge }));
  closer.add(`TLS of the ${door} door`, () => source.close());
  return source;
}

async function challengeOf({ dataDir, listenAcmeDomains, listenAcmeChallenge }: Settings) {
  if (listenAcmeDomains.length === 0 || listenAcmeChallenge !== 'tls-alpn-01') return undefined;
  return (await import('../acme/folder-store.ts')).challengeShower(resolve(dataDir));
}

/** null: the settings restrict nothing. */
function createGate(settings: Settings, shared: boolean): Admission | null {
  const { addressRate, tableRate, forwardedHeader } = settings;
  const trustedProxies = networksOf(settings.trustedProxies);
  const allowed = networksOf(settings.listenNetworks);
  if (trustedProxies === null && allowed === null && addressRate === null && tableRate === null) return null;
  return new Admission({
    trustedProxies,
    forwardedHeader,
    allowed,
    addressRate: addressRate === null ? null : parseRate(addressRate),
    tableRate: tableRate === null ? null : parseRate(tableRate),
    shared,
    clock: monotonicMs,
  });
}

function networksOf(text: string | null): Networks | null {
  const read = text === null ? null : Networks.parse(text);
  return read instanceof Networks ? read : null;
}

/** The superuser's password comes from the setting; for every other role, the engine's stored verifier is used. */
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
