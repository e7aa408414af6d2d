/** LinkedIn. */
import { page } from '../evidence.ts';
import { header, hmac, utf8 } from '../expressions.ts';
import { type Sender, sender } from '../sender.ts';
import { mac, uuid } from '../signing.ts';

export const linkedin: Sender = sender('A signature of the body', {
  id: 'linkedin',
  name: 'LinkedIn',
  headers: ['X-LI-Signature'],
  secret: { what: 'the app’s client secret', where: 'the app → Auth' },
  evidence: {
    signature: page('learn.microsoft.com/linkedin, “Webhook validation”', 'November 2026'),
    handshake: page('learn.microsoft.com/linkedin, “Webhook validation”', 'November 2026'),
  },
  steps: [
    'In the developer portal open the app → Webhooks and register the URL of the table; for leads, subscribe through the API.',
  ],
  notes: ['The signed text begins with `hmacsha256=`; the signature itself does not.'],
  expression: (s) =>
    `secure_compare(${header('X-LI-Signature')},\n  ${hmac(s, `${utf8(`'hmacsha256='`)} || payload`, 'sha256', 'hex')})`,
  sign: ({ body, signingKey }) => ({
    headers: { 'X-LI-Signature': mac('sha256', signingKey, 'hex', 'hmacsha256=', body) },
  }),
  example: ({ id, nowMs }) => ({
    type: 'LEAD_ACTION',
    leadGenFormResponse: `urn:li:leadGenFormResponse:${uuid(id)}`,
    leadAction: 'CREATED',
    occurredAt: nowMs,
  }),
});
