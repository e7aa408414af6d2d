/**
 * The engine of a command that works on a database and exits: the server of the settings, the embedded one if a Headgate already
 * runs it, or one started for the command. Takes Settings; throws EngineError.
 */
import { openEmbeddedEngine } from './embedded.ts';
import { joinEmbeddedEngine } from './embedded-join.ts';
import type { Engine } from './engine.ts';
import { openPostgresEngine } from './postgres.ts';
import type { Settings } from '../config/settings.ts';

export async function openCommandEngine(
  settings: Settings,
): Promise<Pick<Engine, 'clientConfig' | 'close'> & Partial<Engine>> {
  const observe = () => {};
  const { databaseUrl, dataDir, logicalReplication } = settings;
  if (databaseUrl !== null) return openPostgresEngine({ databaseUrl, observe });
  return (
    (await joinEmbeddedEngine(dataDir)) ??
    (await openEmbeddedEngine({ dataDir, logicalReplication, observe }))
  );
}
