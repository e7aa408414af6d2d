/** The places that Headgate is tried in: servers, roles, poolers, clusters, each as its users have it. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { Client } from 'pg';
import type { ClientConfig } from 'pg';
import { makeAuthority } from '../support/certificates.ts';
import { onEnd } from '../support/cleanup.ts';
import { commandsOf } from '../support/docs.ts';
import { temporaryFolder } from '../support/headgate.ts';
import { openPgbouncer, openPgpool } from '../support/pooler.ts';
import { debianBin } from '../support/server.ts';
import { startTcpServer } from '../support/tls-server.ts';
import type { TcpServer } from '../support/tls-server.ts';
import { findTool } from '../support/tools.ts';
import { openCitus } from './citus.ts';
import { openPatroni } from './patroni.ts';
import type { Place } from './trial.ts';

export interface Condition {
  readonly name: string;
  /** Programs it cannot be tried without. */
  readonly needs?: readonly string[];
  readonly open: (t: TestContext) => Promise<Place>;
  /** It cannot work, and this is what a start says. */
  readonly refused?: RegExp;
}

const tool = (name: string): string => findTool(name) ?? name;

async function server(t: TestContext, bin?: string): Promise<TcpServer> {
  const made = await startTcpServer(bin);
  onEnd(t, 'server', () => made.close());
  return made;
}

const superuser = (it: TcpServer, database: string) => (): ClientConfig => ({
  host: it.socketDir,
  port: it.port,
  user: 'root',
  database,
});

const asRoot = async (t: TestContext, bin?: string): Promise<Place> => {
  const it = await server(t, bin);
  return {
    url: `postgresql://root@127.0.0.1:${it.port}/postgres`,
    direct: superuser(it, 'postgres'),
  };
};

async function pooled(t: TestContext, open: (serverPort: number) => Promise<number>): Promise<Place> {
  const it = await server(t);
  const port = await open(it.port);
  return { url: `postgresql://root@127.0.0.1:${port}/postgres`, direct: superuser(it, 'postgres') };
}

/** A database of its own, in which PUBLIC may nothing, and a role that `sql` gives what it has. */
async function asRole(t: TestContext, block: string, more = ''): Promise<Place> {
  const it = await server(t);
  await it.run('CREATE DATABASE app');
  const client = new Client(superuser(it, 'app')());
  await client.connect();
  try {
    await client.query('REVOKE ALL ON DATABASE app FROM PUBLIC; REVOKE ALL ON SCHEMA public FROM PUBLIC');
    await client.query(`${await commandsOf('docs/operating/engines.md', block)};
      CREATE SCHEMA IF NOT EXISTS hooks AUTHORIZATION headgate; ${more}`);
  } finally {
    await client.end();
  }
  return {
    url: `postgresql://headgate:${encodeURIComponent('a long random password')}@127.0.0.1:${it.port}/app`,
    direct: superuser(it, 'app'),
  };
}

/** As providers have it: no superuser, a password, and TLS whose name is looked at. */
async function asManaged(t: TestContext): Promise<Place> {
  const folder = await temporaryFolder(t);
  const it = await server(t);
  const authority = makeAuthority(folder);
  await it.encrypt(authority.issue('db', 'db', { names: 'IP:127.0.0.1' }), authority.cert);
  await it.run(`CREATE ROLE app LOGIN PASSWORD 'secret'`);
  await it.run('CREATE DATABASE app OWNER app');
  await it.admit('hostssl all all 127.0.0.1/32 scram-sha-256');
  return {
    url: `postgresql://app:secret@127.0.0.1:${it.port}/app?sslmode=verify-full&sslrootcert=${authority.cert}`,
    direct: superuser(it, 'app'),
  };
}

const limited = (connections: number) => (t: TestContext) =>
  asRole(t, 'rights', `ALTER ROLE headgate CONNECTION LIMIT ${connections}`);

const timeouts = ['statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout']
  .map((name) => `ALTER ROLE headgate SET ${name} = '250ms'`)
  .join(';');

async function asPatroni(t: TestContext): Promise<Place> {
  const cluster = await openPatroni(t, tool('etcd'), tool('patroni'));
  let port = await cluster.leader();
  const direct = (): ClientConfig => ({
    host: '127.0.0.1',
    port,
    user: 'root',
    password: 'engines',
    database: 'postgres',
  });
  const then = (happen: () => Promise<void>) => async () => {
    await happen();
    port = await cluster.leader();
  };
  return {
    url: cluster.url,
    direct,
    faults: [
      { name: 'switchover', happen: then(() => cluster.switchover()) },
      { name: 'failover', happen: then(() => cluster.failover()) },
    ],
  };
}

const pgbouncer = (mode: string, ignored?: string): Condition => ({
  name: `PgBouncer, ${mode} pooling${ignored === '' ? ', no `ignore_startup_parameters`' : ''}`,
  needs: ['pgbouncer'],
  open: (t) => pooled(t, (port) => openPgbouncer(t, tool('pgbouncer'), port, mode, ignored)),
});

/** `HEADGATE_ENGINES_BIN_14=…/bin` and the like: servers that the script has fetched. */
const majors = ['14', '15', '16', '17'].flatMap((major): Condition[] => {
  const bin = process.env[`HEADGATE_ENGINES_BIN_${major}`] ?? (major === '15' ? debianBin : '');
  return existsSync(join(bin, 'postgres'))
    ? [{ name: `PostgreSQL ${major}`, open: (t) => asRoot(t, bin) }]
    : [];
});

export const conditions: readonly Condition[] = [
  ...majors,
  { name: 'PostgreSQL 18', open: (t) => asRoot(t) },
  { name: 'managed: owner of a database only, SCRAM, verify-full', needs: ['openssl'], open: asManaged },
  { name: 'CREATE on the database and no more', open: (t) => asRole(t, 'rights') },
  { name: 'no CREATE on the database, schema made beforehand', open: (t) => asRole(t, 'rights-made') },
  { name: 'timeouts of 250 ms on the role', open: (t) => asRole(t, 'rights', timeouts) },
  {
    name: '`default_transaction_read_only` on the role',
    open: (t) => asRole(t, 'rights-made', 'ALTER ROLE headgate SET default_transaction_read_only = on'),
    refused: /read-only/,
  },
  { name: 'connection limit 20', open: limited(20) },
  { name: 'connection limit 8', open: limited(8) },
  { name: 'connection limit 2', open: limited(2), refused: /connection/ },
  pgbouncer('session'),
  pgbouncer('transaction'),
  pgbouncer('session', ''),
  pgbouncer('transaction', ''),
  {
    name: 'pgpool2',
    needs: ['pgpool'],
    open: (t) => pooled(t, (port) => openPgpool(t, tool('pgpool'), port)),
  },
  {
    name: 'Patroni with etcd, DSN of both hosts',
    needs: ['etcd', 'patroni', 'pg_basebackup'],
    open: asPatroni,
  },
  ...openCitus(),
];
