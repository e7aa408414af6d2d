/**
 * Connects the console to what it shows: whether it is open, how users log in, and what other rooms know. Takes Settings
 * and open doors; returns the handler for the admin port, or null. Part of the composition root.
 */
import { randomBytes } from 'node:crypto';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { openConsole } from '../console/console.ts';
import type { Console } from '../console/console.ts';
import type { Health, Machine } from '../console/api.ts';
import type { SqlDoorAt } from '../console/request-sessions.ts';
import { doorUrl, reachable } from '../kit/address.ts';
import type { Closer } from '../kit/closer.ts';
import { monotonicMs } from '../observe/context.ts';
import type { HeldQuestion, HeldRequest, TailSource } from '../observe/tail.ts';
import type { Observe } from '../observe/observations.ts';
import type { Settings } from '../config/settings.ts';
import { ownerKeyFile } from '../host/running.ts';
import { consoleIsOn } from '../host/door-settings.ts';
import { pageFolder } from './program-files.ts';
import { ownBase } from '../ddl/endpoints.ts';
import { replayed } from '../console/replay.ts';
import type { Catalog } from '../catalog/catalog.ts';
import { shownOf } from '../catalog/role-queries.ts';
import type { ReplayListener } from '../console/replay.ts';
import { makeSecret, senderInfos, sendTest, whichSender, wrongSecret } from '../console/senders.ts';

export interface ConsoleParts {
  readonly settings: Settings;
  readonly version: string;
  readonly engineKind: string;
  readonly database: string;
  /** Headgate's own. */
  readonly role: string;
  readonly listen: { readonly host: string; readonly port: number } | null;
  readonly sql: { readonly host: string; readonly port: number };
  readonly gateway: { readonly host: string; readonly port: number };
  readonly databases: ReplayListener['databases'] & Pick<Catalog, 'get'>;
  readonly tail: TailSource;
  readonly held: (of: HeldQuestion) => Promise<HeldRequest | null>;
  readonly health: () => Promise<Health>;
  readonly ready: () => string | null;
  readonly machine: () => Promise<Machine>;
  readonly observe: Observe;
}

/** null: the console is off. */
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
      // Lazy: sorting by language loads what few starts need.
      get senders() {
        return senderInfos();
      },
      makeSecret,
      wrongSecret,
      whichSender,
      unusable: async (name, oids) =>
        Object.fromEntries(
          (await shownOf(parts.databases, name, new Set(oids))).flatMap(({ oid, unusable }) =>
            unusable === null ? [] : [[String(oid), unusable]],
          ),
        ),
      send: (test, who) => sendTest(test, who, { ...about(parts, '', database), databases: parts.databases }),
      replay: (replay, who) =>
        replayed(replay, who, { ...about(parts, '', database), databases: parts.databases }),
      health: parts.health,
      ready: parts.ready,
      machine: parts.machine,
      held: parts.held,
      about: (role, name) => about(parts, role, name),
    },
    ownerKey,
    clock: monotonicMs,
    observe: parts.observe,
  });
  closer.add('console', () => opened.close());
  await writeOwnerKey(settings.dataDir, ownerKey, closer);
  return opened;
}

/** Read by `headgate console` and `headgate tail`; only the user that runs Headgate may. */
async function writeOwnerKey(dataDir: string, key: string, closer: Closer): Promise<void> {
  const path = join(dataDir, ownerKeyFile);
  await mkdir(dataDir, { recursive: true });
  // A file left behind by a kill may have other permissions.
  await rm(path, { force: true });
  await writeFile(path, `${key}\n`, { mode: 0o600, flag: 'wx' });
  closer.add(ownerKeyFile, () => rm(path, { force: true }));
}

/** This process itself listens there, so its certificate need not be verified. */
function doorAt({ sql, settings, role }: ConsoleParts): SqlDoorAt {
  const tls = settings.sqlTlsCert !== null && !settings.sqlTlsOptional;
  const ssl = tls ? { rejectUnauthorized: false } : false;
  return { host: reachable(sql.host), port: sql.port, ssl, role };
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
