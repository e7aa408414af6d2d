/**
 * A data directory that the tests of one run copy instead of creating their own: initdb takes a second or two, a copy a tenth of
 * that. scripts/test.mjs creates it before the first file and removes it after the last one; a file that is run alone has none, and
 * creates what it needs. Run as a program, this creates the folder named by its argument.
 */
import { execFile } from 'node:child_process';
import { appendFile, mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Client } from 'pg';
import { migrate, readMigrations } from '../../src/catalog/migrate.ts';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import { sharedMemory } from './server.ts';

const { HEADGATE_TEST_TEMPLATE: template = '' } = process.env;

/** Fills a data directory that is empty or absent. A cluster's owner may be another user, and is preserved. */
export async function fromTemplate(dataDir: string): Promise<void> {
  if (template === '') return;
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  if ((await readdir(dataDir)).length === 0)
    await promisify(execFile)('cp', ['-a', '--reflink=auto', `${template}/.`, dataDir]);
}

/** For engines that live for seconds: lowers the cost of each start. */
const forTests = `${sharedMemory}
shared_buffers = '32MB'
min_wal_size = '80MB'
io_method = 'sync'
wal_init_zero = 'off'
wal_recycle = 'off'
`;

/** With the catalog, as after every start except the first. */
async function make(dataDir: string): Promise<void> {
  const engine = await openEmbeddedEngine({ dataDir, observe: () => undefined });
  const client = new Client(engine.clientConfig(engine.defaultDatabase));
  await client.connect();
  await migrate(client, readMigrations());
  await appendFile(join(dataDir, 'pg', 'postgresql.conf'), forTests);
  // Leaves one empty log file instead of 16 MB of old log, which the checkpoint of the server's shutdown removes.
  await client.query('select pg_reload_conf()');
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

const [, program = '', folder = ''] = process.argv;
if (program === fileURLToPath(import.meta.url)) await make(folder);
