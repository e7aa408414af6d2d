/** A database in which mallory owns tables with his own code, and everything that stores rows into them. */
import type { TestContext } from 'node:test';
import { Client } from 'pg';
import { migrate, readMigrations } from '../../src/catalog/migrate.ts';
import type { ShapeChoice } from '../../src/catalog/shape.ts';
import { CommitPools } from '../../src/commit/commit-pools.ts';
import { createHandOver } from '../../src/commit/hand-over.ts';
import { limits } from '../../src/config/limits.ts';
import { onEnd } from './cleanup.ts';
import { committer, readTarget } from './commit-room.ts';
import { clientOf, setTraps, setUp } from './owners.ts';
import { Spy } from './postgres.ts';
import { startServer } from './server.ts';
import type { TestServer } from './server.ts';

const configOf = ({ socketDir }: TestServer) => ({ host: socketDir, database: 'postgres' });

/** The common start of every room, on a stopped server: copying it is faster than making it. `role`: Headgate's. */
export async function beginning(bin: string, role: string): Promise<TestServer> {
  const server = await startServer(bin);
  const run = async (user: string, of: (client: Client) => Promise<unknown>) => {
    const client = new Client({ ...configOf(server), user });
    await client.connect();
    await of(client);
    await client.end();
  };
  const grant = `CREATE ROLE ${role} LOGIN; GRANT mallory TO ${role}; GRANT CREATE ON DATABASE postgres TO ${role}`;
  await run('root', (client) => client.query(`${setUp}; ${role === 'root' ? '' : grant}`));
  await run(role, (client) => migrate(client, readMigrations()));
  await server.stop();
  return server;
}

export async function room(t: TestContext, { data }: TestServer, bin: string, role: string) {
  const server = await startServer(bin, [], data);
  onEnd(t, 'server', () => server.close());
  const config = configOf(server);
  const root = await clientOf(t, { ...config, user: 'root' });
  const owner = await clientOf(t, { ...config, user: 'mallory' });
  const own = await clientOf(t, { ...config, user: role });
  const engine = { clientConfig: () => ({ ...config, user: role }) };
  const spy = new Spy();
  const send = committer(t, engine, spy);
  const tableOf = (table: string, choice: Partial<ShapeChoice> = {}) =>
    readTarget(own, config.database, table, choice);
  /** A table of mallory's that Headgate's role may write to, as after CREATE TABLE … WITH (connector = 'webhook'). */
  const made = async (columns: string, after: string): Promise<void> => {
    await owner.query(`DROP SCHEMA mal CASCADE`).catch(() => undefined);
    await root.query(`CREATE SCHEMA IF NOT EXISTS mal AUTHORIZATION mallory`);
    await owner.query(`${setTraps}; CREATE TABLE mal.t (${columns}); ${after}`);
    await owner.query(
      `GRANT USAGE ON SCHEMA mal TO ${role}; GRANT INSERT, SELECT, UPDATE, DELETE ON mal.t TO ${role}`,
    );
  };
  const pools = new CommitPools(engine, limits, undefined, spy.observe);
  onEnd(t, 'pools', () => pools.close());
  const clock = () => performance.now();
  const handOver = createHandOver({ pools, limits, observe: spy.observe, clock });
  return { root, owner, own, send, handOver, tableOf, made };
}
