/**
 * From the environment and the command line to settings: takes both, returns each setting's value and where it is from; refuses with SettingsError, one
 * line for each problem. Pure.
 */
import { PlainError } from '../kit/plain-error.ts';
import { password } from './access-settings.ts';
import { BadSetting } from './setting.ts';
import type { Setting } from './setting.ts';
import { contradictions, databaseVariable, strangeVariables, twoNames } from './settings-conflicts.ts';
import { settingsTable } from './settings.ts';
import type { EventDatabase, ResolvedSettings, SettingName, SettingSource, Settings } from './settings.ts';

/** Settings that cannot be used, reported together: one line each. */
class SettingsError extends PlainError {
  override readonly name = 'SettingsError';
}

/** Flags override the environment, which overrides the defaults. An empty variable counts as unset. */
export function resolveSettings(source: SettingSource): ResolvedSettings {
  const values: Record<string, unknown> = {};
  const origins: Record<string, string> = {};
  const problems: string[] = [];
  for (const [name, row] of Object.entries(settingsTable) as [SettingName, Setting<unknown>][]) {
    const flag = source.flags[name];
    const envName = [row.env, row.alias].find((it) => it !== null && (source.env[it] ?? '') !== '');
    const env = envName ? source.env[envName] : undefined;
    const given = flag === true ? 'true' : (flag ?? env);
    origins[name] = flag !== undefined ? `--${row.flag}` : (envName ?? 'default');
    try {
      values[name] = given === undefined ? row.default : row.parse(given);
    } catch (error) {
      if (!(error instanceof BadSetting)) throw error;
      problems.push(`${origins[name]} ${error.message}`);
    }
  }
  const rows: readonly Setting<unknown>[] = Object.values(settingsTable);
  const pairs = rows.flatMap(({ env, alias }) => (alias === null ? [] : [[env, alias] as const]));
  problems.push(
    ...strangeVariables(source.env, [...rows.map(({ env }) => env), ...pairs.map(([, it]) => it)]),
  );
  problems.push(...twoNames(source.env, pairs));
  values['sockets'] = {};
  values['eventDatabases'] = eventDatabasesOf(source.env, problems);
  const read = { settings: values as Settings, origins: origins as ResolvedSettings['origins'] };
  // A value that could not be parsed cannot contradict another.
  if (problems.length === 0) problems.push(...contradictions(read.settings, read.origins));
  if (problems.length > 0) throw new SettingsError(problems.join('\n'));
  return read;
}

/** A password from a file, checked like one from the environment. Throws SettingsError. */
export function passwordOfFile(path: string, content: string, name: string): string {
  try {
    return password(content.replace(/\r?\n[\s\S]*$/, ''));
  } catch (error) {
    throw new SettingsError(`${name}: the password in ${path} ${(error as Error).message}`);
  }
}

/** Sorted by name, because the order of environment variables carries no meaning. */
function eventDatabasesOf(env: SettingSource['env'], problems: string[]): EventDatabase[] {
  const found: EventDatabase[] = [];
  for (const [name, dsnText = ''] of Object.entries(env)) {
    const database = databaseVariable.exec(name)?.[1]?.toLowerCase();
    if (database === undefined || dsnText === '') continue;
    if (found.some((it) => it.name === database)) problems.push(`${name} is set twice, in different case`);
    found.push({ env: name, name: database, dsn: dsnText });
  }
  return found.toSorted((a, b) => (a.name < b.name ? -1 : 1));
}
