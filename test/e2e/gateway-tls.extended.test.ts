/** Who stands at the events gateway of the real program, in both of its forms: TLS, client certificates, networks. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { copyFileSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { test } from 'node:test';
import { connect } from 'node:tls';
import { asked } from '../support/asked.ts';
import { makeAuthority } from '../support/certificates.ts';
import type { Pair } from '../support/certificates.ts';
import { onEnd } from '../support/cleanup.ts';
import { startGatewayProcess } from '../support/gateway-process.ts';
import { request } from '../support/gateway.ts';
import { spawnHeadgate, startHeadgate, temporaryFolder } from '../support/headgate.ts';
import { run } from '../support/run.ts';
import { startServer } from '../support/server.ts';
import { requireTool } from '../support/tools.ts';
import { within } from '../support/within.ts';

const client = new URL('../../src/client/client.js', import.meta.url).href;

async function setup(t: TestContext) {
  if (requireTool(t, 'openssl') === null || requireTool(t, 'curl') === null) return null;
  const folder = await temporaryFolder(t);
  const authority = makeAuthority(folder);
  const { cert, key } = authority.issue('server', 'first');
  const env = { HEADGATE_GATEWAY_TLS_CERT: cert, HEADGATE_GATEWAY_TLS_KEY: key };
  return { folder, authority, env };
}

/** What curl reads and the status; `000` where it is not let in. */
async function curl(url: string, ca: string, ...args: string[]): Promise<string> {
  const { stdout } = await run('curl', [
    '-sS',
    '-m',
    '10',
    '--cacert',
    ca,
    '-w',
    ' %{http_code}',
    ...args,
    url,
  ]);
  return stdout;
}

const shown = ({ cert, key }: Pair) => ['--cert', cert, '--key', key];

function commonName(port: number, ca: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1', servername: 'localhost', ca: readFileSync(ca) }, () => {
      resolve(String(socket.getPeerCertificate().subject.CN));
      socket.destroy();
    });
    socket.on('error', reject);
  });
}

test("the gateway's TLS inside headgate start: clients verify the chain, and plain HTTP is refused", async (t) => {
  const made = await setup(t);
  if (made === null) return;
  const { authority, env, folder } = made;
  const headgate = await startHeadgate(t, { env: { ...env, HEADGATE_GATEWAY_TOKEN: 'to-ken' } });
  const { port } = headgate.ports.gateway;
  assert.match(headgate.stdout, new RegExp(`events {4}https://127\\.0\\.0\\.1:${port}/v1/events`));
  const url = `https://localhost:${port}/v1/sql`;
  const bearer = ['-H', 'authorization: Bearer to-ken'];
  const created = await curl(url, authority.cert, ...bearer, '-d', 'CREATE TABLE t (n bigint, note text)');
  assert.match(created, /CREATE TABLE.* 200$/);
  assert.match(await curl(url, authority.cert, '-d', 'SELECT 1'), /token_required.* 401$/);
  assert.match(await curl(url, authority.cert, ...bearer, '--tlsv1.3', '-d', 'SELECT 1'), / 200$/);
  assert.match(await curl(url, authority.cert, ...bearer, '--tls-max', '1.1', '-d', 'SELECT 1'), / 000$/);
  const other = makeAuthority(folder, 'other');
  assert.match(await curl(url, other.cert, ...bearer, '-d', 'SELECT 1'), / 000$/);
  assert.match(
    await curl(url.replace('https', 'http'), authority.cert, ...bearer, '-d', 'SELECT 1'),
    / 000$/,
  );
  const foreign = await curl(
    url,
    authority.cert,
    ...bearer,
    '-H',
    `origin: http://localhost:${port}`,
    '-d',
    'SELECT 1',
  );
  assert.match(foreign, /page_refused.* 403$/);

  const program = `
    import { createClient } from ${JSON.stringify(client)};
    const headgate = createClient({ url: 'https://localhost:${port}', token: 'to-ken' });
    const rows = Array.from({ length: 20_000 }, (_, n) => ({ n, note: 'x'.repeat(50) }));
    const { rows: inserted } = await headgate.insert('t', rows);
    const { rows: found } = await headgate.sql\`SELECT count(*) AS rows, max(n) AS last FROM t WHERE n >= \${10}\`;
    console.log(inserted, JSON.stringify(found));`;
  const script = ['--input-type=module', '-e', program];
  const trusted = await run(process.execPath, script, {
    env: { PATH: process.env['PATH'], NODE_EXTRA_CA_CERTS: authority.cert },
  });
  assert.equal(trusted.stdout, '20000 [{"rows":19990,"last":19999}]\n', trusted.stderr);
  const metrics = (await asked(`${headgate.adminUrl}/metrics`)).text;
  assert.match(metrics, /^headgate_tls_certificate_expires_seconds\{door="gateway"\} 1\d{9}$/m);
  assert.equal((await headgate.signal('SIGTERM')).code, 0);
});

test('headgate gateway may listen on any address if it requires client certificates, and reloads its own', async (t) => {
  const made = await setup(t);
  if (made === null) return;
  const { authority, env, folder } = made;
  const clients = makeAuthority(folder, 'clients');
  const known = clients.issue('known', 'known');
  const stranger = authority.issue('stranger', 'stranger');
  const server = await startServer();
  onEnd(t, 'server', () => server.close());
  const dsn = `postgresql://root@/postgres?host=${encodeURIComponent(server.socketDir)}`;
  const gateway = await startGatewayProcess(t, {
    ...env,
    EVENTS_API_DEV_DSN: dsn,
    EVENTS_API_HOST: '0.0.0.0',
    HEADGATE_GATEWAY_TLS_CLIENT_CA: clients.cert,
  });
  const { port } = new URL(gateway.url);
  assert.match(gateway.url, /^https:/);
  const url = `https://127.0.0.1:${port}/v1/sql`;
  const ask = (...args: string[]) => curl(url, authority.cert, '-d', 'SELECT 1 AS one', ...args);
  assert.match(await ask(...shown(known)), /"rows":\[\{"one":1\}\].* 200$/);
  assert.match(await ask(), / 000$/);
  assert.match(await ask(...shown(stranger)), / 000$/);

  const told = async (word: string) => {
    while (!gateway.stderr().includes(word)) await once(gateway.child.stderr ?? gateway.child, 'data');
  };
  const second = clients.issue('second', 'second');
  copyFileSync(second.cert, join(folder, 'server.pem'));
  gateway.child.kill('SIGHUP');
  await told('"tls.unusable"');
  assert.match(await ask(...shown(known)), / 200$/);
  copyFileSync(second.key, join(folder, 'server.key'));
  gateway.child.kill('SIGHUP');
  await told('CN=second');
  assert.equal(await shownTo(Number(port), clients.cert, known), 'second');
  assert.equal(await gateway.end('SIGTERM'), 0);
});

/** As commonName, by a client that shows a certificate. */
function shownTo(port: number, ca: string, { cert, key }: Pair): Promise<string> {
  return new Promise((resolve, reject) => {
    const options = { port, host: '127.0.0.1', servername: 'localhost', ca: readFileSync(ca) };
    const socket = connect({ ...options, cert: readFileSync(cert), key: readFileSync(key) }, () => {
      resolve(String(socket.getPeerCertificate().subject.CN));
      socket.destroy();
    });
    socket.on('error', reject);
  });
}

test("the gateway with optional client certificates accepts none or a known one, and refuses a stranger's", async (t) => {
  const made = await setup(t);
  if (made === null) return;
  const { authority, env, folder } = made;
  const clients = makeAuthority(folder, 'clients');
  const optional = {
    ...env,
    HEADGATE_GATEWAY_TLS_CLIENT_CA: clients.cert,
    HEADGATE_GATEWAY_TLS_CLIENT_CERT: 'optional',
  };
  const open = await spawnHeadgate(t, { env: { ...optional, EVENTS_API_HOST: '0.0.0.0' } });
  assert.equal((await open.ended).code, 1);
  assert.match(
    open.stderr,
    /^headgate: EVENTS_API_HOST=0\.0\.0\.0 would let in anybody.*HEADGATE_GATEWAY_TLS_CLIENT_CA/m,
  );
  const headgate = await startHeadgate(t, { env: optional });
  const { port } = headgate.ports.gateway;
  assert.equal(await commonName(port, authority.cert), 'first');
  const ask = (...args: string[]) =>
    curl(`https://localhost:${port}/v1/sql`, authority.cert, '-4', '-d', 'SELECT 1', ...args);
  assert.match(await ask(), / 200$/);
  assert.match(await ask(...shown(clients.issue('known', 'known'))), / 200$/);
  assert.match(await ask(...shown(authority.issue('stranger', 'stranger'))), / 000$/);
});

test("behind a trusted proxy the gateway's networks, rates and log use the client's address", async (t) => {
  const headgate = await startHeadgate(t, {
    env: {
      HEADGATE_TRUSTED_PROXIES: '127.0.0.0/8',
      HEADGATE_GATEWAY_NETWORKS: '198.51.100.0/24',
      HEADGATE_GATEWAY_RATE_MAX: '1',
      HEADGATE_LOG_LEVEL: 'debug',
    },
  });
  const ask = async (forwarded: string | null) => {
    const headers = forwarded === null ? {} : { 'x-forwarded-for': forwarded };
    const init = { method: 'POST', body: 'SELECT 1', headers };
    const { status, json } = await request(`${headgate.gatewayUrl}/v1/sql`, init);
    return [status, json.code ?? 'ok'];
  };
  assert.deepEqual(await ask(null), [403, 'address_refused']);
  assert.deepEqual(await ask('198.51.100.1, 192.0.2.1'), [403, 'address_refused']);
  assert.deepEqual(await ask('192.0.2.1, 198.51.100.1'), [200, 'ok']);
  const many = await Promise.all(Array.from({ length: 20 }, () => ask('198.51.100.7')));
  assert.deepEqual(new Set(many.map(([, code]) => code)), new Set(['ok', 'rate_limited']));
  await within(5_000, async () => {
    assert.match(headgate.stderr, /"remoteAddress":"198\.51\.100\.1","status":200[^\n]*"gateway\.answered"/);
    assert.match(headgate.stderr, /"remoteAddress":"192\.0\.2\.1","status":403[^\n]*"gateway\.answered"/);
  });
});
