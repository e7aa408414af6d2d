/** Resend. */
import { ran } from '../evidence.ts';
import type { Sender } from '../sender.ts';
import { isoTime, uuid } from '../signing.ts';
import { standard, whsec } from '../standard-webhooks.ts';

export const resend: Sender = standard({
  id: 'resend',
  name: 'Resend',
  prefix: 'svix',
  secret: whsec('on the webhook’s page'),
  evidence: { signature: ran('resend') },
  steps: ['Open Webhooks → Add Webhook with the URL of the table, choose events, copy the signing secret.'],
  example: ({ id, nowMs }) => ({
    type: 'email.delivered',
    created_at: isoTime(nowMs),
    data: { email_id: uuid(id), to: ['zoe@example.com'], subject: 'Bonjour ☕' },
  }),
});
