/**
 * The composition root of `headgate gateway`: only the events gateway, in front of any PostgreSQL by
 * EVENTS_API_<DB>_DSN. Takes Settings; returns an open door, or throws StartError or EngineError with one line and
 * leaves nothing behind. An unreachable database does not prevent the start: its requests are answered 503.
 */
import { createMetrics } from '../admin/metrics.ts';
import { openGatewayGuards } from './door-guards.ts';
import { openGateway } from '../gateway/door.ts';
import type { Gateway } from '../gateway/door.ts';
import { boundsOf } from '../config/limits.ts';
import { doorOptions, engineOf, openEventEngines } from '../gateway/engines.ts';
import type { NamedEngine } from '../gateway/engines.ts';
import { externalDatabases } from '../gateway/external-databases.ts';
import { Closer } from '../kit/closer.ts';
import { gatewayProblemsOf } from '../host/check-settings.ts';
import { refuse, StartError } from './start.ts';
import { doorsOf, takenPorts } from '../host/ports.ts';
import { awaitReady, stopService } from './service.ts';
import type { Readiness, Stopped } from './service.ts';
import { openTracer } from './telemetry.ts';
import { monotonicMs, observers } from '../observe/context.ts';
import type { Observe } from '../observe/observations.ts';
import type { Settings } from '../config/settings.ts';

export interface GatewayService extends Readiness {
  readonly gateway: Gateway;
  /** What `?database=` may name; the first is the default. */
  readonly databases: readonly string[];
  /** Answers accepted requests, accepts no new ones, then closes (`stopService`). Calling it again has no effect. */
  stop(reason: string): Promise<Stopped>;
  /** Reads the door's certificate again; null: it has none. */
  readonly reload: (() => Promise<void>) | null;
}

export async function startGateway(
  settings: Settings,
  log: Observe,
  version: string,
): Promise<GatewayService> {
  await refuse(gatewayProblemsOf(settings));
  if (settings.eventDatabases.length === 0) {
    throw new StartError(
      'no database: set EVENTS_API_<DB>_DSN, e.g. EVENTS_API_DEV_DSN=postgresql://user:password@host:5432/dev',
    );
  }
  await refuse(takenPorts(doorsOf(settings, ['gateway'])));
  const closer = new Closer();
  try {
    return await open(settings, log, version, closer);
  } catch (error) {
    await closer.close();
    throw error;
  }
}

async function open(
  settings: Settings,
  log: Observe,
  version: string,
  closer: Closer,
): Promise<GatewayService> {
  const metrics = createMetrics({
    lanes: () => depths(),
    load: () => ({ connections: 0, bytesInFlight: 0 }),
  });
  const observe = observers(log, metrics.observe);
  const guards = await openGatewayGuards(settings, observe, closer);
  const engines = await openEventEngines(settings.eventDatabases, observe, closer);
  const clock = monotonicMs;
  const bounds = boundsOf(settings);
  const tracer = openTracer(settings, version, observe, closer);
  const context = { observe, clock, limits: bounds };
  const { depths, ...rooms } = externalDatabases(engines, context, closer, tracer);
  const gateway = await openGateway({
    ...doorOptions(settings, guards),
    version,
    databases: {
      database: (name) => engineOf(engines, name).name,
      unavailable: () => unavailableOf(engines),
      ...rooms,
      tokens: null,
    },
    metrics,
    observe,
    tracer,
  });
  closer.add('events gateway', () => gateway.close());
  let draining = false;
  const whyNotReady = () => (draining ? 'draining' : unavailableOf(engines));
  const readiness = awaitReady(whyNotReady, observe, closer);

  const { tls } = guards;
  let stopping: Promise<Stopped> | null = null;
  const stop = (reason: string): Promise<Stopped> => {
    draining = true;
    observe({ kind: 'service.draining', reason });
    return stopService({ drain: [gateway.drain()], closer, observe });
  };
  return {
    ...readiness,
    gateway,
    databases: engines.map(({ name }) => name),
    stop: (reason) => (stopping ??= stop(reason)),
    reload: tls === null ? null : () => tls.reload(),
  };
}

/** The reason of the first database that cannot be used, with its setting. */
function unavailableOf(engines: readonly NamedEngine[]): string | null {
  for (const { env, engine } of engines)
    if (engine.unavailable !== null) return `${env}: ${engine.unavailable}`;
  return null;
}
