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
import { Lanes } from './batch/lanes.ts';
import { Catalog } from './catalog/catalog.ts';
import { createCommit } from './commit/commit.ts';
import { CommitPools } from './commit/commit-pools.ts';
import { createRewriter } from './ddl/rewrite.ts';
import { openGuards, sqlDoorAsks } from './door-guards.ts';
import type { DoorGuards } from './door-guards.ts';
import { openEmbeddedEngine } from './engine/embedded.ts';
import type { Engine } from './engine/engine.ts';
import { openPostgresEngine } from './engine/postgres.ts';
import { sqlstateOf } from './engine/sqlstate.ts';
import { createExplain } from './explain.ts';
import type { RejectedRequest, RetryRejected, RewriteSql } from './flow.ts';
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
import { Refused, refusals, SqlFailure } from './refusals.ts';
import { observers } from './observations.ts';
import type { Observe } from './observations.ts';
import { Rejects } from './reject/rejects.ts';
import type { KeyRing } from './secrets/key-ring.ts';
import { loadMasterKeys, parseMasterKeys } from './secrets/master-key.ts';
import { createSealing } from './secrets/sealing.ts';
import type { Sealing } from './secrets/sealing.ts';
import type { Settings } from './settings.ts';
import { expandSender, nearestSenders } from './senders/senders.ts';
import { loadParser, parseExpression } from './validate/expression.ts';
import { openWebhooks } from './webhook-door.ts';
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
    throw error;
  }
}

async function open(settings: Settings, log: Observe, version: string, closer: Closer): Promise<Service> {
  const clock = () => performance.now();
  let draining = false;
  const whyNotReady = () => (draining ? 'draining' : (engine.unavailable ?? catalog.unavailable));
  // What is measured opens later than what measures it; nobody asks before the admin port is open.
  const metrics = createMetrics({
    lanes: () => lanes.depths(),
    load: () => listener.load,
    ready: () => whyNotReady() === null,
  });
  const observe = observers(log, metrics.observe);
  await loadParser();
  const guards = await openGuards(settings, observe, closer);

  const engine = await openEngine(settings, observe);
  closer.add('engine', () => engine.close());
  const keys = await masterKeys(settings);
  const sealing = createSealing(keys);
  const rejects = openRejects(settings, engine, observe, (request) => retry(request));
  closer.add('rejected requests', () => rejects.close());
  const catalog = await Catalog.open({
    served: (database) => rejects.serve(database),
    engine,
    rooms: catalogRooms(sealing, settings),
    limits,
    observe,
    clock,
  });
  closer.add('catalog', () => catalog.close());
  const pools = new CommitPools(engine, limits);
  closer.add('commit connections', () => pools.close());
  const commit = createCommit({ pools, limits, observe, clock });
  const lanes = new Lanes({ commit, limits, clock, endOfTurn: setImmediate });
  closer.add('lanes', () => lanes.close());

  // An engine that is there is waited for, so that ready means ready, and that a proxy finds this Headgate away and not
  // unable as long as it only starts; an engine that is away is answered 503.
  await catalog.opened();
  const rejected = (request: RejectedRequest) => rejects.keep(request);
  const webhooks = { settings, catalog, lanes, guards, rejected, observe, clock };
  const { listener, retry } = await openWebhooks(webhooks);
  closer.add('listener', () => listener.close());
  const { sqlDoor, gateway } = await openSqlAndEvents(
    { settings, engine, catalog, pools, lanes, rejects, sealing, guards, keys, version, observe },
    closer,
  );
  const admin = await openAdmin({
    host: settings.adminHost,
    port: settings.adminPort,
    health: () => ({ engine: engine.kind }),
    ready: whyNotReady,
    metrics,
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

  let stopping: Promise<void> | null = null;
  const stop = async (reason: string) => {
    draining = true;
    observe({ kind: 'service.draining', reason });
    // The listener answers what it has taken, through lanes that still commit; only then do they close.
    await drain([listener.close(), gateway.drain(), sqlDoor.drain()]);
    await closer.close();
    observe({ kind: 'service.stopped' });
  };
  return { engine, doors, stop: (reason) => (stopping ??= stop(reason)), reload: guards.reload };
}

interface DoorRooms {
  readonly settings: Settings;
  readonly engine: Engine;
  readonly catalog: Catalog;
  readonly pools: CommitPools;
  readonly lanes: Lanes;
  readonly rejects: Rejects;
  readonly sealing: Sealing;
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
function createSqlRewriter(
  { settings, catalog, pools, rejects, sealing }: DoorRooms,
  releaseMore: (database: string) => Promise<void>,
): RewriteSql {
  const explain = createExplain({
    sources: (question) => catalog.sources(question),
    publicUrl: settings.publicUrl,
    nowMs: Date.now,
  });
  return createRewriter({
    ensureCatalog: (database) => catalog.ensure(database).catch(failStatement),
    releaseDatabase: async (database) => {
      await catalog.release(database);
      await pools.release(database);
      await rejects.release(database);
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

function openRejects(settings: Settings, engine: Engine, observe: Observe, retry: RetryRejected): Rejects {
  const { rejectedRowsMax: rowsMax, rejectedDays: days } = settings;
  const clock = () => performance.now();
  return new Rejects({ engine, retry, rowsMax, days, limits, observe, clock, random: Math.random });
}

function masterKeys(settings: Settings): Promise<KeyRing> | KeyRing {
  if (settings.masterKey !== null) return parseMasterKeys(settings.masterKey, 'HEADGATE_MASTER_KEY');
  return loadMasterKeys(settings.masterKeyFile ?? join(settings.dataDir, 'master.key'));
}

function catalogRooms(sealing: Sealing, settings: Settings) {
  return {
    open: sealing.open,
    compile: (expression: string, payload: string, secrets: ReadonlyMap<string, string>) => {
      const parsed = parseExpression(expression, { secrets: [...secrets.keys()] });
      // What one more unknown name would mean was decided at CREATE; a renamed column changes nothing.
      if (parsed.payloadName !== null && parsed.payloadName !== payload && parsed.payloadName !== 'payload') {
        throw new Error(`the VALIDATE expression reads ${parsed.payloadName}, the body is ${payload}`);
      }
      return {
        check: parsed.compile({ secrets, publicUrl: settings.publicUrl }),
        headers: parsed.readsAllHeaders ? null : parsed.headersRead.map((name) => name.toLowerCase()),
      };
    },
  };
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

/** Waits for all of it, at most `drainMs`: what is left then is closed as it is. */
export async function drain(doors: readonly Promise<void>[]): Promise<void> {
  const deadline = new AbortController();
  const expired = delay(limits.drainMs, undefined, { signal: deadline.signal }).catch(() => {});
  await Promise.race([Promise.all(doors), expired]);
  deadline.abort();
}
