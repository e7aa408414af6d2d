/**
 * From the environment and the command line to settings: takes both, returns each setting's value and where it is from; refuses with SettingsError, one
 * line for each problem. Unknown names, and settings that contradict each other, are refused rather than warned about, because most of them leave open a
 * door that its owner believes to be closed. Pure.
 */
import { PlainError } from '../kit/plain-error.ts';
import { password } from './access-settings.ts';
import { BadSetting } from './setting.ts';
import type { Setting } from './setting.ts';
import { settingsTable } from './settings.ts';
import type { EventDatabase, ResolvedSettings, SettingName, SettingSource, Settings } from './settings.ts';
import { distance } from '../kit/similar-names.ts';

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

type Origins = ResolvedSettings['origins'];
type Env = Readonly<Record<string, string | undefined>>;

/** EVENTS_API_<DB>_DSN */
const databaseVariable = /^EVENTS_API_([A-Za-z0-9_]+)_DSN$/;

/** Variables that an orchestrator sets in every container of a namespace that has a service of that name. */
const serviceLink =
  /^(HEADGATE|EVENTS_API)(_[A-Z0-9_]+)?_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$/;

/** Variables that look like settings but are not. `known`: the names of all settings. */
function strangeVariables(env: Env, known: readonly string[]): string[] {
  return Object.keys(env).flatMap((name) => {
    if (!/^(HEADGATE|EVENTS_API)_/i.test(name) || known.includes(name)) return [];
    if (databaseVariable.test(name) || serviceLink.test(name) || name.startsWith('HEADGATE_TEST_')) return [];
    const upper = name.toUpperCase();
    if (known.includes(upper) || databaseVariable.test(upper)) return [`${name} must be written ${upper}`];
    const near = nearest(upper, known);
    return [
      near === null
        ? `${name} is not a setting; see headgate start --help`
        : `${name} is not a setting: did you mean ${near}?`,
    ];
  });
}

/** Settings whose variable and second name have different values; `pairs`: both names. */
function twoNames(env: Env, pairs: readonly (readonly [string, string])[]): string[] {
  return pairs.flatMap(([name, alias]) => {
    const [one = '', other = ''] = [env[name], env[alias]];
    return one === '' || other === '' || one === other
      ? []
      : [`${name} and ${alias} are the same setting but have different values: set only one of them`];
  });
}

const doors = ['listen', 'sql', 'gateway'] as const;

function contradictions(settings: Settings, origins: Origins): string[] {
  const given = (name: SettingName) => origins[name] !== 'default';
  const problems: string[] = [];
  const together = (one: SettingName, other: SettingName) => {
    if (given(one) && given(other))
      problems.push(`${origins[one]} and ${origins[other]} are both set: set only one of them`);
  };
  together('masterKey', 'masterKeyFile');
  together('sqlPassword', 'sqlPasswordFile');
  together('databaseUrl', 'logicalReplication');
  for (const door of doors) {
    if (given(`${door}TlsClientCert`) && settings[`${door}TlsClientCa`] === null)
      problems.push(
        `${origins[`${door}TlsClientCert`]} is set, but the door has no client authorities, so no client is asked for a certificate`,
      );
  }
  problems.push(...acmeContradictions(settings, origins));
  if (settings.sqlTlsOptional && settings.sqlTlsCert === null)
    problems.push(`${origins.sqlTlsOptional} is set, but the SQL door has no TLS`);
  return problems;
}

function acmeContradictions(settings: Settings, origins: Origins): string[] {
  const { listenAcmeDomains: domains, listenAcmeEabId: id, listenAcmeEabKey: key } = settings;
  const names = ['Agree', 'Directory', 'Contact', 'Challenge', 'HttpPort', 'EabId', 'EabKey'] as const;
  const more = names.find((it) => origins[`listenAcme${it}`] !== 'default');
  if (domains.length === 0)
    return more === undefined
      ? []
      : [
          `${origins[`listenAcme${more}`]} is set, but HEADGATE_LISTEN_ACME_DOMAIN is not: there is no domain to get a certificate for`,
        ];
  const asked = origins.listenAcmeDomains;
  const files = (['listenTlsCert', 'listenTlsKey'] as const).find((it) => settings[it] !== null);
  return [
    files === undefined ? [] : `${asked} and ${origins[files]} are both set: set only one of them`,
    settings.listenEnabled ? [] : `${asked} is set, but the webhook listener is switched off`,
    settings.listenAcmeAgree
      ? []
      : `${asked} is set: read the authority's terms of service, and set HEADGATE_LISTEN_ACME_AGREE=true if you agree to them`,
    (id === null) === (key === null)
      ? []
      : 'HEADGATE_LISTEN_ACME_EAB_ID and HEADGATE_LISTEN_ACME_EAB_KEY belong together: one of them is not set',
  ].flat();
}

/** The nearest known name, the first of several equally near ones; null: none is near. */
function nearest(word: string, known: readonly string[]): string | null {
  const nearMax = 3;
  const [best] = known
    .map((name) => ({ name, apart: distance(word, name) }))
    .filter(({ apart }) => apart <= nearMax)
    .toSorted((a, b) => a.apart - b.apart);
  return best?.name ?? null;
}
