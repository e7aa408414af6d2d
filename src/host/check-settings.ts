/**
 * Checks everything about settings that can be checked without starting: the files they name, the data directory, the
 * doors that would be open. Takes Settings, returns problems, one line each; changes nothing and listens nowhere.
 * `headgate start` and `headgate config` run the same checks.
 */
import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { dataDirAt, inspectDataDir } from '../engine/data-dir.ts';
import { parseDsn } from '../engine/dsn.ts';
import { readPlans } from '../deliver/plan.ts';
import { isLoopbackHost } from '../kit/address.ts';
import { telemetryPlan } from '../telemetry/plan.ts';
import { parseMasterKeys } from '../secrets/key-ring.ts';
import { readKeyFile } from '../secrets/key-file.ts';
import { limits, segmentBytes } from '../config/limits.ts';
import { settingsTable } from '../config/settings.ts';
import type { Settings } from '../config/settings.ts';
import {
  checkTls,
  consoleProblem,
  eventsRoleProblem,
  openDoorProblem,
  sqlDoorAsks,
  sqlPassword,
} from './door-settings.ts';
import { allDoors, sharedPorts } from './ports.ts';

/** For `headgate start`. */
export async function problemsOf(settings: Settings): Promise<string[]> {
  const found = await Promise.all([
    ...(['listen', 'sql', 'gateway'] as const).map((door) => told(null, () => checkTls(settings, door))),
    told(null, () => sqlPassword(settings)),
    masterKeyProblems(settings),
    databaseProblems(settings),
    told(settingsTable.deliver.env, () => readPlans(settings)),
    told(settingsTable.dataDir.env, () => checkDataDir(settings)),
  ]);
  return [
    openDoors(settings),
    eventsRoleProblem(settings) ?? [],
    consoleProblem(settings) ?? [],
    sharedPorts(allDoors(settings)),
    spoolProblems(settings),
    telemetryPlan(settings).problems,
    ...found,
  ].flat();
}

/** Two segments, so that one can be written to while the other is handed over. */
function spoolProblems(settings: Settings): string[] {
  const least = 2 * segmentBytes(settings, limits);
  if (settings.spoolBytesMax >= least) return [];
  return [
    `HEADGATE_SPOOL_BYTES must be at least ${least}: two files, each large enough for a body of HEADGATE_BODY_BYTES_MAX`,
  ];
}

/** For `headgate gateway`. */
export async function gatewayProblemsOf(settings: Settings): Promise<string[]> {
  const open = openDoorProblem(settings);
  const found = await Promise.all([
    told(null, () => checkTls(settings, 'gateway')),
    eventDatabaseProblems(settings),
  ]);
  const { problems } = telemetryPlan(settings);
  return [open ?? [], eventsRoleProblem(settings) ?? [], problems, ...found].flat();
}

/** Doors without credentials stay on loopback unless the owner says otherwise. */
export function openDoors(settings: Settings): string[] {
  const gateway = openDoorProblem(settings);
  const problems = gateway === null ? [] : [gateway];
  if (settings.insecure) return problems;
  const askFor = settings.databaseUrl === null ? 'HEADGATE_SQL_PASSWORD' : 'HEADGATE_SQL_TLS_CLIENT_CA';
  for (const [host, env, asks, what] of [
    [settings.sqlHost, 'HEADGATE_SQL_HOST', sqlDoorAsks(settings), `set ${askFor}`],
    [settings.adminHost, 'HEADGATE_ADMIN_HOST', false, 'keep it on 127.0.0.1'],
  ] as const) {
    if (asks || isLoopbackHost(host)) continue;
    problems.push(
      `${env}=${host} would let in anybody who can reach it: ${what}, or set HEADGATE_INSECURE=true behind something that authenticates`,
    );
  }
  return problems;
}

/** Errors of these kinds are for the terminal; anything else is a bug and is rethrown. */
async function told(name: string | null, check: () => unknown): Promise<string[]> {
  try {
    await check();
    return [];
  } catch (error) {
    const { name: kind, message } = error as Error;
    if (!['EngineError', 'GuardError', 'MasterKeyError', 'PlainError', 'SettingsError'].includes(kind))
      throw error;
    return [name === null ? message : `${name}: ${message}`];
  }
}

async function masterKeyProblems({ masterKey, masterKeyFile }: Settings): Promise<string[]> {
  const { env } = settingsTable.masterKey;
  if (masterKey !== null) return told(null, () => parseMasterKeys(masterKey, env));
  // A missing file is created later; the key in the data directory belongs to the data directory.
  if (masterKeyFile === null || !(await isThere(masterKeyFile))) return [];
  return told(settingsTable.masterKeyFile.env, () => readKeyFile(masterKeyFile));
}

async function databaseProblems(settings: Settings): Promise<string[]> {
  const { databaseUrl: url } = settings;
  const own = url === null ? [] : await told(settingsTable.databaseUrl.env, () => parseDsn(url));
  return [...own, ...(await eventDatabaseProblems(settings))];
}

async function eventDatabaseProblems({ eventDatabases }: Settings): Promise<string[]> {
  const all = await Promise.all(eventDatabases.map(({ env, dsn }) => told(env, () => parseDsn(dsn))));
  return all.flat();
}

/** With an external engine, the directory holds the master key and ports.json. */
async function checkDataDir({ dataDir, databaseUrl }: Settings): Promise<void> {
  const dir = dataDirAt(resolve(dataDir));
  if (databaseUrl === null) await inspectDataDir(dir);
}

async function isThere(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    (error: NodeJS.ErrnoException) => error.code !== 'ENOENT',
  );
}
