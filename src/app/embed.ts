/**
 * Headgate inside a Node process of your own, e.g. of an application's tests: what `import … from 'headgate'` gives.
 * Takes settings by name and a reader of observations; gives the addresses of the open doors and a `stop`. Refuses as
 * `headgate start` does, with an error whose message is meant to be read. Reads no environment variable, no command
 * line and no signal: those belong to the process around it.
 */
import { startService } from './start.ts';
import type { Observe } from '../tables/observations.ts';
import { resolveSettings, settingsTable } from '../tables/settings.ts';
import type { SettingName } from '../tables/settings.ts';

export type { Observation, Observe } from '../tables/observations.ts';

export interface HeadgateOptions {
  /**
   * The settings of docs/settings.md by their names here, e.g. `{ dataDir: '/tmp/x', listenPort: 0 }`. One default is another:
   * without `listeners` no other process is started.
   */
  readonly settings?: HeadgateSettings;
  /**
   * Told of everything worth saying; must not throw. Without it nothing is said. With `listeners` above 1 the other
   * processes' observations are told as far as `logLevel` asks for them.
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
  /** The database that webhook paths and SQL clients name first: `dev`, or that of `databaseUrl`. */
  readonly database: string;
  /** Answers what was taken, takes nothing new, closes everything; at most twenty seconds. Asking again changes nothing. */
  stop(): Promise<void>;
}

/** Resolves when every door is open. */
export async function startHeadgate(options: HeadgateOptions = {}): Promise<RunningHeadgate> {
  // Through the table, so that a value is read and refused just as if it stood in the environment.
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
