/**
 * What stands in the doors, made of settings: TLS. Takes Settings, gives what the doors are opened with; refuses with
 * TlsError what cannot work together. Reads the files that the settings name.
 */
import { TlsError, TlsSource } from './guard/tls-source.ts';
import type { TlsFiles } from './guard/tls-source.ts';
import type { Closer } from './kit/closer.ts';
import type { Observe } from './observations.ts';
import { settingsTable } from './settings.ts';
import type { SettingName, Settings } from './settings.ts';

export interface DoorTls {
  readonly listen: TlsSource | null;
  readonly sql: TlsSource | null;
  /** Reads all certificates again; null: there are none. */
  readonly reload: (() => Promise<void>) | null;
}

export async function openDoorTls(settings: Settings, observe: Observe, closer: Closer): Promise<DoorTls> {
  const open = async (door: 'listen' | 'sql') => {
    const files = tlsFiles(settings, door);
    if (files === null) return null;
    const source = await TlsSource.open({ door, files, observe });
    closer.add(`TLS of the ${door} door`, () => source.close());
    return source;
  };
  const listen = await open('listen');
  const sql = await open('sql');
  return {
    listen,
    sql,
    reload:
      listen === null && sql === null
        ? null
        : async () => void (await Promise.all([listen?.reload(), sql?.reload()])),
  };
}

/** null: the door has no TLS. */
export function tlsFiles(settings: Settings, door: 'listen' | 'sql'): TlsFiles | null {
  const cert = settings[`${door}TlsCert`];
  const key = settings[`${door}TlsKey`];
  const clientCa = settings[`${door}TlsClientCa`];
  const clientCert = settings[`${door}TlsClientCert`];
  const env = (name: SettingName) => settingsTable[name].env;
  if (cert !== null && key !== null) return { cert, key, clientCa, clientCert };
  if (cert !== null || key !== null) {
    const [there, missing] =
      cert !== null ? (['TlsCert', 'TlsKey'] as const) : (['TlsKey', 'TlsCert'] as const);
    throw new TlsError(
      `${env(`${door}${there}`)} is set and ${env(`${door}${missing}`)} is not: TLS needs both`,
    );
  }
  if (clientCa !== null) {
    throw new TlsError(
      `${env(`${door}TlsClientCa`)} is set, but the door has no TLS: ${env(`${door}TlsCert`)} is not`,
    );
  }
  return null;
}
