import assert from 'node:assert/strict';
import {
  copyFileSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { test } from 'node:test';
import { connect, createServer } from 'node:tls';
import { makeAuthority, replaceDated } from '../../test/support/certificates.ts';
import { onEnd } from '../../test/support/cleanup.ts';
import { Spy } from '../../test/support/postgres.ts';
import { requireTool } from '../../test/support/tools.ts';
import { GuardError, TlsSource } from './tls-source.ts';

function folderOf(t: TestContext): string | null {
  if (requireTool(t, 'openssl') === null) return null;
  const folder = mkdtempSync(join(tmpdir(), 'headgate-tls-'));
  onEnd(t, 'folder', () => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

test('a TLS source takes up changed certificate files by itself, as whole pairs only, also through links', async (t) => {
  const folder = folderOf(t);
  if (folder === null) return;
  const authority = makeAuthority(folder);
  const [first, second] = [
    authority.issue('first', 'first', { chain: true }),
    authority.issue('second', 'second'),
  ];
  const [cert, key] = [join(folder, 'tls.crt'), join(folder, 'tls.key')];
  // As an orchestrator mounts secrets: names that lead to files which are replaced as a whole.
  symlinkSync(first.cert, cert);
  symlinkSync(first.key, key);
  const spy = new Spy();
  const files = { cert, key, clientCa: null, clientCert: 'required' } as const;
  const source = await TlsSource.open({ door: 'test', files, observe: spy.observe, pollMs: 5 });
  onEnd(t, 'source', () => source.close());
  const server = createServer(source.serverOptions, (socket) => socket.end());
  source.serve(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onEnd(t, 'server', () => void server.close());
  const { port } = server.address() as { port: number };
  const shown = () =>
    new Promise((resolve, reject) => {
      const ca = readFileSync(authority.cert);
      const socket = connect({ port, host: '127.0.0.1', ca }, () => {
        resolve(socket.getPeerCertificate().subject.CN);
        socket.destroy();
      });
      socket.on('error', reject);
    });
  const relink = (link: string, to: string) => {
    unlinkSync(link);
    symlinkSync(to, link);
  };
  assert.equal(await shown(), 'first');
  assert.ok(spy.seen[0]?.kind === 'tls.loaded' && spy.seen[0].subject === 'CN=first');
  assert.ok(spy.seen[0].expiresAtMs > Date.now());

  let unusable = spy.next('tls.unusable');
  relink(cert, second.cert);
  assert.match((await unusable).reason, /tls\.key is not the key of the certificate in .*tls\.crt$/);
  assert.equal(await shown(), 'first');
  // Told once, however often it is looked at.
  await source.reload();
  const told = spy.seen.length;
  const loaded = spy.next('tls.loaded');
  relink(key, second.key);
  assert.equal((await loaded).subject, 'CN=second');
  assert.equal(spy.seen.length, told + 1);
  assert.equal(await shown(), 'second');

  unusable = spy.next('tls.unusable');
  writeFileSync(second.cert, readFileSync(second.cert).subarray(0, 100));
  assert.match((await unusable).reason, /contains no usable PEM/);
  unusable = spy.next('tls.unusable');
  unlinkSync(cert);
  assert.match((await unusable).reason, /cannot be read \(ENOENT\)/);
  assert.equal(await shown(), 'second');
});

test('a TLS source refuses unusable files when it opens, without quoting their content', async (t) => {
  const folder = folderOf(t);
  if (folder === null) return;
  const authority = makeAuthority(folder);
  const [pair, other] = [authority.issue('pair', 'pair'), authority.issue('other', 'other')];
  const noise = join(folder, 'noise');
  writeFileSync(noise, '-----BEGIN CERTIFICATE-----\nhunter2hunter2\n-----END CERTIFICATE-----\n');
  const swapped = join(folder, 'swapped');
  copyFileSync(pair.key, swapped);
  for (const [files, said] of [
    [{ ...pair, key: other.key }, /is not the key of/],
    [{ ...pair, cert: noise }, /noise contains no usable PEM/],
    [{ ...pair, key: noise }, /noise contains no usable PEM/],
    [{ ...pair, cert: swapped }, /swapped contains no usable PEM/],
    [{ ...pair, key: pair.cert }, /pair\.pem contains no usable PEM/],
    [{ ...pair, cert: folder }, /cannot be read \(EISDIR\)/],
    [{ ...pair, clientCa: noise }, /noise contains no usable PEM/],
  ] as const) {
    await assert.rejects(
      TlsSource.open({
        door: 'test',
        files: { clientCa: null, clientCert: 'required', ...files },
        observe: () => undefined,
      }),
      (error) => {
        assert.ok(error instanceof GuardError);
        assert.match(error.message, said);
        assert.doesNotMatch(error.message, /hunter2|\n/);
        return true;
      },
    );
  }
});

test('a TLS source warns of an invalid certificate and does not replace a valid one by it', async (t) => {
  const folder = folderOf(t);
  if (folder === null) return;
  const authority = makeAuthority(folder);
  const pair = authority.issue('server', 'server');
  const day = 24 * 60 * 60 * 1000;
  let nowMs = Date.now() + 60_000;
  const spy = new Spy();
  const told = () => spy.seen.flatMap((it) => (it.kind === 'tls.doubtful' ? [it.state] : []));
  const files = { ...pair, clientCa: null, clientCert: 'required' } as const;
  const open = async () => {
    const now = () => nowMs;
    const source = await TlsSource.open({ door: 'test', files, observe: spy.observe, pollMs: 5, now });
    onEnd(t, 'source', () => source.close());
    return source;
  };
  // Valid for two days.
  const source = await open();
  assert.deepEqual(told(), []);
  let doubtful = spy.next('tls.doubtful');
  nowMs += 1.5 * day;
  await doubtful;
  assert.deepEqual(told(), ['expires soon']);
  // It is read again and is what it was.
  await source.reload();
  assert.deepEqual(told(), ['expires soon', 'expires soon']);

  // What has expired, and what is not valid yet, stays where it is.
  const reasons = () => spy.seen.flatMap((it) => (it.kind === 'tls.unusable' ? [it.reason] : []));
  for (const [from, until, words] of [
    ['20200101000000Z', '20210101000000Z', /expired on 2021-01-01T00:00:00.000Z/],
    ['20990101000000Z', '20991231000000Z', /not valid before 2099-01-01/],
  ] as const) {
    const unusable = spy.next('tls.unusable');
    replaceDated(folder, pair, from, until);
    await unusable;
    assert.match(reasons().at(-1) ?? '', words);
  }
  // The day comes: nothing has changed but the time.
  const loaded = spy.next('tls.loaded');
  nowMs = Date.parse('2099-06-01');
  await loaded;
  // A start takes what there is.
  doubtful = spy.next('tls.doubtful');
  nowMs = Date.parse('2199-06-01');
  await open();
  await doubtful;
  assert.equal(told().at(-1), 'expired');
});

test('a TLS 1.2 client cannot renegotiate on an open connection', async (t) => {
  const folder = folderOf(t);
  if (folder === null) return;
  const { cert, key } = makeAuthority(folder).issue('one', 'one');
  const files = { cert, key, clientCa: null, clientCert: 'required' } as const;
  const source = await TlsSource.open({ door: 'test', files, observe: () => undefined, pollMs: 60_000 });
  onEnd(t, 'source', () => source.close());
  const server = createServer(source.serverOptions, (socket) => {
    socket.on('error', () => undefined).resume();
    onEnd(t, 'socket', () => void socket.destroy());
  });
  source.serve(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onEnd(t, 'server', () => void server.close());
  const { port } = server.address() as { port: number };
  const code = await new Promise<unknown>((resolve) => {
    const options = { port, host: '127.0.0.1', rejectUnauthorized: false, maxVersion: 'TLSv1.2' } as const;
    const socket = connect(options, () => {
      socket.renegotiate({ rejectUnauthorized: false }, (error) => {
        resolve((error as NodeJS.ErrnoException | null)?.code);
        socket.destroy();
      });
    });
    socket.on('error', ({ code: of }: NodeJS.ErrnoException) => resolve(of));
    onEnd(t, 'client', () => void socket.destroy());
  });
  assert.equal(code, 'ERR_SSL_NO_RENEGOTIATION');
});
