/** The stand-in for RisingWave in front of one database of a PostgreSQL, and another database to compare it with. */
import { script, start } from './processes.ts';
import type { Service } from './service.ts';

export interface Beside {
  /** The connection string of a database of PostgreSQL itself. */
  readonly plain: string;
  /** Host and port of the stand-in. */
  readonly place: string;
}

/** `stops` receives the functions that end them. */
export async function standInBeside(
  { engine: { host, port, user }, client }: Service,
  stops: (() => Promise<unknown>)[],
): Promise<Beside> {
  for (const name of ['plain', 'behind']) await client.query(`CREATE DATABASE ${name}`);
  const config = { host, port, user, database: 'behind' };
  const standIn = await start([script('./risingwave-server.js'), JSON.stringify(config)], (text) =>
    text.includes('\n'),
  );
  stops.push(() => standIn.stop());
  return {
    plain: `postgresql://${user}@/plain?host=${encodeURIComponent(host)}&port=${port}`,
    place: `127.0.0.1:${standIn.output.trim()}`,
  };
}
