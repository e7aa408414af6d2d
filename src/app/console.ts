/**
 * The console joined with what it shows: whether it is open, who comes in how, and what other rooms know. Takes Settings
 * and doors that are open; gives the handler for the admin port, or null. Part of the composition root.
 */
import { randomBytes } from 'node:crypto';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { openConsole } from '../console/console.ts';
import type { Console } from '../console/console.ts';
import type { Health, Machine } from '../console/api.ts';
import type { SqlDoorAt } from '../console/sql.ts';
import { doorUrl, reachable } from '../kit/address.ts';
import type { Closer } from '../kit/closer.ts';
import type { HeldQuestion, HeldRequest, TailSource } from '../tables/tail.ts';
import type { Observe } from '../tables/observations.ts';
import type { Settings } from '../tables/settings.ts';
import { consoleIsOn } from './door-settings.ts';
import { pageFolder } from './own-files.ts';
import { ownBase } from './endpoints.ts';
import { replayed } from './console-replay.ts';
import type { ReplayDeps } from './console-replay.ts';
import { makeSecret, senderInfos, sendTest } from './console-senders.ts';

export interface ConsoleParts {
  readonly settings: Settings;
  readonly version: string;
  readonly engineKind: string;
  readonly database: string;
  readonly listen: { readonly host: string; readonly port: number } | null;
  readonly sql: { readonly host: string; readonly port: number };
  readonly gateway: { readonly host: string; readonly port: number };
  readonly catalog: ReplayDeps['catalog'];
  readonly tail: TailSource;
  readonly held: (of: HeldQuestion) => Promise<HeldRequest | null>;
  readonly health: () => Promise<Health>;
  readonly machine: () => Promise<Machine>;
  readonly observe: Observe;
}

/** The file whose text lets the commands of this machine in; as long as Headgate runs. */
export const ownerKeyFile = 'console.key';

/** null: it is off. */
export async function openConsoleOf(parts: ConsoleParts, closer: Closer): Promise<Console | null> {
  const { settings, database, tail } = parts;
  if (!consoleIsOn(settings)) return null;
  const asksNobody =
    settings.databaseUrl === null && settings.sqlPassword === null && settings.sqlPasswordFile === null;
  const ownerKey = randomBytes(32).toString('base64url');
  const opened = await openConsole({
    folder: pageFolder,
    hosts: settings.consoleHosts,
    linkRole: asksNobody ? 'root' : null,
    database,
    door: () => doorAt(parts),
    tail,
    answers: {
      // Sorting by language loads what few starts need.
      get senders() {
        return senderInfos();
      },
      makeSecret,
      send: (test) => sendTest(test, about(parts, '', database)),
      replay: (replay, who) =>
        replayed(replay, who, { ...about(parts, '', database), catalog: parts.catalog }),
      health: parts.health,
      machine: parts.machine,
      held: parts.held,
      about: (role, name) => about(parts, role, name),
    },
    ownerKey,
    clock: () => performance.now(),
    observe: parts.observe,
  });
  closer.add('console', () => opened.close());
  await writeOwnerKey(settings.dataDir, ownerKey, closer);
  return opened;
}

/** Read by `headgate console` and `headgate tail`; nobody but who runs Headgate may. */
async function writeOwnerKey(dataDir: string, key: string, closer: Closer): Promise<void> {
  const path = join(dataDir, ownerKeyFile);
  await mkdir(dataDir, { recursive: true });
  // One that was left behind by a kill may have other rights.
  await rm(path, { force: true });
  await writeFile(path, `${key}\n`, { mode: 0o600, flag: 'wx' });
  closer.add(ownerKeyFile, () => rm(path, { force: true }));
}

/** This process listens there itself: whose certificate that is need not be asked. */
function doorAt({ sql, settings }: ConsoleParts): SqlDoorAt {
  const tls = settings.sqlTlsCert !== null && !settings.sqlTlsOptional;
  return { host: reachable(sql.host), port: sql.port, ssl: tls ? { rejectUnauthorized: false } : false };
}

function about(
  { settings, listen, sql, gateway, version, engineKind }: ConsoleParts,
  role: string,
  database: string,
) {
  const own = ownBase(settings, listen);
  return {
    own,
    gateway: doorUrl(gateway, settings.gatewayTlsCert !== null),
    base: listen === null ? null : (settings.publicUrl ?? own),
    public: settings.publicUrl !== null,
    version,
    engine: engineKind === 'embedded' ? 'embedded PostgreSQL' : 'PostgreSQL of HEADGATE_DATABASE_URL',
    psql: `psql -h ${reachable(sql.host)} -p ${sql.port} -d ${database} -U ${role}`,
  };
}
