/** Maxio Advanced Billing (Chargify). */
import { report, unverified } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import { formType, type Sender } from '../sender.ts';
import { numeric } from '../signing.ts';

export const chargify: Sender = hmacBody({
  id: 'chargify',
  aliases: ['maxio'],
  name: 'Maxio Advanced Billing (Chargify)',
  contentType: formType,
  headers: ['X-Chargify-Webhook-Signature-Hmac-Sha-256'],
  secret: { what: 'the site’s shared key', where: 'Config → Settings' },
  delivery: unverified({ header: 'X-Chargify-Webhook-Id' }),
  evidence: { signature: report('several public receivers, read in November 2026') },
  steps: ['Open Config → Webhooks with the URL of the table, and choose the events.'],
  eventHeaders: ({ id }) => ({ 'X-Chargify-Webhook-Id': String(numeric(id)) }),
  example: ({ id }) =>
    new URLSearchParams({
      id: String(numeric(id)),
      event: 'signup_success',
      'payload[subscription][id]': '1',
    }).toString(),
});
