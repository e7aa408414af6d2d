/**
 * Convoy as a contestant: takes the service, gives a Convoy whose source checks the signature as GitHub's. Its 200 says that the event is in
 * its queue in Redis, whose every answer waits for the disk; its worker makes a row of it later, in a database of its own in the same engine.
 */
import { execFile, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { answers, databaseFor, noMoreRows, overHttp, rowsOf } from './contestants.ts';
import type { Contestant } from './contestants.ts';
import { freePort, start } from './processes.ts';
import type { Started } from './processes.ts';
import type { LoadResult, Service } from './service.ts';
import { secret } from './signed.ts';

const database = 'convoy';
const table = 'convoy.events';
/** Events that its workers are not done with; those that no subscription waits for end as `Failure`. */
const unhandled = `${table} WHERE status <> 'Failure'`;
/** How long rows may come after the answers, in s. */
const patience = 300;
/** Of its pool, which requests and 100 workers share; 100, its default, was slower. */
const poolSize = 32;

/** The superuser whom it makes when it first starts. */
const superuser = { username: 'superuser@default.com', password: 'default' };

/** Asks a Convoy's control plane; gives what is in the answer. */
async function ask<T>(base: string, path: string, token: string | null, content: object): Promise<T> {
  const response = await fetch(`${base}/ui${path}`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      ...(token === null ? {} : { authorization: `Bearer ${token}` }),
    },
    body: JSON.stringify(content),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`Convoy answered ${response.status} to ${path}: ${text}`);
  return (JSON.parse(text) as { data: T }).data;
}

/** An organisation, a project and a source of a Convoy that has none; gives the last part of the source's path. */
async function createSource(base: string): Promise<string> {
  const { token } = await ask<{ token: { access_token: string } }>(base, '/auth/login', null, superuser);
  const mine = <T>(path: string, content: object) => ask<T>(base, path, token.access_token, content);
  const organisation = await mine<{ uid: string }>('/organisations', { name: 'bench' });
  const projects = `/organisations/${organisation.uid}/projects`;
  const { project } = await mine<{ project: { uid: string } }>(projects, { name: 'bench', type: 'incoming' });
  const hmac = { header: 'X-Hub-Signature-256', hash: 'SHA256', encoding: 'hex', secret };
  const source = { name: 'bench', type: 'http', provider: 'github', verifier: { type: 'hmac', hmac } };
  return (await mine<{ mask_id: string }>(`${projects}/${project.uid}/sources`, source)).mask_id;
}

function healthy(port: number): () => Promise<boolean> {
  return () =>
    fetch(`http://127.0.0.1:${port}/healthz`).then(
      ({ ok }) => ok,
      () => false,
    );
}

/** A Redis that answers what it was told when that is on the disk; it fsyncs once for all that came at a time. */
async function startRedis(folder: string): Promise<{ readonly redis: Started; readonly port: number }> {
  const port = await freePort();
  const place = ['--bind', '127.0.0.1', '--port', String(port), '--dir', folder];
  const durable = ['--appendonly', 'yes', '--appendfsync', 'always', '--save', ''];
  const ready = (text: string) => text.includes('Ready to accept connections');
  return { redis: await start([...place, ...durable], ready, { command: 'redis-server' }), port };
}

/** What every process of a Convoy is told; it has no setting for where its ports listen, and so listens everywhere. */
function settings(
  { engine }: Service,
  ports: Record<'redis' | 'server' | 'agent', number>,
): Record<string, string> {
  const { host, port, user = '' } = engine;
  const to = new URLSearchParams({ host, port: String(port), sslmode: 'disable' });
  return {
    PORT: String(ports.server),
    AGENT_PORT: String(ports.agent),
    CONVOY_DB_DSN: `postgres://${user}@/${database}?${to.toString()}`,
    CONVOY_DB_MAX_OPEN_CONN: String(poolSize),
    CONVOY_DB_MAX_IDLE_CONN: String(poolSize),
    CONVOY_REDIS_HOST: '127.0.0.1',
    CONVOY_REDIS_PORT: String(ports.redis),
    CONVOY_ANALYTICS_ENABLED: 'false',
    CONVOY_LOGGER_LEVEL: 'fatal',
    CONVOY_JWT_SECRET: randomBytes(16).toString('hex'),
    CONVOY_JWT_REFRESH_SECRET: randomBytes(16).toString('hex'),
  };
}

export async function convoy(service: Service): Promise<Contestant> {
  const { stdout, error } = spawnSync('convoy', ['version'], { encoding: 'utf8' });
  if (error !== undefined) throw new Error('the command `convoy` is not installed');
  if (spawnSync('redis-server', ['--version']).error !== undefined)
    throw new Error('the command `redis-server` is not installed');
  const folder = await mkdtemp(join(tmpdir(), 'headgate-bench-convoy-'));
  const stops: (() => Promise<unknown>)[] = [() => rm(folder, { recursive: true, force: true })];
  const stop = async () => {
    for (const each of stops.toReversed()) await each();
  };
  try {
    const client = await databaseFor(service, database);
    stops.push(() => client.end());
    const { redis, port } = await startRedis(folder);
    stops.push(() => redis.stop());
    const ports = { redis: port, server: await freePort(), agent: await freePort() };
    const env = settings(service, ports);
    // A file that is not there: what it is told is all in its environment.
    const config = ['--config', join(folder, 'convoy.json')];
    await promisify(execFile)('convoy', ['migrate', 'up', ...config], { env: { ...process.env, ...env } });
    const run = (part: string, probe: () => Promise<boolean>) =>
      start([part, ...config], () => false, { command: 'convoy', env, probe });
    const server = await run('server', healthy(ports.server));
    let mask: string;
    try {
      mask = await createSource(`http://127.0.0.1:${ports.server}`);
    } finally {
      await server.stop();
    }
    // What takes requests, and the workers.
    const url = `http://127.0.0.1:${ports.agent}/ingest/${mask}`;
    const agent = await run('agent', () => answers(url));
    stops.push(() => agent.stop());
    let [answered, spent] = [0, 0];
    const after = async ({ requests, seconds }: LoadResult) => {
      const began = performance.now();
      const waited = () => (performance.now() - began) / 1_000;
      answered += requests;
      while ((await rowsOf(client, table)) < answered || (await rowsOf(client, unhandled)) > 0) {
        if (waited() > patience)
          throw new Error(`its workers were not done with its events after ${patience} s`);
        await delay(250);
      }
      spent += seconds + waited();
    };
    const settle = () => noMoreRows(client, table);
    const contestant = overHttp(service, agent, url, table, { pids: [redis.pid], after, settle });
    const version = /\d[\w.-]*/.exec(stdout)?.[0] ?? 'of unknown version';
    return {
      ...contestant,
      run: async (seconds) => {
        // What autovacuum would do, which is off: else its queries are planned for an empty table.
        await client.query('VACUUM ANALYZE');
        return contestant.run(seconds);
      },
      stored: () => rowsOf(client, table),
      get note() {
        return `Convoy ${version}: a 200 is in its queue in Redis (\`appendfsync always\`), not yet a row; its workers were done with ${(answered / spent).toFixed(0)} a second, which is in its CPU time, as Redis is`;
      },
      stop,
    };
  } catch (failure) {
    await stop();
    throw failure;
  }
}
