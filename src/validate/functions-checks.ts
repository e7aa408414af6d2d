/** The checks: what makes a request trusted. */
import { equalTo, secureCompare, secureCompareAny } from './constant-time.ts';
import { encodedHmac, hashName, hmac, preparedHmac } from './functions-digests.ts';
import { tokenKeys, verifyToken } from './jwt.ts';
import { ecdsaKey, ed25519Key, rsaKey, verifyEcdsa, verifyEd25519, verifyRsa, verifyRsaPss } from './keys.ts';
import { type Implementation, type FunctionRow, functionsOf } from './function-table.ts';
import { type Value } from './types.ts';

const fn = functionsOf('checks');

/** A side that is the same for every request is prepared once. */
function preparedCompare([left, right]: readonly (Value | undefined)[]): Implementation | null {
  const expected = left ?? right;
  if (typeof expected !== 'string') return null;
  const isSame = equalTo(expected);
  const isEmpty = expected === '';
  return (a, b) => isSame((typeof left === 'string' ? b : a) as string) && !isEmpty;
}

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

const hmacDoc =
  'The HMAC of the bytes; md5, sha1, sha224, sha256, sha384 or sha512. The key comes first and must not be empty.';

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

export const checkRows: readonly FunctionRow[] = [
  fn(
    'secure_compare',
    ['text', 'text'],
    'bool',
    secureCompare,
    'Equality in constant time. Two empty texts are not equal.',
    { role: 'compare', specialise: preparedCompare },
  ),
  fn(
    'secure_compare_any',
    ['text', 'text[]'],
    'bool',
    secureCompareAny,
    'Whether the text equals any item, in constant time.',
    { role: 'compareAny' },
  ),
  fn('hmac', ['text', 'bytea', 'text'], 'bytea', hmac, hmacDoc, {
    role: 'mac',
    specialise: preparedHmac,
    encoded: encodedHmac,
  }),
  fn('hmac', ['bytea', 'bytea', 'text'], 'bytea', hmac, hmacDoc, {
    role: 'mac',
    specialise: preparedHmac,
    encoded: encodedHmac,
  }),
  fn(
    'header_values',
    ['text'],
    'text[]',
    // A node of its own reads the request (typing.ts).
    () => null,
    "All values of the header of that name, which is a constant in lower case, in their order; NULL if there is none. For senders that repeat a header: `secure_compare_any(…, header_values('x-signature'))`.",
    { role: 'header' },
  ),
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
    // A node whose keys are fetched (compile.ts).
    () => null,
    "`jwks_key('https://…', kid)`: the public key (SPKI) of that name among [the keys that an issuer publishes](#a-signature-by-a-published-key), for the functions that verify a signature; NULL if there is none. The URL is a constant.",
    { role: 'published', stable: true, size: () => ({ base: 2_048, body: 0 }) },
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
    // A node whose keys are fetched (compile.ts).
    () => null,
    "`jwt_verify(token, jwks => 'https://…', issuer => '…', audience => '…')`: the claims of a JSON Web Token that verifies with [the keys that its issuer publishes](#keys-of-an-issuer), has this `iss`, this `aud` (or a list with it) and an `exp`, and is neither expired nor early; otherwise NULL. The three are constants.",
    {
      role: 'issued',
      clock: true,
      size: ([token]) => ({ base: (token?.base ?? 0) * 2, body: token?.body ?? 0 }),
    },
  ),
];
