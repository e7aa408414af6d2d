/**
 * What Headgate is compared with: each takes the same signed requests and stores them in a table of its own in the same
 * engine, over the engine's Unix socket, with fsync on. A contestant that is not installed reports that.
 */
import { execFile, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { request } from 'node:http';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Client } from 'pg';
import { childrenOf, freePort, runJson, script, source, start } from './processes.ts';
import type { Started } from './processes.ts';
import { measureAny } from './service.ts';
import type { LoadResult, Measured, Service } from './service.ts';
import { body, createSigned, secret, signedHeaders } from './signed.ts';
import { Latencies } from './statistics.ts';

export const connections = 256;

export interface Contestant {
  /** Additional remarks. */
  readonly note?: string;
  /** The table with its rows; null: it stores nothing. */
  readonly table: string | null;
  /** How many rows there are, where its table is in another database of the engine. */
  readonly stored?: () => Promise<number>;
  /** One run of the load. */
  run(seconds: number): Promise<Measured>;
  stop(): Promise<void>;
}

const execute = promisify(execFile);
const headers = signedHeaders(body);

export interface Beside {
  /** Other processes that it needs. */
  readonly pids?: readonly number[];
  /** Ends when what was answered in this run is done with: a part of what it costs. */
  readonly after?: (load: LoadResult) => Promise<void>;
  /** Ends when it does nothing more for requests that nobody waits for, which would be a load for whoever is next. */
  readonly settle?: () => Promise<void>;
}

export function overHttp(
  service: Service,
  started: Started,
  url: string,
  table: string | null,
  { pids = [], after, settle }: Beside = {},
): Contestant {
  return {
    table,
    run: async (seconds) => {
      const job = { url, connections, seconds, headers, bodies: [body] };
      const measured = await measureAny([started.pid, ...pids], service.enginePid, async () => {
        const load = await runJson<LoadResult>(script('./load.js'), job);
        await after?.(load);
        return load;
      });
      if (measured.requests === 0) throw new Error('no request was answered 2xx');
      await settle?.();
      return measured;
    },
    stop: () => started.stop(),
  };
}

export async function tableFor(service: Service, name: string): Promise<string> {
  await service.client.query(`CREATE TABLE ${name} (data JSONB)`);
  return name;
}

/** Creates another database in the same engine, for what else a contestant keeps; returns a client of it. */
export async function databaseFor({ engine }: Service, database: string): Promise<Client> {
  const owner = new Client(engine);
  await owner.connect();
  try {
    await owner.query(`CREATE DATABASE ${database}`);
  } finally {
    await owner.end();
  }
  const client = new Client({ ...engine, database });
  await client.connect();
  return client;
}

/** Resolves when the process has no descendants. */
async function childless({ pid }: Started): Promise<void> {
  for (let waited = 0; waited < 200 && childrenOf(pid) > 0; waited++) await delay(100);
}

/** Resolves when no row has been added for two seconds. */
export async function noMoreRows(client: Client, table: string): Promise<void> {
  for (
    let before = -1, now = await rowsOf(client, table);
    now !== before;
    now = await rowsOf(client, table)
  ) {
    before = now;
    await delay(2_000);
  }
}

export async function rowsOf(client: Client, table: string): Promise<number> {
  const { rows } = await client.query<{ n: string }>(`SELECT count(*) AS n FROM ${table}`);
  return Number(rows[0]?.n);
}

/** Whether a server listens there and answers 200 to a signed request. */
export function answers(url: string): Promise<boolean> {
  return new Promise((resolve) => {
    const sent = request(url, { method: 'POST', headers, agent: false }, (response) => {
      response.resume().once('end', () => resolve(response.statusCode === 200));
    });
    sent.once('error', () => resolve(false));
    sent.end(body);
  });
}

export async function headgate(service: Service): Promise<Contestant> {
  await createSigned(service.client, 'events');
  const job = { url: service.url('events'), connections, headers, bodies: [body] };
  return {
    table: 'events',
    run: (seconds) =>
      measureAny(service.pid, service.enginePid, () =>
        runJson<LoadResult>(script('./load.js'), { ...job, seconds }),
      ),
    stop: () => Promise.resolve(),
  };
}

export async function bare(service: Service): Promise<Contestant> {
  const started = await start([script('./bare-server.js'), secret], (text) => text.includes('\n'));
  return overHttp(service, started, `http://127.0.0.1:${started.output.trim()}/`, null);
}

function byHand(pool: number, form: 'plain' | 'prepared') {
  return async (service: Service): Promise<Contestant> => {
    const table = await tableFor(service, `by_hand_${pool}`);
    const args = [secret, JSON.stringify(service.engine), table, String(pool), form];
    const started = await start([script('./hand-written.js'), ...args], (text) => text.includes('\n'));
    return overHttp(service, started, `http://127.0.0.1:${started.output.trim()}/`, table);
  };
}

const nodeRedVersion = '4.1.8';
const pgVersion = (createRequire(import.meta.url)('pg/package.json') as { version: string }).version;

/** The service that most people write by hand, in both of its forms. */
export const fastify = {
  plain: { name: 'Fastify + `pg`, pool of 10', open: byHand(10, 'plain') },
  prepared: { name: 'Fastify + `pg`, pool of 32, prepared', open: byHand(32, 'prepared') },
};

/** In a folder of its own in the system's folder for temporary files, where the next run finds it. */
async function installNodeRed(): Promise<string> {
  const folder = join(tmpdir(), `headgate-bench-node-red-${nodeRedVersion}-pg-${pgVersion}`);
  const program = join(folder, 'node_modules/node-red/red.js');
  if (!existsSync(program)) {
    await mkdir(folder, { recursive: true });
    const packages = [`node-red@${nodeRedVersion}`, `pg@${pgVersion}`];
    const flags = ['--no-audit', '--no-fund', '--ignore-scripts', '--loglevel=error'];
    console.error(`installing ${packages.join(' and ')} into ${folder}`);
    await execute('npm', ['install', '--prefix', folder, ...flags, ...packages], { timeout: 300_000 });
  }
  return folder;
}

export async function nodeRed(service: Service): Promise<Contestant> {
  const installed = await installNodeRed();
  const table = await tableFor(service, 'node_red');
  const folder = await mkdtemp(join(tmpdir(), 'headgate-bench-node-red-user-'));
  const remove = () => rm(folder, { recursive: true, force: true });
  try {
    const port = await freePort();
    const modules = JSON.stringify(join(installed, 'node_modules/pg'));
    const pool = JSON.stringify({ ...service.engine, max: 32 });
    const settings = `const { Pool } = require(${modules});
      module.exports = { uiHost: '127.0.0.1', uiPort: ${port}, httpAdminRoot: false, credentialSecret: false,
        logging: { console: { level: 'warn' } }, userDir: ${JSON.stringify(folder)},
        functionGlobalContext: { crypto: require('node:crypto'), secret: ${JSON.stringify(secret)}, pool: new Pool(${pool}) } };`;
    await writeFile(join(folder, 'settings.js'), settings);
    const args = ['--settings', join(folder, 'settings.js'), source('node-red-flow.json')];
    const url = `http://127.0.0.1:${port}/hook`;
    const program = join(installed, 'node_modules/node-red/red.js');
    const started = await start([program, ...args], () => false, { probe: () => answers(url) });
    const contestant = overHttp(service, started, url, table);
    return {
      ...contestant,
      note: `Node-RED ${nodeRedVersion}: HTTP in → function (HMAC) → function (\`pg\` ${pgVersion}, pool of 32) → HTTP response`,
      stop: async () => {
        await contestant.stop();
        await remove();
      },
    };
  } catch (error) {
    await remove();
    throw error;
  }
}

export async function webhookPsql(service: Service): Promise<Contestant> {
  const { stdout, error } = spawnSync('webhook', ['--version'], { encoding: 'utf8' });
  if (error !== undefined) throw new Error('the command `webhook` is not installed');
  const table = await tableFor(service, 'webhook_psql');
  const folder = await mkdtemp(join(tmpdir(), 'headgate-bench-webhook-'));
  const remove = () => rm(folder, { recursive: true, force: true });
  try {
    const signature = { source: 'header', name: 'X-Hub-Signature-256' };
    const hook = {
      id: 'hook',
      'execute-command': source('webhook-psql.sh'),
      'include-command-output-in-response': true,
      'pass-environment-to-command': [{ source: 'raw-request-body', envname: 'BODY' }],
      'trigger-rule': { match: { type: 'payload-hmac-sha256', secret, parameter: signature } },
      'trigger-rule-mismatch-http-response-code': 401,
    };
    const file = join(folder, 'hooks.json');
    await writeFile(file, JSON.stringify([hook]), { mode: 0o600 });
    const port = await freePort();
    const url = `http://127.0.0.1:${port}/hooks/hook`;
    const { host, port: enginePort, user = '', database = '' } = service.engine;
    const started = await start(['-hooks', file, '-ip', '127.0.0.1', '-port', String(port)], () => false, {
      command: 'webhook',
      env: { PGHOST: host, PGPORT: String(enginePort), PGUSER: user, PGDATABASE: database },
      probe: () => answers(url),
    });
    const contestant = overHttp(service, started, url, table, { settle: () => childless(started) });
    return {
      ...contestant,
      note: `${stdout.trim()}, one psql a request`,
      stop: async () => {
        await contestant.stop();
        await remove();
      },
    };
  } catch (error) {
    await remove();
    throw error;
  }
}

/** The size of its INSERTs, and how many are in flight: the best of 1 to 256 rows and 8 to 64 INSERTs. */
const redpandaConnect = { BATCH: '64', MAX_IN_FLIGHT: '64' };

export async function redpanda(service: Service): Promise<Contestant> {
  const { stdout, error } = spawnSync('redpanda-connect', ['--version'], { encoding: 'utf8' });
  if (error !== undefined) throw new Error('the command `redpanda-connect` is not installed');
  const table = await tableFor(service, 'redpanda_connect');
  const port = await freePort();
  const url = `http://127.0.0.1:${port}/hook`;
  const { host, port: enginePort, user = '', database = '' } = service.engine;
  const to = new URLSearchParams({ host, port: String(enginePort), sslmode: 'disable' });
  const env = {
    ...redpandaConnect,
    PORT: String(port),
    SECRET: secret,
    TABLE: table,
    DSN: `postgres://${user}@/${database}?${to.toString()}`,
  };
  const started = await start(['run', source('redpanda-connect.yaml')], () => false, {
    command: 'redpanda-connect',
    env,
    probe: () => answers(url),
  });
  const { BATCH: rows, MAX_IN_FLIGHT: inserts } = redpandaConnect;
  const version = /Version: (\S+)/.exec(stdout)?.[1] ?? 'of unknown version';
  return {
    ...overHttp(service, started, url, table),
    note: `Redpanda Connect ${version}: http_server → Bloblang (HMAC) → sql_insert, ${rows} rows an INSERT or 1 ms, ${inserts} at a time`,
  };
}

const installedPgbench = '/usr/lib/postgresql/15/bin/pgbench';
export const pgbench = existsSync(installedPgbench) ? installedPgbench : 'pgbench';

/** No HTTP and no signature: the engine's rate with one INSERT per transaction. */
export async function pgbenchInserts(service: Service): Promise<Contestant> {
  if (spawnSync(pgbench, ['--version']).status !== 0)
    throw new Error('the command `pgbench` is not installed');
  const table = await tableFor(service, 'pgbench_inserts');
  const folder = await mkdtemp(join(tmpdir(), 'headgate-bench-pgbench-'));
  const file = join(folder, 'insert.sql');
  await writeFile(file, 'INSERT INTO pgbench_inserts (data) VALUES (:body);\n');
  const { host, port, user = '', database = '' } = service.engine;
  const run = async (seconds: number): Promise<LoadResult> => {
    const args = ['-n', '-M', 'prepared', '-c', String(connections), '-j', '2', '-T', String(seconds)];
    const to = ['-h', host, '-p', String(port), '-U', user, database];
    const log = join(folder, 'log');
    const sampled = ['-l', `--log-prefix=${log}`, '--sampling-rate=0.1'];
    const { stdout } = await execute(pgbench, [...args, ...sampled, '-f', file, '-D', `body=${body}`, ...to], {
      maxBuffer: 2 ** 24,
    });
    const requests = Number(/transactions actually processed: (\d+)/.exec(stdout)?.[1]);
    const rate = Number(/tps = ([\d.]+)/.exec(stdout)?.[1]);
    const { p50, p99, max } = await pgbenchLatencies(folder);
    return { requests, other: 0, seconds: requests / rate, p50, p99, max, loadCpuSeconds: NaN };
  }; // prettier-ignore
  return {
    table,
    note: 'as many clients, no HTTP and no signature, prepared; CPU of the engine alone',
    run: async (seconds) => ({
      ...(await measureAny(service.pid, service.enginePid, () => run(seconds))),
      nodeCpuUs: Number.NaN,
      rssMiB: Number.NaN,
    }),
    stop: () => rm(folder, { recursive: true, force: true }),
  };
}

/** From its transaction log, a sample of one tenth: client, number, µs …. Removes the log. */
async function pgbenchLatencies(folder: string): Promise<{ p50: number; p99: number; max: number }> {
  const latencies = new Latencies();
  for (const name of (await readdir(folder)).filter((it) => it.startsWith('log'))) {
    const path = join(folder, name);
    for (const line of (await readFile(path, 'utf8')).split('\n'))
      if (line !== '') latencies.add(Number(line.split(' ')[2]) / 1_000);
    await rm(path);
  }
  return { p50: latencies.at(0.5), p99: latencies.at(0.99), max: latencies.maxMs };
}
