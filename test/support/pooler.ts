/**
 * Poolers: the real PgBouncer and pgpool, and a door in front of a PostgreSQL that accepts only the startup parameters that PgBouncer
 * accepts, and refuses others in the same way.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chown, writeFile } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { Client } from 'pg';
import type { Endpoint } from '../../src/engine/engine.ts';
import { onEnd } from './cleanup.ts';
import { temporaryFolder } from './headgate.ts';
import { serverUser } from './server.ts';
import { freePort } from './tls-server.ts';
import { within } from './within.ts';

const known = new Set(['user', 'database', 'client_encoding', 'application_name', 'DateStyle', 'TimeZone']);

export async function openPooler(t: TestContext, to: Endpoint): Promise<{ readonly port: number }> {
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.once('data', (startup) => {
      const words = startup.toString('utf8', 8).split('\0');
      const unknown = words.find((word, i) => i % 2 === 0 && word !== '' && !known.has(word));
      if (unknown !== undefined) {
        const text = `SFATAL\0C08P01\0Munsupported startup parameter: ${unknown}\0\0`;
        const head = Buffer.from([0x45, 0, 0, 0, 4 + text.length]);
        return socket.end(Buffer.concat([head, Buffer.from(text)]));
      }
      const upstream = to.kind === 'unix' ? connect(to.path) : connect(to.port, to.host);
      upstream.on('error', () => {});
      socket.on('close', () => upstream.destroy());
      upstream.write(startup);
      socket.pipe(upstream).pipe(socket);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onEnd(t, 'pooler', () => void server.close());
  return { port: (server.address() as AddressInfo).port };
}

/** Startup parameters that it is configured to ignore, as its manual advises. */
const passedOver = 'extra_float_digits,statement_timeout,options';

/** In front of that server, with role root. Returns the port. */
export async function openPgbouncer(
  t: TestContext,
  program: string,
  serverPort: number,
  mode: string,
  ignored = passedOver,
  poolSize = mode === 'session' ? 64 : 8,
): Promise<number> {
  const [folder, port] = await Promise.all([ownFolder(t), freePort()]);
  await writeFile(join(folder, 'users'), '"root" ""\n');
  const config = join(folder, 'pgbouncer.ini');
  await writeFile(
    config,
    `[databases]
* = host=127.0.0.1 port=${serverPort} user=root
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
auth_file = ${join(folder, 'users')}
pool_mode = ${mode}
default_pool_size = ${poolSize}
max_client_conn = 200
${ignored === '' ? '' : `ignore_startup_parameters = ${ignored}`}
`,
  );
  await runPooler(t, program, [config], port, 'SIGTERM');
  return port;
}

/** In front of that server. Returns the port. */
export async function openPgpool(t: TestContext, program: string, serverPort: number): Promise<number> {
  const [folder, port, pcpPort] = [await ownFolder(t), await freePort(), await freePort()];
  const config = join(folder, 'pgpool.conf');
  await writeFile(join(folder, 'pcp.conf'), '');
  await writeFile(
    config,
    `backend_clustering_mode = 'streaming_replication'
sr_check_period = 0
load_balance_mode = off
failover_on_backend_error = off
listen_addresses = '127.0.0.1'
port = ${port}
socket_dir = '${folder}'
pcp_listen_addresses = '127.0.0.1'
pcp_port = ${pcpPort}
pcp_socket_dir = '${folder}'
wd_ipc_socket_dir = '${folder}'
pid_file_name = '${folder}/pgpool.pid'
logdir = '${folder}'
work_dir = '${folder}'
memqcache_oiddir = '${folder}'
backend_hostname0 = '127.0.0.1'
backend_port0 = ${serverPort}
num_init_children = 48
max_pool = 2
`,
  );
  await runPooler(t, program, ['-n', '-f', config, '-F', join(folder, 'pcp.conf')], port, 'SIGINT');
  return port;
}

async function ownFolder(t: TestContext): Promise<string> {
  const folder = await temporaryFolder(t);
  const { uid, gid } = serverUser();
  if (uid !== undefined) await chown(folder, uid, gid ?? uid);
  return folder;
}

/** Resolves once it forwards connections. */
async function runPooler(
  t: TestContext,
  program: string,
  args: readonly string[],
  port: number,
  end: NodeJS.Signals,
): Promise<void> {
  const child = spawn(program, args, { ...serverUser(), stdio: ['ignore', 'ignore', 'pipe'] });
  let said = '';
  child.stderr.on('data', (chunk: Buffer) => (said += chunk.toString()));
  const ended = once(child, 'exit');
  onEnd(t, program, async () => {
    if (child.exitCode === null) child.kill(end);
    await ended;
  });
  await within(10_000, async () => {
    assert.equal(child.exitCode, null, said);
    const client = new Client({ host: '127.0.0.1', port, user: 'root', database: 'postgres' });
    client.on('error', () => {});
    await client.connect();
    await client.end();
  });
}
