/** TLS on the listener and the SQL door, as owners and senders meet it: openssl, curl, psql, node-postgres. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { copyFileSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import type { TestContext } from 'node:test';
import { test } from 'node:test';
import { connect } from 'node:tls';
import { Client } from 'pg';
import { asked } from '../support/asked.ts';
import type { Authority } from '../support/certificates.ts';
import { makeAuthority } from '../support/certificates.ts';
import { onEnd } from '../support/cleanup.ts';
import { startHeadgate, temporaryFolder } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { run } from '../support/run.ts';
import { requireTool } from '../support/tools.ts';
import { within } from '../support/within.ts';

const table = `CREATE TABLE t (data JSONB) WITH (connector = 'webhook')
  VALIDATE AS secure_compare(headers->>'signature', 'test')`;

interface Setup {
  readonly folder: string;
  readonly authority: Authority;
  /** Both doors' certificate. */
  readonly env: Record<string, string>;
}

/** null: openssl is not installed, and `t` was skipped. */
async function setup(t: TestContext): Promise<Setup | null> {
  if (requireTool(t, 'openssl') === null) return null;
  const folder = await temporaryFolder(t);
  const authority = makeAuthority(folder);
  const { cert, key } = authority.issue('server', 'first');
  const env = {
    HEADGATE_LISTEN_TLS_CERT: cert,
    HEADGATE_LISTEN_TLS_KEY: key,
    HEADGATE_SQL_TLS_CERT: cert,
    HEADGATE_SQL_TLS_KEY: key,
  };
  return { folder, authority, env };
}

async function curl(headgate: Headgate, ...args: string[]) {
  const url = `https://localhost:${headgate.ports.listen.port}/webhook/dev/public/t`;
  return run('curl', ['-sS', '-m', '10', '-4', '-w', ' %{http_code}', '-H', 'signature: test', ...args, url]);
}

/** The common name on the certificate that the listener shows. */
function shownBy(port: number, ca: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1', servername: 'localhost', ca: readFileSync(ca) }, () => {
      resolve(String(socket.getPeerCertificate().subject.CN));
      socket.destroy();
    });
    socket.on('error', reject);
  });
}

test("curl, psql and node-postgres verify the certificate chain of Headgate's ports", async (t) => {
  const made = await setup(t);
  if (made === null || requireTool(t, 'psql') === null || requireTool(t, 'curl') === null) return;
  const { authority, env } = made;
  const headgate = await startHeadgate(t, { env });
  assert.match(headgate.stdout, /webhooks {2}https:\/\//);
  const psql = (mode: string, sql: string, ca = authority.cert) =>
    run('psql', [
      '-XAtq',
      `host=localhost hostaddr=127.0.0.1 port=${headgate.ports.sql.port} user=root dbname=dev sslmode=${mode} sslrootcert=${ca}`,
      '-c',
      sql,
    ]);
  assert.deepEqual(await psql('verify-full', table), { code: 0, stdout: '', stderr: '' });
  const rule = `ALTER TABLE t ANSWER UNCHECKED WHEN method = 'GET' BODY shaped(query->>'challenge', 'token', 64)`;
  assert.deepEqual(await psql('verify-full', rule), { code: 0, stdout: '', stderr: '' });
  const question = `https://localhost:${headgate.ports.listen.port}/webhook/dev/public/t?challenge=a-sender-asks`;
  await within(5_000, async () => {
    const asked = await run('curl', ['-sS', '-m', '10', '-4', '--cacert', authority.cert, question]);
    assert.deepEqual([asked.stdout, asked.stderr], ['a-sender-asks', '']);
  });
  const posted = await curl(headgate, '--cacert', authority.cert, '-d', '{"a":1}');
  assert.equal(posted.stdout, '{"rows":1} 200', posted.stderr);
  const select = `select data->>'a' from t`;
  assert.equal((await psql('verify-full', select)).stdout, '1\n');
  assert.equal((await psql('require', select)).stdout, '1\n');
  assert.match((await psql('disable', select)).stderr, /this door takes encrypted connections only/);

  const client = new Client({
    host: 'localhost',
    port: headgate.ports.sql.port,
    user: 'root',
    database: 'dev',
    ssl: { ca: readFileSync(authority.cert) },
  });
  client.on('error', () => {});
  await client.connect();
  onEnd(t, 'client', () => client.end());
  // A few megabytes both ways, in the extended protocol.
  const { rows } = await client.query<{ n: number }>('select length($1::text)::int as n, repeat($1, 2)', [
    'x'.repeat(3_000_000),
  ]);
  assert.equal(rows[0]?.n, 3_000_000);

  // Whoever trusts another authority, or speaks in the clear, gets nothing.
  const other = makeAuthority(made.folder, 'other');
  assert.notEqual((await curl(headgate, '--cacert', other.cert, '-d', '{}')).code, 0);
  assert.match((await psql('verify-full', select, other.cert)).stderr, /certificate verify failed/);
  const plain = await run('curl', [
    '-sS',
    '-m',
    '10',
    `http://localhost:${headgate.ports.listen.port}/webhook/dev/public/t`,
  ]);
  assert.notEqual(plain.code, 0);
  const old = await curl(headgate, '--cacert', authority.cert, '--tls-max', '1.1', '-d', '{}');
  assert.notEqual(old.code, 0);
  assert.equal((await headgate.signal('SIGTERM')).code, 0);
});

test('a new TLS certificate is loaded without a restart, and a broken one is reported and not used', async (t) => {
  const made = await setup(t);
  if (made === null) return;
  const { authority, env, folder } = made;
  const headgate = await startHeadgate(t, { env });
  const { port } = headgate.ports.listen;
  assert.equal(await shownBy(port, authority.cert), 'first');
  const log = () => headgate.stderr.split('\n').filter((line) => line.includes('"tls.'));
  const told = async (count: number) => {
    while (log().length < count) await once(headgate.child.stderr as Readable, 'data');
  };
  await told(2);

  const second = authority.issue('second', 'second');
  copyFileSync(second.cert, join(folder, 'server.pem'));
  headgate.child.kill('SIGHUP');
  // The certificate without its key is of no use: nothing changes, and both doors say so.
  await told(4);
  assert.match(
    log()[3] ?? '',
    /"level":"error".*server\.key is not the key of the certificate in .*server\.pem/,
  );
  assert.equal(await shownBy(port, authority.cert), 'first');

  copyFileSync(second.key, join(folder, 'server.key'));
  headgate.child.kill('SIGHUP');
  await told(6);
  assert.equal(await shownBy(port, authority.cert), 'second');

  const metrics = (await asked(`${headgate.adminUrl}/metrics`)).text;
  assert.match(metrics, /^headgate_tls_certificate_expires_seconds\{door="sql"\} 1\d{9}$/m);
  assert.match(metrics, /^headgate_tls_unusable_total 2$/m);

  // Nobody tells it of the next one.
  const third = authority.issue('third', 'third');
  copyFileSync(third.key, join(folder, 'server.key'));
  copyFileSync(third.cert, join(folder, 'server.pem'));
  await within(20_000, async () => assert.equal(await shownBy(port, authority.cert), 'third'));
});

test('the SQL port and the listener check client certificates as their settings say', async (t) => {
  const made = await setup(t);
  if (made === null || requireTool(t, 'psql') === null || requireTool(t, 'curl') === null) return;
  const { authority, env, folder } = made;
  const clients = makeAuthority(folder, 'clients');
  const known = clients.issue('known', 'known');
  const stranger = authority.issue('stranger', 'stranger');
  const headgate = await startHeadgate(t, {
    env: {
      ...env,
      HEADGATE_LISTEN_TLS_CLIENT_CA: clients.cert,
      HEADGATE_LISTEN_TLS_CLIENT_CERT: 'optional',
      HEADGATE_SQL_TLS_CLIENT_CA: clients.cert,
    },
  });
  const psql = (...more: string[]) =>
    run('psql', [
      '-XAtq',
      `host=127.0.0.1 port=${headgate.ports.sql.port} user=root dbname=dev sslmode=verify-full sslrootcert=${authority.cert} ${more.join(' ')}`,
      '-c',
      'select 1',
    ]);
  const shown = ({ cert, key }: { cert: string; key: string }) => [`sslcert=${cert}`, `sslkey=${key}`];
  assert.equal((await psql(...shown(known))).stdout, '1\n');
  assert.equal((await psql(...shown(stranger))).code, 2);
  assert.equal((await psql('sslcert=/nowhere')).code, 2);

  const post = (...more: string[]) => curl(headgate, '--cacert', authority.cert, '-d', '{}', ...more);
  assert.match((await post()).stdout, / 404$/);
  assert.match((await post('--cert', known.cert, '--key', known.key)).stdout, / 404$/);
  assert.match((await post('--cert', stranger.cert, '--key', stranger.key)).stdout, / 000$/);
});
