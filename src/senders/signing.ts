/** The senders' side of the cryptography, using only node:crypto: nothing here is shared with the validate room. */
import { createHmac, createPrivateKey, generateKeyPairSync, sign } from 'node:crypto';
import type { KeyObject } from 'node:crypto';

type DigestEncoding = 'hex' | 'base64' | 'base64url';

/** The HMAC of the parts, one after the other. */
export function mac(
  algorithm: string,
  key: string | Buffer,
  encoding: DigestEncoding,
  ...parts: readonly (string | Buffer)[]
): string {
  const hmac = createHmac(algorithm, key);
  for (const part of parts) hmac.update(part);
  return hmac.digest(encoding);
}

/** PKCS #8 in base64 (one line), or PEM. */
export function privateKey(text: string): KeyObject {
  if (text.includes('-----BEGIN ')) return createPrivateKey(text);
  return createPrivateKey({ key: Buffer.from(text, 'base64'), format: 'der', type: 'pkcs8' });
}

export function privateText(key: KeyObject): string {
  return key.export({ format: 'der', type: 'pkcs8' }).toString('base64');
}

export function ed25519Pair() {
  return generateKeyPairSync('ed25519');
}

/** The 32 bytes of an Ed25519 public key. */
export function rawPublic(key: KeyObject): Buffer {
  return key.export({ format: 'der', type: 'spki' }).subarray(-32);
}

export function p256Pair() {
  return generateKeyPairSync('ec', { namedCurve: 'P-256' });
}

export function rsaPair() {
  return generateKeyPairSync('rsa', { modulusLength: 2048 });
}

export function publicPem(key: KeyObject): string {
  return key.export({ format: 'pem', type: 'spki' }).toString();
}

/** A JSON Web Token; `signer` takes the text to sign and returns the signature. */
export function token(header: object, claims: object, signer: (signed: string) => Buffer): string {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const signed = `${part(header)}.${part(claims)}`;
  return `${signed}.${signer(signed).toString('base64url')}`;
}

export function hs256(key: string): (signed: string) => Buffer {
  return (signed) => createHmac('sha256', key).update(signed).digest();
}

export function es256(key: KeyObject): (signed: string) => Buffer {
  return (signed) => sign('sha256', Buffer.from(signed), { key, dsaEncoding: 'ieee-p1363' });
}

export const seconds = (ms: number): string => String(Math.floor(ms / 1000));
export const isoTime = (ms: number): string => new Date(ms).toISOString();
/** In the form that many senders use: without milliseconds. */
export const isoSeconds = (ms: number): string => isoTime(ms).replace(/\.\d+Z$/, 'Z');
/** false: the id of a delivery that is sent again, in the sender's own form. */
export const isDrawn = (id: string): boolean => /^[0-9a-f]{32}$/.test(id);
/** A drawn id in the form of a UUID. */
export const uuid = (id: string): string =>
  !isDrawn(id)
    ? id
    : `${id.slice(0, 8)}-${id.slice(8, 12)}-4${id.slice(13, 16)}-8${id.slice(17, 20)}-${id.slice(20, 32)}`;
/** A number derived from the id that a double represents exactly. */
export const numeric = (id: string): number => Number.parseInt(id.slice(0, 12), 16);

/** An RSA key pair: the public part in PEM is the secret. */
export const rsaSecret = () => {
  const pair = rsaPair();
  return { secret: publicPem(pair.publicKey), signingKey: privateText(pair.privateKey) };
};
