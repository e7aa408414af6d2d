/** Sanity. */
import { page, ran, unverified } from '../evidence.ts';
import type { Sender } from '../sender.ts';
import { isoTime } from '../signing.ts';
import { timestampedList } from '../timestamped.ts';

export const sanity: Sender = timestampedList({
  id: 'sanity',
  name: 'Sanity (GROQ webhooks)',
  time: 't',
  version: 'v1',
  milliseconds: true,
  encoding: 'base64url',
  headers: ['sanity-webhook-signature'],
  secret: { what: 'the text you type as the secret', where: 'you choose it' },
  delivery: unverified({ header: 'idempotency-key' }),
  retries: {
    when: 'twice, after 30 seconds each, after a 429 or a 5xx',
    afterS: [30, 60],
    signed: 'unsaid',
    from: page('sanity.io/docs, changelog of 29 April 2026', 'November 2026'),
  },
  evidence: { signature: ran('@sanity/webhook') },
  steps: [
    'On manage.sanity.io open the project → API → Webhooks → Create webhook.',
    'URL: the URL of the table. Choose trigger, filter and projection; enter the secret.',
  ],
  notes: [
    'Sanity specifies no tolerance, so the age is not checked: the timestamp is signed, but an old request is accepted again.',
  ],
  eventHeaders: ({ id }) => ({ 'idempotency-key': id }),
  example: ({ id, nowMs }) => ({
    _id: id,
    _type: 'product',
    _updatedAt: isoTime(nowMs),
    title: 'Café mug',
  }),
});
