/** A database in which mallory owns tables with his own code, and everything that stores rows into them. */
import type { TestContext } from 'node:test';
import { Client } from 'pg';
import { migrate, readMigrations } from '../../src/catalog/migrate.ts';
import { letWriterIn } from '../../src/catalog/rights.ts';
import type { ShapeChoice } from '../../src/relations/shape.ts';
import { CommitPools } from '../../src/commit/commit-pools.ts';
import { SpoolCommit } from '../../src/commit/hand-over.ts';
import type { HandOverBatch } from '../../src/commit/hand-over.ts';
import type { Group } from '../../src/types/rows.ts';
import { writerName } from '../../src/engine/login-names.ts';
import { OwnerLogins } from '../../src/engine/owner-logins.ts';
import { fixedKeys } from '../../src/secrets/key-ring.ts';
import { createLoginPasswords } from '../../src/secrets/login-passwords.ts';
import type { Target } from '../../src/types/target.ts';
import { limits } from '../../src/config/limits.ts';
import { onEnd } from './cleanup.ts';
import { committer, readTarget } from './commit-room.ts';
import { clientOf, setTraps, setUp } from './owners.ts';
import { Spy } from './postgres.ts';
import { debianBin, embeddedBin, startServer } from './server.ts';
import type { TestServer } from './server.ts';

/** Of `npm run test:versions`: the programs of another version. */
const { HEADGATE_TEST_BIN: given } = process.env;

export const versions =
  given === undefined
    ? [
        { version: '18', bin: embeddedBin },
        { version: '15', bin: debianBin },
      ]
    : [{ version: 'given', bin: given }];

/** A superuser on Headgate's own engine, another role on somebody's server. */
const kindOf = (role: string) => (role === 'root' ? 'embedded' : 'postgres');

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
  const grant = `CREATE ROLE ${role} LOGIN CREATEROLE; GRANT mallory TO ${role} WITH ADMIN OPTION; GRANT CREATE ON DATABASE postgres TO ${role}`;
  await run('root', (client) => client.query(`${setUp}; ${role === 'root' ? '' : grant}`));
  await run(role, async (client) => {
    await migrate(client, readMigrations());
    await letWriterIn(client, kindOf(role));
  });
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
  const clientConfig = (database: string) => ({ ...config, database, user: role });
  const key = Buffer.alloc(32, 7);
  const kind = kindOf(role);
  const logins = new OwnerLogins(
    { kind, clientConfig, defaultDatabase: config.database },
    kind === 'embedded' ? null : createLoginPasswords(fixedKeys(key)),
  );
  onEnd(t, 'logins', () => logins.close());
  const writer = kind === 'embedded' ? writerName : role;
  const engine = {
    clientConfig,
    logins,
    writerConfig: (database: string) => ({ ...config, database, user: writer }),
  };
  const spy = new Spy();
  const send = committer(t, engine, spy);
  /** `registered`: as a webhook table. */
  const tableOf = async (
    table: string,
    choice: Partial<ShapeChoice> = {},
    registered = false,
  ): Promise<Target> => {
    const read = await readTarget(own, config.database, table, choice);
    if (!registered) return read;
    await root.query(
      `INSERT INTO headgate.webhook_table (relation, payload, options, includes) VALUES ($1, 'x', '{}', '[]') ON CONFLICT DO NOTHING`,
      [table],
    );
    return { ...read, code: { ...read.code, functionsIn: 'headgate' } };
  };
  /** A table of mallory's that Headgate's role may write to, as after CREATE TABLE … WITH (connector = 'webhook'). */
  const made = async (columns: string, after: string): Promise<void> => {
    await owner.query(`DROP SCHEMA mal CASCADE`).catch(() => undefined);
    await root.query(`CREATE SCHEMA IF NOT EXISTS mal AUTHORIZATION mallory`);
    await owner.query(`${setTraps}; CREATE TABLE mal.t (${columns}); ${after}`);
    await owner.query(
      `GRANT USAGE ON SCHEMA mal TO ${writer}; GRANT INSERT, SELECT, UPDATE, DELETE ON mal.t TO ${writer}`,
    );
  };
  const pools = new CommitPools(engine, limits, undefined, spy.observe);
  onEnd(t, 'pools', () => pools.close());
  const clock = () => performance.now();
  const commit = new SpoolCommit({ pools, limits, observe: spy.observe, clock });
  const handOver = (group: Group, passage: HandOverBatch) => commit.handOver(group, passage);
  return { root, owner, own, logins, pools, writer, send, handOver, tableOf, made };
}
