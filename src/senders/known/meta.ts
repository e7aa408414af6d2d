/** Meta. */
import { code, none, page, silent } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { numeric } from '../signing.ts';

export const meta: Sender = hmacBody({
  id: 'meta',
  aliases: [
    'facebook',
    'instagram',
    'whatsapp',
    'messenger',
    'threads',
    'facebook_messenger',
    'whatsapp_business',
    'fb',
  ],
  name: 'Meta (Facebook, Instagram, WhatsApp)',
  prefix: 'sha256=',
  headers: ['X-Hub-Signature-256'],
  secret: { what: 'the app secret', where: 'App settings → Basic' },
  delivery: none(
    'Meta’s notifications have no id: one contains several entries, each with several changes',
    page('developers.facebook.com, “Webhooks from Meta”', 'November 2026'),
    'The ids inside, such as that of a WhatsApp message, identify what a change is about.',
  ),
  retries: {
    when: 'at once, and then more and more rarely for 36 hours; WhatsApp for up to 7 days',
    signed: 'unsaid',
    from: page(
      'developers.facebook.com, “Webhooks: Get Started”, and for WhatsApp “Webhooks: Overview”',
      'November 2026',
    ),
  },
  answer: {
    what: 'a 200; no time is named',
    from: page('developers.facebook.com, “Webhooks: Get Started”', 'November 2026'),
  },
  evidence: {
    secret: code('fbsamples/messenger-platform-samples, messenger-api/messenger-api-and-webhooks/app.py'),
    signature: code('fbsamples/messenger-platform-samples, messenger-api/messenger-api-and-webhooks/app.py'),
    handshake: page('developers.facebook.com, “Webhooks”', 'November 2026'),
    rotation: silent('fbsamples/messenger-platform-samples'),
  },
  steps: [
    'In the app’s dashboard open Webhooks (or the product’s configuration) and choose the object.',
    'Callback URL: the URL of the table. Verify it, then subscribe to the fields.',
  ],
  notes: [
    'Meta escapes all non-ASCII characters of the body before it signs and sends it: the bytes that arrive are the signed ones.',
  ],
  example: ({ id, nowMs }) => ({
    object: 'whatsapp_business_account',
    entry: [
      {
        id: String(numeric(id)),
        changes: [
          {
            field: 'messages',
            value: {
              messages: [{ id: `wamid.${id}`, timestamp: String(Math.floor(nowMs / 1000)), type: 'text' }],
            },
          },
        ],
      },
    ],
  }),
});
