/** Mollie. */
import { code, unverified } from '../evidence.ts';
import { hmac } from '../expressions.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoTime } from '../signing.ts';

export const mollie: Sender = hmacBody({
  id: 'mollie',
  name: 'Mollie (signed webhooks)',
  prefix: 'sha256=',
  headers: ['X-Mollie-Signature'],
  // For a day after a change of the secret there are two of this header.
  repeatsSignature: true,
  expression: (s) =>
    `secure_compare_any('sha256=' || ${hmac(s, 'payload', 'sha256', 'hex')}, header_values('x-mollie-signature'))`,
  secret: { what: 'the webhook’s signing secret', where: 'shown when the webhook is created' },
  delivery: unverified({ fields: [['id']] }),
  evidence: {
    signature: code('mollie/mollie-api-php, src/Webhooks/SignatureValidator.php'),
    rotation: code('mollie/mollie-api-php, docs/webhooks.md'),
  },
  steps: [
    'Create the webhook in the dashboard’s developer settings with the URL of the table, and copy its secret.',
  ],
  notes: [
    'For 24 hours after its secret was changed Mollie sends `X-Mollie-Signature` twice, one for each secret: either may match.',
    'The older webhooks of a payment (`webhookUrl`) are unsigned forms that contain only an id, and are not for this table.',
  ],
  example: ({ id, nowMs }) => ({
    resource: 'event',
    id: `event_${id.slice(0, 20)}`,
    type: 'payment-link.paid',
    createdAt: isoTime(nowMs),
  }),
});
