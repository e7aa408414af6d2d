/** FusionAuth. */
import { unverified } from '../evidence.ts';
import { createHash } from 'node:crypto';
import { header } from '../expressions.ts';
import { type Sender, sender } from '../sender.ts';
import { hs256, token, uuid } from '../signing.ts';

export const fusionauth: Sender = sender('A public key', {
  id: 'fusionauth',
  name: 'FusionAuth',
  headers: ['X-FusionAuth-Signature-JWT'],
  secret: {
    what: 'the signing key: the text of an HMAC key, or a public key in PEM',
    where: 'Settings → Key Master',
  },
  delivery: unverified({ fields: [['event', 'id']] }),
  steps: [
    'Open Settings → Webhooks → Add with the URL of the table.',
    'Under Security, switch “Sign events” on and choose the key.',
  ],
  expression: (s) =>
    `secure_compare(jwt_verify(${header('X-FusionAuth-Signature-JWT')}, ${s})->>'request_body_sha256',\n  ` +
    `encode(sha256(payload), 'base64'))`,
  sign: ({ body, signingKey }) => {
    const claims = { request_body_sha256: createHash('sha256').update(body).digest('base64') };
    return {
      headers: {
        'X-FusionAuth-Signature-JWT': token({ alg: 'HS256', typ: 'JWT' }, claims, hs256(signingKey)),
      },
    };
  },
  example: ({ id, nowMs }) => ({
    event: { id: uuid(id), type: 'user.create', createInstant: nowMs, user: { email: 'zoe@example.com' } },
  }),
});
