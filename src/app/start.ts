/**
 * Starts the service. Settings and ports are checked, then the engine starts in processes of its own; meanwhile the rest of the
 * program is loaded, which takes as long (docs/decisions/0116). Takes Settings; returns a running Service, or throws StartError
 * with one line for the terminal and leaves nothing behind. Part of the composition root.
 */
import { resolve } from 'node:path';
import type { Engine } from '../engine/engine.ts';
import { Closer } from '../kit/closer.ts';
import { PlainError } from '../kit/plain-error.ts';
import { limits } from '../config/limits.ts';
import { observers } from '../observe/context.ts';
import type { Observation, Observe } from '../observe/observations.ts';
import type { Settings } from '../config/settings.ts';
import { problemsOf } from '../host/check-settings.ts';
import { allDoors, takenPorts } from '../host/ports.ts';
import { runningAt } from '../host/running.ts';
import type { EngineStarting, Service } from './service.ts';

/** Headgate cannot start as configured; the message is for the terminal. */
export class StartError extends PlainError {
  override readonly name = 'StartError';
}

/** `version`: shown in the gateway's OpenAPI document. */
export async function startService(given: Settings, log: Observe, version = 'unknown'): Promise<Service> {
  await refuse(problemsOf(given));
  const taken = await takenPorts(allDoors(given));
  const running = taken.length === 0 ? null : await runningAt(given.dataDir);
  await refuse(
    running === null
      ? taken
      : [`Headgate already runs on ${running.dataDir} (pid ${running.pid}): headgate status`],
  );
  const settings = await withCertificate(given);
  const closer = new Closer();
  try {
    const engine = startEngine(settings, log, closer);
    const { openService } = await import('./main.ts');
    return await openService({ settings, log, version, engine, closer });
  } catch (error) {
    await closer.close();
    throw error;
  }
}

/** Adds the file that holds, or will hold, the certificate from an authority. */
async function withCertificate(settings: Settings): Promise<Settings> {
  if (settings.listenAcmeDomains.length === 0) return settings;
  return (await import('./certificate.ts')).withTlsFile(settings);
}

/** Throws all of them together, one per line. */
export async function refuse(problems: readonly string[] | Promise<readonly string[]>): Promise<void> {
  const lines = await problems;
  if (lines.length > 0) throw new StartError(lines.join('\n'));
}

/** Closed by `closer`. */
function startEngine(settings: Settings, log: Observe, closer: Closer): EngineStarting {
  const said: Observation[] = [];
  let heard = (observation: Observation): void => {
    if (said.length < limits.startSaidMax) said.push(observation);
  };
  const opened = openEngine(
    settings,
    observers(log, (observation) => heard(observation)),
  ).then((engine) => {
    closer.add('engine', () => engine.close());
    return engine;
  });
  // The code that awaits it is still being loaded.
  opened.catch(() => undefined);
  return {
    opened,
    heardBy: (observe) => {
      for (const observation of said.splice(0)) observe(observation);
      heard = observe;
    },
  };
}

/** Loads only what that engine needs. */
async function openEngine(settings: Settings, observe: Observe): Promise<Engine> {
  const { databaseUrl, dataDir, logicalReplication } = settings;
  if (databaseUrl !== null) {
    const { openPostgresEngine } = await import('../engine/postgres.ts');
    return openPostgresEngine({ databaseUrl, observe, connectionsMin: limits.engineConnectionsMin });
  }
  const { openEmbeddedEngine } = await import('../engine/embedded.ts');
  return openEmbeddedEngine({ dataDir: resolve(dataDir), logicalReplication, observe });
}
