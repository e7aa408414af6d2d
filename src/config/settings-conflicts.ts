/**
 * Problems of settings that are each valid alone: unknown names, and settings that contradict each other. Pure: takes what was
 * given, returns one line for each problem. These are refused rather than warned about, because most of them leave open a door
 * that its owner believes to be closed.
 */
import { distance } from '../kit/similar-names.ts';
import type { ResolvedSettings, SettingName, Settings } from './settings.ts';

type Origins = ResolvedSettings['origins'];
type Env = Readonly<Record<string, string | undefined>>;

/** EVENTS_API_<DB>_DSN */
export const databaseVariable = /^EVENTS_API_([A-Za-z0-9_]+)_DSN$/;

/** Variables that an orchestrator sets in every container of a namespace that has a service of that name. */
const serviceLink =
  /^(HEADGATE|EVENTS_API)(_[A-Z0-9_]+)?_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$/;

/** Variables that look like settings but are not. `known`: the names of all settings. */
export function strangeVariables(env: Env, known: readonly string[]): string[] {
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
export function twoNames(env: Env, pairs: readonly (readonly [string, string])[]): string[] {
  return pairs.flatMap(([name, alias]) => {
    const [one = '', other = ''] = [env[name], env[alias]];
    return one === '' || other === '' || one === other
      ? []
      : [`${name} and ${alias} are the same setting but have different values: set only one of them`];
  });
}

const doors = ['listen', 'sql', 'gateway'] as const;

export function contradictions(settings: Settings, origins: Origins): string[] {
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
