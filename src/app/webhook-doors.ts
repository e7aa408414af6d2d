/**
 * The webhook door in its three forms: a listener in this process, several processes that share its port, or none. Takes
 * Settings, returns a function that opens it. Part of the composition root.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Engine } from '../engine/engine.ts';
import { reachOf } from '../engine/attached-engine.ts';
import { resources } from '../kit/cores.ts';
import type { Closable } from '../kit/closer.ts';
import { openListener } from '../listen/http.ts';
import type { ListenerOptions } from '../listen/http.ts';
import { Listeners } from './listeners/listeners.ts';
import { listenersOf } from './listeners/resource-share.ts';
import type { SpoolServer } from './listeners/spool-server.ts';
import { doorAt } from '../host/ports.ts';
import { monotonicMs } from '../observe/context.ts';
import type { Observe } from '../observe/observations.ts';
import type { Settings } from '../config/settings.ts';
import { withClient } from '../engine/close-client.ts';
import { ownerLoginPrefix, writerName } from '../engine/login-names.ts';
import { backoffMs } from '../kit/backoff.ts';
import { limits } from '../config/limits.ts';

export interface WebhookDoor extends Closable {
  /** null: the listener is off. */
  readonly address: { readonly host: string; readonly port: number } | null;
  /** The load of this process. */
  readonly load: { readonly connections: number; readonly bytesInFlight: number };
  /** The processes that listen instead of this one; null: none do. */
  readonly listeners: Listeners | null;
}

const nothing = { connections: 0, bytesInFlight: 0 };

/** How many processes listen; 0: the listener is off; 1: this process listens. */
export function listenerCount({ listenEnabled, listeners }: Settings): number {
  if (!listenEnabled) return 0;
  return listeners === 0 ? listenersOf(resources()) : listeners;
}

/** For the main process while others listen: it needs the certificates of its own doors only. */
export function withoutListenTls(settings: Settings): Settings {
  return { ...settings, listenTlsCert: null, listenTlsKey: null, listenTlsClientCa: null };
}

interface DoorSurroundings {
  readonly settings: Settings;
  readonly engine: Engine;
  readonly version: string;
  /** Logs what listener processes report, without counting it: they have done that themselves. */
  readonly log: Observe;
  readonly observe: Observe;
  readonly desk: SpoolServer;
}

export function webhookDoorOf(
  surroundings: DoorSurroundings,
): (options: ListenerOptions) => Promise<WebhookDoor> {
  const count = listenerCount(surroundings.settings);
  if (count === 0) {
    return async () => ({ address: null, load: nothing, listeners: null, close: async () => {} });
  }
  if (count > 1) return () => openProcesses(surroundings, count);
  return async (options) => {
    const listener = await openListener(options);
    return {
      address: listener.address,
      get load() {
        return listener.load;
      },
      listeners: null,
      close: () => listener.close(),
    };
  };
}

async function openProcesses(
  { settings, engine, version, log, observe, desk }: DoorSurroundings,
  of: number,
): Promise<WebhookDoor> {
  const closing = new AbortController();
  const [clock, random] = [monotonicMs, Math.random];
  const listeners = await Listeners.open({
    ...doorAt(settings, 'listen'),
    assignment: {
      settings: settingsOfListener(settings),
      version,
      reach: engine.kind === 'embedded' ? reachOf(engine) : null,
      of,
    },
    observe,
    log,
    desk,
    commitsEnded: (name) => commitsEnded(name, { engine, clock, random, signal: closing.signal }),
  });
  const close = async () => {
    await listeners.close();
    closing.abort();
  };
  return { address: listeners.address, load: nothing, listeners, close };
}

/** What a listener process needs of the settings, without the passwords and keys of other doors. */
function settingsOfListener(settings: Settings): Settings {
  return {
    ...settings,
    eventDatabases: [],
    listenAcmeEabKey: null,
    gatewayToken: null,
    sqlPassword: null,
    sqlPasswordFile: null,
    gatewayTlsCert: null,
    gatewayTlsKey: null,
    gatewayTlsClientCa: null,
    sqlTlsCert: null,
    sqlTlsKey: null,
    sqlTlsClientCa: null,
  };
}

/** Of the roles that commit: every role may read such a name, and give it to a session of its own. */
const leftSql = `select from pg_catalog.pg_stat_activity a
  join pg_catalog.pg_roles r on r.oid operator(pg_catalog.=) a.usesysid
  where a.application_name operator(pg_catalog.=) $1::pg_catalog.text 
    and (r.rolname in (session_user, '${writerName}') or pg_catalog.starts_with(r.rolname::pg_catalog.text, '${ownerLoginPrefix}'))`;

interface WaitSurroundings {
  readonly engine: Pick<Engine, 'clientConfig' | 'defaultDatabase'>;
  /** A monotonic clock, ms. */
  readonly clock: () => number;
  readonly random: () => number;
  /** Ends the waiting. */
  readonly signal: AbortSignal;
}

/**
 * Waits for the commits that a dead listener process left at the engine. Takes the name of its commits; resolves once no session
 * has that name, at the latest after `listenerLeftMs`, when the engine's own statement timeout has ended the rest. Never rejects.
 * Queries the engine; changes nothing.
 */
export async function commitsEnded(commitName: string, surroundings: WaitSurroundings): Promise<void> {
  const { clock, random, signal } = surroundings;
  const latest = clock() + limits.listenerLeftMs;
  for (let attempt = 1; clock() < latest && !signal.aborted; attempt++) {
    // An engine that does not answer may still be storing.
    if (await areGone(commitName, surroundings).catch(() => false)) return;
    const pauseMs = backoffMs(attempt, limits.fateRetryMinMs, limits.fateRetryMs, random);
    await delay(pauseMs, undefined, { signal }).catch(() => undefined);
  }
}

async function areGone(commitName: string, { engine }: WaitSurroundings): Promise<boolean> {
  const config = engine.clientConfig(engine.defaultDatabase);
  return withClient(
    config,
    limits.listenerAnswerMs,
    async (client) => (await client.query(leftSql, [commitName])).rowCount === 0,
  );
}
