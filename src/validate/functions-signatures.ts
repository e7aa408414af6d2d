/** The checks by a public key: signatures, and JSON Web Tokens. */
import { EvaluationError, ExpressionError } from './errors.ts';
import { type Implementation, type FunctionRow, functionsOf } from './function-table.ts';
import { hashName } from './functions-digests.ts';
import { publishedKey, tokenKeys, verifyIssuedToken, verifyToken } from './jwt.ts';
import { ecdsaKey, ed25519Key, rsaKey, verifyEcdsa, verifyEd25519, verifyRsa, verifyRsaPss } from './keys.ts';
import type { Node } from './node.ts';
import { type Value } from './types.ts';

const fn = functionsOf('checks');

/** Prepares a verification whose key is the same for every request: it is parsed once. */
function withKey<K>(
  parse: (text: never) => K,
  use: (key: K, args: Value[]) => Value,
  keyAt: number,
): (known: readonly (Value | undefined)[]) => Implementation | null {
  return (known) => {
    const text = known[keyAt];
    if (text === undefined || text === null) return null;
    const key = parse(text as never);
    return (...args) => use(key, args);
  };
}

/** RSA has two signature schemes. */
const rsaVerify = (name: string, key: 'text' | 'bytea', verify: typeof verifyRsa, doc: string): FunctionRow =>
  fn(
    name,
    [key, 'bytea', 'bytea', 'text'],
    'bool',
    (key, message, signature, hash) => verify(rsaKey(key), message, signature, hashName(hash)),
    doc,
    {
      role: 'verify',
      specialise: withKey(
        rsaKey,
        (key, a) => verify(key, a[1] as Buffer, a[2] as Buffer, hashName(a[3] as string)),
        0,
      ),
    },
  );

function nothingFetched(): never {
  throw new EvaluationError('0A000', 'no keys are fetched here');
}

export const signatureRows: readonly FunctionRow[] = [
  fn(
    'ed25519_verify',
    ['bytea', 'bytea', 'bytea'],
    'bool',
    (key, message, signature) => verifyEd25519(ed25519Key(key), message, signature),
    'Whether the signature of the message was made with the private part of the key (32 bytes, or SPKI).',
    {
      role: 'verify',
      specialise: withKey(ed25519Key, (key, a) => verifyEd25519(key, a[1] as Buffer, a[2] as Buffer), 0),
    },
  ),
  fn(
    'ecdsa_verify',
    ['bytea', 'bytea', 'bytea', 'text'],
    'bool',
    (key, message, signature, hash) => verifyEcdsa(ecdsaKey(key), message, signature, hashName(hash)),
    'ECDSA: key (SPKI, DER), message, signature (DER), hash.',
    {
      role: 'verify',
      specialise: withKey(
        ecdsaKey,
        (key, a) => verifyEcdsa(key, a[1] as Buffer, a[2] as Buffer, hashName(a[3] as string)),
        0,
      ),
    },
  ),
  rsaVerify(
    'rsa_verify',
    'text',
    verifyRsa,
    'RSA PKCS #1 v1.5: public key or certificate (PEM), message, signature, hash.',
  ),
  rsaVerify('rsa_verify', 'bytea', verifyRsa, 'The same with the bytes of a public key (SPKI).'),
  rsaVerify(
    'rsa_pss_verify',
    'text',
    verifyRsaPss,
    'RSASSA-PSS with a salt as long as the hash; otherwise like rsa_verify.',
  ),
  rsaVerify('rsa_pss_verify', 'bytea', verifyRsaPss, 'The same with the bytes of a public key (SPKI).'),
  fn(
    'jwks_key',
    ['text', 'text'],
    'bytea',
    nothingFetched,
    "`jwks_key('https://…', kid)`: the public key (SPKI) of that name among [the keys that an issuer publishes](#a-signature-by-a-published-key), for the functions that verify a signature; NULL if there is none. The URL is a constant.",
    {
      role: 'published',
      stable: true,
      size: () => ({ base: 2_048, body: 0 }),
      withKeysAt: ([url], keysAt) => {
        const keys = keysAt(url as string);
        return (_, kid) => publishedKey(kid as string, keys);
      },
    },
  ),
  fn(
    'jwt_verify',
    ['text', 'text'],
    'jsonb',
    // The compiler adds the time of arrival (`clock`).
    ((token: string, key: string, now: bigint) =>
      verifyToken(token, tokenKeys(key), Number(now) / 1e6)) as never,
    'The claims of a JSON Web Token that verifies and is neither expired nor early, otherwise NULL. The key is an HMAC key as text, a PEM, a JWK or a JWK set; it decides the algorithm. Public keys in another form are refused.',
    {
      role: 'token',
      clock: true,
      specialise: withKey(tokenKeys, (keys, a) => verifyToken(a[0] as string, keys, Number(a[2]) / 1e6), 1),
      size: ([token]) => ({ base: (token?.base ?? 0) * 2, body: token?.body ?? 0 }),
    },
  ),
  fn(
    'jwt_verify',
    ['text', 'text', 'text', 'text'],
    'jsonb',
    nothingFetched,
    "`jwt_verify(token, jwks => 'https://…', issuer => '…', audience => '…')`: the claims of a JSON Web Token that verifies with [the keys that its issuer publishes](#keys-of-an-issuer), has this `iss`, this `aud` (or a list with it) and an `exp`, and is neither expired nor early; otherwise NULL. The three are constants.",
    {
      role: 'issued',
      clock: true,
      withKeysAt: ([, url, issuer, audience], keysAt) => {
        const keys = keysAt(url as string);
        const issued = { issuer: issuer as string, audience: audience as string };
        return (...[token, , , , now]) => verifyIssuedToken(token as string, keys, issued, Number(now) / 1e6);
      },
      size: ([token]) => ({ base: (token?.base ?? 0) * 2, body: token?.body ?? 0 }),
    },
  ),
];

/** Whoever sends a token must not choose whose keys it is checked with: the URL of the keys, the issuer and the audience are constants. */
export function refuseUnpinned({ name: called, role }: FunctionRow, given: readonly Node[]): void {
  const args = role === 'issued' ? given.slice(1) : given.slice(0, 1);
  for (const [index, name] of ['jwks', 'issuer', 'audience'].slice(0, args.length).entries()) {
    const arg = args[index];
    if (arg?.kind !== 'constant' || typeof arg.value !== 'string' || arg.value === '')
      throw new ExpressionError('0A000', `${name} must be a constant in ${called}()`, arg?.at ?? null);
    if (name === 'jwks' && !/^https?:\/\/[!-~]{1,2048}$/.test(arg.value))
      throw new ExpressionError('22023', `jwks must be a URL in ${called}()`, arg.at);
  }
}
