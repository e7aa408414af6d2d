/**
 * The composition root: the only file that knows every room. Opens them in order, closes them in reverse.
 *
 * Takes Settings, and an engine that is starting (start.ts); returns a running Service, or throws one line for the terminal and
 * leaves what it opened to the closer. Stopping has two phases: drain (accept nothing new, answer what was accepted), then close.
 */
import { randomBytes } from 'node:crypto';
import { resolve } from 'node:path';
import type { Lanes } from '../batch/lanes.ts';
import { createMetrics } from '../admin/metrics.ts';
import { AcceptedRequests } from '../console/accepted-requests.ts';
import { OutcomeTail } from '../console/tail-source.ts';
import { openAdminPort } from './admin-port.ts';
import { ObservedConditions } from '../alerts/alerts.ts';
import { askTokens } from '../gateway/token-rights.ts';
import { createRewriter } from '../ddl/rewrite.ts';
import type { RewriteSql } from '../ddl/rewrite.ts';
import { StatementContext } from '../ddl/statement-context.ts';
import { boundsOf, limits } from '../config/limits.ts';
import type { CertificateOfDomains } from './certificate.ts';
import { openGuards } from './door-guards.ts';
import { readPlans } from '../deliver/plan.ts';
import { Deliveries } from '../deliver/service.ts';
import { hold } from '../keep/statements.ts';
import { Endpoints } from '../ddl/endpoints.ts';
import { gatewayIsClosed } from '../host/door-settings.ts';
import { doorAt, writePorts } from '../host/ports.ts';
import { awaitReady, stopService } from './service.ts';
import type { DoorGuards } from './door-guards.ts';
import { DatabaseRights } from '../engine/database-rights.ts';
import type { Engine } from '../engine/engine.ts';
import { gatewayFunctions } from '../gateway/gateway-functions.ts';
import { GatewayRole } from '../engine/gateway-role.ts';
import { doubtsOf, WriteWatch } from '../engine/writability.ts';
import { openGateway } from '../gateway/door.ts';
import type { Gateway } from '../gateway/door.ts';
import { doorOptions, engineOf, openEventEngines } from '../gateway/engines.ts';
import { externalDatabases } from '../gateway/external-databases.ts';
import { ownDatabases } from '../gateway/engine-databases.ts';
import type { Closer } from '../kit/closer.ts';
import { together } from '../kit/promises.ts';
import { SpoolServer } from './listeners/spool-server.ts';
import { monotonicMs, observers } from '../observe/context.ts';
import type { Observe } from '../observe/observations.ts';
import type { KeyRing } from '../secrets/key-ring.ts';
import type { Service, Starting, Stopped } from './service.ts';
import { openTracer } from './telemetry.ts';
import type { Tracer } from '../telemetry/tracer.ts';
import { spoolDetail, spoolState } from '../spool/spool-state.ts';
import type { Settings } from '../config/settings.ts';
import { loadParser } from '../validate/expression.ts';
import { listenerCount, webhookDoorOf, withoutListenTls } from './webhook-doors.ts';
import type { WebhookDoor } from './webhook-doors.ts';
import { masterKeys } from '../secrets/key-ring.ts';
import { commitEngine, openWebhookRooms, releaseDatabase } from './wire-listener.ts';
import type { OpenWebhooks } from './wire-listener.ts';
import { openSqlDoor } from '../wire/door.ts';
import type { SqlDoor } from '../wire/door.ts';

/** The engine starts in another process while the rest is prepared. Closed by `closer`. */
export async function openService({
  settings,
  log,
  version,
  engine: starting,
  closer,
}: Starting): Promise<Service> {
  let draining = false;
  const whyNotReady = () => (draining ? 'draining' : unavailableOf(engine, writes, deps));
  const several = listenerCount(settings) > 1;
  // The metrics are created before what they measure; they are not read before the admin port is open.
  const metrics = createMetrics({
    lanes: () => [...deps.lanes.depths(), ...eventDepths()],
    load: () => deps.listener.load,
    ready: () => whyNotReady() === null,
    spool: () => spoolState({ ...deps, settings }),
    ...(several ? { listeners: () => deps.listener.listeners?.states ?? [] } : {}),
  });
  let writes: WriteWatch | null = null;
  // From listener processes it receives only what they log.
  const [signs, doubts] = [new ObservedConditions(), doubtsOf(() => writes)];
  const heard = observers(log, doubts, signs.readers);
  const held = new AcceptedRequests(limits, (table) => deps.catalog.lastKnown(table));
  const tail = new OutcomeTail(Date.now, settings.rejectedRowsMax > 0, held.forget, held.eventOf);
  const observe = observers(heard, metrics.observe, tail.readers);
  starting.heardBy(observers(doubts, metrics.observe, tail.readers));
  const guarding = openGuards(several ? withoutListenTls(settings) : settings, observe, closer);
  const [engine, [guards]] = await together(starting.opened, together(guarding, loadParser()));
  writes = watchWrites(engine, settings, closer);
  const [keys, desk] = [masterKeys(settings), new SpoolServer()];
  const openDoor = webhookDoorOf({ settings, engine, version, log: heard, observe, desk });
  const tracer = openTracer(settings, version, observe, closer);
  const shared = { settings, engine, guards, keys, version, observe, tracer, refused: tail.stored };
  const bounds = { limits: boundsOf(settings), retries: true, oneOfSeveral: null, hold: held.hold };
  const deps = await openWebhookRooms({ ...shared, ...bounds, openDoor, desk }, closer);
  const { listener, catalog } = deps;
  const { sqlDoor, gateway, eventDepths } = await openSqlAndEvents({ ...deps, ...shared }, closer);
  const [listen, sql] = [listener.address, sqlDoor.address];
  const doorsSoFar = { listener, sql, gateway: gateway.address, metrics };
  const made = await openCertificate({ ...deps, ...shared }, reloadOf(guards, listener, settings), closer);
  const seen = { databases: catalog, signs, tail, ready: whyNotReady, certificate: made.standing };
  const { admin, console } = await openAdminPort(
    {
      ...shared,
      ...doorsSoFar,
      ...seen,
      held: async (of) => held.read(of),
      spool: () => spoolDetail({ ...deps, settings }, draining),
    },
    closer,
  );

  const tls = settings.listenTlsCert !== null;
  const doors = { listen: listen && { ...listen, tls }, sql, gateway: gateway.address, admin: admin.address };
  await writePorts(settings.dataDir, { ...factsOf(engine, settings), ...doors, ...made.doors }, closer);
  const readiness = awaitReady(whyNotReady, observe, closer);

  let stopping: Promise<Stopped> | null = null;
  const stop = (reason: string) => {
    draining = true;
    observe({ kind: 'service.draining', reason });
    // The listener answers its accepted requests through lanes that still commit; only then do the lanes close.
    const drain = [listener.close(), gateway.drain(), sqlDoor.drain()];
    return stopService({ drain, closer, observe, cutOff: async () => engine.cutOff?.() });
  };
  return {
    engine,
    doors,
    console,
    ...readiness,
    stop: (reason) => (stopping ??= stop(reason)),
    reload: made.reload,
  };
}

async function openDeliveries(parts: ServerParts, closer: Closer): Promise<Deliveries> {
  const deliveries = new Deliveries({ ...parts, hold, plans: await readPlans(parts.settings) });
  closer.add('deliveries', () => deliveries.close());
  return deliveries;
}

/** As whom commands of this machine connect, and to what. */
function loginOf(engine: Engine): { readonly database: string; readonly role: string | undefined } {
  const { defaultDatabase: database } = engine;
  return { database, role: engine.clientConfig(database).user };
}

/** What a command has to know beside the ports. */
function factsOf(engine: Engine, { publicUrl }: Settings): object {
  return { engine: engine.kind, ...loginOf(engine), ...(publicUrl !== null && { publicUrl }) };
}

function unavailableOf(engine: Engine, writes: WriteWatch | null, deps: OpenWebhooks<WebhookDoor>) {
  const inProcesses = deps.listener.listeners?.unavailable ?? null;
  return (
    engine.unavailable ?? engine.readOnly ?? writes?.unavailable ?? deps.catalog.unavailable ?? inProcesses
  );
}

/** For a listener whose certificate comes from an authority. */
async function openCertificate(
  { pools, sealing, settings, engine, observe }: ServerParts,
  reload: Service['reload'],
  closer: Closer,
): Promise<CertificateOfDomains> {
  if (settings.listenAcmeDomains.length === 0) return { standing: () => null, doors: {}, reload };
  const certificate = await import('./certificate.ts');
  const reread = async () => reload?.();
  const parts = { settings, engine, pools, sealing, reload: reread, observe };
  return certificate.openCertificate(parts, closer);
}

interface ServerParts extends OpenWebhooks<WebhookDoor> {
  readonly settings: Settings;
  readonly engine: Engine;
  readonly guards: DoorGuards;
  readonly keys: KeyRing;
  readonly version: string;
  readonly observe: Observe;
  /** null: nothing is traced. */
  readonly tracer: Tracer | null;
}

/** The two doors that accept SQL, with one rewriter; and the deliveries, whose sessions it ends before a database is dropped. */
async function openSqlAndEvents(
  deps: ServerParts,
  closer: Closer,
): Promise<{ sqlDoor: SqlDoor; gateway: Gateway; eventDepths: Lanes['depths'] }> {
  const { settings, engine, guards, keys, observe } = deps;
  const deliveries = await openDeliveries(deps, closer);
  const rewrite = createSqlRewriter(deps, async (database) => {
    deliveries.release(database);
    await gateway.release(database);
  });
  const sqlDoor = await openSqlDoor({
    ...doorAt(settings, 'sql'),
    endpoint: () => engine.endpoint(),
    serverConnections: () => engine.connectionsMax ?? 0,
    unavailable: () => engine.unavailable,
    tls: guards.sqlTls,
    tlsRequired: !settings.sqlTlsOptional,
    // Without a master key, which /readyz then reports, salts of unknown roles change with each start.
    passwords: guards.passwords(engine, keys.keys()[0]?.key ?? randomBytes(32)),
    ownEngine: engine.kind === 'embedded',
    observe,
    rewrite,
  });
  closer.add('SQL door', () => sqlDoor.close());
  const { gateway, depths } = await openEvents(deps, rewrite, closer);
  return { sqlDoor, gateway, eventDepths: depths };
}

/** For the SQL door and for POST /v1/sql. `releaseMore` releases connections to a database that were opened later. */
function createSqlRewriter(deps: ServerParts, releaseMore: (database: string) => Promise<void>): RewriteSql {
  const { settings, sealing, listener, catalog: databases } = deps;
  const context = new StatementContext({
    settings,
    databases,
    sealing,
    endpoints: new Endpoints(databases, settings, listener.address),
    spool: deps.spool,
    onEnsured: async (database) =>
      listener.listeners?.tell({ what: 'ensure', database }, limits.catalogWaitMs),
    rights: new DatabaseRights(deps.engine),
    release: async (database) => {
      await releaseDatabase(deps, database);
      await listener.listeners?.tell({ what: 'release', database }, limits.catalogWaitMs);
      await releaseMore(database);
    },
  });
  return createRewriter(context);
}

/** The events gateway: in front of the databases of EVENTS_API_<DB>_DSN, or of Headgate's own if there are none. */
async function openEvents(
  deps: ServerParts,
  rewrite: RewriteSql,
  closer: Closer,
): Promise<{ gateway: Gateway; depths: Lanes['depths'] }> {
  const { settings, engine, version, observe, tracer, logins, pools, lanes } = deps;
  const others = await openEventEngines(settings.eventDatabases, observe, closer);
  const own = others.length === 0;
  const role = own ? await openGatewayRole(settings, engine, closer) : null;
  const context = { observe, clock: monotonicMs, limits: boundsOf(settings) };
  const webhooks = { engine: commitEngine(engine, logins), pools, lanes };
  const rooms = own
    ? ownDatabases({ engine, logins, role, webhooks, rewrite }, context, closer, tracer)
    : externalDatabases(others, context, closer, tracer);
  const gateway = await openGateway({
    ...doorOptions(settings, deps.guards.gateway),
    closed: gatewayIsClosed(settings),
    version,
    databases: {
      database: own ? (name) => name ?? engine.defaultDatabase : (name) => engineOf(others, name).name,
      unavailable: () =>
        (own ? [engine] : others.map((it) => it.engine)).find((it) => it.unavailable !== null)?.unavailable ??
        null,
      sql: rooms.sql,
      events: rooms.events,
      tokens: own ? askTokens(deps.catalog) : null,
    },
    metrics: null,
    observe,
    tracer,
  });
  closer.add('events gateway', () => gateway.close());
  const release = async (database: string): Promise<void> => {
    role?.forget(database);
    await gateway.release(database);
  };
  return { gateway: { ...gateway, release }, depths: rooms.depths };
}

/** null: on an external engine, the gateway uses Headgate's own role. */
async function openGatewayRole(
  settings: Settings,
  engine: Engine,
  closer: Closer,
): Promise<GatewayRole | null> {
  if (engine.clientConfigAs === undefined) return null;
  const role = new GatewayRole(engine, settings.eventsRole, gatewayFunctions, monotonicMs);
  closer.add('role of the gateway', () => role.close());
  await role.open();
  return role;
}

function watchWrites(engine: Engine, { dataDir }: Settings, closer: Closer): WriteWatch {
  const embedded = engine.kind === 'embedded';
  const watch = new WriteWatch(engine, embedded ? resolve(dataDir) : null);
  closer.add('watch of writes', () => watch.close());
  return watch;
}

/** Covers the doors here, and those of listener processes; null: there are no certificates. */
function reloadOf(guards: DoorGuards, { listeners }: WebhookDoor, settings: Settings): Service['reload'] {
  if (listeners === null || settings.listenTlsCert === null) return guards.reload;
  return async () => void (await Promise.all([guards.reload?.(), listeners.tell({ what: 'reload' })]));
}
