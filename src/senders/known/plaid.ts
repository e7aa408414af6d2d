/** Plaid. */
import { report } from '../evidence.ts';
import { createHash, createPublicKey } from 'node:crypto';
import { fresh, header } from '../expressions.ts';
import { forms } from '../secret-forms.ts';
import { type Sender, sender } from '../sender.ts';
import { es256, p256Pair, privateKey, privateText, token, uuid } from '../signing.ts';

/** Identifies a key pair: the same for its private and its public part. */
function keyId(key: ReturnType<typeof privateKey>): string {
  const spki = (key.type === 'private' ? createPublicKey(key) : key).export({ format: 'der', type: 'spki' });
  return uuid(createHash('sha256').update(spki).digest('hex'));
}

export const plaid: Sender = sender('A public key', {
  id: 'plaid',
  secretForm: forms.jwk,
  name: 'Plaid',
  toleranceS: 300,
  headers: ['Plaid-Verification'],
  secret: {
    what: 'the verification key as a JWK, or a JWK set `{"keys": [ … ]}`',
    where: 'the API’s `/webhook_verification_key/get`, with the `kid` of a delivery’s token',
  },
  evidence: { signature: report('its documented scheme, signed with the package jose') },
  steps: ['Pass the URL of the table as `webhook` when you create a link token or an item.'],
  notes: [
    'Plaid changes its keys: keep a JWK set with the old and the new one in the secret, and `ALTER SECRET` in time.',
  ],
  expression: (s) => {
    const claims = `jwt_verify(${header('Plaid-Verification')}, ${s})`;
    return (
      `secure_compare(${claims}->>'request_body_sha256', encode(sha256(payload), 'hex'))\n` +
      `  AND ${fresh(`${claims}->>'iat'`, 300)}`
    );
  },
  sign: ({ body, nowMs, signingKey }) => {
    const key = privateKey(signingKey);
    const claims = {
      iat: Math.floor(nowMs / 1000),
      request_body_sha256: createHash('sha256').update(body).digest('hex'),
    };
    return {
      headers: {
        'Plaid-Verification': token({ alg: 'ES256', kid: keyId(key), typ: 'JWT' }, claims, es256(key)),
      },
    };
  },
  paired: true,
  makeSecret: () => {
    const pair = p256Pair();
    const jwk = {
      ...pair.publicKey.export({ format: 'jwk' }),
      kid: keyId(pair.publicKey),
      alg: 'ES256',
      use: 'sig',
    };
    return { secret: JSON.stringify(jwk), signingKey: privateText(pair.privateKey) };
  },
  example: ({ id }) => ({
    webhook_type: 'TRANSACTIONS',
    webhook_code: 'SYNC_UPDATES_AVAILABLE',
    item_id: id,
    environment: 'production',
  }),
});
