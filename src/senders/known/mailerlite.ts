/** MailerLite. */
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoTime, numeric } from '../signing.ts';

export const mailerlite: Sender = hmacBody({
  id: 'mailerlite',
  aliases: ['mailer_lite'],
  name: 'MailerLite',
  headers: ['Signature'],
  secret: { what: 'the webhook’s secret', where: 'Integrations → Webhooks' },
  steps: ['Open Integrations → Webhooks → Create with the URL of the table, or through the API.'],
  example: ({ id, nowMs }) => ({
    events: [
      {
        id: String(numeric(id)),
        type: 'subscriber.created',
        created_at: isoTime(nowMs),
        email: 'zoe@example.com',
      },
    ],
  }),
});
