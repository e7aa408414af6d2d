/** What Headgate says when it cannot connect: the words that psql shows for the same connection string, and what to do. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { TestContext } from 'node:test';
import { makeAuthority } from '../../test/support/certificates.ts';
import type { Authority } from '../../test/support/certificates.ts';
import { onEnd } from '../../test/support/cleanup.ts';
import { Spy } from '../../test/support/postgres.ts';
import { run } from '../../test/support/run.ts';
import { embeddedBin, startServer } from '../../test/support/server.ts';
import { freePort, startTcpServer } from '../../test/support/tls-server.ts';
import type { TcpServer } from '../../test/support/tls-server.ts';
import { requireTool } from '../../test/support/tools.ts';
import type { Engine } from './engine.ts';
import { openPostgresEngine } from './postgres.ts';

let server: TcpServer;
let authority: Authority;
let folder: string;
before(async () => {
  server = await startTcpServer();
  folder = mkdtempSync(join(tmpdir(), 'headgate-failure-'));
  authority = makeAuthority(folder);
  await server.run(`create role app login password 'secret'; create role locked password 'secret'`);
});
after(async () => {
  await server.close();
  rmSync(folder, { recursive: true, force: true });
});

async function open(t: TestContext, databaseUrl: string, spy = new Spy()): Promise<Engine> {
  const engine = await openPostgresEngine({ databaseUrl, observe: spy.observe });
  onEnd(t, 'engine', () => engine.close());
  return engine;
}

/** What the server answers to psql with this connection string; libpq encrypts first and says both. */
async function psqlWords(url: string): Promise<string[]> {
  const { code, stderr } = await run('psql', ['-XAtqw', url, '-c', 'select 1']);
  assert.equal(code, 2, stderr);
  return stderr.match(/(?<=FATAL: {2}).*$/gm) ?? [];
}

/** `advice`: what follows the server's words. */
async function says(t: TestContext, url: string, advice: RegExp): Promise<string> {
  const spy = new Spy();
  const engine = await open(t, url, spy);
  const reason = engine.unavailable ?? '';
  const words = await psqlWords(url);
  assert.notEqual(words.length, 0, url);
  for (const word of words) assert.ok(reason.includes(word), `${reason}\n${word}`);
  assert.match(reason, advice);
  assert.doesNotMatch(reason, /canary/);
  // Whoever connects in the meantime, as the catalog does, is told the same.
  assert.deepEqual(
    spy.seen.filter(({ kind }) => kind === 'engine.unreachable'),
    [{ kind: 'engine.unreachable', engine: 'postgres', reason }],
  );
  return reason;
}

test("a connection failure at a server without SSL repeats the server's reason and does not mention SSL", async (t) => {
  if (requireTool(t, 'psql') === null) return;
  await server.admit('host all all 127.0.0.1/32 scram-sha-256');
  const at = (user: string, database = 'postgres', options = '') =>
    `postgresql://${user}@127.0.0.1:${server.port}/${database}${options}`;
  const wrong = await says(
    t,
    at('app:canary'),
    /\(SQLSTATE 28P01\): check the user and the password in the connection string/,
  );
  assert.doesNotMatch(wrong, /SSL/);
  await says(t, at('nobody:canary'), /28P01/);
  await says(t, at('app:secret', 'nope'), /\(SQLSTATE 3D000\): create it \(CREATE DATABASE "nope"\)/);
  await says(t, at('locked:secret'), /\(SQLSTATE 28000\): the role has to exist and to have LOGIN/);
  assert.equal(
    (await open(t, at('app'))).unavailable,
    'the server asks for the password of "app", and the connection string has none',
  );
  const required = (await open(t, at('app:secret', 'postgres', '?sslmode=require'))).unavailable ?? '';
  assert.match(required, /^The server does not support SSL connections: .*turn SSL on.*sslmode=prefer$/);
  assert.equal((await open(t, at('app:secret'))).unavailable, null);
});

test('a connection failure by pg_hba.conf or SSL says what is missing', async (t) => {
  if (requireTool(t, 'psql') === null || requireTool(t, 'openssl') === null) return;
  await server.encrypt(authority.issue('db', 'db', { names: 'IP:127.0.0.1' }), authority.cert);
  const at = (options: string) =>
    `postgresql://app:secret@127.0.0.1:${server.port}/postgres?sslmode=${options}`;
  await server.admit('hostssl all all 127.0.0.1/32 scram-sha-256');
  await says(t, at('disable'), /if the server wants SSL, write sslmode=require into the connection string/);
  assert.equal((await open(t, at('prefer'))).unavailable, null);
  await server.admit('hostnossl all all 127.0.0.1/32 scram-sha-256');
  await says(t, at('require'), /pg_hba.conf of the server has to let this user in from this machine/);
  assert.equal((await open(t, at('prefer'))).unavailable, null);
  await server.admit('host all root 127.0.0.1/32 trust');
  const neither = await says(t, at('prefer'), /pg_hba.conf of the server has to let this user in/);
  assert.match(neither, /^with SSL no pg_hba.conf entry .*; without SSL no pg_hba.conf entry /);
  assert.match(
    (await open(t, at('verify-full'))).unavailable ?? '',
    /certificate.*: sslrootcert=FILE names the authority/,
  );
});

test('a connection failure says that nothing listens at an address, or that no host has the name', async (t) => {
  const port = await freePort();
  const reason = async (host: string) =>
    (await open(t, `postgresql://app:canary@${host}/postgres`)).unavailable ?? '';
  assert.match(
    await reason(`127.0.0.1:${port}`),
    new RegExp(`^connect ECONNREFUSED 127.0.0.1:${port}: nothing listens there`),
  );
  assert.match(
    await reason('nohost.invalid'),
    /^getaddrinfo (?:ENOTFOUND nohost.invalid: there is no host of that name|EAI_AGAIN nohost.invalid: .*)$/,
  );
});

test('a hot standby is reachable and says that nothing can be written', async (t) => {
  const primary = await startServer(embeddedBin);
  onEnd(t, 'primary', () => primary.close());
  await primary.stop();
  writeFileSync(join(primary.data, 'standby.signal'), '');
  const standby = await startServer(embeddedBin, [], primary.data);
  onEnd(t, 'standby', () => standby.close());
  const engine = await open(t, `postgresql://root@/postgres?host=${encodeURIComponent(standby.socketDir)}`);
  assert.deepEqual(
    [engine.unavailable, engine.readOnly],
    [null, 'nothing can be written: the database is a standby'],
  );
});
