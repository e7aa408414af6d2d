/**
 * n8n as a contestant: takes the service, gives an n8n with the workflow of n8n-workflow.json, in which a request is answered when its row is
 * committed. What n8n keeps itself is in a database of its own of the same engine; it keeps no executions, and calls nobody.
 */
import { execFile, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { answers, databaseFor, noMoreRows, overHttp, rowsOf, tableFor } from './contestants.ts';
import type { Contestant } from './contestants.ts';
import { freePort, source, start } from './processes.ts';
import type { Service } from './service.ts';
import { secret } from './signed.ts';

const database = 'n8n';
const poolSize = 32;
/** How many requests it works on at a time; the others wait in it. */
const atATime = 16;
/** How long a load lasts at least, in s: a first answer may take several. */
const leastSeconds = 8;
const workflow = 'headgate-bench';

/** What calls its makers, or asks them for something, is off. */
const calls = {
  N8N_DIAGNOSTICS_ENABLED: 'false',
  N8N_VERSION_NOTIFICATIONS_ENABLED: 'false',
  N8N_VERSION_NOTIFICATIONS_WHATS_NEW_ENABLED: 'false',
  N8N_DYNAMIC_BANNERS_ENABLED: 'false',
  N8N_TEMPLATES_ENABLED: 'false',
  N8N_LICENSE_AUTO_RENEW_ENABLED: 'false',
  N8N_COMMUNITY_PACKAGES_ENABLED: 'false',
};

/** As fast as it was found to be. */
const tuned = {
  NODE_ENV: 'production',
  N8N_LOG_LEVEL: 'error',
  N8N_DISABLE_UI: 'true',
  N8N_DEFAULT_BINARY_DATA_MODE: 'default',
  // Of its two the faster one by far, and not its default.
  N8N_EXPRESSION_ENGINE: 'legacy',
  N8N_CONCURRENCY_PRODUCTION_LIMIT: String(atATime),
  EXECUTIONS_DATA_SAVE_ON_SUCCESS: 'none',
  EXECUTIONS_DATA_SAVE_ON_ERROR: 'none',
};

/** The secret and the engine, as its nodes ask for them. */
function credentials({ engine }: Service): string {
  const { host, port, user = '', database: to } = engine;
  const place = { host, port, user, database: to, password: '-', ssl: 'disable', maxConnections: poolSize };
  return JSON.stringify([
    { id: `${workflow}-secret`, name: 'secret', type: 'crypto', data: { hmacSecret: secret } },
    { id: `${workflow}-engine`, name: 'engine', type: 'postgres', data: place },
  ]);
}

export async function n8n(service: Service): Promise<Contestant> {
  const { stdout, error } = spawnSync('n8n', ['--version'], { encoding: 'utf8' });
  if (error !== undefined) throw new Error('the command `n8n` is not installed');
  const folder = await mkdtemp(join(tmpdir(), 'headgate-bench-n8n-'));
  const stops: (() => Promise<unknown>)[] = [() => rm(folder, { recursive: true, force: true })];
  const stop = async () => {
    for (const each of stops.toReversed()) await each();
  };
  try {
    const table = await tableFor(service, 'n8n');
    const own = await databaseFor(service, database);
    stops.push(() => own.end());
    const [port, brokerPort] = [await freePort(), await freePort()];
    const { host, port: enginePort, user = '' } = service.engine;
    const env = {
      ...calls,
      ...tuned,
      N8N_USER_FOLDER: folder,
      N8N_ENCRYPTION_KEY: randomBytes(16).toString('hex'),
      N8N_LISTEN_ADDRESS: '127.0.0.1',
      N8N_PORT: String(port),
      N8N_RUNNERS_BROKER_PORT: String(brokerPort),
      DB_TYPE: 'postgresdb',
      DB_POSTGRESDB_HOST: host,
      DB_POSTGRESDB_PORT: String(enginePort),
      DB_POSTGRESDB_USER: user,
      DB_POSTGRESDB_PASSWORD: '-',
      DB_POSTGRESDB_DATABASE: database,
      DB_POSTGRESDB_POOL_SIZE: String(poolSize),
    };
    const run = (...args: string[]) => promisify(execFile)('n8n', args, { env: { ...process.env, ...env } });
    const file = join(folder, 'credentials.json');
    await writeFile(file, credentials(service), { mode: 0o600 });
    await run('import:credentials', `--input=${file}`);
    await run('import:workflow', `--input=${source('n8n-workflow.json')}`);
    await run('publish:workflow', `--id=${workflow}`);
    const url = `http://127.0.0.1:${port}/webhook/hook`;
    // Before it is ready it answers 200 to everything.
    const ready = async () => (await answers(url)) && (await rowsOf(service.client, table)) > 0;
    const started = await start(['start'], () => false, { command: 'n8n', env, probe: ready });
    stops.push(() => started.stop());
    const settle = () => noMoreRows(service.client, table);
    const contestant = overHttp(service, started, url, table, { settle });
    return {
      ...contestant,
      run: async (seconds) => {
        // What autovacuum would do, which is off.
        await own.query('VACUUM ANALYZE');
        return contestant.run(Math.max(seconds, leastSeconds));
      },
      note: `n8n ${stdout.trim()}: Webhook → Crypto (HMAC) → If → Postgres (pool of ${poolSize}) → Respond to Webhook, ${atATime} at a time, no executions kept`,
      stop,
    };
  } catch (failure) {
    await stop();
    throw failure;
  }
}
