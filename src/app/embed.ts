/**
 * Headgate inside another Node process, e.g. in an application's tests: what `import … from 'headgate'` provides. Takes
 * settings by name and a reader of observations; returns the addresses of the open doors and a `stop`. Refuses as `headgate
 * start` does, with an error whose message is meant for people. Reads no environment variable, command line or signal: those
 * belong to the surrounding process.
 */
import { startService } from './start.ts';
import type { Observe } from '../observe/observations.ts';
import { resolveSettings } from '../config/resolve-settings.ts';
import { settingsTable } from '../config/settings.ts';
import type { SettingName } from '../config/settings.ts';

export type { Observation, Observe } from '../observe/observations.ts';

export interface HeadgateOptions {
  /**
   * The settings of docs/settings.md by their names here, e.g. `{ dataDir: '/tmp/x', listenPort: 0 }`. One default differs:
   * without `listeners` no other process is started.
   */
  readonly settings?: HeadgateSettings;
  /**
   * Receives every observation; must not throw. Without it nothing is logged. With `listeners` above 1 the other processes
   * report as much as `logLevel` asks for.
   */
  readonly observe?: Observe;
}

export type HeadgateSettings = { readonly [K in SettingName]?: string | number | boolean | null | undefined };

export interface DoorAddress {
  readonly host: string;
  readonly port: number;
}

export interface RunningHeadgate {
  readonly doors: {
    /** null: the listener is off (`listenEnabled`). */
    readonly listen: DoorAddress | null;
    readonly sql: DoorAddress;
    readonly gateway: DoorAddress;
    readonly admin: DoorAddress;
  };
  /** The default database of webhook paths and SQL clients: `dev`, or that of `databaseUrl`. */
  readonly database: string;
  /**
   * Answers the accepted requests, accepts no new ones, closes everything; takes at most twenty seconds. Calling it again has
   * no effect.
   */
  stop(): Promise<void>;
}

/** Resolves once every door is open. */
export async function startHeadgate(options: HeadgateOptions = {}): Promise<RunningHeadgate> {
  // Read through the settings table, so that a value is parsed and refused exactly as from the environment.
  const env: Record<string, string> = { [settingsTable.listeners.env]: '1' };
  for (const [name, value] of Object.entries(options.settings ?? {})) {
    if (!Object.hasOwn(settingsTable, name)) throw new TypeError(`${name} is not a setting of Headgate`);
    if (value !== null && value !== undefined) env[settingsTable[name as SettingName].env] = String(value);
  }
  const { settings } = resolveSettings({ env, flags: {} });
  const service = await startService(settings, options.observe ?? (() => {}));
  return {
    doors: service.doors,
    database: service.engine.defaultDatabase,
    stop: async () => void (await service.stop('stop()')),
  };
}
