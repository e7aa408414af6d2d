/** Which settings go to a listener process. Pure. */
import type { Settings } from '../../tables/settings.ts';

/** What a listener process has to know of the settings: not the passwords of other doors. */
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
