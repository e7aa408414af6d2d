/**
 * Certificates by ACME, of the real Pebble: issue, renewal, an authority that is away or refuses, several Headgates. `npm run test:acme`
 * fetches Pebble and says where it is.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { connect as connectTcp, createServer } from 'node:net';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { connect } from 'node:tls';
import type { ConnectionOptions, PeerCertificate } from 'node:tls';
import { makeAuthority } from '../support/certificates.ts';
import { onEnd } from '../support/cleanup.ts';
import { spawnHeadgate, startHeadgate, temporaryFolder } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { startPebble } from '../support/pebble.ts';
import type { Pebble } from '../support/pebble.ts';
import { testDatabase } from '../support/postgres.ts';
import { freePort } from '../support/proxy.ts';
import { run } from '../support/run.ts';
import { within } from '../support/within.ts';

const domain = 'hooks.example.com';

const settings = (pebble: Pebble, port: number, more: Readonly<Record<string, string>> = {}) => ({
  env: {
    NODE_EXTRA_CA_CERTS: pebble.ca,
    HEADGATE_LISTEN_ACME_DOMAIN: domain,
    HEADGATE_LISTEN_ACME_AGREE: 'true',
    HEADGATE_LISTEN_ACME_DIRECTORY: pebble.directory,
    ...more,
  },
  args: [`--listen-port=${port}`],
});

/** The certificate that a client of this name is shown, whoever it trusts. */
function shown(port: number, more: ConnectionOptions = {}): Promise<PeerCertificate> {
  return new Promise((resolve, reject) => {
    const options = { port, host: '127.0.0.1', servername: domain, rejectUnauthorized: false, ...more };
    const socket = connect(options, () => {
      resolve(socket.getPeerCertificate());
      socket.destroy();
    });
    socket.once('error', reject);
  });
}

/** Waits for a certificate of the authority; gives its serial number. */
const certified = (port: number, unlike = ''): Promise<string> =>
  within(60_000, async () => {
    const { serialNumber, subjectaltname, valid_to: until } = await shown(port);
    assert.match(subjectaltname ?? '', new RegExp(`DNS:${domain}`));
    assert(Date.parse(until) > Date.now());
    assert.notEqual(serialNumber, unlike);
    return serialNumber;
  });

const standing = async ({ adminUrl }: Headgate) =>
  (
    (await (await fetch(`${adminUrl}/readyz`)).json()) as {
      certificate: { state: string; failures: number; reason: string | null; validUntil: string | null };
    }
  ).certificate;

const lines = ({ stderr }: Headgate, kind: string) =>
  stderr.split('\n').filter((it) => it.includes(`"kind":"${kind}"`));

async function posts(t: TestContext, headgate: Headgate, root: string): Promise<string> {
  const folder = await temporaryFolder(t);
  writeFileSync(join(folder, 'root.pem'), root);
  const { port } = headgate.ports.listen;
  const url = `https://${domain}:${port}/webhook/dev/public/t`;
  const to = ['--resolve', `${domain}:${port}:127.0.0.1`, '--cacert', join(folder, 'root.pem')];
  const { stdout, stderr } = await run('curl', [
    '-sS',
    '-m',
    '10',
    '-w',
    '%{http_code}',
    '-d',
    '{}',
    ...to,
    url,
  ]);
  return `${stdout}${stderr}`;
}

suite('the listener obtains and renews certificates from the ACME server Pebble', () => {
  test('tls-alpn-01 yields a certificate for two listener processes although every second nonce is refused', async (t) => {
    const port = await freePort();
    const pebble = await startPebble(t, { tlsPort: port, badNonces: 50 });
    const more = { HEADGATE_LISTENERS: '2', HEADGATE_LISTEN_ACME_CONTACT: 'owner@example.com' };
    const headgate = await startHeadgate(t, settings(pebble, port, more));
    await certified(port);
    const client = await headgate.client(t);
    await client.query(`CREATE TABLE t (data JSONB) WITH (connector = 'webhook')`);
    // Both processes have it: whichever takes the connection.
    const root = await pebble.root();
    for (let i = 0; i < 4; i++) assert.equal(await posts(t, headgate, root), '{"rows":1}200');

    const now = await standing(headgate);
    assert.deepEqual([now.state, now.failures, now.reason], ['valid', 0, null]);
    const metrics = await (await fetch(`${headgate.adminUrl}/metrics`)).text();
    assert.match(metrics, /headgate_certificate_attempts_total\{outcome="made"\} 1/);
    assert.match(metrics, /headgate_tls_certificate_expires_seconds\{door="listen"\} 1\.?\d+/);

    const folder = join(headgate.dataDir, 'acme');
    assert.equal(statSync(folder).mode & 0o777, 0o700);
    for (const name of readdirSync(folder)) assert.equal(statSync(join(folder, name)).mode & 0o777, 0o600);
    assert.equal(readFileSync(join(folder, 'challenges.json'), 'utf8'), '[]');
    for (const secret of readFileSync(join(folder, 'tls.pem'), 'utf8').match(/^M[A-Za-z0-9+/]{60,}$/gm) ?? [])
      assert(!headgate.stderr.includes(secret));

    // A name that is not ours sees what everybody sees; who behaves like an authority sees nothing.
    assert.match((await shown(port, { servername: 'other.example.net' })).subjectaltname ?? '', /hooks/);
    for (const servername of [domain, 'other.example.net'])
      await assert.rejects(
        shown(port, { servername, ALPNProtocols: ['acme-tls/1'] }),
        /no application protocol|ALERT/i,
      );
    assert.equal(
      (await shown(port, { ALPNProtocols: ['h2', 'acme-tls/1', 'http/1.1'] })).subject.O,
      undefined,
    );

    // It is kept: the next start asks nobody.
    const { code } = await headgate.signal('SIGTERM');
    assert.equal(code, 0);
    await pebble.stop();
    const again = await startHeadgate(t, { ...settings(pebble, port, more), dataDir: headgate.dataDir });
    assert.equal((await standing(again)).state, 'valid');
    assert.equal(lines(again, 'certificate.asked').length, 0);
    await certified(port);
  });

  test('http-01 yields a certificate, and its port tells strangers nothing', async (t) => {
    const [port, httpPort] = [await freePort(), await freePort()];
    const pebble = await startPebble(t, { httpPort });
    const more = {
      HEADGATE_LISTEN_ACME_CHALLENGE: 'http-01',
      HEADGATE_LISTEN_ACME_HTTP_PORT: String(httpPort),
    };
    const headgate = await startHeadgate(t, settings(pebble, port, more));
    await certified(port);
    const ask = async (path: string, init: RequestInit = {}, host = domain) => {
      const args = [
        '-sS',
        '-m',
        '10',
        '-o',
        '/dev/null',
        '-w',
        '%{http_code} %{redirect_url}',
        '-H',
        `Host: ${host}`,
      ];
      const method = ['-X', init.method ?? 'GET'];
      return (await run('curl', [...args, ...method, '--path-as-is', `http://127.0.0.1:${httpPort}${path}`]))
        .stdout;
    };
    assert.equal(await ask('/.well-known/acme-challenge/abc'), '404 ');
    assert.equal(await ask('/.well-known/acme-challenge/'), '404 ');
    assert.equal(await ask('/webhook/dev/public/t?x=1'), `308 https://${domain}/webhook/dev/public/t?x=1`);
    assert.equal(await ask('/webhook/dev/public/t', { method: 'POST' }), '404 ');
    assert.equal(await ask('/', {}, 'evil.example.net'), '404 ');
    const client = await headgate.client(t);
    await client.query(`CREATE TABLE t (data JSONB) WITH (connector = 'webhook')`);
    assert.equal(await posts(t, headgate, await pebble.root()), '{"rows":1}200');
  });

  test('a certificate is renewed in time, and stays in use while the authority is away', async (t) => {
    const port = await freePort();
    const pebble = await startPebble(t, { tlsPort: port, seconds: 45 });
    const headgate = await startHeadgate(t, settings(pebble, port));
    const first = await certified(port);
    const second = await certified(port, first);
    await pebble.stop();
    await within(60_000, async () => assert.equal((await standing(headgate)).state, 'waiting'));
    assert.match(
      (await standing(headgate)).reason ?? '',
      /^the authority was not reached: 127\.0\.0\.1: connect ECONNREFUSED/,
    );
    assert.equal((await shown(port)).serialNumber, second);
    assert.equal(lines(headgate, 'certificate.failed').length, 1);
    assert.equal((await fetch(`${headgate.adminUrl}/readyz`)).status, 200);
    // Another authority at the same place, which has never heard of the account.
    await pebble.start();
    headgate.child.kill('SIGHUP');
    await certified(port, second);
  });

  test('a domain at another address gets no certificate and is named in the reason', async (t) => {
    const port = await freePort();
    const pebble = await startPebble(t, { tlsPort: port });
    await pebble.at('elsewhere.example.com', '127.0.0.9');
    const more = { HEADGATE_LISTEN_ACME_DOMAIN: `${domain},elsewhere.example.com` };
    const headgate = await startHeadgate(t, settings(pebble, port, more));
    await within(60_000, async () => assert.equal((await standing(headgate)).state, 'waiting'));
    const { failures, reason, validUntil } = await standing(headgate);
    assert.deepEqual([failures, validUntil], [1, null]);
    assert.match(reason ?? '', /^elsewhere\.example\.com: unauthorized: Failed to connect to 127\.0\.0\.9/);
    // Until there is one, what is shown has expired long ago, so that nobody trusts it.
    assert.equal((await shown(port)).subject.CN, 'Headgate has no certificate yet');
    assert.equal(lines(headgate, 'tls.doubtful').length, 1);

    // Its owner has put the name right, and does not wait.
    await pebble.at('elsewhere.example.com', '127.0.0.1');
    headgate.child.kill('SIGHUP');
    await certified(port);
    assert.match((await shown(port)).subjectaltname ?? '', /DNS:elsewhere\.example\.com/);
  });

  test('a domain that the authority rejects is reported with the words of the authority', async (t) => {
    const port = await freePort();
    const pebble = await startPebble(t, { tlsPort: port });
    const more = { HEADGATE_LISTEN_ACME_DOMAIN: 'blocked.example.com' };
    const headgate = await startHeadgate(t, settings(pebble, port, more));
    await within(60_000, async () => assert.equal((await standing(headgate)).failures, 1));
    assert.match((await standing(headgate)).reason ?? '', /^the authority refused: rejectedIdentifier: /);
  });

  test('a listener that requires client certificates still obtains its own from the authority', async (t) => {
    const port = await freePort();
    const pebble = await startPebble(t, { tlsPort: port });
    const own = makeAuthority(await temporaryFolder(t));
    const more = { HEADGATE_LISTEN_TLS_CLIENT_CA: own.cert };
    const headgate = await startHeadgate(t, settings(pebble, port, more));
    await within(60_000, async () => assert.equal((await standing(headgate)).state, 'valid'));
    const { cert, key } = own.issue('client', 'client');
    const mine = { cert: readFileSync(cert), key: readFileSync(key) };
    assert.match((await shown(port, mine)).subjectaltname ?? '', new RegExp(`DNS:${domain}`));
    const client = await headgate.client(t);
    await client.query(`CREATE TABLE t (data JSONB) WITH (connector = 'webhook')`);
    assert.match(await posts(t, headgate, await pebble.root()), /^000.*certificate required/i);
  });

  test('an authority with external accounts issues a certificate with the key of an account only', async (t) => {
    const port = await freePort();
    const key = randomBytes(32).toString('base64url');
    const pebble = await startPebble(t, { tlsPort: port, accounts: { mine: key } });
    const headgate = await startHeadgate(t, settings(pebble, port));
    await within(60_000, async () => assert.equal((await standing(headgate)).failures, 1));
    assert.match((await standing(headgate)).reason ?? '', /set HEADGATE_LISTEN_ACME_EAB_ID$/);
    await headgate.signal('SIGTERM');
    const account = { HEADGATE_LISTEN_ACME_EAB_ID: 'mine', HEADGATE_LISTEN_ACME_EAB_KEY: key };
    const other = await spawnHeadgate(t, settings(pebble, port, account));
    await other.ready();
    await certified(port);
  });

  test('of two Headgates on one database one requests a certificate, both serve it, and either can renew it', async (t) => {
    const [balanced, a, b] = [await freePort(), await freePort(), await freePort()];
    const pebble = await startPebble(t, { tlsPort: balanced, seconds: 120 });
    // The authority comes to one of them alone, the other one asks first.
    const balancer = createServer((socket) => {
      const to = connectTcp(b, '127.0.0.1');
      socket.on('error', () => to.destroy());
      to.on('error', () => socket.destroy());
      socket.pipe(to).pipe(socket);
    }).listen(balanced, '127.0.0.1');
    await once(balancer, 'listening');
    onEnd(t, 'balancer', () => void balancer.close());
    const database = await testDatabase(t);
    const more = {
      HEADGATE_DATABASE_URL: database.connectionString,
      HEADGATE_MASTER_KEY: randomBytes(32).toString('base64'),
    };
    const first = await startHeadgate(t, settings(pebble, a, more));
    await within(10_000, async () => assert.equal(lines(first, 'certificate.asked').length, 1));
    const second = await startHeadgate(t, settings(pebble, b, more));
    const serial = await certified(a);
    await within(10_000, async () => assert.equal(await certified(b), serial));
    assert.equal(lines(first, 'certificate.made').length, 1);
    assert.equal(lines(second, 'certificate.asked').length, 0);

    const client = await database.connect();
    const { rows } = await client.query<{ sealed: string }>('select sealed from headgate.acme');
    assert.equal(rows.length, 1);
    assert(!Buffer.from(rows[0]?.sealed ?? '', 'base64').includes('PRIVATE KEY'));

    // The one that asked is gone in the middle of its life: the other one renews.
    await first.signal('SIGKILL');
    await within(120_000, async () => assert.notEqual((await shown(b)).serialNumber, serial));
    assert.equal(lines(second, 'certificate.made').length, 1);
  });
});
