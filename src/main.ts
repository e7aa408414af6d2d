/**
 * The composition root: the only file that knows every room. Opens them in order, closes them in reverse.
 *
 * Takes Settings; gives a running Service, or throws StartError with one line for the terminal and nothing left
 * behind. Stopping has two phases: drain (nothing new is taken, what was taken is answered), then close.
 */
import { randomUUID } from 'node:crypto';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { createMetrics } from './admin/metrics.ts';
import { openAdmin } from './admin/admin.ts';
import { createRewriter } from './ddl/rewrite.ts';
import { openGuards, sqlDoorAsks } from './door-guards.ts';
import type { DoorGuards } from './door-guards.ts';
import { openEmbeddedEngine } from './engine/embedded.ts';
import type { Engine } from './engine/engine.ts';
import { openPostgresEngine } from './engine/postgres.ts';
import { sqlstateOf } from './engine/sqlstate.ts';
import { createExplain } from './explain.ts';
import type { RewriteSql } from './flow.ts';
import { openGateway } from './gateway/door.ts';
import type { Gateway } from './gateway/door.ts';
import { eventRooms, openEventParts } from './gateway-events.ts';
import {
  doorOptions,
  engineOf,
  openDoorProblem,
  openEventEngines,
  otherSqlRooms,
  ownSqlRooms,
} from './gateway-rooms.ts';
import { isLoopbackHost } from './kit/address.ts';
import { Closer } from './kit/closer.ts';
import { limits } from './limits.ts';
import { ListenerError } from './listeners/child.ts';
import { Refused, refusals, SqlFailure } from './refusals.ts';
import { observers } from './observations.ts';
import type { Observe } from './observations.ts';
import type { KeyRing } from './secrets/key-ring.ts';
import type { Settings } from './settings.ts';
import { expandSender, nearestSenders } from './senders/senders.ts';
import { loadParser, parseExpression } from './validate/expression.ts';
import { listenerCount, webhookDoorOf, withoutListenTls } from './webhook-doors.ts';
import type { WebhookDoor } from './webhook-doors.ts';
import { masterKeys, openWebhookRooms, releaseDatabase } from './webhook-rooms.ts';
import type { WebhookRooms } from './webhook-rooms.ts';
import { openSqlDoor } from './wire/door.ts';
import type { SqlDoor } from './wire/door.ts';

export interface Address {
  readonly host: string;
  readonly port: number;
}

export interface Service {
  readonly engine: Engine;
  /** `listen` is null when the webhook listener is switched off. */
  readonly doors: {
    readonly listen: Address | null;
    readonly sql: Address;
    readonly gateway: Address;
    readonly admin: Address;
  };
  /** Answers what was taken, takes nothing new, then closes; at most `drainMs`. Calling it again changes nothing. */
  stop(reason: string): Promise<void>;
  /** Reads the doors' certificates again; null: there are none. */
  readonly reload: (() => Promise<void>) | null;
}

/** Headgate cannot start as configured; the message is for the terminal. */
export class StartError extends Error {
  override readonly name = 'StartError';
}

/** `version`: what the gateway's OpenAPI document says. */
export async function startService(settings: Settings, log: Observe, version = 'unknown'): Promise<Service> {
  refuseOpenDoors(settings);
  const closer = new Closer();
  try {
    return await open(settings, log, version, closer);
  } catch (error) {
    await closer.close();
    throw error instanceof ListenerError ? new StartError(error.message) : error;
  }
}

async function open(settings: Settings, log: Observe, version: string, closer: Closer): Promise<Service> {
  let draining = false;
  const whyNotReady = () =>
    draining
      ? 'draining'
      : (engine.unavailable ?? rooms.catalog.unavailable ?? rooms.listener.listeners?.unavailable ?? null);
  const several = listenerCount(settings) > 1;
  // What is measured opens later than what measures it; nobody asks before the admin port is open.
  const metrics = createMetrics({
    lanes: () => rooms.lanes.depths(),
    load: () => rooms.listener.load,
    ready: () => whyNotReady() === null,
    ...(several ? { listeners: () => rooms.listener.listeners?.states ?? [] } : {}),
  });
  const observe = observers(log, metrics.observe);
  await loadParser();
  const guards = await openGuards(several ? withoutListenTls(settings) : settings, observe, closer);

  const engine = await openEngine(settings, observe);
  closer.add('engine', () => engine.close());
  const keys = await masterKeys(settings);
  const openDoor = webhookDoorOf({ settings, engine, log, observe });
  const rooms = await openWebhookRooms(
    { settings, engine, keys, guards, limits, observe, openDoor, retries: true, oneOfSeveral: null },
    closer,
  );
  const { listener } = rooms;
  const { sqlDoor, gateway } = await openSqlAndEvents(
    { ...rooms, settings, engine, guards, keys, version, observe },
    closer,
  );
  const admin = await openAdmin({
    host: settings.adminHost,
    port: settings.adminPort,
    health: () => ({ engine: engine.kind }),
    ready: whyNotReady,
    metrics: {
      contentType: metrics.contentType,
      text: () => listener.listeners?.metricsText(metrics) ?? metrics.text(),
    },
  });
  closer.add('admin port', () => admin.close());

  const doors = {
    listen: listener.address,
    sql: sqlDoor.address,
    gateway: gateway.address,
    admin: admin.address,
  };
  await writePorts(settings.dataDir, doors, closer);
  observe({ kind: 'service.ready' });
  engine.opened?.();

  let stopping: Promise<void> | null = null;
  const stop = async (reason: string) => {
    draining = true;
    observe({ kind: 'service.draining', reason });
    // The listener answers what it has taken, through lanes that still commit; only then do they close.
    await drain([listener.close(), gateway.drain(), sqlDoor.drain()]);
    await closer.close();
    observe({ kind: 'service.stopped' });
  };
  return {
    engine,
    doors,
    stop: (reason) => (stopping ??= stop(reason)),
    reload: reloadOf(guards, listener, settings),
  };
}

interface DoorRooms extends WebhookRooms<WebhookDoor> {
  readonly settings: Settings;
  readonly engine: Engine;
  readonly guards: DoorGuards;
  readonly keys: KeyRing;
  readonly version: string;
  readonly observe: Observe;
}

/** The two doors that take SQL, with one rewriter. */
async function openSqlAndEvents(
  rooms: DoorRooms,
  closer: Closer,
): Promise<{ sqlDoor: SqlDoor; gateway: Gateway }> {
  const { settings, engine, guards, keys, observe } = rooms;
  const rewrite = createSqlRewriter(rooms, (database) => gateway.release(database));
  const sqlDoor = await openSqlDoor({
    host: settings.sqlHost,
    port: settings.sqlPort,
    endpoint: () => engine.endpoint(),
    unavailable: () => engine.unavailable,
    tls: guards.sqlTls,
    tlsRequired: !settings.sqlTlsOptional,
    passwords: guards.passwords(engine, keys.keys()[0].key),
    observe,
    rewrite,
  });
  closer.add('SQL door', () => sqlDoor.close());
  const gateway = await openEvents(rooms, rewrite, closer);
  return { sqlDoor, gateway };
}

/** Of the SQL door and of POST /v1/sql. `releaseMore`: lets go of connections to a database that opened later. */
function createSqlRewriter(rooms: DoorRooms, releaseMore: (database: string) => Promise<void>): RewriteSql {
  const { settings, catalog, sealing, listener } = rooms;
  const explain = createExplain({
    sources: (question) => catalog.sources(question),
    publicUrl: settings.publicUrl,
    nowMs: Date.now,
  });
  return createRewriter({
    ensureCatalog: async (database) => {
      await catalog.ensure(database).catch(failStatement);
      await listener.listeners?.tell({ what: 'ensure', database }, limits.catalogWaitMs);
    },
    releaseDatabase: async (database) => {
      await releaseDatabase(rooms, database);
      await listener.listeners?.tell({ what: 'release', database }, limits.catalogWaitMs);
      await releaseMore(database);
    },
    seal: sealing.seal,
    parseExpression,
    newId: randomUUID,
    expandSender,
    nearestSenders,
    explain: (question) => explain(question).catch(failStatement),
  });
}

/** The events gateway: in front of the databases of EVENTS_API_<DB>_DSN, or of Headgate's own where there are none. */
async function openEvents(rooms: DoorRooms, rewrite: RewriteSql, closer: Closer): Promise<Gateway> {
  const { settings, engine, version, observe } = rooms;
  const others = await openEventEngines(settings.eventDatabases, observe, closer);
  const own = others.length === 0;
  const clock = () => performance.now();
  const parts = own
    ? { engine, pools: rooms.pools, lanes: rooms.lanes, clock }
    : openEventParts(others, observe, clock, closer);
  const gateway = await openGateway({
    ...doorOptions(settings, rooms.guards.gateway),
    version,
    rooms: {
      database: own ? (name) => name ?? engine.defaultDatabase : (name) => engineOf(others, name).name,
      unavailable: () =>
        (own ? [engine] : others.map((it) => it.engine)).find((it) => it.unavailable !== null)?.unavailable ??
        null,
      sql: own ? ownSqlRooms(engine, rewrite) : otherSqlRooms(others),
      events: eventRooms(parts, closer),
    },
    metrics: null,
    observe,
  });
  closer.add('events gateway', () => gateway.close());
  return gateway;
}

/** Doors without credentials of their own stay on loopback unless the owner says otherwise. */
export function refuseOpenDoors(settings: Settings): void {
  const problem = openDoorProblem(settings);
  if (problem !== null) throw new StartError(problem);
  if (settings.insecure) return;
  const askFor = settings.databaseUrl === null ? 'HEADGATE_SQL_PASSWORD' : 'HEADGATE_SQL_TLS_CLIENT_CA';
  for (const [host, env, asks, what] of [
    [settings.sqlHost, 'HEADGATE_SQL_HOST', sqlDoorAsks(settings), `set ${askFor}`],
    [settings.adminHost, 'HEADGATE_ADMIN_HOST', false, 'keep it on 127.0.0.1'],
  ] as const) {
    if (asks || isLoopbackHost(host)) continue;
    throw new StartError(
      `${env}=${host} would let anybody who can reach it in: ${what}, or set HEADGATE_INSECURE=true behind something that authenticates`,
    );
  }
}

function openEngine(settings: Settings, observe: Observe): Promise<Engine> {
  if (settings.databaseUrl !== null)
    return openPostgresEngine({ databaseUrl: settings.databaseUrl, observe });
  return openEmbeddedEngine({ dataDir: resolve(settings.dataDir), observe });
}

/** Why a statement cannot be sent, as its client would read it from PostgreSQL. */
function failStatement(error: unknown): never {
  if (error instanceof SqlFailure) throw error;
  if (error instanceof Refused) {
    const { code, message } = error.refusal;
    throw new SqlFailure({ sqlstate: refusals[code].sqlstate, message });
  }
  const sqlstate = sqlstateOf(error) ?? '08006';
  throw new SqlFailure({ sqlstate, message: error instanceof Error ? error.message : String(error) });
}

/** Tells scripts which ports were picked; gone again when Headgate has stopped. */
async function writePorts(dataDir: string, doors: Service['doors'], closer: Closer): Promise<void> {
  const path = join(dataDir, 'ports.json');
  await mkdir(dataDir, { recursive: true });
  await writeFile(path, `${JSON.stringify({ pid: process.pid, ...doors }, null, 2)}\n`);
  closer.add('ports.json', () => rm(path, { force: true }));
}

/** Of the doors here, and of those of listener processes; null: there are no certificates. */
function reloadOf(guards: DoorGuards, { listeners }: WebhookDoor, settings: Settings): Service['reload'] {
  if (listeners === null || settings.listenTlsCert === null) return guards.reload;
  return async () => void (await Promise.all([guards.reload?.(), listeners.tell({ what: 'reload' })]));
}

/** Waits for all of it, at most `drainMs`: what is left then is closed as it is. */
export async function drain(doors: readonly Promise<void>[]): Promise<void> {
  const deadline = new AbortController();
  const expired = delay(limits.drainMs, undefined, { signal: deadline.signal }).catch(() => {});
  await Promise.race([Promise.all(doors), expired]);
  deadline.abort();
}
