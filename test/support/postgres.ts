/**
 * A real PostgreSQL for tests: the server of HEADGATE_TEST_DSN, or one embedded server per test process, started when the
 * first test needs it. Every call creates a new database. Everything is removed when the tests of the file have ended; if
 * their process is killed, the engine's own watchdog stops the server.
 */
import { randomBytes } from 'node:crypto';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, type TestContext } from 'node:test';
import { Client, type ClientConfig } from 'pg';
import { onEnd, removeFolder } from './cleanup.ts';
import { startServer } from './server.ts';
import type { TestServer } from './server.ts';
import { fromTemplate } from './template.ts';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { openPostgresEngine } from '../../src/engine/postgres.ts';
import type { Observation, Observe } from '../../src/observe/observations.ts';

interface Server {
  readonly engine: Engine;
  stop(): Promise<void>;
}

export interface TestDatabase {
  readonly name: string;
  /** An engine with this database as its default. Closed by the test support, not by the test. */
  readonly engine: Engine;
  readonly clientConfig: ClientConfig;
  /** For programs that need a URL: psql, `--database-url` … */
  readonly connectionString: string;
  /** A connected client, ended after the test. */
  connect(): Promise<Client>;
}

let server: Promise<Server> | null = null;
/** Creates and drops the databases. */
let root: Promise<Client> | null = null;

// At the top level of the file, because a hook registered inside a test belongs to that test only.
after(async () => {
  const started = server;
  server = null;
  await (await root)?.end();
  root = null;
  await (await started)?.stop();
});

/**
 * A new database, dropped after the test `t` with every connection to it. `catalog`: with Headgate's catalog, if the server
 * has one to copy, so that migrating the database has nothing to do; otherwise empty.
 */
export async function testDatabase(t: TestContext, { catalog = false } = {}): Promise<TestDatabase> {
  const { engine } = await testServer();
  const name = `hg_test_${randomBytes(6).toString('hex')}`;
  // Avoids logging the pages; the checkpoint that it needs instead has hardly anything to write.
  const template =
    engine.kind === 'embedded'
      ? `${catalog ? engine.defaultDatabase : 'template0'} strategy file_copy`
      : 'template0';
  await run(engine, `create database ${name} template ${template}`);
  onEnd(t, name, () => run(engine, `drop database if exists ${name} with (force)`));
  const clientConfig = engine.clientConfig(name);
  return {
    name,
    engine: withDatabase(engine, name),
    clientConfig,
    connectionString: connectionString(clientConfig, name),
    connect: async () => {
      const client = new Client(clientConfig);
      // Dropping the database ends the remaining sessions; that is no failure of the test.
      client.on('error', () => undefined);
      await client.connect();
      onEnd(t, 'client', () => client.end());
      return client;
    },
  };
}

/** A superuser's connection to a server of their own, for all tests of a file. Call it at the top level of the file. */
export function clientOfServer(): () => Client {
  let own: TestServer;
  let client: Client;
  before(async () => {
    own = await startServer();
    client = new Client({ host: own.socketDir, user: 'root', database: 'postgres' });
    await client.connect();
  });
  after(async () => {
    await client.end();
    await own.close();
  });
  return () => client;
}

/** The server of this test process, for tests that need more than a database. */
function testServer(): Promise<Server> {
  server ??= start();
  return server;
}

async function start(): Promise<Server> {
  const dsn = process.env['HEADGATE_TEST_DSN'];
  if (dsn !== undefined && dsn !== '') {
    const engine = await openPostgresEngine({ databaseUrl: dsn, observe: () => undefined });
    if (engine.unavailable === null) return { engine, stop: () => engine.close() };
    await engine.close();
    throw new Error(`HEADGATE_TEST_DSN: ${engine.unavailable}`);
  }
  const folder = await mkdtemp(join(tmpdir(), 'headgate-test-'));
  try {
    await fromTemplate(join(folder, 'data'));
    const engine = await openEmbeddedEngine({ dataDir: join(folder, 'data'), observe: () => undefined });
    return {
      engine,
      stop: async () => {
        await engine.close();
        await removeFolder(folder);
      },
    };
  } catch (error) {
    await removeFolder(folder);
    throw error;
  }
}

async function run(engine: Engine, sql: string): Promise<void> {
  root ??= openRoot(engine);
  await (await root).query(sql);
}

/** Not in a database that is copied. */
async function openRoot(engine: Engine): Promise<Client> {
  const database = engine.kind === 'embedded' ? 'postgres' : engine.defaultDatabase;
  const client = new Client({ ...engine.clientConfig(database), application_name: 'test support' });
  client.on('error', () => (root = null));
  await client.connect();
  return client;
}

function withDatabase(engine: Engine, name: string): Engine {
  return {
    kind: engine.kind,
    defaultDatabase: name,
    clientConfig: (database) => engine.clientConfig(database),
    endpoint: () => engine.endpoint(),
    get serverVersion() {
      return engine.serverVersion;
    },
    get unavailable() {
      return engine.unavailable;
    },
    close: () => Promise.resolve(),
  };
}

function connectionString(config: ClientConfig, database: string): string {
  const user = encodeURIComponent(config.user ?? '');
  const password = typeof config.password === 'string' ? `:${encodeURIComponent(config.password)}` : '';
  const host = config.host ?? 'localhost';
  const port = config.port ?? 5432;
  return host.startsWith('/')
    ? `postgresql://${user}${password}@/${database}?host=${encodeURIComponent(host)}&port=${port}`
    : `postgresql://${user}${password}@${host.includes(':') ? `[${host}]` : host}:${port}/${database}`;
}

/** Collects observations, and lets a test await one instead of sleeping. */
export class Spy {
  readonly seen: Observation[] = [];
  readonly #waiting: { matches: (o: Observation) => boolean; resolve: (o: Observation) => void }[] = [];

  readonly observe: Observe = (observation) => {
    this.seen.push(observation);
    for (const waiter of this.#waiting.splice(0)) {
      if (waiter.matches(observation)) waiter.resolve(observation);
      else this.#waiting.push(waiter);
    }
  };

  /** The next observation of this kind. Bounded by `ms`. */
  async next<K extends Observation['kind']>(
    kind: K,
    ms?: number,
  ): Promise<Extract<Observation, { kind: K }>> {
    return (await this.nextOf([kind], ms)) as Extract<Observation, { kind: K }>;
  }

  /** The next observation of any of these kinds. */
  nextOf(kinds: readonly Observation['kind'][], ms = 20_000): Promise<Observation> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        const seen = JSON.stringify(this.seen.slice(-20));
        reject(new Error(`no ${kinds.join(' or ')} within ${ms} ms; seen: ${seen}`));
      }, ms);
      this.#waiting.push({
        matches: (observation) => kinds.includes(observation.kind),
        resolve: (observation) => {
          clearTimeout(timer);
          resolve(observation);
        },
      });
    });
  }
}
