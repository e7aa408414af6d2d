import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { connect as connectTcp } from 'node:net';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { connect } from 'node:tls';
import type { ConnectionOptions } from 'node:tls';
import { TlsSource } from '../access/tls-source.ts';
import { createHttpDoor } from '../http/server.ts';
import { onEnd } from '../../test/support/cleanup.ts';
import { openChallengeDoor } from './challenge-server.ts';
import { challengeShower, ensureTlsFile, tlsFile, writeChallenges } from './folder-store.ts';

const challenge = {
  domain: 'a.example.com',
  token: 'token-of-sixteen',
  authorization: 'token-of-sixteen.thumb',
};

suite('the HTTP-01 port answers the questions of an ACME authority', () => {
  /** What is answered to these bytes. */
  const say = (port: number, bytes: string): Promise<string> =>
    new Promise((resolve) => {
      let text = '';
      const socket = connectTcp(port, '127.0.0.1', () => socket.write(bytes));
      socket.setEncoding('latin1').on('data', (part: string) => (text += part));
      socket.on('error', () => undefined);
      socket.on('close', () => resolve(text));
    });

  test('the HTTP-01 port serves exactly the expected challenge and nothing else', async (t) => {
    const { token, authorization } = challenge;
    const answer = (asked: string) => (asked === token ? authorization : null);
    const door = await openChallengeDoor({ host: '127.0.0.1', port: 0 }, ['a.example.com'], answer);
    onEnd(t, 'door', () => door.close());
    const ask = async (method: string, target: string, host = 'a.example.com') => {
      const text = await say(door.port, `${method} ${target} HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
      const [head = '', body = ''] = text.split('\r\n\r\n');
      const location = /^location: (.*)$/im.exec(head)?.[1];
      return [head.slice(9, 12), location ?? body];
    };
    const path = '/.well-known/acme-challenge/';
    assert.deepEqual(await ask('GET', `${path}${token}`), ['200', authorization]);
    assert.deepEqual(await ask('GET', `${path}${token}`, 'whoever.test'), ['200', authorization]);
    assert.deepEqual(await ask('HEAD', `${path}${token}`), ['200', '']);
    for (const wrong of [
      `${token}/`,
      `${token}?`,
      `${token}%20`,
      token.slice(1),
      `${token}x`,
      `../${token}`,
      '',
      '*',
    ])
      assert.deepEqual(await ask('GET', `${path}${wrong}`), ['404', ''], wrong);
    assert.deepEqual(await ask('POST', `${path}${token}`), ['404', '']);
    assert.deepEqual(await ask('GET', `/${path}${token}`), ['308', `https://a.example.com/${path}${token}`]);
    assert.deepEqual(await ask('GET', '/x?y=1', 'A.example.com:80'), ['308', 'https://a.example.com/x?y=1']);
    assert.deepEqual(await ask('POST', '/webhook/dev/public/t'), ['404', '']);
    for (const host of [
      'evil.test',
      'a.example.com.evil.test',
      'a.example.com@evil.test',
      '',
      'a.example.com:x',
    ])
      assert.deepEqual(await ask('GET', '/', host), ['404', ''], host);
    assert.deepEqual(await ask('GET', 'http://evil.test/'), ['404', '']);
    assert.deepEqual(await ask('OPTIONS', '*'), ['404', '']);
    assert.equal(await say(door.port, 'rubbish\r\n\r\n'), '');
    assert.equal(await say(door.port, `GET /${'x'.repeat(100_000)} HTTP/1.1\r\n\r\n`), '');
  });
});

suite('the listener answers TLS-ALPN-01 challenges of an ACME authority', () => {
  async function door(t: TestContext) {
    const folder = await mkdtemp(join(tmpdir(), 'headgate-acme-'));
    onEnd(t, 'folder', () => rm(folder, { recursive: true }));
    await ensureTlsFile(folder, Date.now());
    const file = tlsFile(folder);
    const files = { cert: file, key: file, clientCa: null, clientCert: 'required' } as const;
    const source = await TlsSource.open({
      door: 'listen',
      files,
      observe: () => undefined,
      challenge: challengeShower(folder),
    });
    const bounds = {
      headersBytesMax: 8_192,
      headersTimeoutMs: 5_000,
      requestTimeoutMs: 5_000,
      keepAliveTimeoutMs: 5_000,
    };
    const door = createHttpDoor({ ...bounds, connectionsMax: 100 }, source);
    let requests = 0;
    const { sockets } = door;
    door.connected((socket) => {
      requests += 1;
      socket.destroy();
    });
    await new Promise<void>((resolve) => sockets.listen(0, '127.0.0.1', resolve));
    onEnd(t, 'door', async () => {
      sockets.close();
      await source.close();
    });
    const { port } = sockets.address() as AddressInfo;
    const shown = (more: ConnectionOptions) =>
      new Promise<string>((resolve) => {
        const socket = connect({ port, host: '127.0.0.1', rejectUnauthorized: false, ...more }, () => {
          const { subject } = socket.getPeerCertificate();
          resolve(`${String(subject.CN)} ${String(socket.alpnProtocol)}`);
          socket.destroy();
        });
        socket.once('error', ({ message }) =>
          resolve(/no application protocol|disconnected before/i.test(message) ? 'refused' : message),
        );
      });
    return { folder, file, shown, requests: () => requests };
  }

  test('the TLS-ALPN-01 certificate is served only for its name and protocol, while the challenge is pending', async (t) => {
    const { folder, shown, requests } = await door(t);
    const ask = { servername: challenge.domain, ALPNProtocols: ['acme-tls/1'] };
    assert.equal(await shown(ask), 'refused');
    await writeChallenges(folder, [challenge]);
    for (const maxVersion of ['TLSv1.2', 'TLSv1.3'] as const)
      assert.equal(await shown({ ...ask, maxVersion }), 'ACME challenge acme-tls/1');
    assert.equal(await shown({ ...ask, servername: 'A.EXAMPLE.COM' }), 'ACME challenge acme-tls/1');
    assert.equal(requests(), 0, 'no request is read from it');
    const usual = 'Headgate has no certificate yet';
    for (const servername of ['b.example.com', 'example.com', '../acme', 'a.example.com.'])
      assert.equal(await shown({ ...ask, servername }), 'refused');
    assert.equal(await shown({ ...ask, servername: '' }), 'refused');
    assert.equal(await shown({ ...ask, ALPNProtocols: ['acme-tls/1', 'http/1.1'] }), `${usual} http/1.1`);
    assert.equal(await shown({ servername: challenge.domain }), `${usual} false`);
    await writeChallenges(folder, []);
    assert.equal(await shown(ask), 'refused');
    await writeFile(join(folder, 'acme', 'challenges.json'), '{"broken"');
    assert.equal(await shown(ask), 'refused');
  });

  test('the file of the ACME certificate is not made anew by a start, and only its owner may read it', async (t) => {
    const { folder, file } = await door(t);
    const before = await readFile(file, 'utf8');
    await ensureTlsFile(folder, Date.now());
    assert.equal(await readFile(file, 'utf8'), before);
    assert.equal((await stat(file)).mode & 0o777, 0o600);
    assert.equal((await stat(join(folder, 'acme'))).mode & 0o777, 0o700);
  });
});
