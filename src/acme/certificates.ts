/**
 * Keys, requests for certificates, certificates that Headgate signs itself, and whether an authority's answer is what it
 * was asked for; first the part of DER (X.690) that they need. Takes names and keys; returns PEM, or the problem in one line. Pure except for the
 * randomness of keys.
 */
import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  sign,
  X509Certificate,
} from 'node:crypto';
import { limits } from '../config/limits.ts';

/** Tag, length and content. */
function der(tag: number, ...parts: readonly Buffer[]): Buffer {
  const content = Buffer.concat(parts);
  return Buffer.concat([Buffer.from([tag]), lengthOf(content.length), content]);
}

export const sequence = (...parts: readonly Buffer[]): Buffer => der(0x30, ...parts);
const set = (...parts: readonly Buffer[]): Buffer => der(0x31, ...parts);
export const octets = (content: Buffer): Buffer => der(0x04, content);
/** For whole bytes. */
const bits = (content: Buffer): Buffer => der(0x03, Buffer.of(0), content);
export const integer = (value: number): Buffer => der(0x02, Buffer.of(value));
const utf8 = (text: string): Buffer => der(0x0c, Buffer.from(text, 'utf8'));
/** `[number] EXPLICIT`, or a constructed implicit one. */
const tagged = (number: number, ...parts: readonly Buffer[]): Buffer => der(0xa0 | number, ...parts);

/** For dates up to 2049, as in RFC 5280. */
export function time(ms: number): Buffer {
  const digits = new Date(ms).toISOString().replaceAll(/[-:T]|\.\d+/g, '');
  return der(0x17, Buffer.from(digits.slice(2), 'latin1'));
}

export function oid(dotted: string): Buffer {
  const [first = 0, second = 0, ...others] = dotted.split('.').map(Number);
  return der(0x06, Buffer.from([first * 40 + second, ...others.flatMap(base128)]));
}

function base128(number: number): number[] {
  const bytes = [number & 0x7f];
  for (let left = number >>> 7; left > 0; left >>>= 7) bytes.unshift((left & 0x7f) | 0x80);
  return bytes;
}

function lengthOf(length: number): Buffer {
  if (length < 0x80) return Buffer.of(length);
  const bytes: number[] = [];
  for (let left = length; left > 0; left >>>= 8) bytes.unshift(left & 0xff);
  return Buffer.from([0x80 | bytes.length, ...bytes]);
}

export interface Certificate {
  /** The certificate, and those that lead to its authority (PEM). */
  readonly chain: string;
  readonly key: string;
}

/** PKCS #8, PEM: ECDSA on P-256, which every authority and every sender supports. */
export function newKey(): string {
  return generateKeyPairSync('ec', { namedCurve: 'P-256' })
    .privateKey.export({ type: 'pkcs8', format: 'pem' })
    .toString();
}

const ecdsaWithSha256 = sequence(oid('1.2.840.10045.4.3.2'));

/** PKCS #10, DER. It has the domains only as alternative names: an authority needs no subject. */
export function certificateRequest(domains: readonly string[], key: string): Buffer {
  const wanted = set(sequence(namesOf(domains)));
  return signed(
    sequence(
      integer(0),
      sequence(),
      publicPart(key),
      tagged(0, sequence(oid('1.2.840.113549.1.9.14'), wanted)),
    ),
    key,
  );
}

/** What an authority that validates a domain over TLS is shown (RFC 8737 §3). */
export function challengeCertificate(domain: string, authorization: string, nowMs: number): Certificate {
  const digest = octets(createHash('sha256').update(authorization).digest());
  const asked = sequence(oid('1.3.6.1.5.5.7.1.31'), der(0x01, Buffer.of(0xff)), octets(digest));
  return selfSigned('ACME challenge', nowMs, nowMs + limits.acmeAttemptMs, [namesOf([domain]), asked]);
}

/** What is shown until an authority has issued a certificate: it has expired, so that whatever checks certificates reports a problem. */
export function placeholder(nowMs: number): Certificate {
  return selfSigned('Headgate has no certificate yet', nowMs - 2 * hourMs, nowMs - hourMs, []);
}

const hourMs = 3_600_000;

function selfSigned(
  name: string,
  fromMs: number,
  untilMs: number,
  extensions: readonly Buffer[],
): Certificate {
  const key = newKey();
  const called = sequence(set(sequence(oid('2.5.4.3'), utf8(name))));
  const certificate = signed(
    sequence(
      tagged(0, integer(2)),
      integer(1),
      ecdsaWithSha256,
      called,
      sequence(time(fromMs), time(untilMs)),
      called,
      publicPart(key),
      ...(extensions.length === 0 ? [] : [tagged(3, sequence(...extensions))]),
    ),
    key,
  );
  return { chain: new X509Certificate(certificate).toString(), key };
}

/** subjectAltName */
function namesOf(domains: readonly string[]): Buffer {
  const names = domains.map((domain) => der(0x82, Buffer.from(domain, 'latin1')));
  return sequence(oid('2.5.29.17'), octets(sequence(...names)));
}

function publicPart(key: string): Buffer {
  return createPublicKey(key).export({ type: 'spki', format: 'der' });
}

function signed(content: Buffer, key: string): Buffer {
  return sequence(content, ecdsaWithSha256, bits(sign('sha256', content, key)));
}

const blocks = /-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----/g;

/** The certificates of an authority's answer, and nothing else in it. Throws what is wrong with them. */
export function chainOf(answer: string, domains: readonly string[], key: string, nowMs: number): string {
  const found = answer.match(blocks) ?? [];
  if (found.length === 0 || found.length > limits.acmeChainMax)
    throw new Error(`${found.length} certificates came where one and its issuers were asked for`);
  const [own = '', ...issuers] = found;
  const certificate = readable(own);
  for (const issuer of issuers) readable(issuer);
  if (!certificate.checkPrivateKey(createPrivateKey(key)))
    throw new Error('the certificate is of another key');
  const missing = domains.find((domain) => certificate.checkHost(domain) === undefined);
  if (missing !== undefined) throw new Error(`the certificate is not for ${missing}`);
  if (Date.parse(certificate.validTo) <= nowMs) throw new Error('the certificate has expired');
  return `${found.join('\n')}\n`;
}

function readable(pem: string): X509Certificate {
  try {
    return new X509Certificate(pem);
  } catch {
    throw new Error('what came is no certificate');
  }
}
