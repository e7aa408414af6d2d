/** Selects the settings for a listener process. Pure. */
import type { Settings } from '../../config/settings.ts';

/** What a listener process needs of the settings, without the passwords and keys of other doors. */
export function settingsOfListener(settings: Settings): Settings {
  return {
    ...settings,
    eventDatabases: [],
    listenAcmeEabKey: null,
    gatewayToken: null,
    sqlPassword: null,
    sqlPasswordFile: null,
    gatewayTlsCert: null,
    gatewayTlsKey: null,
    gatewayTlsClientCa: null,
    sqlTlsCert: null,
    sqlTlsKey: null,
    sqlTlsClientCa: null,
  };
}
