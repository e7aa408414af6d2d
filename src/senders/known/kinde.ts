/** Kinde. */
import { code } from '../evidence.ts';
import { sender, type Sender } from '../sender.ts';
import { isoTime, privateKey, rsaSecret, token } from '../signing.ts';
import { forms } from '../secret-forms.ts';
import { sign } from 'node:crypto';

export const kinde: Sender = sender('A public key', {
  id: 'kinde',
  name: 'Kinde',
  headers: [],
  signatureHeader: null,
  format: 'text',
  contentType: 'application/jwt',
  secretForm: forms.pem,
  expression: (s) => `jwt_verify(btrim(convert_from(payload, 'UTF8')), ${s}) IS NOT NULL`,
  sign: ({ body, signingKey }) => {
    const text = token({ alg: 'RS256', typ: 'event' }, JSON.parse(body.toString()) as object, (signed) =>
      sign('sha256', Buffer.from(signed), privateKey(signingKey)),
    );
    return { headers: {}, body: Buffer.from(text) };
  },
  paired: true,
  makeSecret: rsaSecret,
  secret: {
    what: 'the public key (PEM), or the JWK set at `/.well-known/jwks` of your domain',
    where: '`https://<you>.kinde.com/.well-known/jwks`',
  },
  evidence: { signature: code('@kinde/webhooks 1.0.0, dist/webhooks.cjs') },
  steps: ['Open Settings → Webhooks → Add webhook with the URL of the table, and choose the events.'],
  notes: [
    'The body is one signed token, which is stored as text; its content is base64url between the two points.',
  ],
  example: ({ id, nowMs }) => ({
    type: 'user.created',
    event_id: `event_${id}`,
    event_timestamp: isoTime(nowMs),
    source: 'admin',
    data: { user: { id: `kp_${id}` } },
  }),
});
