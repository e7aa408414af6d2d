/** Public keys, and signatures made with the private ones, using node:crypto. An invalid key raises an error. */
import { type KeyObject, constants, createPublicKey, verify } from 'node:crypto';
import { EvaluationError } from './errors.ts';

const ed25519Prefix = Buffer.from('302a300506032b6570032100', 'hex');

function parsed(what: string, type: string, parse: () => KeyObject): KeyObject {
  let key: KeyObject;
  try {
    key = parse();
  } catch {
    throw new EvaluationError('22023', `the key is no ${what}`);
  }
  if (key.asymmetricKeyType !== type) throw new EvaluationError('22023', `the key is no ${what}`);
  return key;
}

/** 32 raw bytes, or the SPKI form in DER. */
export function ed25519Key(bytes: Buffer): KeyObject {
  const der = bytes.length === 32 ? Buffer.concat([ed25519Prefix, bytes]) : bytes;
  return parsed('Ed25519 public key', 'ed25519', () =>
    createPublicKey({ key: der, format: 'der', type: 'spki' }),
  );
}

export function ecdsaKey(spki: Buffer): KeyObject {
  return parsed('ECDSA public key (SPKI, DER)', 'ec', () =>
    createPublicKey({ key: spki, format: 'der', type: 'spki' }),
  );
}

/** A public key or a certificate in PEM. */
/** PEM, or the bytes of SPKI. */
export function rsaKey(key: string | Buffer): KeyObject {
  return parsed('RSA public key or certificate (PEM)', 'rsa', () =>
    createPublicKey(typeof key === 'string' ? { key, format: 'pem' } : { key, format: 'der', type: 'spki' }),
  );
}

export function verifyEd25519(key: KeyObject, message: Buffer, signature: Buffer): boolean {
  return signature.length === 64 && verify(null, message, key, signature);
}

/** `der`: the ASN.1 form that most senders use; `raw`: r followed by s, as in a JWT. */
export function verifyEcdsa(
  key: KeyObject,
  message: Buffer,
  signature: Buffer,
  hash: string,
  form: 'der' | 'raw' = 'der',
): boolean {
  return verify(hash, message, { key, dsaEncoding: form === 'der' ? 'der' : 'ieee-p1363' }, signature);
}

export function verifyRsa(key: KeyObject, message: Buffer, signature: Buffer, hash: string): boolean {
  return verify(hash, message, key, signature);
}

/** RSASSA-PSS with a salt as long as the digest, which is what signers use. */
export function verifyRsaPss(key: KeyObject, message: Buffer, signature: Buffer, hash: string): boolean {
  const { RSA_PKCS1_PSS_PADDING: padding, RSA_PSS_SALTLEN_DIGEST: saltLength } = constants;
  return verify(hash, message, { key, padding, saltLength }, signature);
}
