import assert from 'node:assert/strict';
import { createHash, X509Certificate } from 'node:crypto';
import { spawnSync } from 'node:child_process';
import { suite, test } from 'node:test';
import { requireTool } from '../../test/support/tools.ts';
import {
  certificateRequest,
  chainOf,
  challengeCertificate,
  newKey,
  placeholder,
  integer,
  oid,
  octets,
  sequence,
  time,
} from './certificates.ts';
import { nothing, parseState, renewalMs } from './certificate-state.ts';

const nowMs = Date.parse('2026-03-04T05:06:07Z');

suite('DER values have the encoding of X.690', () => {
  test('DER values are encoded as X.690 specifies', () => {
    assert.equal(oid('1.2.840.10045.4.3.2').toString('hex'), '06082a8648ce3d040302');
    assert.equal(integer(2).toString('hex'), '020102');
    assert.equal(time(nowMs).toString('latin1'), '\x17\x0d260304050607Z');
    for (const [length, head] of [
      [127, '047f'],
      [128, '048180'],
      [255, '0481ff'],
      [256, '04820100'],
      [65_536, '0483010000'],
    ] as const)
      assert.equal(octets(Buffer.alloc(length)).toString('hex').slice(0, head.length), head);
    assert.equal(sequence(integer(0)).toString('hex'), '3003020100');
  });
});

suite('certificate requests and certificates are made and checked', () => {
  test('a certificate request holds the names and proves the key, as openssl reads it', (t) => {
    if (requireTool(t, 'openssl') === null) return;
    const names = ['hooks.example.com', 'b.example.com'];
    const request = certificateRequest(names, newKey());
    const args = ['req', '-inform', 'DER', '-verify', '-noout', '-text'];
    const { stdout, stderr, status } = spawnSync('openssl', args, { input: request, encoding: 'utf8' });
    assert.equal(status, 0, stderr);
    assert.match(`${stdout}${stderr}`, /self-signature verify OK/i);
    assert.match(stdout, /DNS:hooks\.example\.com, DNS:b\.example\.com/);
    assert.match(stdout, /ecdsa-with-SHA256/);
  });

  test('the TLS-ALPN-01 certificate has the name and the digest of the challenge in a critical extension', () => {
    const { chain, key } = challengeCertificate('hooks.example.com', 'token.thumb', nowMs);
    const certificate = new X509Certificate(chain);
    assert.equal(certificate.subjectAltName, 'DNS:hooks.example.com');
    assert(certificate.verify(certificate.publicKey));
    assert(certificate.raw.includes(createHash('sha256').update('token.thumb').digest()));
    assert(certificate.raw.includes(Buffer.from('06082b0601050507011f0101ff0422', 'hex')));
    assert(!chain.includes(key));
  });

  test('the placeholder certificate served before the first issuance has expired', () => {
    const { chain } = placeholder(nowMs);
    assert(Date.parse(new X509Certificate(chain).validTo) < nowMs);
  });

  test('an issued certificate chain is accepted only if it matches the key, the names and the date', () => {
    const { chain, key } = challengeCertificate('a.example.com', 'x', nowMs);
    const of = (answer: string, domains = ['a.example.com'], at = nowMs, whose = key) =>
      chainOf(answer, domains, whose, at);
    assert.equal(of(`${key}rubbish\n${chain}`), chain);
    assert.throws(() => of(chain, ['a.example.com', 'b.example.com']), /not for b\.example\.com/);
    assert.throws(() => of(chain, undefined, nowMs + 3_600_000), /has expired/);
    assert.throws(() => of(chain, undefined, nowMs, newKey()), /another key/);
    assert.throws(() => of(''), /0 certificates came/);
    assert.throws(() => of(chain.repeat(9)), /9 certificates came/);
    const broken = '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n';
    assert.throws(() => of(broken), /no certificate/);
    assert.throws(() => of(`${chain}${broken}`), /no certificate/);
  });
});

suite('the certificate state is stored, read back and renewed in time', () => {
  test('stored certificate state is read back, and unreadable state counts as none', () => {
    const certificate = challengeCertificate('a.example.com', 'x', nowMs);
    const state = { ...nothing, account: newKey(), certificate, failures: 2, reason: 'no' };
    assert.deepEqual(parseState(JSON.stringify(state)), state);
    for (const text of [
      '',
      'null',
      '[]x',
      JSON.stringify({ ...state, certificate: { chain: 'x', key: '' } }),
    ])
      assert.deepEqual(parseState(text), nothing);
  });

  test('a certificate is renewed with a third of its lifetime left, or up to a thirtieth earlier', () => {
    const certificate = challengeCertificate('a.example.com', 'x', nowMs);
    const minutes = (spread: number) => (renewalMs(certificate, spread) - nowMs) / 60_000;
    assert.deepEqual(
      [0, 1].map((spread) => Math.round(minutes(spread) * 1_000)),
      [3_333, 3_167],
    );
  });
});
