/**
 * The composition root of `headgate gateway`: the events gateway alone, in front of any PostgreSQL by
 * EVENTS_API_<DB>_DSN. Takes Settings; gives an open door, or throws StartError or EngineError with one line and
 * nothing left behind. A database that is away keeps nothing from starting: its requests are answered 503.
 */
import { performance } from 'node:perf_hooks';
import { createMetrics } from './admin/metrics.ts';
import { openGatewayGuards } from './door-guards.ts';
import { openGateway } from './gateway/door.ts';
import type { Gateway } from './gateway/door.ts';
import { eventRooms, openEventParts } from './gateway-events.ts';
import { doorOptions, engineOf, openDoorProblem, openEventEngines, otherSqlRooms } from './gateway-rooms.ts';
import { Closer } from './kit/closer.ts';
import { drain, StartError } from './main.ts';
import { observers } from './observations.ts';
import type { Observe } from './observations.ts';
import type { Settings } from './settings.ts';

export interface GatewayService {
  readonly gateway: Gateway;
  /** What `?database=` may name; the first is the default. */
  readonly databases: readonly string[];
  /** Answers what was taken, takes nothing new, then closes; at most `drainMs`. Calling it again changes nothing. */
  stop(reason: string): Promise<void>;
  /** Reads the door's certificate again; null: there is none. */
  readonly reload: (() => Promise<void>) | null;
}

export async function startGateway(
  settings: Settings,
  log: Observe,
  version: string,
): Promise<GatewayService> {
  const problem = openDoorProblem(settings);
  if (problem !== null) throw new StartError(problem);
  if (settings.eventDatabases.length === 0) {
    throw new StartError(
      'no database: set EVENTS_API_<DB>_DSN, e.g. EVENTS_API_DEV_DSN=postgresql://user:password@host:5432/dev',
    );
  }
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
    lanes: () => parts.lanes.depths(),
    load: () => ({ connections: 0, bytesInFlight: 0 }),
  });
  const observe = observers(log, metrics.observe);
  const guards = await openGatewayGuards(settings, observe, closer);
  const engines = await openEventEngines(settings.eventDatabases, observe, closer);
  const parts = openEventParts(engines, observe, () => performance.now(), closer);
  const gateway = await openGateway({
    ...doorOptions(settings, guards),
    version,
    rooms: {
      database: (name) => engineOf(engines, name).name,
      unavailable: () =>
        engines.find(({ engine }) => engine.unavailable !== null)?.engine.unavailable ?? null,
      sql: otherSqlRooms(engines),
      events: eventRooms(parts, closer),
    },
    metrics,
    observe,
  });
  closer.add('events gateway', () => gateway.close());
  observe({ kind: 'service.ready' });

  const { tls } = guards;
  let stopping: Promise<void> | null = null;
  const stop = async (reason: string): Promise<void> => {
    observe({ kind: 'service.draining', reason });
    await drain([gateway.drain()]);
    await closer.close();
    observe({ kind: 'service.stopped' });
  };
  return {
    gateway,
    databases: engines.map(({ name }) => name),
    stop: (reason) => (stopping ??= stop(reason)),
    reload: tls === null ? null : () => tls.reload(),
  };
}
