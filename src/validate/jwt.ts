/**
 * JSON Web Tokens (RFC 7519) in the compact form. The algorithms allowed follow from the key alone, never from the
 * token: text is an HMAC key, a PEM or JWK has its own type. A token that does not verify, is expired, not yet valid or
 * malformed is NULL.
 */
import {
  type KeyObject,
  X509Certificate,
  createHmac,
  createPublicKey,
  createSecretKey,
  timingSafeEqual,
} from 'node:crypto';
import { isUtf8 } from 'node:buffer';
import { limits } from '../config/limits.ts';
import { EvaluationError } from './errors.ts';
import { type JsonValue, parseJson } from './jsonb.ts';
import { verifyEcdsa, verifyEd25519, verifyRsa } from './keys.ts';

interface TokenKey {
  readonly id: string | null;
  readonly key: KeyObject;
  /** The only algorithm that it is for, as its set says; absent: what its type allows. */
  readonly algorithm?: string;
}

export type TokenKeys = readonly TokenKey[];

type JwtFields = Readonly<Record<string, unknown>>;

function isFields(value: unknown): value is JwtFields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function jwk(fields: JwtFields): TokenKey {
  const id = typeof fields.kid === 'string' ? fields.kid : null;
  if (fields.kty === 'oct' && typeof fields.k === 'string' && fields.k !== '') {
    return { id, key: createSecretKey(Buffer.from(fields.k, 'base64url')) };
  }
  return { id, key: createPublicKey({ key: fields as never, format: 'jwk' }) };
}

/**
 * PEM, a JWK, a JWK set (the token's `kid` selects the key), or otherwise the text itself as an HMAC key. A text that holds
 * public keys in any other form is refused: everybody knows it, so everybody could sign with it.
 */
export function tokenKeys(text: string): TokenKeys {
  try {
    if (text.includes('-----BEGIN '))
      return [{ id: null, key: createPublicKey({ key: text, format: 'pem' }) }];
    const fields: unknown = text.trimStart().startsWith('{') ? JSON.parse(text) : null;
    if (isFields(fields)) return Array.isArray(fields.keys) ? usable(fields.keys) : [jwk(fields)];
  } catch {
    throw noKey();
  }
  if (isJsonList(text) || isBarePublicKey(text)) throw noKey();
  if (text === '') throw new EvaluationError('22023', 'the key is empty');
  return [{ id: null, key: createSecretKey(Buffer.from(text, 'utf8')) }];
}

function noKey(): EvaluationError {
  return new EvaluationError('22023', 'the key is no public key (PEM), JWK or JWK set');
}

/** The keys of a set that can verify here; the others are ignored (RFC 7517, section 5). */
function usable(keys: readonly unknown[]): TokenKeys {
  const found = keys.filter(isFields).flatMap((fields) => {
    try {
      return [jwk(fields)];
    } catch {
      return [];
    }
  });
  if (found.length === 0) throw noKey();
  return found;
}

/** The keys of an issuer, which are fetched from the URL where it publishes them. */
export interface PublishedKeys {
  /** Those that were fetched last. Throws EvaluationError as long as there are none. */
  current(): TokenKeys;
  /** A token names a key that is not one of them. */
  missed(): void;
}

/** The keys of a set that anybody may read, and so may have no secret ones. Throws Error if it is no set, or has none that verifies here. */
export function publishedTokenKeys(text: string): TokenKeys {
  const { jwksKeysMax: keysMax, jwksRsaBitsMin: rsaBitsMin, jwksRsaBitsMax: rsaBitsMax } = limits;
  const fields: unknown = JSON.parse(text);
  if (!isFields(fields) || !Array.isArray(fields.keys)) throw new Error('it is no JWK set');
  if (fields.keys.length > keysMax) throw new Error(`it has more than ${keysMax} keys`);
  const found = fields.keys.filter(isFields).flatMap((one): TokenKey[] => {
    const { kty, use, key_ops: uses, alg } = one;
    if (kty === 'oct' || (use !== undefined && use !== 'sig')) return [];
    if (uses !== undefined && !(Array.isArray(uses) && uses.includes('verify'))) return [];
    try {
      const made = jwk(one);
      const bits = made.key.asymmetricKeyDetails?.modulusLength ?? rsaBitsMin;
      if (bits < rsaBitsMin || bits > rsaBitsMax) return [];
      return [typeof alg === 'string' ? { ...made, algorithm: alg } : made];
    } catch {
      return [];
    }
  });
  if (found.length === 0) throw new Error('it has no key that verifies signatures');
  return found;
}

/** For example the keys of a set without the set, or the certificates of an `x5c`. */
function isJsonList(text: string): boolean {
  if (!text.trimStart().startsWith('[')) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** The first byte of every key and certificate in DER. */
const derSequence = 0x30;

/** A public key or a certificate in base64, without the lines that make it PEM. */
function isBarePublicKey(text: string): boolean {
  if (!/^[A-Za-z0-9+/_=\s-]+$/.test(text)) return false;
  const der = Buffer.from(text, 'base64');
  if (der[0] !== derSequence) return false;
  const forms: readonly (() => unknown)[] = [
    () => createPublicKey({ key: der, format: 'der', type: 'spki' }),
    () => createPublicKey({ key: der, format: 'der', type: 'pkcs1' }),
    () => new X509Certificate(der),
  ];
  return forms.some((parse) => {
    try {
      parse();
      return true;
    } catch {
      return false;
    }
  });
}

/** The longest token that is examined, in characters. Those of the App Store contain chains of certificates, some 25,000. */
const tokenCharsMax = 64 * 1024;

const part = /^[A-Za-z0-9_-]+$/;

function fieldsOf(encoded: string): JwtFields | null {
  const bytes = Buffer.from(encoded, 'base64url');
  if (!isUtf8(bytes)) return null;
  try {
    const fields: unknown = JSON.parse(bytes.toString('utf8'));
    return isFields(fields) ? fields : null;
  } catch {
    return null;
  }
}

interface ReadToken {
  readonly header: JwtFields;
  readonly algorithm: string;
  readonly payload: string;
  readonly signed: Buffer;
  readonly signature: Buffer;
}

function readToken(token: string): ReadToken | null {
  const parts = token.length > tokenCharsMax ? [] : token.split('.');
  const [head = '', payload = '', signature = ''] = parts;
  if (parts.length !== 3 || !parts.every((text) => part.test(text))) return null;
  const header = fieldsOf(head);
  // An extension that must be understood (RFC 7515, 4.1.11) is not supported here.
  if (header === null || 'crit' in header || typeof header.alg !== 'string') return null;
  const bytes = Buffer.from(signature, 'base64url');
  // Two spellings of one signature would be two tokens.
  if (bytes.toString('base64url') !== signature) return null;
  const signed = Buffer.from(`${head}.${payload}`, 'latin1');
  return { header, algorithm: header.alg, payload, signed, signature: bytes };
}

function isSigned({ algorithm, signed, signature }: ReadToken, keys: TokenKeys): boolean {
  return keys.some(
    ({ key, algorithm: only = algorithm }) =>
      only === algorithm && verifies(key, algorithm, signed, signature),
  );
}

const claimsOf = ({ payload }: ReadToken) => parseJson(Buffer.from(payload, 'base64url').toString('utf8'));

/** The claims, or null. `nowSeconds`: since 1970. */
export function verifyToken(token: string, keys: TokenKeys, nowSeconds: number): JsonValue | null {
  const read = readToken(token);
  if (read === null) return null;
  const candidates =
    keys.length === 1 ? keys : keys.filter(({ id }) => id !== null && id === read.header.kid);
  if (!isSigned(read, candidates)) return null;
  const claims = fieldsOf(read.payload);
  return claims !== null && isCurrent(claims, nowSeconds) ? claimsOf(read) : null;
}

/** What a token must say besides: who has issued it, and for whom. */
export interface Issued {
  readonly issuer: string;
  readonly audience: string;
}

/**
 * The same for a token of an issuer that publishes its keys. Such keys sign for everybody who asks the issuer, so it must be meant for this audience, and it must
 * expire. Throws EvaluationError if the keys are not there.
 */
export function verifyIssuedToken(
  token: string,
  keys: PublishedKeys,
  { issuer, audience }: Issued,
  nowSeconds: number,
): JsonValue | null {
  const read = readToken(token);
  const claims = read === null ? null : fieldsOf(read.payload);
  if (read === null || claims === null || claims.exp === undefined || !isCurrent(claims, nowSeconds))
    return null;
  const { iss, aud } = claims;
  if (iss !== issuer || !(aud === audience || (Array.isArray(aud) && aud.includes(audience)))) return null;
  const all = keys.current();
  const { kid } = read.header;
  const candidates =
    kid === undefined && all.length === 1 ? all : all.filter(({ id }) => id !== null && id === kid);
  if (candidates.length === 0) keys.missed();
  return isSigned(read, candidates) ? claimsOf(read) : null;
}

/** The key of that name as SPKI (DER), or null. Throws EvaluationError if the keys are not there. */
export function publishedKey(name: string, keys: PublishedKeys): Buffer | null {
  const found = keys.current().find(({ id }) => id === name);
  if (found !== undefined) return found.key.export({ type: 'spki', format: 'der' });
  keys.missed();
  return null;
}

function isCurrent({ exp, nbf }: JwtFields, nowSeconds: number): boolean {
  if (exp !== undefined && !(typeof exp === 'number' && nowSeconds < exp)) return false;
  return nbf === undefined || (typeof nbf === 'number' && nowSeconds >= nbf);
}

const curveAlgorithms: Readonly<Record<string, string>> = {
  prime256v1: 'ES256',
  secp384r1: 'ES384',
  secp521r1: 'ES512',
};

function verifies(key: KeyObject, algorithm: string, signed: Buffer, signature: Buffer): boolean {
  const hash = `sha${algorithm.slice(2)}`;
  if (key.type === 'secret') {
    if (!/^HS(256|384|512)$/.test(algorithm)) return false;
    const mac = createHmac(hash, key).update(signed).digest();
    return mac.length === signature.length && timingSafeEqual(mac, signature);
  }
  switch (key.asymmetricKeyType) {
    case 'rsa':
      return /^RS(256|384|512)$/.test(algorithm) && verifyRsa(key, signed, signature, hash);
    case 'ec': {
      const expected = curveAlgorithms[key.asymmetricKeyDetails?.namedCurve ?? ''];
      return algorithm === expected && verifyEcdsa(key, signed, signature, hash, 'raw');
    }
    case 'ed25519':
      // RFC 9864 has given it a name of its own.
      return /^Ed(DSA|25519)$/.test(algorithm) && verifyEd25519(key, signed, signature);
    default:
      return false;
  }
}
