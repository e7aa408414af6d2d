/** Mandrill. */
import { none, page } from '../evidence.ts';
import { utf8 } from '../expressions.ts';
import { type Sender, formType } from '../sender.ts';
import { formNote, sortedFields, urlHmac } from '../signed-url.ts';

export const mandrill: Sender = urlHmac({
  id: 'mandrill',
  aliases: ['mailchimp_transactional'],
  name: 'Mandrill (Mailchimp Transactional)',
  algorithm: 'sha1',
  bytes: utf8('url || form_sorted(payload)'),
  parts: ({ url, body }) => [url, sortedFields(body)],
  headers: ['X-Mandrill-Signature'],
  secret: { what: 'the webhook’s key', where: 'Settings → Webhooks' },
  delivery: none(
    'Mandrill’s `_id` is the message’s: sending, opening and clicking it have the same; inbound and sync events have none',
    page('Mandrill, “Message Event Webhook Format”', 'November 2026'),
  ),
  events: { what: 'event', at: ['mandrill_events'], json: true },
  evidence: { handshake: page('mandrill.zendesk.com, “How to set up webhooks”', 'November 2026') },
  steps: ['Open Settings → Webhooks → Add a webhook with the URL of the table.'],
  notes: [formNote],
  contentType: formType,
  example: ({ id, nowMs }) =>
    new URLSearchParams({
      mandrill_events: JSON.stringify([{ event: 'send', _id: id, ts: Math.floor(nowMs / 1000) }]),
    }).toString(),
});
