/** Mandrill. */
import { utf8 } from '../expressions.ts';
import { type Sender, formType } from '../sender.ts';
import { formNote, sortedFields, urlHmac } from '../signed-url.ts';

export const mandrill: Sender = urlHmac({
  id: 'mandrill',
  name: 'Mandrill (Mailchimp Transactional)',
  algorithm: 'sha1',
  bytes: utf8('url || form_sorted(payload)'),
  parts: ({ url, body }) => [url, sortedFields(body)],
  headers: ['X-Mandrill-Signature'],
  secret: { what: 'the webhook’s key', where: 'Settings → Webhooks' },
  deliveryId: { ofEach: '_id', what: 'event', at: ['mandrill_events'], json: true },
  steps: ['Open Settings → Webhooks → Add a webhook with the URL of the table.'],
  notes: [formNote],
  contentType: formType,
  example: ({ id, nowMs }) =>
    new URLSearchParams({
      mandrill_events: JSON.stringify([{ event: 'send', _id: id, ts: Math.floor(nowMs / 1000) }]),
    }).toString(),
});
