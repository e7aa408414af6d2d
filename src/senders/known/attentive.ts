/** Attentive. */
import { report } from '../evidence.ts';
import { header, hmac } from '../expressions.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';

export const attentive: Sender = hmacBody({
  id: 'attentive',
  name: 'Attentive',
  headers: ['x-attentive-hmac-sha256'],
  expression: (s) =>
    (['hex', 'base64'] as const)
      .map(
        (encoding) =>
          `secure_compare(${header('x-attentive-hmac-sha256')}, ${hmac(s, 'payload', 'sha256', encoding)})`,
      )
      .join('\n  OR '),
  notes: ['Public receivers disagree whether the signature is hexadecimal or base64: both are accepted.'],
  secret: { what: 'the signing key', where: 'the webhook’s settings' },
  evidence: { signature: report('several public receivers, read in November 2026') },
  steps: ['Open Marketplace → the app → Webhooks, with the URL of the table and the events.'],
  example: ({ id, nowMs }) => ({
    type: 'sms.subscribed',
    timestamp: nowMs,
    company: { display_name: 'Café', company_id: id.slice(0, 8) },
    subscriber: { phone: '+14155550100' },
  }),
});
