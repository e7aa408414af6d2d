/**
 * The composition root: the only file that knows every room. Opens them in order, closes them in reverse.
 *
 * Takes Settings; gives a running Service, or throws StartError with one line for the terminal and nothing left
 * behind. Stopping has two phases: drain (nothing new is taken, what was taken is answered), then close.
 */
import { randomUUID } from 'node:crypto';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { isIP } from 'node:net';
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
import { decodeItems } from './decode/batches.ts';
import { decodeRequest } from './decode/decode.ts';
import { openEmbeddedEngine } from './engine/embedded.ts';
import type { Engine } from './engine/engine.ts';
import { openPostgresEngine } from './engine/postgres.ts';
import { sqlstateOf } from './engine/sqlstate.ts';
import { createExplain } from './explain.ts';
import type { Rows, Target } from './flow.ts';
import { createStreams } from './ingest-stream.ts';
import { createIngest } from './ingest.ts';
import { Closer } from './kit/closer.ts';
import { limits } from './limits.ts';
import { openListener } from './listen/http.ts';
import { parseIngestTarget, parseWebhookTarget } from './listen/routes.ts';
import { Refused, refusals, SqlFailure } from './refusals.ts';
import type { Refusal } from './refusals.ts';
import { observers } from './observations.ts';
import type { Observe, TableName } from './observations.ts';
import { loadMasterKey, parseMasterKey } from './secrets/master-key.ts';
import { createSealing } from './secrets/sealing.ts';
import type { Sealing } from './secrets/sealing.ts';
import type { Settings } from './settings.ts';
import { expandSender, nearestSenders } from './senders/senders.ts';
import { loadParser, parseExpression } from './validate/expression.ts';
import { openSqlDoor } from './wire/door.ts';
import type { SqlDoor } from './wire/door.ts';

export interface Address {
  readonly host: string;
  readonly port: number;
}

export interface Service {
  readonly engine: Engine;
  readonly doors: { readonly listen: Address; readonly sql: Address; readonly admin: Address };
  /** Answers what was taken, takes nothing new, then closes; at most `drainMs`. Calling it again changes nothing. */
  stop(reason: string): Promise<void>;
}

/** Headgate cannot start as configured; the message is for the terminal. */
export class StartError extends Error {
  override readonly name = 'StartError';
}

export async function startService(settings: Settings, log: Observe): Promise<Service> {
  refuseOpenDoors(settings);
  const closer = new Closer();
  try {
    return await open(settings, log, closer);
  } catch (error) {
    await closer.close();
    throw error;
  }
}

async function open(settings: Settings, log: Observe, closer: Closer): Promise<Service> {
  const clock = () => performance.now();
  // What is measured opens later than what measures it; nobody asks before the admin port is open.
  const metrics = createMetrics({ lanes: () => lanes.depths(), load: () => listener.load });
  const observe = observers(log, metrics.observe);
  await loadParser();

  const engine = await openEngine(settings, observe);
  closer.add('engine', () => engine.close());
  const sealing = createSealing(await masterKey(settings));
  const catalog = await Catalog.open({
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

  const stages = {
    find: (name: TableName) => catalog.find(name),
    admit: (target: Target) => lanes.admit(target),
    submit: (rows: Rows) => lanes.submit(rows),
    refresh: (database: string) => catalog.refresh(database),
  };
  const listener = await openListener({
    host: settings.listenHost,
    port: settings.listenPort,
    bodyBytesMax: settings.bodyBytesMax,
    websocketOrigins: settings.websocketOrigins,
    observe,
    now: Date.now,
    ingest: createIngest({
      ...stages,
      route: (target) => orRefuse(parseWebhookTarget(target)),
      decode: decodeRequest,
    }),
    openStream: createStreams({
      ...stages,
      route: (target) => orRefuse(parseIngestTarget(target)),
      decode: decodeItems,
      pause: delay,
      clock,
      random: Math.random,
      limits,
    }),
  });
  closer.add('listener', () => listener.close());
  const sqlDoor = await openSql({ settings, engine, catalog, pools, sealing, observe });
  closer.add('SQL door', () => sqlDoor.close());
  let draining = false;
  const admin = await openAdmin({
    host: settings.adminHost,
    port: settings.adminPort,
    health: () => ({ engine: engine.kind }),
    ready: () => (draining ? 'draining' : (engine.unavailable ?? catalog.unavailable)),
    metrics,
  });
  closer.add('admin port', () => admin.close());

  const doors = { listen: listener.address, sql: sqlDoor.address, admin: admin.address };
  await writePorts(settings.dataDir, doors, closer);
  // An engine that is there is waited for, so that ready means ready; one that is away is answered 503.
  await catalog.opened();
  observe({ kind: 'service.ready' });

  let stopping: Promise<void> | null = null;
  const stop = async (reason: string) => {
    draining = true;
    observe({ kind: 'service.draining', reason });
    // The listener answers what it has taken, through lanes that still commit; only then do they close.
    await drain([listener.close(), sqlDoor.drain()]);
    await closer.close();
    observe({ kind: 'service.stopped' });
  };
  return { engine, doors, stop: (reason) => (stopping ??= stop(reason)) };
}

interface SqlRooms {
  readonly settings: Settings;
  readonly engine: Engine;
  readonly catalog: Catalog;
  readonly pools: CommitPools;
  readonly sealing: Sealing;
  readonly observe: Observe;
}

function openSql({ settings, engine, catalog, pools, sealing, observe }: SqlRooms): Promise<SqlDoor> {
  const explain = createExplain({
    sources: (question) => catalog.sources(question),
    publicUrl: settings.publicUrl,
    nowMs: Date.now,
  });
  return openSqlDoor({
    host: settings.sqlHost,
    port: settings.sqlPort,
    endpoint: () => engine.endpoint(),
    unavailable: () => engine.unavailable,
    observe,
    rewrite: createRewriter({
      ensureCatalog: (database) => catalog.ensure(database).catch(failStatement),
      releaseDatabase: async (database) => {
        await catalog.release(database);
        await pools.release(database);
      },
      seal: sealing.seal,
      parseExpression,
      newId: randomUUID,
      expandSender,
      nearestSenders,
      explain: (question) => explain(question).catch(failStatement),
    }),
  });
}

/** Doors without credentials of their own stay on loopback unless the owner says otherwise. */
function refuseOpenDoors(settings: Settings): void {
  if (settings.insecure) return;
  for (const [host, env] of [
    [settings.sqlHost, 'HEADGATE_SQL_HOST'],
    [settings.adminHost, 'HEADGATE_ADMIN_HOST'],
  ] as const) {
    if (isLoopback(host)) continue;
    throw new StartError(
      `${env}=${host} would let anybody who can reach it in: keep it on 127.0.0.1, or set HEADGATE_INSECURE=true behind something that authenticates`,
    );
  }
}

function isLoopback(host: string): boolean {
  if (host === 'localhost' || host === '::1') return true;
  return isIP(host) === 4 && host.startsWith('127.');
}

function openEngine(settings: Settings, observe: Observe): Promise<Engine> {
  if (settings.databaseUrl !== null)
    return openPostgresEngine({ databaseUrl: settings.databaseUrl, observe });
  return openEmbeddedEngine({ dataDir: resolve(settings.dataDir), observe });
}

function masterKey(settings: Settings): Promise<Buffer> | Buffer {
  if (settings.masterKey !== null) return parseMasterKey(settings.masterKey, 'HEADGATE_MASTER_KEY');
  return loadMasterKey(settings.masterKeyFile ?? join(settings.dataDir, 'master.key'));
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

function orRefuse<T extends object>(made: T | Refusal): T {
  if ('code' in made) throw new Refused(made.code, made.message);
  return made;
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
async function drain(doors: readonly Promise<void>[]): Promise<void> {
  const deadline = new AbortController();
  const expired = delay(limits.drainMs, undefined, { signal: deadline.signal }).catch(() => {});
  await Promise.race([Promise.all(doors), expired]);
  deadline.abort();
}
