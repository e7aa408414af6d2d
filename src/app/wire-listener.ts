/**
 * Connects the rooms that serve webhooks: refused requests, catalog, commit connections, lanes, listener. Takes an engine and how
 * the listener is opened; returns the rooms. Opened by main.ts, and by each listener process if there are several. Part of the
 * composition root.
 */
import { Lanes } from '../batch/lanes.ts';
import { Catalog } from '../catalog/catalog.ts';
import { TableCompiler } from '../catalog/table-compiler.ts';
import { SenderHandshakes } from '../ingest/handshake.ts';
import { Ingest } from '../ingest/ingest.ts';
import type { Stages } from '../ingest/ingest.ts';
import { RequestStreams } from '../ingest/ingest-stream.ts';
import { Learning } from '../ingest/learning.ts';
import { Retry } from '../ingest/retry.ts';
import { Sns } from '../ingest/sns.ts';
import { KeySets } from '../validate/key-sets.ts';
import { createApiCall, createFetch, publicNetwork } from '../access/outgoing.ts';
import { Commit } from '../commit/commit.ts';
import { CommitPools } from '../commit/commit-pools.ts';
import type { CommitEngine } from '../commit/commit-pools.ts';
import type { DoorGuards } from './door-guards.ts';
import type { Engine } from '../engine/engine.ts';
import { writerName } from '../engine/login-names.ts';
import { OwnerLogins } from '../engine/owner-logins.ts';
import type { LoginPasswords } from '../engine/owner-logins.ts';
import type { Disk } from '../ingest/spooling.ts';
import type { StreamFence } from '../ingest/stream-fence.ts';
import type { Closable, Closer } from '../kit/closer.ts';
import type { ListenerOptions } from '../listen/http.ts';
import { doorAt } from '../host/ports.ts';
import { monotonicMs, observers } from '../observe/context.ts';
import type { StageContext } from '../observe/context.ts';
import { Retention } from '../keep/retention.ts';
import { Reconciliation } from '../reconcile/reconcile.ts';
import { IntoRisingWave } from '../risingwave/into.ts';
import { ConflictingDeliveries } from '../reject/conflicting-deliveries.ts';
import { Rejects } from '../reject/rejected-requests.ts';
import type { RetryRejected, StoredRefusal } from '../types/journal.ts';
import type { KeyRing } from '../secrets/key-ring.ts';
import type { Sealing } from '../secrets/sealing.ts';
import { createLoginPasswords } from '../secrets/login-passwords.ts';
import { createSealing } from '../secrets/sealing.ts';
import type { Settings } from '../config/settings.ts';
import type { Tracer } from '../telemetry/tracer.ts';
import type { DatabaseSpool } from '../spool/database-spool.ts';
import type { SpoolClient } from './listeners/spool-client.ts';
import type { SpoolServer } from './listeners/spool-server.ts';
import { rememberTables } from '../spool/known-tables.ts';
import { Spools } from '../spool/spools.ts';

/** What the rooms for webhooks are made of. */
interface WebhookParts<Door extends Closable> extends Omit<StageContext, 'clock'> {
  readonly settings: Settings;
  readonly engine: Engine;
  readonly keys: KeyRing;
  readonly guards: DoorGuards;
  readonly openDoor: (options: ListenerOptions) => Promise<Door>;
  /** Whether this process runs the retries of refused requests; only one of several does. */
  readonly retries: boolean;
  /** For one of several processes: what keeps their streams in order, the name of their commits at the engine, and the disk. */
  readonly oneOfSeveral: {
    readonly fence: StreamFence;
    readonly commitName: string;
    readonly link: SpoolClient;
  } | null;
  /** Receives what accepted requests of inspected tables held. */
  readonly hold: Stages['hold'];
  /** Receives the ids of refused requests. */
  readonly refused: (rows: readonly StoredRefusal[]) => void;
  /** null: nothing is traced. */
  readonly tracer: Tracer | null;
  /** Is told of each spool that is opened here; null: none is. */
  readonly desk: SpoolServer | null;
}

/** What is open then. */
export interface OpenWebhooks<Door extends Closable> {
  readonly sealing: Sealing;
  readonly rejects: Rejects;
  /** null: another process removes expired rows. */
  readonly keeper: Retention | null;
  /** null: another process compares tables with the logs of their senders. */
  readonly reconciler: Reconciliation | null;
  readonly catalog: Catalog;
  readonly logins: OwnerLogins;
  readonly pools: CommitPools;
  readonly lanes: Lanes;
  /** null: another process keeps webhooks on its disk. */
  readonly spool: Spools | null;
  readonly listener: Door;
}

/** Closed by `closer`. The parser must be loaded. */
export async function openWebhookRooms<Door extends Closable>(
  options: WebhookParts<Door>,
  closer: Closer,
): Promise<OpenWebhooks<Door>> {
  const { engine, guards, limits, observe, oneOfSeveral, desk } = options;
  const clock = monotonicMs;
  const sealing = createSealing(options.keys);
  // Nothing is retried before the first answer of the engine, nor before it is known what is on the disk, which a retry must not overtake.
  const store: RetryRejected = (request) => diskKnown.then(() => retry.store(request));
  const rejects = openRejects(options, store, clock, closer);
  const { logins, verifier } = openLogins(options, closer);
  const keeper = options.retries ? new Retention({ engine, logins, limits, observe, clock }) : null;
  closer.add('keep', () => keeper?.close());
  const reconciler = openReconciler({ ...options, sealing, store }, (database) => catalog.known(database));
  closer.add('reconcile', () => reconciler?.close());
  const catalog = new Catalog({
    onConfirmed: (database) => spool?.confirmed(database),
    onServed: (database) => {
      rejects.serve(database);
      keeper?.serve(database);
      reconciler?.serve(database);
    },
    engine,
    onRetryAsked: (database) => rejects.retryAsked(database),
    compiler: openCompiler({ ...options, sealing, verifier, clock }),
    sealing,
    keys: options.keys,
    limits,
    observe,
    clock,
  });
  closer.add('catalog', () => catalog.close());
  const name = oneOfSeveral?.commitName;
  const pools = new CommitPools(commitEngine(engine, logins), limits, name, observe);
  closer.add('commit connections', () => pools.close());
  const told = observers(observe, rejects.readers);
  const commit = { pools, limits, observe: told, clock };
  const elsewhere = new IntoRisingWave({ observe, clock });
  closer.add('RisingWave connections', () => elsewhere.close());
  const lanes = new Lanes(new Commit(commit, elsewhere, options.tracer), { limits, clock });
  closer.add('lanes', () => lanes.close());
  const opened = (kept: DatabaseSpool) => desk?.opened(kept);
  const ofSpool = { ...options, sealing, catalog, commit, elsewhere, clock, lanes, opened };
  const spool = oneOfSeveral === null ? new Spools(ofSpool) : null;
  closer.add('spool', () => spool?.close());
  const disk = spool ?? oneOfSeveral?.link ?? null;
  const retry = new Retry({ catalog, lanes, gate: guards.gate, disk, clock });
  const diskKnown = spool?.start() ?? rememberTables(ofSpool);
  await diskKnown;
  // Once the lanes are empty: a hand-over may take long.
  closer.add('hand-over into RisingWave', () => elsewhere.stop());

  // Waits for an engine that is reachable, so that ready means ready, and a proxy sees a starting Headgate as down rather than
  // failing; if the engine is unreachable, requests are answered 503.
  await catalog.opened();
  spool?.confirmed(engine.defaultDatabase);
  const rooms = { sealing, catalog, pools, lanes, rejects, disk, observe: told, clock };
  const listener = await openListener(options, rooms);
  closer.add('listener', () => listener.close());
  // Before the lanes, through which it stores.
  closer.add('reconcile', () => reconciler?.close());
  return { sealing, rejects, keeper, reconciler, catalog, logins, pools, lanes, spool, listener };
}

/** The listener, and what its requests pass. */
function openListener<Door extends Closable>(
  options: WebhookParts<Door>,
  rooms: Pick<OpenWebhooks<Door>, 'sealing' | 'catalog' | 'pools' | 'lanes' | 'rejects'> &
    Pick<StageContext, 'observe' | 'clock'> & { readonly disk: Disk | null },
): Promise<Door> {
  const { settings, guards, limits, oneOfSeveral } = options;
  const { pools, observe, clock } = rooms;
  const learning = new Learning(rooms.sealing, pools, rooms.catalog, options.observe);
  const stages = { ...rooms, settings, gate: guards.gate, limits };
  const handshakes = new SenderHandshakes({ ...stages, learning });
  return options.openDoor({
    ...doorAt(settings, 'listen'),
    bodyBytesMax: settings.bodyBytesMax,
    fastPath: settings.fastPath,
    websocketOrigins: settings.websocketOrigins,
    limits,
    observe,
    now: Date.now,
    tls: guards.listenTls,
    gate: guards.gate,
    tracer: options.tracer,
    ingest: new Ingest({
      ...stages,
      handshakes,
      sns: openSns(settings, learning, { observe: options.observe, clock, limits }),
      apart: new ConflictingDeliveries(pools, limits, options.refused),
      hold: options.hold,
    }),
    handshakes,
    streams: new RequestStreams({ ...stages, fence: oneOfSeveral?.fence ?? null }),
  });
}

function openCompiler({
  settings,
  sealing,
  verifier,
  ...context
}: Pick<WebhookParts<Closable>, 'settings'> &
  StageContext & { readonly sealing: Sealing; readonly verifier: LoginPasswords['verifier'] | undefined }) {
  const keySets = new KeySets(settings.jwksHosts, context);
  return new TableCompiler(sealing, settings, keySets, verifier);
}

function openRejects(
  {
    settings,
    engine,
    limits,
    observe,
    retries,
    refused: stored,
  }: Pick<WebhookParts<Closable>, 'settings' | 'engine' | 'limits' | 'observe' | 'retries' | 'refused'>,
  retry: RetryRejected,
  clock: () => number,
  closer: Closer,
): Rejects {
  const { rejectedRowsMax: rowsMax, rejectedDays: days } = settings;
  const kept = { rowsMax, days, retry: retries ? retry : null };
  const rejects = new Rejects({ engine, ...kept, stored, limits, observe, clock });
  closer.add('rejected requests', () => rejects.close());
  return rejects;
}

/** null: another process does it. */
function openReconciler(
  parts: Pick<WebhookParts<Closable>, 'settings' | 'engine' | 'limits' | 'observe' | 'retries'> & {
    readonly sealing: Sealing;
    readonly store: RetryRejected;
  },
  known: (database: string) => ReturnType<Catalog['known']>,
): Reconciliation | null {
  if (!parts.retries) return null;
  const { settings, limits } = parts;
  const apis = new Map(settings.reconcileApis.map((it) => it.split(/=(.*)/s, 2) as [string, string]));
  const exchange = createApiCall({
    outgoingMs: limits.reconcileCallMs,
    outgoingBytesMax: limits.reconcileBytesMax,
  });
  const hasTables = (database: string) =>
    [...(known(database)?.snapshot.tables.values() ?? [])].some(({ reconciled }) => reconciled === true);
  return new Reconciliation({ ...parts, apis, exchange }, hasTables);
}

/** On Headgate's own engine nobody is asked for a password. */
function openLogins(
  { engine, keys }: Pick<WebhookParts<Closable>, 'engine' | 'keys'>,
  closer: Closer,
): { logins: OwnerLogins; verifier: LoginPasswords['verifier'] | undefined } {
  const passwords = engine.kind === 'embedded' ? null : createLoginPasswords(keys);
  const logins = new OwnerLogins(engine, passwords);
  closer.add('logins of owners', () => logins.close());
  return { logins, verifier: passwords?.verifier };
}

/** Rows of tables without code are stored by a role of their own on Headgate's engine, elsewhere by Headgate's. */
export function commitEngine(engine: Engine, logins: OwnerLogins): CommitEngine {
  const { kind } = engine;
  return {
    clientConfig: (database) => engine.clientConfig(database),
    doubt: () => engine.doubt?.(),
    logins,
    ...(kind === 'embedded' && {
      writerConfig: (database) => ({ ...engine.clientConfig(database), user: writerName }),
    }),
  };
}

/** null: Headgate calls nobody over the network. */
function openSns(
  { confirmSubscriptions: allowed }: Settings,
  learning: Learning,
  context: StageContext,
): Sns | null {
  if (allowed === 'off') return null;
  const services = allowed.split(',');
  const allows = { sns: services.includes('sns'), eventGrid: services.includes('event_grid') };
  return new Sns(allows, createFetch(publicNetwork, context.limits), learning, context);
}

/** Releases a database that is about to be dropped or renamed. */
export async function releaseDatabase(
  {
    catalog,
    pools,
    rejects,
    keeper,
    reconciler,
  }: Pick<OpenWebhooks<Closable>, 'catalog' | 'pools' | 'rejects' | 'keeper' | 'reconciler'>,
  database: string,
): Promise<void> {
  await catalog.release(database);
  await pools.release(database);
  await rejects.release(database);
  await keeper?.release(database);
  await reconciler?.release(database);
}
