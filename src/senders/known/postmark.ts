/** Postmark. */
import { none, report } from '../evidence.ts';
import type { Sender } from '../sender.ts';
import { isoTime, uuid } from '../signing.ts';
import { basicSecret, tokenHeader } from '../token-forms.ts';

export const postmark: Sender = tokenHeader('basic', {
  id: 'postmark',
  name: 'Postmark',
  headers: ['Authorization'],
  secret: basicSecret,
  delivery: none(
    'Postmark gives its events no id: a message has one `MessageID` for all its recipients, and is opened and clicked many times',
    report('its own examples of webhooks'),
    '`SELECT DISTINCT data` reads equal ones once.',
  ),
  evidence: { signature: report('the catalogue of webhook sources of trigger.dev, July 2026') },
  steps: [
    'Open the message stream → Webhooks → Add webhook with the URL of the table and the basic auth credentials.',
  ],
  example: ({ id, nowMs }) => ({
    RecordType: 'Delivery',
    MessageID: uuid(id),
    Recipient: 'zoe@example.com',
    DeliveredAt: isoTime(nowMs),
  }),
  notes: [
    'A message has one `MessageID` for all its recipients, and is opened and clicked many times: nothing in an event tells it from its repetition, so a repeated event is stored again.',
  ],
});
