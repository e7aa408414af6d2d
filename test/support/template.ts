/**
 * Data directories that the tests of one run copy instead of creating their own: initdb takes a second or two, a copy a fiftieth of
 * that. scripts/test.mjs creates them before the first file and removes them after the last one; a file that is run alone has none, and
 * creates what it needs. Run as a program, this creates the folder named by its first argument, for tests that need a database; and the
 * one named by its second, if there is one, for tests that start the whole program.
 */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFile, mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Client } from 'pg';
import { migrate, readMigrations } from '../../src/catalog/migrate.ts';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import { sharedMemory } from './server.ts';

const { HEADGATE_TEST_TEMPLATE: migrated = '', HEADGATE_TEST_PROGRAM_TEMPLATE: started = '' } = process.env;

/** Fills a data directory that is empty or absent: a Headgate has run on it once, and nobody has used it. */
export async function fromTemplate(dataDir: string): Promise<void> {
  await fill(dataDir, started === '' ? migrated : started);
}

/** The same with nothing but the catalog, and that only in the default database. */
export async function fromMigrated(dataDir: string): Promise<void> {
  await fill(dataDir, migrated);
}

async function fill(dataDir: string, template: string): Promise<void> {
  if (template === '') return;
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  if ((await readdir(dataDir)).length === 0) await copy(template, dataDir);
}

/** A cluster's owner may be another user, and is preserved; the times of its files would cost a tenth more. */
async function copy(from: string, to: string): Promise<void> {
  await promisify(execFile)('cp', ['-R', '--preserve=mode,ownership', '--reflink=auto', `${from}/.`, to]);
}

/** For engines that live for seconds: lowers the cost of each start. */
const forTests = `${sharedMemory}
shared_buffers = '32MB'
min_wal_size = '80MB'
io_method = 'sync'
wal_init_zero = 'off'
wal_recycle = 'off'
`;

async function makeMigrated(dataDir: string): Promise<void> {
  await onEngine(dataDir, async (client) => {
    await migrate(client, readMigrations());
    await appendFile(join(dataDir, 'pg', 'postgresql.conf'), forTests);
    await client.query('select pg_reload_conf()');
  });
}

/** As after every start except the first: with the gateway's role and what that has in the database, too. */
async function makeStarted(dataDir: string, from: string): Promise<void> {
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  await copy(from, dataDir);
  const cli = fileURLToPath(new URL('../../src/app/cli.js', import.meta.url));
  const ports = ['listen', 'sql', 'gateway', 'admin'].map((door) => `--${door}-port=0`);
  const args = [cli, 'start', `--data-dir=${dataDir}`, '--listen-host=127.0.0.1', ...ports];
  const { PATH, HOME } = process.env;
  const env = { PATH, HOME, HEADGATE_LISTENERS: '1' };
  const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'ignore'], timeout: 60_000 });
  const exited = once(child, 'exit');
  // The banner, once all doors are open.
  await Promise.race([once(child.stdout, 'data'), exited]);
  child.stdout.resume();
  child.kill('SIGTERM');
  const [code] = (await exited) as [number | null];
  if (code !== 0) throw new Error(`headgate ended with ${code}`);
  await onEngine(dataDir, async (client) => {
    const { rowCount } = await client.query(
      "select from pg_event_trigger where evtname = 'headgate_gateway'",
    );
    if (rowCount !== 1) throw new Error('headgate was stopped before it was ready');
    // Each program makes a master key of its own.
    await client.query('delete from headgate.key_check');
    await rm(join(dataDir, 'master.key'));
  });
}

/**
 * Runs `work` in the default database. Leaves one empty file of the log instead of 16 MB of old log, which the checkpoint of the server's shutdown
 * removes.
 */
async function onEngine(dataDir: string, work: (client: Client) => Promise<void>): Promise<void> {
  const engine = await openEmbeddedEngine({ dataDir, observe: () => undefined });
  const client = new Client(engine.clientConfig(engine.defaultDatabase));
  await client.connect();
  await work(client);
  await client.query('select pg_switch_wal()');
  await client.end();
  await engine.close();
  // Exists only while a server runs.
  await rm(join(dataDir, 'lock'), { recursive: true, force: true });
  await removeMaps(join(dataDir, 'pg', 'base'));
}

/** A fifth of all files: free space and visibility maps. A server recreates them when needed. */
async function removeMaps(base: string): Promise<void> {
  const files = await readdir(base, { recursive: true });
  const maps = files.filter((file) => /_(?:fsm|vm)$/.test(file));
  await Promise.all(maps.map((file) => rm(join(base, file))));
}

const [, program = '', forDatabases = '', forPrograms] = process.argv;
if (program === fileURLToPath(import.meta.url)) {
  await makeMigrated(forDatabases);
  if (forPrograms !== undefined) await makeStarted(forPrograms, forDatabases);
}
