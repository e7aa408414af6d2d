/** Wix. */
import { ran } from '../evidence.ts';
import { sender, type Sender } from '../sender.ts';
import { isoTime, privateKey, rsaSecret, token, uuid } from '../signing.ts';
import { forms } from '../secret-forms.ts';
import { sign } from 'node:crypto';

export const wix: Sender = sender('A public key', {
  id: 'wix',
  name: 'Wix',
  headers: [],
  signatureHeader: null,
  format: 'text',
  contentType: 'text/plain',
  secretForm: forms.pem,
  expression: (s) => `jwt_verify(btrim(convert_from(payload, 'UTF8')), ${s}) IS NOT NULL`,
  sign: ({ body, nowMs, signingKey }) => {
    const claims = {
      data: body.toString(),
      iat: Math.floor(nowMs / 1000),
      exp: Math.floor(nowMs / 1000) + 3600,
    };
    const text = token({ alg: 'RS256', typ: 'JWT' }, claims, (signed) =>
      sign('sha256', Buffer.from(signed), privateKey(signingKey)),
    );
    return { headers: {}, body: Buffer.from(text) };
  },
  paired: true,
  makeSecret: rsaSecret,
  toleranceS: 3600,
  secret: { what: 'the app’s public key (PEM)', where: 'the app’s dashboard → Webhooks' },
  evidence: { signature: ran('@wix/sdk') },
  steps: [
    'In the app’s dashboard open Webhooks → Create webhook with the URL of the table, and get the public key.',
  ],
  notes: [
    'The body is one signed token, which is stored as text; its content is base64url between the two points.',
  ],
  example: ({ id, nowMs }) => ({
    data: JSON.stringify({
      id: uuid(id),
      entityFqdn: 'wix.ecom.v1.order',
      slug: 'created',
      eventTime: isoTime(nowMs),
    }),
    instanceId: uuid(id),
    eventType: 'wix.ecom.v1.order_created',
  }),
});
