/** LiveKit. */
import { createHash } from 'node:crypto';
import { ran } from '../evidence.ts';
import { header } from '../expressions.ts';
import { type Sender, same, sender } from '../sender.ts';
import { hs256, token } from '../signing.ts';

export const livekit: Sender = sender('A public key', {
  id: 'livekit',
  name: 'LiveKit',
  headers: ['Authorization'],
  secret: { what: 'the secret of the API key that the webhook names', where: 'Settings → Keys' },
  makeSecret: (random) => same(random(32).toString('base64url')),
  evidence: { signature: ran('livekit-server-sdk') },
  steps: [
    'Open the project’s Settings → Webhooks → Create with the URL of the table and the signing key; on a server of yours, `webhook` in its configuration.',
  ],
  notes: [
    'The token’s `exp` is checked, and its `sha256` is compared with the body; its issuer, the API key, is not.',
  ],
  contentType: 'application/webhook+json',
  expression: (s) =>
    `secure_compare(jwt_verify(${header('Authorization')}, ${s})->>'sha256', encode(sha256(payload), 'base64'))`,
  sign: ({ body, nowMs, signingKey }) => {
    const issued = Math.floor(nowMs / 1000);
    const claims = {
      iss: 'APIaBcDeFgHiJk',
      nbf: issued,
      exp: issued + 300,
      sha256: createHash('sha256').update(body).digest('base64'),
    };
    return { headers: { Authorization: token({ alg: 'HS256', typ: 'JWT' }, claims, hs256(signingKey)) } };
  },
  toleranceS: 300,
  example: ({ id, nowMs }) => ({
    event: 'room_started',
    id: `EV_${id.slice(0, 12)}`,
    createdAt: String(Math.floor(nowMs / 1000)),
    room: { sid: `RM_${id.slice(0, 12)}`, name: 'café' },
  }),
});
